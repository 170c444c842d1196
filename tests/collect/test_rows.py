"""Rows from sealed counts: as many as the shares say, in random order, fresh sentences first, and nothing else."""

from __future__ import annotations

import inspect
from collections import Counter
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2

from dpbart.collect.cells import shares
from dpbart.collect.leaning import sharpened
from dpbart.collect.rows import DRAWN_AT_ONCE, draw_rows, rows_of_counts
from dpbart.privacy.facts import Private
from dpbart.privacy.mechanisms.geometric import Counts, Geometric
from dpbart.privacy.sampling import Entropy, ReplaySeed, SystemEntropy, Words, draw_below
from tests.collect.polls import number_cells

DOUBT = 1e-9  # chance that a sound program fails a test of a distribution
UNIT = 10


def sealed(counts: list[list[int]]) -> Private[Counts]:
    """Counts as a mechanism of this size would have made them."""
    return Geometric(1.0, sum(map(len, counts)), UNIT).again(counts)


def drawn(
    counts: list[list[int]], rows: int, *, sentences: int = 3, entropy: Entropy | None = None
) -> list[tuple[int, int]]:
    cells = number_cells(len(counts[0]), sentences)
    people = max(1, sum(map(sum, counts)) // UNIT)
    parts = draw_rows(sealed(counts), cells, people=people, rows=rows, entropy=entropy or SystemEntropy())
    return [row for part in parts for row in part]


class First:
    """One word, again and again."""

    private = True

    def __init__(self, word: int) -> None:
        self.word = word

    def words(self, count: int) -> Words:
        return np.full(count, self.word, np.uint64)


def test_rows_follow_the_shares_and_add_up() -> None:
    counts = [[30, 0, 50], [-40, 15, 5]]
    for rows in (1, 7, 100, 2 * DRAWN_AT_ONCE + 3):
        got = Counter((label, sentence // 3) for label, sentence in drawn(counts, rows))
        assert sum(got.values()) == rows
        expected = sharpened(shares(np.array(counts) / UNIT, 6)).ravel() * rows / 6
        for number, share in enumerate(expected.tolist()):
            assert abs(got[divmod(number, 3)] - share) < 1
            assert got[divmod(number, 3)] == 0 or share > 0


def test_a_cell_has_more_rows_of_the_label_that_it_is_typical_of_than_votes() -> None:
    got = Counter((label, sentence // 3) for label, sentence in drawn([[300, 100], [100, 300]], 80))
    assert got == {(0, 0): 36, (0, 1): 4, (1, 0): 4, (1, 1): 36}  # votes would give 30 and 10


def test_each_count_gets_its_share_rounded_and_on_average_exactly() -> None:
    expected = np.array([0.0, 2.3, 0.0, 0.4, 5.0, 0.3, 0.0])
    starts = np.arange(1000) / 1000
    seen = np.array([rows_of_counts(expected, 8, First(int(start * 2**53) << 11)) for start in starts])
    assert (seen.sum(axis=1) == 8).all()
    assert (np.abs(seen - expected) < 1).all()
    assert (seen[:, expected == 0] == 0).all()
    np.testing.assert_allclose(seen.mean(axis=0), expected, atol=2e-3)


@pytest.mark.parametrize("rows", [1, 2, 5, 25])
def test_no_row_is_lost_to_a_sum_of_floats(rows: int) -> None:
    """Ten tenths add up to a little less than 1."""
    for shares_of in (np.full(10, 0.1), np.full(3, 0.1)):
        assert rows_of_counts(shares_of, rows, First(0)).sum() == rows


def test_no_sentence_comes_twice_while_its_cell_has_fresh_ones() -> None:
    rows = drawn([[50, 50, 0]], 40, sentences=8)  # about 20 rows of a cell with 8 sentences
    for cell in (0, 1):
        of_cell = [sentence for _, sentence in rows if sentence // 8 == cell]
        for first in range(0, len(of_cell), 8):
            part = of_cell[first : first + 8]
            assert len(set(part)) == len(part)
    assert len({sentence for _, sentence in rows}) == 16


def test_labels_share_the_fresh_sentences_of_a_cell() -> None:
    rows = drawn([[40, 0], [40, 0]], 8, sentences=8)
    assert sorted(sentence for _, sentence in rows) == list(range(8))
    assert Counter(label for label, _ in rows) == {0: 4, 1: 4}


def test_every_order_of_the_rows_is_equally_likely() -> None:
    """Three rows of three cells: their order, and which sentence each gets."""
    runs = 6000
    orders = Counter(tuple(sentence // 3 for _, sentence in drawn([[10, 10, 10]], 3)) for _ in range(runs))
    expected = runs / 6
    found = sum((orders[order] - expected) ** 2 / expected for order in permutations(range(3)))
    assert sum(orders.values()) == runs == sum(orders[order] for order in permutations(range(3)))
    assert chi2.sf(found, df=5) > DOUBT
    sentences = Counter(sentence for _ in range(3000) for _, sentence in drawn([[10, 0]], 1))
    assert chi2.sf(sum((sentences[each] - 1000) ** 2 / 1000 for each in range(3)), df=2) > DOUBT


def test_the_test_of_the_order_can_fail() -> None:
    orders = Counter(tuple(s // 3 for _, s in drawn([[10, 10, 10]], 3, entropy=First(0))) for _ in range(60))
    assert len(orders) == 1


def test_rows_are_drawn_from_sealed_counts_and_public_things_alone() -> None:
    """No argument can carry a text, a vote or a row; and what is not sealed is refused."""
    names = inspect.signature(draw_rows).parameters
    assert list(names) == ["private", "cells", "people", "rows", "entropy"]
    bare: Any = ((1, 2),)
    with pytest.raises(AttributeError):
        next(draw_rows(bare, number_cells(2), people=1, rows=1, entropy=SystemEntropy()))


def test_equal_counts_and_bits_give_equal_rows() -> None:
    counts = [[13, -4, 22], [8, 0, 1]]
    assert drawn(counts, 30, entropy=ReplaySeed(4)) == drawn(counts, 30, entropy=ReplaySeed(4))
    assert drawn(counts, 30, entropy=ReplaySeed(4)) != drawn(counts, 30, entropy=ReplaySeed(5))


def test_counts_that_are_all_negative_still_give_rows() -> None:
    rows = drawn([[-30, -10], [-20, -40]], 5)
    assert [(label, sentence // 3) for label, sentence in rows] == [(0, 1)] * 5  # the largest one


def test_a_uniform_number_below_a_bound_is_exact() -> None:
    """Words in the last, incomplete multiple of a bound are drawn again."""

    class Script(First):
        def words(self, count: int) -> Words:
            given, self.word = self.word, 5
            return np.full(count, given, np.uint64)

    last = 2**64 - 1
    assert draw_below(np.array([3], np.uint64), Script(last)).tolist() == [2]  # 5 % 3: the last word was refused
    assert draw_below(np.array([2], np.uint64), Script(last)).tolist() == [1]  # 2^64 is a multiple of 2
