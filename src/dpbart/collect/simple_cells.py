"""Cells of a book: one for each topic."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dpbart.models.code.book import Book, Floats


@dataclass(frozen=True)
class Cells:
    """A public partition of a book."""

    book: Book
    of_sentence: npt.NDArray[np.int64]
    names: tuple[str, ...]
    areas: tuple[str, ...]

    def votes(self, vectors: Floats) -> npt.NDArray[np.int64]:
        """The cell of each text, (texts,)."""
        found: npt.NDArray[np.int64] = self.of_sentence[self.book.nearest(vectors, 1)[:, 0]]
        return found


def cells_of(book: Book, count: int) -> Cells:
    """The topics of a book, folded into `count` cells."""
    topics = sorted({(line.area, line.topic) for line in book.lines})
    number = {topic: place * count // len(topics) for place, topic in enumerate(topics)}
    of_sentence = np.array([number[line.area, line.topic] for line in book.lines], np.int64)
    used = sorted(set(of_sentence.tolist()))
    names = [next(f"{a}: {t}" for (a, t), n in number.items() if n == each) for each in used]
    areas = [name.partition(":")[0] for name in names]
    return Cells(book, np.searchsorted(used, of_sentence), tuple(names), tuple(areas))


def cell_count(people: int, labels: int, epsilon: float) -> int:
    """How many cells a collection has."""
    return int(min(256, max(1, people * epsilon / (8 * max(1, labels)))))
