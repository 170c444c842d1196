"""The card's words about the texts of a row."""

from __future__ import annotations

import pytest

from dpbart.card.pages import texts_in_words
from dpbart.card.record import RowFacts
from dpbart.privacy.guarantee import Guarantee


@pytest.mark.parametrize(
    ("columns", "joined", "texts", "words"),
    [
        (("a",), False, 1, "one in each row, in the column 'a'"),
        (("a", "b"), False, 2, "2 in each row, in the columns 'a', 'b'; each is a release of its own"),
        (("a", "b"), True, 1, "one in each row: the columns 'a', 'b', joined, in 'a'; the others are not released"),
    ],
)
def test_the_texts_of_a_row_are_told_and_counted(
    columns: tuple[str, ...], joined: bool, texts: int, words: str
) -> None:
    row = RowFacts(columns, joined, texts, Guarantee(20.0, 0.0))
    assert texts_in_words(row) == words
    assert row.expected == texts
