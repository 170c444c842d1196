"""Who a row belongs to: the column that names people, or, where each text stands for itself, the texts.

An id is compared as a word: 7, 7.0 and "7" are one person, and so are "anna" and " anna ". Whoever is taken for one
person though they are two is protected more than promised, and never less.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from dataclasses import dataclass

from dpbart.errors import BadParameter, BadTable
from dpbart.tables.batch import Batch
from dpbart.tables.formats.format import Visitor
from dpbart.tables.table import Table

MISSING_POLICIES = ("refuse", "own")

_UNWRITABLE = re.compile("[\0\ud800-\udfff]")  # SQLite cannot look for the first, nor hold the others


@dataclass(frozen=True)
class People:
    """How to tell people apart.

    Attributes:
        column: that holds their ids.
        option: of the command line that names it.
        missing: what a row without an id is: refused, or a person of their own.
    """

    column: str
    option: str = "--person-column"
    missing: str = "refuse"

    def __post_init__(self) -> None:
        if self.missing not in MISSING_POLICIES:
            raise BadParameter(f"missing person must be one of {', '.join(MISSING_POLICIES)}, got {self.missing!r}.")

    def of(self, batch: Batch) -> list[str]:
        """The id of each row's person.

        Raises:
            BadTable: A row has no id, and that is to be refused.
        """
        ids = [_id(value) for value in batch.column(self.column)]
        return [each or self._nobody(number) for number, each in enumerate(ids, start=batch.first)]

    def count(self, table: Table, *visitors: Visitor) -> Counter[str]:
        """The number of texts of each person, in the order of first appearance; about 100 bytes of memory per person.

        Other visitors see the same batches first, so that a file is read once for all of them.
        """
        texts: Counter[str] = Counter()
        table.visit(*visitors, lambda batch: texts.update(self.of(batch)))
        return texts

    def _nobody(self, row: int) -> str:
        if self.missing == "own":
            return f"(no id, row {row})"
        raise BadTable(
            f"row {row} has no id in column {self.column!r}. Give it one, or pass --missing-person own "
            "to count each such row as a person of their own."
        )


def _id(value: object) -> str:
    """A value as an id; empty where there is none.

    >>> [_id(value) for value in (7, 7.0, " 7 ", None, float("nan"), True)]
    ['7', '7', '7', '', '', 'true']
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, float) and value.is_integer():  # a column of numbers with a gap holds 7 as 7.0
        value = int(value)
    plain = json.dumps(value, sort_keys=True) if isinstance(value, bool | int | float | list | dict) else str(value)
    return _UNWRITABLE.sub("\ufffd", plain.strip())
