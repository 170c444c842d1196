"""Every reader takes any bytes: it reads them or refuses them in one line that quotes nothing private."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tables.mutated_files import ENDINGS, damaged, outcome, whole_files

pytestmark = pytest.mark.usefixtures("no_wait_for_the_disk")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return whole_files(tmp_path_factory.mktemp("whole"))


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_damaged_file_is_read_or_refused_and_nothing_else(ending: str, whole: dict[str, bytes]) -> None:
    @settings(max_examples=25)
    @given(seed=st.integers(0, 2**32), target=st.sampled_from([".csv", ".jsonl"]))
    def check(seed: int, target: str) -> None:
        with tempfile.TemporaryDirectory() as folder:
            outcome(Path(folder), ending, damaged(ending, whole[ending], random.Random(seed)), target)

    check()


@pytest.mark.parametrize("ending", ENDINGS)
def test_any_bytes_are_read_or_refused(ending: str) -> None:
    @settings(max_examples=25)
    @given(content=st.binary(max_size=200))
    def check(content: bytes) -> None:
        with tempfile.TemporaryDirectory() as folder:
            outcome(Path(folder), ending, content, ".jsonl")

    check()


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_whole_file_is_read(tmp_path: Path, ending: str, whole: dict[str, bytes]) -> None:
    assert outcome(tmp_path, ending, whole[ending], ".jsonl") == "read"
