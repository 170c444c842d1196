"""Whose row it is: a column holds an id for each person or, if every text counts separately, for each text.

Ids are compared in a normal form (`dpbart.ledger.ids`): 7, 7.0 and "7" are one person.

All texts of a person can be joined into one document, under one epsilon (the paper's second method). The rows of a
person may be anywhere in the file, the file may be larger than memory, and private text must not go into a temporary
file. So the input is read several times, each time for some thousands of people. A model reads only the first tokens of
a document, so only that many characters are kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice

from dpbart.errors import BadTable
from dpbart.ledger.ids import normal_id
from dpbart.options.rewriting import PeopleOptions
from dpbart.rewrite.rows import in_rows, join_cells
from dpbart.tables.batch import Batch, DictRows
from dpbart.tables.formats.format import Visitor
from dpbart.tables.paths import Row, only, with_value
from dpbart.tables.table import Table

BY_PERSON = "--person-column"
_NO_ID = "(no id, row "


@dataclass(frozen=True)
class People:
    """How rows are assigned to people."""

    column: str  # with their ids
    option: str = BY_PERSON  # the command-line option that names the column
    missing: str = "refuse"  # a row without an id, or count it as a person of its "own"
    remedy: str = "Add one, or pass --missing-person own to count each such row as a separate person."

    @classmethod
    def of_options(cls, asked: PeopleOptions) -> People | None:
        """How rows are assigned to people; None if they are not."""
        return None if asked.ids is None else cls(asked.ids, asked.flag, asked.missing_person)

    def units(self, texts: Mapping[str, int]) -> str:
        """What was counted: people or texts, and perhaps rows without an id. A ledger holds one kind only."""
        unit = "people" if self.option == BY_PERSON else "texts"
        return f"{unit} and rows without an id" if without_id(texts) else unit

    def of(self, batch: Batch) -> list[str]:
        """The person id of each row. Raises BadTable for a row without an id, if such rows are refused."""
        ids = [normal_id(value) for value in batch.column(self.column)]
        return [each or self._nobody(number) for number, each in enumerate(ids, start=batch.first)]

    def count(self, table: Table, *visitors: Visitor) -> Counter[str]:
        """The number of texts of each person, in the order of their first texts. Takes about 100 bytes per person.

        Other visitors see each batch first, so the file is read once for all of them.
        """
        texts: Counter[str] = Counter()
        table.visit(*visitors, lambda batch: texts.update(self.of(batch)))
        return texts

    def _nobody(self, row: int) -> str:
        if self.missing == "own":
            return f"{_NO_ID}{row})"
        raise BadTable(f"row {row} has no id in column {self.column!r}. {self.remedy}")


def without_id(texts: Mapping[str, int]) -> int:
    """How many of those who were counted are rows without an id."""
    return sum(each.startswith(_NO_ID) for each in texts)


PEOPLE_AT_ONCE = 50_000
CHARACTERS_A_TOKEN = 64  # more than any known text needs; the model never reads what comes after

_READ_AT_ONCE = 1024  # rows


@dataclass
class _Document:
    """One person's document, as far as it has been read."""

    room: int  # characters still needed
    texts: list[str] = field(default_factory=list)
    values: Row = field(default_factory=dict)  # from the person's first row


@dataclass(frozen=True)
class Joined:
    """The people of a table, one document each, in the order of their first texts."""

    table: Table
    people: People
    texts: Mapping[str, int]  # how many each person has, in the order of their first texts
    columns: tuple[str, ...]  # that a document keeps besides its text; their values come from the person's first row
    length: int  # the number of tokens that the model reads of a document
    typed: bool  # whether values keep their Arrow types, for Parquet; otherwise they are as in JSON

    def ids(self, batch: Batch) -> list[str]:
        """The people of a batch."""
        return self._order[batch.first - 1 : batch.first - 1 + len(batch)]

    def batches(self, size: int) -> Iterator[DictRows]:
        """The documents, `size` at a time."""
        first, documents = 1, self._documents()
        while some := list(islice(documents, size)):
            yield DictRows(first, (self._text_column,), some)
            first += len(some)

    @property
    def _text_column(self) -> str:
        return self.table.text_columns[0]

    @cached_property
    def _order(self) -> list[str]:
        return list(self.texts)

    def _documents(self) -> Iterator[dict[str, object]]:
        for start in range(0, len(self._order), PEOPLE_AT_ONCE):
            people, room = self._order[start : start + PEOPLE_AT_ONCE], self.length * CHARACTERS_A_TOKEN
            group = {person: _Document(room) for person in people}
            self._fill(group)
            for each in group.values():
                yield with_value(each.values, self._text_column, " ".join(each.texts))

    def _fill(self, group: Mapping[str, _Document]) -> None:
        """Read the file until all texts of the group have been found."""
        left = sum(self.texts[person] for person in group)
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
                if document.room > 0:
                    document.texts.append(text[: document.room])
                    document.room -= len(text) + 1
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
