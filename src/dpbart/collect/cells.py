"""The cells that a collection votes for: a public partition of a book, and how many cells there are.

A cell is a group of similar topics of one area, so the votes of an area are the sum over its cells. The topics are the
ones that the book names. Topics written by people make better cells than clusters of its sentences: see
docs/curator.md. Nothing here depends on private text. The same book and the same count give the same cells everywhere.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.cluster.hierarchy import linkage

from dpbart.models.code.book import Book, Line, Places
from dpbart.models.code.weights import Floats

MOST_CELLS = 1_024
_FEWEST = 16
_FOR_SHARES = 2.0  # cells for each square root of people times epsilon, if there are no labels
_FOR_LABELS = 5.0  # cells for each person at epsilon 1, if there are
_TOPIC = 32  # sentences of a topic, in a book that names no topics
_NAMED = 3  # topics in the name of a cell
_ROWS_AT_ONCE = 1_024


def cell_count(people: int, labels: int, epsilon: float) -> int:
    """How many cells to ask for: a public rule, chosen by simulation (docs/curator.md).

    Without labels a collection is read as shares. The noise of an area's share grows with the square root of its cells,
    so their number grows slowly, with the square root of people times epsilon.

    With labels it teaches a classifier. That needs topics that tell labels apart more than it needs exact counts, so
    there is a cell for each topic as soon as a few hundred people vote.

    >>> [cell_count(people, 1, 1.0) for people in (50, 500, 5_000, 50_000)]
    [16, 45, 141, 447]
    >>> [cell_count(people, 7, 1.0) for people in (50, 500)]
    [250, 1024]

    Args:
        people: who vote, at least 1.
        labels: label values; 1 if there are none.
        epsilon: of the collection.
    """
    told = people * epsilon
    wanted = _FOR_LABELS * told if labels > 1 else _FOR_SHARES * math.sqrt(told)
    return min(MOST_CELLS, max(_FEWEST, round(wanted)))


@dataclass(frozen=True)
class Cells:
    """A partition of a book. Cells stand in the order of the book's areas.

    Attributes:
        of_sentence: (sentences,), the cell of each sentence.
        names: of each cell, such as "service: billing, refunds".
        areas: the area of each cell; empty if the book names none.
        of_topic: (topics,), the cell of each topic.
        centres: (topics, width), the mean of the sentences of each topic, as unit vectors.
        vectors: (sentences, width), of the sentences.
    """

    of_sentence: Places
    names: tuple[str, ...]
    areas: tuple[str, ...]
    of_topic: Places
    centres: Floats
    vectors: Floats

    def __len__(self) -> int:
        return len(self.names)

    def votes(self, vectors: Floats) -> Places:
        """The cell that each text votes for, (texts,): the one of the topic whose centre is nearest.

        Args:
            vectors: (texts, width), of whole texts, from the reader of the book's model.
        """
        found = np.empty(len(vectors), np.int64)
        for first in range(0, len(vectors), _ROWS_AT_ONCE):
            part = slice(first, first + _ROWS_AT_ONCE)
            found[part] = self.of_topic[np.argmax(vectors[part] @ self.centres.T, axis=1)]
        return found


def cells_of(book: Book, count: int) -> Cells:
    """Join similar topics within each area until `count` cells are left.

    There are at least as many cells as areas, and at most as many as topics. Topics are joined by the criterion of Ward
    (1963), the pair with the least loss first, whatever its area.

    Args:
        book: the sentences that may come out.
        count: how many cells to make, at least 1.
    """
    topic_of, topics = _topics(book)
    sums = np.zeros((len(topics), book.coarse.shape[1]))
    np.add.at(sums, topic_of, book.coarse.astype(np.float64))  # sums of whole numbers: exact in any order
    centres = sums / np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-12)
    areas = list(dict.fromkeys(area for area, _ in topics))
    members = [np.array([number for number, topic in enumerate(topics) if topic[0] == area]) for area in areas]
    of_topic = np.empty(len(topics), np.int64)
    names: list[str] = []
    of_cell: list[str] = []
    for area, numbers, groups in zip(areas, members, _joined([centres[each] for each in members], count), strict=True):
        for group in groups:
            of_topic[numbers[group]] = len(names)
            names.append(_name(area, [topics[number][1] for number in numbers[group]]))
            of_cell.append(area)
    return Cells(of_topic[topic_of], tuple(names), tuple(of_cell), of_topic, centres.astype(np.float32), book.vectors)


def cells_in(lines: Sequence[Line], count: int) -> int:
    """How many cells `cells_of` makes of a book with these lines, in any order. It needs no vectors.

    >>> cells_in([Line("farm", "cows", "Moo."), Line("farm", "hens", "Cluck."), Line("sea", "fog", "Grey.")], 1)
    2
    """
    named = {(line.area, line.topic) for line in lines if line.topic}
    unnamed = Counter(line.area for line in lines if not line.topic)
    topics = len(named) + sum(map(_stand_ins, unnamed.values()))
    return min(topics, max(count, len({line.area for line in lines})))


def shares(counts: npt.NDArray[np.float64], people: float) -> npt.NDArray[np.float64]:
    """The nearest counts that are not negative and add up to `people`, of the same shape.

    The Euclidean projection onto the simplex: one number is taken off every count, and what falls below 0 is 0. The
    estimate of least squares, and post-processing. Nothing with more parts was clearly better (docs/curator.md).

    >>> shares(np.array([[5.0, -2.0], [3.0, 1.0]]), people=6).tolist()
    [[4.0, 0.0], [2.0, 0.0]]
    """
    falling = -np.sort(-counts, axis=None)
    taken = (np.cumsum(falling) - people) / np.arange(1, falling.size + 1)
    last = np.flatnonzero(falling > taken)[-1]
    nearest: npt.NDArray[np.float64] = np.maximum(counts - taken[last], 0.0)
    return nearest


def _topics(book: Book) -> tuple[Places, list[tuple[str, str]]]:
    """The topic of each sentence, (sentences,), and the area and name of each topic.

    Where a book names no topics, its first sentences stand for them: they cover public text best. All others join the
    nearest one of their area.
    """
    unnamed: dict[str, list[int]] = {}
    for number, line in enumerate(book.lines):
        if not line.topic:
            unnamed.setdefault(line.area, []).append(number)
    called = [line.topic for line in book.lines]
    for numbers in unnamed.values():
        first = numbers[: _stand_ins(len(numbers))]
        seeds = book.coarse[first].astype(np.float32)  # products of whole numbers below 2^24: exact
        for start in range(0, len(numbers), _ROWS_AT_ONCE):
            part = numbers[start : start + _ROWS_AT_ONCE]
            nearest = np.argmax(book.coarse[part].astype(np.float32) @ seeds.T, axis=1)
            for number, seed in zip(part, nearest.tolist(), strict=True):
                called[number] = book.lines[first[seed]].sentence
        for number in first:  # whatever is near it
            called[number] = book.lines[number].sentence
    keys = [(line.area, topic) for line, topic in zip(book.lines, called, strict=True)]
    areas = {area: rank for rank, area in enumerate(dict.fromkeys(line.area for line in book.lines))}
    topics = list(dict.fromkeys(sorted(keys, key=lambda key: areas[key[0]])))
    place = {topic: number for number, topic in enumerate(topics)}
    return np.array([place[key] for key in keys], np.int64), topics


def _stand_ins(sentences: int) -> int:
    """How many of so many sentences without a topic stand for one."""
    return math.ceil(sentences / _TOPIC)


def _joined(centres: Sequence[npt.NDArray[np.float64]], count: int) -> list[list[list[int]]]:
    """The groups of topics of each area, in all `count` of them if possible.

    Args:
        centres: of each area, (topics, width).
        count: groups to make.
    """
    trees = [linkage(each, "ward") if len(each) > 1 else np.empty((0, 4)) for each in centres]
    losses = np.concatenate([tree[:, 2] for tree in trees])
    area = np.repeat(np.arange(len(trees)), [len(tree) for tree in trees])
    least = np.argsort(losses, kind="stable")[: max(0, sum(map(len, centres)) - count)]
    joins = np.bincount(area[least], minlength=len(trees))  # of each area: the first ones, as losses only rise
    return [_groups(len(each), tree[:most]) for each, tree, most in zip(centres, trees, joins, strict=True)]


def _groups(topics: int, joins: npt.NDArray[np.float64]) -> list[list[int]]:
    """The groups after these joins, each in ascending order, by their first topic."""
    groups = {number: [number] for number in range(topics)}
    for made, (one, other) in enumerate(joins[:, :2].astype(int).tolist(), start=topics):
        groups[made] = sorted(groups.pop(one) + groups.pop(other))
    return sorted(groups.values())


def _name(area: str, topics: Sequence[str]) -> str:
    """Such as "service: billing, refunds and 4 more"."""
    more = f" and {len(topics) - _NAMED} more" if len(topics) > _NAMED else ""
    return f"{area}: {', '.join(topics[:_NAMED])}{more}".removeprefix(": ")
