"""The book of a code model: the nearest sentences, the areas, and what the shipped one holds."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from dpbart.errors import BadParameter
from dpbart.models.bundle import BUNDLED
from dpbart.models.code.book import Book, BookUse, Line, is_offensive, nearest_of, read_book, write_book
from dpbart.models.code.reader import unit

LINES = [Line(f"area {number % 2}", f"topic {number % 4}", f"Sentence {number}.") for number in range(1024)]


def test_the_book_gives_the_nearest_sentence_first_however_many_are_looked_up() -> None:
    random = np.random.default_rng(3)
    book = Book.of(LINES, unit(random.normal(size=(1024, 8)).astype(np.float32)))
    asked = unit(random.normal(size=(600, 8)).astype(np.float32))  # more than are compared at once
    near = asked @ book.vectors.T
    for count in (1, 4, 512):
        found = book.nearest(asked, count)
        assert found.shape == (600, count)
        assert all(len(set(row)) == count for row in found.tolist())
        np.testing.assert_allclose(
            np.take_along_axis(near, found, 1), -np.sort(-near, axis=1)[:, :count], atol=2e-4
        )  # asked has 13 bits
    nothing = book.nearest(np.zeros((1, 8), np.float32), 16)  # an empty text
    assert len(set(nothing[0].tolist())) == 16


def test_a_part_of_a_book_keeps_its_order() -> None:
    book = Book.of(LINES, unit(np.random.default_rng(1).normal(size=(1024, 8)).astype(np.float32)))
    part = book.part(BookUse(areas=("area 1",)), model="mine")
    assert list(part.lines) == LINES[1::2]
    np.testing.assert_array_equal(part.coarse, book.coarse[1::2])
    both = book.part(BookUse(areas=("area 1",), topics=("topic 0",)), model="mine")
    assert list(both.lines) == [line for line in LINES if line.area == "area 1" or line.topic == "topic 0"]
    assert book.part(BookUse(), model="mine") is book
    assert list(part.first(3).lines) == LINES[1:7:2]
    with pytest.raises(BadParameter, match="'mine' has no area 'topic 0'. It has: area 0, area 1. See all with"):
        book.part(BookUse(areas=("topic 0",)), model="mine")


def test_a_book_that_is_not_whole_is_refused() -> None:
    vectors = np.zeros((1024, 8), np.float32)
    with pytest.raises(ValueError, match="with a vector each, got 1023 sentences"):
        Book.of(LINES[:-1], vectors)
    with pytest.raises(ValueError, match="with a vector each"):
        Book.of([], vectors[:0])
    with pytest.raises(ValueError, match="each sentence once"):
        Book.of([*LINES[:-1], LINES[0]], vectors)


def test_a_written_book_is_read_back(tmp_path: Path) -> None:
    (tmp_path / "book.tsv").write_text(write_book(LINES))
    assert list(read_book(tmp_path)) == LINES


def test_every_sentence_of_the_shipped_book_is_fit_to_be_shown() -> None:
    lines = read_book(BUNDLED / "mini-code")
    assert len(lines) == 1 << 15
    assert min(Counter((line.area, line.topic) for line in lines).values()) >= 20
    assert len({line.topic for line in lines}) == 1024
    plain = [re.sub(r"[^a-z0-9' ]", "", line.sentence.lower()) for line in lines]
    assert len(set(plain)) == len(lines)
    assert not [line for line in lines if is_offensive(line.sentence)]
    assert not [line for line in lines if not 4 <= len(line.sentence.split()) <= 22]
    assert not [line for line in lines if re.search(r"\d", line.sentence)]
    assert not [line for line in lines if line.sentence[-1] not in '.?!"' or line.sentence != line.sentence.strip()]


def test_cosines_and_the_largest_of_them_are_those_of_all_vectors() -> None:
    random = np.random.default_rng(0)
    for lines, count in ((50, 3), (1003, 2), (1003, 40), (1003, 1003), (4096, 255)):
        book = Book.of(
            [Line("", "", str(number)) for number in range(lines)],
            unit(random.normal(size=(lines, 64)).astype(np.float32)),
        )
        vectors = unit(random.normal(size=(5, 64)).astype(np.float32))
        cosines = vectors @ book.vectors.T
        found = book.cosines(vectors)
        np.testing.assert_allclose(found, cosines, atol=2e-4)
        assert (book.cosines(vectors[[3]]) == found[3]).all()
        assert (nearest_of(cosines, count) == np.argsort(-cosines, axis=1, kind="stable")[:, :count]).all()
