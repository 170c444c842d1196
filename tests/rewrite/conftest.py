"""What the tests of rewriting share."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module")
def no_wait_for_the_disk() -> Iterator[None]:
    """A busy disk takes half a second to say that it has a file; one test looks that it is asked."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        yield
