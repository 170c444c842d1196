"""Collections of a few texts, read by a fake reader: a text that begins with a number votes for that cell."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from dpbart.collect.cells import Cells
from dpbart.collect.synthesize import people_of
from dpbart.collect.votes import KnownLabels, Poll, Voters
from dpbart.models.code.book import Book, Line
from dpbart.models.code.weights import Floats
from dpbart.privacy.mechanisms.geometric import Tally
from dpbart.rewrite.rows import numbered
from dpbart.tables.batch import Batch, DictRows

Row = dict[str, object]


def number_cells(cells: int, sentences: int = 3) -> Cells:
    """Cells with so many sentences each, one after the other, and a topic whose centre is a unit vector."""
    of_sentence = np.repeat(np.arange(cells), sentences)
    names = tuple(f"cell {cell}" for cell in range(cells))
    centres = np.eye(cells, dtype=np.float32)
    return Cells(of_sentence, names, ("",) * cells, np.arange(cells), centres, centres[of_sentence])


@dataclass(frozen=True)
class NumberReader:
    """Reads "2 more words" as the centre of cell 2."""

    cells: int

    @property
    def book(self) -> Book:
        lines = [Line("", "", f"Sentence {number}.") for number in range(3 * self.cells)]
        return Book.of(lines, np.repeat(np.eye(self.cells, dtype=np.float32), 3, axis=0))

    def read(self, texts: Sequence[str]) -> Floats:
        vectors = np.zeros((len(texts), self.cells), np.float32)
        for row, text in enumerate(texts):
            if text.strip():
                vectors[row, int(text.split()[0])] = 1.0
        return vectors


def batches(rows: Sequence[Row], text_columns: tuple[str, ...], size: int) -> Iterable[Batch]:
    for first in range(0, len(rows), size):
        yield DictRows(first + 1, text_columns, rows[first : first + size])


def tally_of(
    rows: Sequence[Row],
    *,
    cells: int,
    labels: Sequence[str] = (),
    by_person: bool = True,
    text_columns: tuple[str, ...] = ("text",),
    size: int = 2,
) -> Tally:
    """The votes of some rows, through both passes."""
    voters = Voters(people_of("who" if by_person else None))
    for batch in batches(rows, text_columns, size):
        voters.see(batch)
    known = KnownLabels("label", numbered(labels)) if labels else None
    poll = Poll(voters, known, NumberReader(cells), number_cells(cells))
    for batch in batches(rows, text_columns, size):
        poll.add(batch)
    return poll.tally()
