"""All texts of a person joined into one document, under one epsilon (the paper's second method).

The rows of a person may be anywhere in the file, the file may be larger than memory, and private text must not go into
a temporary file. So the input is read several times, each time for some thousands of people. A model reads only the
first tokens of a document, so only that many characters are kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice

from dpbart.errors import BadTable
from dpbart.rewrite.people import People
from dpbart.rewrite.pieces import in_rows, join_cells
from dpbart.tables.batch import Batch, Rows
from dpbart.tables.formats.format import Visitor
from dpbart.tables.paths import Row, only, with_value
from dpbart.tables.table import Table

PEOPLE_AT_ONCE = 50_000
CHARACTERS_A_TOKEN = 64  # more than any known text needs; the model never reads what comes after

_READ_AT_ONCE = 1024  # rows


@dataclass
class _Document:
    """One person's document, as far as it has been read."""

    left: int  # texts still to come
    room: int  # characters still needed
    texts: list[str] = field(default_factory=list)
    values: Row = field(default_factory=dict)  # from the person's first row

    def add(self, text: str) -> None:
        self.left -= 1
        if self.room > 0:
            self.texts.append(text[: self.room])
            self.room -= len(text) + 1


@dataclass(frozen=True)
class Joined:
    """The people of a table, one document each, in the order of their first texts.

    Attributes:
        table: the input.
        people: how rows are assigned to people.
        texts: the number of texts of each person, in the order of their first texts.
        columns: the other columns that a document keeps; their values come from the person's first row.
        length: the number of tokens that the model reads of a document.
        typed: whether values keep their Arrow types, for Parquet; otherwise they are as in JSON.
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
        """The documents, `size` at a time."""
        first = 1
        documents = self._documents()
        while some := list(islice(documents, size)):
            yield Rows(first, (self._text_column,), some)
            first += len(some)

    @property
    def _text_column(self) -> str:
        return self.table.text_columns[0]

    @cached_property
    def _order(self) -> list[str]:
        return list(self.texts)

    def _documents(self) -> Iterator[dict[str, object]]:
        for start in range(0, len(self._order), PEOPLE_AT_ONCE):
            room = self.length * CHARACTERS_A_TOKEN
            group = {one: _Document(self.texts[one], room) for one in self._order[start : start + PEOPLE_AT_ONCE]}
            self._fill(group)
            for each in group.values():
                yield with_value(each.values, self._text_column, " ".join(each.texts))

    def _fill(self, group: Mapping[str, _Document]) -> None:
        """Read the file until all texts of the group have been found."""
        left = sum(each.left for each in group.values())
        for batch in self.table.batches(_READ_AT_ONCE):
            if left == 0:
                return
            rows = batch.natives() if self.typed else batch.as_rows()
            texts = map(join_cells, in_rows(batch.texts(), len(batch.text_columns)))
            for place, (person, text) in enumerate(zip(self.people.of(batch), texts, strict=True)):
                document = group.get(person)
                if document is None:
                    continue
                if not document.texts:
                    document.values = only(rows[place], (*self.columns, self._text_column))
                document.add(text)
                left -= 1


def one_label_per_person(people: People, column: str) -> Visitor:
    """A table visitor that refuses a person with two labels, since a joined document has only one.

    It raises BadTable with the row number of the second label, without its content.
    """
    labels: dict[str, object] = {}

    def see(batch: Batch) -> None:
        for row, (person, label) in enumerate(zip(people.of(batch), batch.column(column), strict=True), batch.first):
            if labels.setdefault(person, label) != label:
                raise BadTable(
                    f"row {row} has a different label than an earlier row of the same person, but a joined document "
                    "has one label. Pass --labels drop, or give each person one label."
                )

    return see
