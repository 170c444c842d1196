"""One server for all tests that leave nothing behind in it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.web.running import Client, in_thread


@pytest.fixture(scope="session")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with in_thread(tmp_path_factory.mktemp("server") / "state") as running:
        yield running
