"""The cells of a book, the rule for their number, and the counts that are left after noise."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dpbart.collect.cells import MOST_CELLS, cell_count, cells_in, cells_of, shares
from dpbart.models.bundle import BUNDLED
from dpbart.models.code.book import Book, BookUse, Line
from dpbart.models.code.model import Networks
from dpbart.models.code.reader import unit

AREAS = {"kitchen": 6, "harbour": 3, "garden": 1}  # with so many topics each
LINES = [
    Line(area, f"{area} {topic}", f"Sentence {number} of {area} {topic}.")
    for number in range(20)
    for area, topics in AREAS.items()
    for topic in range(topics)
]


@pytest.fixture(scope="module")
def book() -> Book:
    """200 sentences near the centres of their topics."""
    random = np.random.default_rng(5)
    topics = sorted({line.topic for line in LINES})
    centres = random.normal(size=(len(topics), 16))
    vectors = centres[[topics.index(line.topic) for line in LINES]] + 0.2 * random.normal(size=(len(LINES), 16))
    return Book.of(LINES, unit(vectors.astype(np.float32)))


@pytest.fixture(scope="module")
def shipped() -> Book:
    return Networks.load(BUNDLED / "mini-code").book


@pytest.mark.parametrize(("asked", "made"), [(1, 3), (3, 3), (4, 4), (7, 7), (10, 10), (11, 10), (1024, 10)])
def test_every_cell_lies_within_one_area_and_no_topic_is_cut(book: Book, asked: int, made: int) -> None:
    cells = cells_of(book, asked)
    assert len(cells) == len(cells.names) == len(cells.areas) == made == cells_in(book.lines, asked)
    assert set(cells.of_sentence.tolist()) == set(range(made))
    of_topic = defaultdict(set)
    for line, cell in zip(book.lines, cells.of_sentence.tolist(), strict=True):
        assert cells.areas[cell] == line.area
        of_topic[line.topic].add(cell)
    assert all(len(of) == 1 for of in of_topic.values())
    assert list(cells.areas) == sorted(cells.areas, key=list(AREAS).index)  # in the order of the book


def test_fewer_cells_are_made_by_joining_the_most_similar_topics(book: Book) -> None:
    centres = np.stack([book.vectors[[line.topic == topic for line in LINES]].mean(0) for topic in _topics("kitchen")])
    apart = np.linalg.norm(unit(centres)[:, None] - unit(centres)[None], axis=2) + 9 * np.eye(6)
    nearest = {f"kitchen {number}" for number in np.unravel_index(np.argmin(apart), apart.shape)}
    only = book.part(BookUse(areas=("kitchen",)), model="mine")
    (joined,) = (name for name in cells_of(only, 5).names if "," in name)
    assert set(joined.removeprefix("kitchen: ").split(", ")) == nearest


def test_cells_are_nested(book: Book) -> None:
    """What many cells hold apart fewer cells may join, but never the other way round."""
    for count in range(3, 10):
        coarse, fine = cells_of(book, count).of_sentence, cells_of(book, count + 1).of_sentence
        assert all(len(set(coarse[fine == cell].tolist())) == 1 for cell in range(count + 1))


def test_a_cell_is_named_after_its_topics(book: Book) -> None:
    names = cells_of(book, 3).names
    assert names == (
        "kitchen: kitchen 0, kitchen 1, kitchen 2 and 3 more",
        "harbour: harbour 0, harbour 1, harbour 2",
        "garden: garden 0",
    )


def test_a_sentence_of_a_topic_votes_for_its_cell(book: Book) -> None:
    cells = cells_of(book, 7)
    np.testing.assert_array_equal(cells.votes(book.vectors), cells.of_sentence)
    assert cells.votes(np.zeros((1, 16), np.float32)).shape == (1,)  # an empty text votes too
    assert cells.votes(np.zeros((0, 16), np.float32)).shape == (0,)


def test_the_area_of_a_vote_does_not_depend_on_the_number_of_cells(book: Book) -> None:
    texts = unit(np.random.default_rng(8).normal(size=(3000, 16)).astype(np.float32))
    voted = [[cells.areas[cell] for cell in cells.votes(texts)] for cells in (cells_of(book, 3), cells_of(book, 10))]
    assert voted[0] == voted[1]
    assert len(set(voted[0])) == 3


def test_a_book_without_topics_is_cut_by_its_first_sentences() -> None:
    lines = [Line("", "", f"Sentence {number}.") for number in range(130)]
    book = Book.of(lines, unit(np.random.default_rng(2).normal(size=(130, 8)).astype(np.float32)))
    cells = cells_of(book, MOST_CELLS)
    assert len(cells) == cells_in(lines, MOST_CELLS) == 5
    assert cells.names == tuple(f"Sentence {number}." for number in range(5))  # 32 sentences each, or fewer
    assert set(cells.areas) == {""}
    np.testing.assert_array_equal(cells.of_sentence, np.argmax(book.vectors @ book.vectors[:5].T, axis=1))


def test_the_shipped_book_has_a_cell_for_each_topic(shipped: Book) -> None:
    cells = cells_of(shipped, MOST_CELLS)
    assert len(cells) == len({(line.area, line.topic) for line in shipped.lines}) == MOST_CELLS
    assert (cells.votes(shipped.vectors) == cells.of_sentence).mean() > 0.4  # chance: a thousandth
    few = cells_of(shipped, 45)
    assert len(few) == 45
    assert len(set(few.areas)) == 10
    again = cells_of(Book(shipped.lines, shipped.coarse.copy()), 45)
    assert again.names == few.names
    np.testing.assert_array_equal(again.of_sentence, few.of_sentence)


def test_labels_get_a_cell_for_each_topic_as_soon_as_some_hundred_people_vote() -> None:
    assert [cell_count(people, 2, 1.0) for people in (1, 40, 205, 4_000)] == [16, 200, MOST_CELLS, MOST_CELLS]
    assert [cell_count(people, 1, 0.25) for people in (1, 400, 40_000)] == [16, 20, 200]


def test_more_people_and_a_larger_budget_never_get_fewer_cells() -> None:
    for labels in (1, 2, 7):
        by_people = [cell_count(people, labels, 0.7) for people in (1, 10, 100, 1_000, 10_000, 10**9)]
        by_epsilon = [cell_count(3_000, labels, epsilon) for epsilon in (0.01, 0.1, 1.0, 10.0, 100.0)]
        assert by_people == sorted(by_people)
        assert by_epsilon == sorted(by_epsilon)
        assert max(by_people + by_epsilon) <= MOST_CELLS


@given(
    arrays(np.float64, (3, 5), elements=st.floats(-1e4, 1e4)),
    arrays(np.float64, (3, 5), elements=st.floats(0, 1)),
    st.floats(1.0, 1e5),
)
def test_shares_are_the_nearest_counts_that_can_be(counts: np.ndarray, other: np.ndarray, people: float) -> None:
    found = shares(counts, people)
    assert found.shape == counts.shape
    assert (found >= 0).all()
    assert found.sum() == pytest.approx(people)
    other = (other + 1e-9) * people / (other + 1e-9).sum()  # any other counts that can be
    assert np.linalg.norm(found - counts) <= np.linalg.norm(other - counts) + 1e-6 * (1 + np.abs(counts).max())


def test_counts_that_can_be_stay_as_they_are() -> None:
    counts = np.array([[4.0, 0.0, 3.5], [0.0, 2.5, 0.0]])
    np.testing.assert_allclose(shares(counts, 10), counts, atol=1e-12)


def _topics(area: str) -> list[str]:
    return [f"{area} {topic}" for topic in range(AREAS[area])]
