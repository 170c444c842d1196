"""Whose row it is: a column holds an id for each person or, if every text counts separately, for each text.

Ids are compared in a normal form (`dpbart.privacy.budget.ids`): 7, 7.0 and "7" are one person.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from dpbart.errors import BadParameter, BadTable
from dpbart.privacy.budget.ids import normal_id
from dpbart.tables.batch import Batch
from dpbart.tables.formats.format import Visitor
from dpbart.tables.table import Table

MISSING_POLICIES = ("refuse", "own")
BY_PERSON, BY_TEXT = "--person-column", "--id-column"

_NO_ID = "(no id, row "


@dataclass(frozen=True)
class People:
    """How rows are assigned to people.

    Attributes:
        column: the column with their ids.
        option: the command-line option that names the column.
        missing: what to do with a row without an id: "refuse" it, or count it as a person of its "own".
    """

    column: str
    option: str = BY_PERSON
    missing: str = "refuse"

    def __post_init__(self) -> None:
        if self.missing not in MISSING_POLICIES:
            raise BadParameter(f"missing person must be one of {', '.join(MISSING_POLICIES)}, got {self.missing!r}.")

    def units(self, texts: Mapping[str, int]) -> str:
        """What was counted: people or texts, and perhaps rows without an id. A ledger holds one kind only."""
        unit = "people" if self.option == BY_PERSON else "texts"
        return f"{unit} and rows without an id" if without_id(texts) else unit

    def of(self, batch: Batch) -> list[str]:
        """The person id of each row.

        Raises:
            BadTable: A row has no id, and such rows are refused.
        """
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
        raise BadTable(
            f"row {row} has no id in column {self.column!r}. Add one, or pass --missing-person own "
            "to count each such row as a separate person."
        )


def without_id(texts: Mapping[str, int]) -> int:
    """How many of those who were counted are rows without an id."""
    return sum(each.startswith(_NO_ID) for each in texts)
