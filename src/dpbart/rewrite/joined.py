"""All texts of a person as one document, under one epsilon (the paper's second way).

The rows of a person may stand anywhere in the file, the file may be larger than memory, and private text does not
belong in a temporary file. So the input is read several times, for some thousands of people each time; and since a
model reads the first tokens of a document only, no more than their characters are kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice

from dpbart.errors import BadTable
from dpbart.rewrite.people import People
from dpbart.tables.batch import Batch, Rows
from dpbart.tables.formats.format import Visitor
from dpbart.tables.table import Table

PEOPLE_AT_ONCE = 50_000
CHARACTERS_A_TOKEN = 64  # more than the tokens of any text we know of need; what lies beyond is never read

_READ_AT_ONCE = 1024  # rows


@dataclass
class _Document:
    """What is known of a person so far."""

    left: int  # texts to come
    room: int  # characters
    texts: list[str] = field(default_factory=list)
    values: dict[str, object] = field(default_factory=dict)  # of their first row

    def add(self, text: str) -> None:
        self.left -= 1
        if self.room > 0:
            self.texts.append(text[: self.room])
            self.room -= len(text) + 1


@dataclass(frozen=True)
class Joined:
    """The people of a table, one document each, in the order of their first texts.

    Attributes:
        table: that has the texts.
        people: how to tell them apart.
        texts: how many each has, in the order of their first.
        columns: beside the text that a document keeps; a person's first row gives their values.
        length: tokens that are read of a document.
        typed: whether values are kept as Arrow has them, for Parquet; otherwise as JSON has them.
    """

    table: Table
    people: People
    texts: Mapping[str, int]
    columns: tuple[str, ...]
    length: int
    typed: bool

    def ids(self, batch: Batch) -> list[str]:
        """The people of a batch."""
        return self._order[batch.first - 1 : batch.first - 1 + len(batch)]

    def batches(self, size: int) -> Iterator[Rows]:
        """The documents, so many at a time."""
        first = 1
        documents = self._documents()
        while some := list(islice(documents, size)):
            yield Rows(first, self.table.text_column, some)
            first += len(some)

    @cached_property
    def _order(self) -> list[str]:
        return list(self.texts)

    def _documents(self) -> Iterator[dict[str, object]]:
        for start in range(0, len(self._order), PEOPLE_AT_ONCE):
            room = self.length * CHARACTERS_A_TOKEN
            group = {one: _Document(self.texts[one], room) for one in self._order[start : start + PEOPLE_AT_ONCE]}
            self._fill(group)
            for each in group.values():
                yield {**each.values, self.table.text_column: " ".join(each.texts)}

    def _fill(self, group: Mapping[str, _Document]) -> None:
        """Read the file as far as texts of the group are to come."""
        left = sum(each.left for each in group.values())
        for batch in self.table.batches(_READ_AT_ONCE):
            if left == 0:
                return
            plain = None if self.typed else batch.as_rows()
            values = {name: batch.column(name) for name in self.columns}
            for place, (person, text) in enumerate(zip(self.people.of(batch), batch.texts(), strict=True)):
                document = group.get(person)
                if document is None:
                    continue
                if not document.texts:
                    document.values = {
                        name: values[name][place] if plain is None else plain[place][name] for name in self.columns
                    }
                document.add(text)
                left -= 1


def one_label_a_person(people: People, column: str) -> Visitor:
    """A visitor of a table that refuses a person with two labels: a joined document has only one.

    It raises BadTable with the row number of the second label, and nothing of its content.
    """
    labels: dict[str, object] = {}

    def see(batch: Batch) -> None:
        for row, (person, label) in enumerate(zip(people.of(batch), batch.column(column), strict=True), batch.first):
            if labels.setdefault(person, label) != label:
                raise BadTable(
                    f"row {row} has another label than an earlier row of the same person, but joined documents have "
                    "one label a person. Pass --labels drop, or give each person one label."
                )

    return see
