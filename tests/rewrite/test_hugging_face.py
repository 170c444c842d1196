"""`batch_function` and `rewrite_frame` with the real Hugging Face `datasets`."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import datasets
import pytest

from dpbart import Rewriter, batch_function, rewrite_frame
from dpbart.testing import fake_rewriter


@pytest.fixture
def rewriter() -> Rewriter:
    """A rewriter that numbers every text it writes."""
    numbers = count()
    return fake_rewriter(lambda texts: [str(next(numbers)) for _ in texts], delta=1e-3, batch_size=4)


def test_each_call_of_map_rewrites_every_text_once(
    rewriter: Rewriter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The data come from a folder, so `datasets` has a cache; a cached text must not replace a new release."""
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    datasets.disable_progress_bars()
    made = datasets.Dataset.from_dict({"n": list(range(10)), "text": ["a child"] * 9 + [None]})
    made.save_to_disk(tmp_path / "notes")
    notes = datasets.load_from_disk(tmp_path / "notes")
    step = batch_function(rewriter)
    drawn = [notes.map(step, batched=True, batch_size=4, load_from_cache_file=False) for _ in range(2)]
    for new in drawn:
        assert (new.column_names, list(new["n"])) == (["n", "text"], list(range(10)))
    assert [text for new in drawn for text in new["text"]] == [str(number) for number in range(20)]
    assert list(notes["text"]) == ["a child"] * 9 + [None]


def test_a_frame_of_a_dataset_is_rewritten(rewriter: Rewriter) -> None:
    frame = datasets.Dataset.from_dict({"n": [1, 2], "text": ["a child", None]}).to_pandas()
    new = rewrite_frame(frame, rewriter)
    assert list(new["n"]) == [1, 2]
    assert all(isinstance(text, str) for text in new["text"])
