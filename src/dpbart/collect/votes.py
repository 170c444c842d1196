"""One vote for each person, shared over their texts: the counts of a collection, before any noise.

A vote has `UNIT` parts. A person with n texts gives each of them UNIT / n parts, and the first ones one more if that
leaves a rest. A text gives its parts to one cell of the book, of its own label. So a person gives at most UNIT parts
in all, whatever and however much they wrote: that is what the proof of the noise needs (privacy/mechanisms/geometric).

An empty text is no text. A text whose label is missing, or is not among the given ones, votes for nothing: it takes its
share of the vote and gives it to nobody. Nobody is told, because that would tell what is in the file.

Two passes over the rows: the first counts the people and their texts, the second reads the texts. Of what was read,
only the counts stay in memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from dpbart.collect.cells import Cells
from dpbart.errors import BadTable
from dpbart.models.model import BookReader
from dpbart.options.rewriting import normal_form
from dpbart.privacy.mechanisms.geometric import UNIT, Tally
from dpbart.progress import Bar
from dpbart.rewrite.people import People
from dpbart.rewrite.rows import in_rows
from dpbart.tables.batch import Batch

READ_AT_ONCE = 256  # rows


def share(texts: int, number: int) -> int:
    """The parts of a vote that go to text `number` of a person with so many texts; the first is 0.

    >>> [share(7, number) for number in (0, 6)], [share(17, number) for number in (0, 1, 16)]
    ([102960, 102960], [42396, 42396, 42395])
    """
    whole, rest = divmod(UNIT, texts)
    return whole + (number < rest)


@dataclass
class Voters:
    """Who votes: the people of a table and how many texts each has, or its rows. A visitor of the table."""

    people: People | None  # None if each row counts as a person
    texts: Counter[str] = field(default_factory=Counter)  # of each person; empty without `people`
    rows: int = 0

    @property
    def count(self) -> int:
        """The number of people, which is public."""
        return self.rows if self.people is None else len(self.texts)

    def see(self, batch: Batch) -> None:
        """Count the next rows."""
        self.rows += len(batch)
        if self.people is not None:
            filled = [sum(map(is_text, cells)) for cells in _cells(batch)]
            for person, texts in zip(self.people.of(batch), filled, strict=True):
                self.texts[person] += texts  # 0 counts the person too


@dataclass(frozen=True)
class KnownLabels:
    """The labels of a collection: their column, and the number of each by its normal form. Public."""

    column: str
    numbers: Mapping[str, int]

    def of(self, batch: Batch) -> list[int]:
        """The number of each row's label; -1 if it is not among the given ones."""
        return [self.numbers.get(normal_form(value), -1) for value in batch.column(self.column)]


class Poll:
    """Adds up the votes, batch by batch."""

    def __init__(self, voters: Voters, labels: KnownLabels | None, reader: BookReader, cells: Cells) -> None:
        self._voters, self._labels, self._reader, self._cells = voters, labels, reader, cells
        self._seen: Counter[str] = Counter()  # texts so far of those whose vote leaves a rest
        rows = 1 if labels is None else len(labels.numbers)
        self._counts = np.zeros((rows, len(cells)), np.int64)

    def add(self, batch: Batch) -> None:
        """Read all texts of some rows, and count their votes."""
        cells = _cells(batch)
        parts = np.array(self._parts(batch, cells), np.int64)  # (texts,)
        labels = [0] * len(batch) if self._labels is None else self._labels.of(batch)
        of_text = np.repeat(np.array(labels, np.int64), len(batch.text_columns))
        chosen = self._cells.votes(self._reader.read([text for row in cells for text in row]))
        counted = of_text >= 0
        np.add.at(self._counts, (of_text[counted], chosen[counted]), parts[counted])

    def tally(self) -> Tally:
        """All votes so far."""
        return Tally(self._counts, people=self._voters.count)

    def _parts(self, batch: Batch, cells: Sequence[Sequence[str]]) -> list[int]:
        """The parts of a vote that each text has; 0 for an empty one."""
        parts: list[int] = []
        if self._voters.people is None:
            for row in cells:
                places = [place for place, text in enumerate(row) if is_text(text)]
                parts += [
                    share(len(places), places.index(place)) if place in places else 0 for place in range(len(row))
                ]
            return parts
        for person, row in zip(self._voters.people.of(batch), cells, strict=True):
            parts += [self._next(person) if is_text(text) else 0 for text in row]
        return parts

    def _next(self, person: str) -> int:
        """The parts of the next text of a person."""
        texts, number = self._voters.texts[person], 0
        if texts == 0 or UNIT % texts:
            number = self._seen[person]
            self._seen[person] += 1
        if number >= texts:
            raise BadTable("the input has changed since its people were counted. Run the same command again.")
        return share(texts, number)


def count_votes(batches: Iterable[Batch], poll: Poll, bar: Bar) -> Tally:
    """The votes of all rows."""
    for batch in batches:
        poll.add(batch)
        bar.advance(len(batch))
    return poll.tally()


def is_text(cell: str) -> bool:
    """Whether a cell holds a text."""
    return not (cell == "" or cell.isspace())


def _cells(batch: Batch) -> list[list[str]]:
    """The cells of the text columns, row by row."""
    return in_rows(batch.texts(), len(batch.text_columns))
