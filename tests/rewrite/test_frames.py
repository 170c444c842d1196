"""Texts in memory: a pandas frame, and batches of columns from `datasets`."""

from __future__ import annotations

from functools import partial

import pandas as pd
import pytest

from dpbart import Rewriter, batch_function, rewrite_frame
from dpbart.errors import BadParameter
from dpbart.models.bundle import Bundle


@pytest.fixture(scope="module")
def rewriter(tiny: Bundle) -> Rewriter:
    return Rewriter.load(str(tiny.folder), epsilon=500, delta=1e-3, beams=1, batch_size=4)


def test_a_frame_keeps_its_index_and_other_columns(rewriter: Rewriter) -> None:
    frame = pd.DataFrame({"n": [1, 2, 3], "review": ["a child", None, float("nan")]}, index=["x", "y", "z"])
    before = frame.copy()
    new = rewrite_frame(frame, rewriter, text_column="review")
    pd.testing.assert_frame_equal(frame, before)
    assert (list(new.index), list(new["n"]), list(new.columns)) == (["x", "y", "z"], [1, 2, 3], ["n", "review"])
    assert all(isinstance(text, str) and text != "a child" for text in new["review"])


def test_a_batch_function_returns_the_text_column_only(rewriter: Rewriter) -> None:
    step = batch_function(rewriter)
    done = step({"text": ["a child", None, "a song"], "n": [1, 2, 3]})
    assert list(done) == ["text"]
    assert len(done["text"]) == 3


def test_bad_columns_and_a_large_delta_are_refused(rewriter: Rewriter) -> None:
    for call in (
        partial(rewrite_frame, pd.DataFrame({"a": ["x"]}), rewriter),
        partial(batch_function(rewriter), {"a": ["x"]}),
    ):
        with pytest.raises(BadParameter, match="there is no column 'text'"):
            call()
    with pytest.raises(BadParameter, match="must hold texts"):
        rewrite_frame(pd.DataFrame({"text": [1]}), rewriter)
    with pytest.raises(BadParameter, match="delta must be below 1 / 1000"):
        rewrite_frame(pd.DataFrame({"text": ["x"] * 1000}), rewriter)
