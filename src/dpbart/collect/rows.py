"""From the noised counts of a collection to its rows. Everything here sees the sealed counts and public things alone.

Noised counts can be negative, and do not add up to the number of people. They are replaced by the nearest ones that are
not negative and do. Each row is then a label and a sentence of the book:

1. How many rows each count gets follows from its share, rounded up or down at random (systematic sampling): a count
   whose share is 2.3 rows gets 2 or 3, and 2.3 on average.
2. The rows come in random order: one after the other is drawn from those that are left.
3. A row gets a sentence of its cell that was not used yet. Once all of them were, all are fresh again. With labels,
   each label has sentences of its own in a cell: those that lean to it (leaning.py).

Random bits come from the operating system. They hide nothing here: any row is drawn from what is released anyway.
Memory does not grow with the number of rows.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from dpbart.collect.cells import Cells, shares
from dpbart.collect.leaning import hands, leaning, sharpened
from dpbart.privacy.facts import Private
from dpbart.privacy.mechanisms.geometric import Counts
from dpbart.privacy.sampling import Entropy, Floats, draw_below

Numbers = npt.NDArray[np.int64]
DRAWN_AT_ONCE = 1024  # rows
_DIGITS = 2.0**53  # of a uniform number between 0 and 1


def rows_of_counts(expected: Floats, rows: int, entropy: Entropy) -> Numbers:
    """How many rows each count gets: its share of them, rounded up or down, and right on average."""
    there, numbers = expected > 0, np.zeros(expected.shape, np.int64)  # a count without a share gets no row
    upto = np.cumsum(expected[there]) * (rows / expected.sum())
    start = int(entropy.words(1)[0] >> np.uint64(11)) / _DIGITS
    edges = np.minimum(np.floor(upto + start).astype(np.int64), rows)
    edges[-1] = rows  # whatever the sum of floats says
    numbers[there] = np.diff(edges, prepend=0)
    return numbers


def draw_rows(
    private: Private[Counts], cells: Cells, *, people: int, rows: int, entropy: Entropy
) -> Iterator[list[tuple[int, int]]]:
    """The rows of a collection in random order, some at a time: the number of the label, and that of the sentence.

    Args:
        private: the noised counts (labels, cells), sealed.
        cells: of the book; public.
        people: how many voted; public.
        rows: how many rows to draw; public.
        entropy: where random bits come from.
    """
    unit = float(private.facts.figures["sensitivity_l1"]) / 2
    votes = np.array(private.values, np.float64) / unit  # (labels, cells)
    expected = sharpened(shares(votes, people))
    numbers = rows_of_counts(expected, rows, entropy)
    leans = leaning(expected, cells.of_sentence, cells.vectors)
    decks = _Decks(hands(numbers, cells.of_sentence, leans))
    left = np.cumsum(numbers)  # rows up to each count
    for first in range(0, rows, DRAWN_AT_ONCE):
        some = np.arange(rows - first, max(0, rows - first - DRAWN_AT_ONCE), -1).astype(np.uint64)
        chosen = []
        for place in draw_below(some, entropy).tolist():
            count = int(np.searchsorted(left, place, side="right"))
            left[count:] -= 1
            chosen.append(count)
        sentences = decks.deal(chosen, entropy)
        yield [(count // len(cells), sentence) for count, sentence in zip(chosen, sentences, strict=True)]


class _Decks:
    """The sentences of each count, like cards: dealt without repeats while there are fresh ones."""

    def __init__(self, hands: list[list[int]]) -> None:
        self._hands = hands
        self._fresh = [len(hand) for hand in hands]

    def deal(self, counts: list[int], entropy: Entropy) -> list[int]:
        """A sentence of each of these counts, one after the other."""
        fresh = []
        for count in counts:
            self._fresh[count] = self._fresh[count] or len(self._hands[count])
            fresh.append(self._fresh[count])
            self._fresh[count] -= 1
        dealt, picks = [], draw_below(np.array(fresh, np.uint64), entropy).tolist()
        for count, among, pick in zip(counts, fresh, picks, strict=True):
            hand, last = self._hands[count], among - 1
            hand[pick], hand[last] = hand[last], hand[pick]
            dealt.append(hand[last])
        return dealt
