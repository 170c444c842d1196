"""The book of a code model: the nearest texts, and what the shipped one holds."""

from __future__ import annotations

import numpy as np
import pytest

from dpbart.models.bundle import Bundle
from dpbart.models.code.book import Book
from dpbart.models.code.model import Networks
from dpbart.models.code.offensive import is_offensive
from dpbart.models.code.tree import unit


def test_the_book_finds_the_nearest_texts_and_always_as_many() -> None:
    random = np.random.default_rng(2)
    vectors = unit(random.normal(size=(64, 8)).astype(np.float32))
    book = Book.of([[5, number % 7 + 5] for number in range(64)], vectors)
    exact = np.argsort(-(vectors @ vectors.T), axis=1)
    np.testing.assert_array_equal(book.nearest(vectors, 1)[:, 0], np.arange(64))
    assert np.mean([len({*a} & {*b}) / 8 for a, b in zip(book.nearest(vectors, 8), exact[:, :8], strict=True)]) > 0.98
    nothing = book.nearest(np.zeros((1, 8), np.float32), 16)  # an empty text
    assert len(set(nothing[0].tolist())) == 16
    assert [book.row(place) for place in (0, 63)] == [[5, 5], [5, 5]]


def test_the_book_gives_the_nearest_text_first_however_many_are_looked_up() -> None:
    random = np.random.default_rng(3)
    book = Book.of([[5]] * 1024, unit(random.normal(size=(1024, 8)).astype(np.float32)))
    asked = unit(random.normal(size=(600, 8)).astype(np.float32))  # more than are compared at once
    near = asked @ book._vectors.T
    found = book.nearest(asked, 512)  # half of the book, as for a code of 1 bit
    assert found.shape == (600, 512)
    assert all(len(set(row)) == 512 for row in found.tolist())
    np.testing.assert_allclose(np.take_along_axis(near, found, 1), -np.sort(-near, axis=1)[:, :512], atol=1e-6)


def test_a_book_that_is_not_whole_is_refused() -> None:
    vectors, rows = np.zeros((64, 8), np.float32), [[5, 6]] * 64
    book = Book.of(rows, vectors)
    assert (book.bits, Book.of([[5]], vectors[:1]).bits) == (6, 0)
    with pytest.raises(ValueError, match="power of two, got 63"):
        Book.of(rows[:63], vectors[:63])
    for tokens, ends, coarse in (
        (book.tokens, book.ends, book.coarse[:63]),
        (book.tokens[:-1], book.ends, book.coarse),
        (book.tokens[:0], book.ends[:0], book.coarse[:0]),
    ):
        with pytest.raises(ValueError, match="with a vector each"):
            Book(tokens, ends, coarse)


def test_every_text_of_the_shipped_book_is_fit_to_be_shown() -> None:
    parts = Networks.load(Bundle.find("mini-code").folder)
    texts = parts.tokenizer.decode_batch([parts.book.row(place) for place in range(1 << parts.book.bits)])
    assert len(texts) == 1 << 15
    assert not [text for text in texts if is_offensive(text)]
    assert min(len(parts.book.row(place)) for place in range(1 << parts.book.bits)) >= 1
