"""The rewriter of the tests of unfinished runs."""

from __future__ import annotations

import math

import pytest

from dpbart import Rewriter
from dpbart.rewrite.durable import commit
from tests.rewrite.jobs import PART, marking_rewriter


@pytest.fixture
def rewriter(monkeypatch: pytest.MonkeyPatch) -> Rewriter:
    """Returns each text with a unique mark. A run with it saves small parts, however slow the machine is."""
    monkeypatch.setattr(commit, "PART_ROWS", PART)
    monkeypatch.setattr(commit, "PART_SECONDS", math.inf)
    return marking_rewriter()
