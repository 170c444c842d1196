"""Which sentences of a cell speak for which label: told from counts that are released anyway, and from the book."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dpbart.collect import leaning as module
from dpbart.collect.leaning import hands, leaning, sharpened
from dpbart.models.code.reader import unit

COUNTS = arrays(np.float64, (3, 6), elements=st.one_of(st.just(0.0), st.floats(0.5, 1e4)))


@given(COUNTS)
def test_sharper_counts_keep_the_totals_of_cells_and_labels(counts: np.ndarray) -> None:
    found = sharpened(counts)
    assert (found >= 0).all()
    assert ((found > 0) <= (counts > 0)).all()  # no label where there was none
    np.testing.assert_allclose(found.sum(0), counts.sum(0), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.sum(1), counts.sum(1), rtol=0.05, atol=0.05 * counts.sum())


def test_sharper_counts_make_a_cell_more_of_its_label_and_leave_mixed_cells_mixed() -> None:
    counts = np.array([[60.0, 20.0, 50.0], [20.0, 60.0, 50.0]])
    np.testing.assert_allclose(sharpened(counts), [[72.0, 8.0, 50.0], [8.0, 72.0, 50.0]], atol=1e-6)
    rare = np.array([[90.0, 180.0], [10.0, 20.0]])  # a label that is rare everywhere is typical of no cell
    np.testing.assert_allclose(sharpened(rare), rare)
    alone = np.array([[5.0, 0.0, 7.0]])
    np.testing.assert_allclose(sharpened(alone), alone)


def test_sentences_of_a_mixed_cell_lean_as_other_cells_tell() -> None:
    """Cells 0 and 1 have a label each. Cell 2 has both, in equal parts, and sentences of both kinds."""
    random = np.random.default_rng(4)
    kind = np.repeat([0, 1, 0, 1], 16)
    vectors = random.normal(size=(64, 12))
    vectors[:, 0] = np.where(kind == 0, 1.5, -1.5)
    of_sentence = np.repeat([0, 1, 2], [16, 16, 32])
    leans = leaning(np.array([[40.0, 0.0, 20.0], [0.0, 40.0, 20.0]]), of_sentence, unit(vectors.astype(np.float32)))
    assert (leans.argmax(1) == kind).mean() > 0.9
    dealt = hands(np.array([[0, 0, 16], [0, 0, 16]]), of_sentence, leans)
    assert dealt[0] == dealt[1] == dealt[3] == dealt[4] == []  # no rows, no sentences
    assert (kind[dealt[2]] == 0).mean() > 0.8
    assert (kind[dealt[5]] == 1).mean() > 0.8
    assert sorted(dealt[2] + dealt[5]) == list(range(32, 64))  # each with one label


@pytest.mark.parametrize("rows", [[3, 2, 0], [5, 5, 5], [40, 1, 1], [1000, 0, 0], [0, 0, 1]])
def test_within_a_cell_a_sentence_has_one_label(rows: list[int]) -> None:
    leans = np.random.default_rng(1).normal(size=(12, 3))
    dealt = hands(np.array(rows)[:, None], np.zeros(12, np.int64), leans)
    given_out = [sentence for hand in dealt for sentence in hand]
    assert len(given_out) == len(set(given_out)) == min(12, sum(rows))
    assert all(bool(hand) == bool(needed) for hand, needed in zip(dealt, rows, strict=True))


def test_more_labels_than_sentences_share_them() -> None:
    leans = np.eye(5)[[0, 3]]  # two sentences, five labels
    dealt = hands(np.full((5, 1), 9), np.zeros(2, np.int64), leans)
    assert all(len(hand) == 1 for hand in dealt)
    assert (dealt[0], dealt[3]) == ([0], [1])


def test_without_labels_all_sentences_of_a_cell_may_come() -> None:
    of_sentence = np.array([1, 0, 1, 2])
    assert hands(np.array([[1, 0, 7]]), of_sentence, np.zeros((4, 1))) == [[1], [0, 2], [3]]


def test_nothing_but_counts_and_the_book_comes_in() -> None:
    """The counts that `draw_rows` hands over come from the sealed ones."""
    for function in (sharpened, leaning, hands):
        assert set(inspect.signature(function).parameters) <= {"expected", "rows", "of_sentence", "vectors", "leans"}
    assert "tables" not in inspect.getsource(module)
