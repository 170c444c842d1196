"""The card's words about the texts of a row."""

from __future__ import annotations

import pytest

from dpbart.privacy.card.row import RowFacts
from dpbart.privacy.guarantee import Guarantee

GUARANTEE = Guarantee(20.0, 0.0)


@pytest.mark.parametrize(
    ("columns", "joined", "pieces", "texts", "words"),
    [
        (("a",), False, None, 1, "one in each row, in the column 'a'"),
        (("a", "b"), False, None, 2, "2 in each row, in the columns 'a', 'b'; each is a release of its own"),
        (
            ("a", "b"),
            True,
            None,
            1,
            "one in each row: the columns 'a', 'b', joined, in 'a'; the others are not released",
        ),
        (
            ("a", "b"),
            False,
            4,
            8,
            "2 in each row, in the columns 'a', 'b'; each is a release of its own. Each was split",
        ),
    ],
)
def test_the_texts_of_a_row_are_told_and_counted(
    columns: tuple[str, ...], joined: bool, pieces: int | None, texts: int, words: str
) -> None:
    row = RowFacts(columns, joined, pieces, texts, GUARANTEE)
    assert row.words.startswith(words)
    assert ("pieces" in row.words) is (pieces is not None)
    assert row.expected == texts
    told = [("Row", f"(epsilon 20, delta 0) for all {texts} texts of one row")]
    assert row.lines() == ([] if texts == 1 else told)
