"""Original texts and their rewritings, from two files with the same rows."""

from __future__ import annotations

from pathlib import Path

from dpbart.errors import BadTable
from dpbart.evaluate.data.tables import READ_AT_ONCE
from dpbart.tables.table import open_table


def read_texts(file: Path, *, text_column: str) -> list[str]:
    """All texts of a file, in order."""
    table = open_table(file, text_column=text_column)
    return [text for batch in table.batches(READ_AT_ONCE) for text in batch.texts()]


def read_pairs(original: Path, rewritten: Path, *, text_column: str) -> tuple[list[str], list[str]]:
    """The texts of both files.

    Raises:
        BadTable: If they have different numbers of rows.
    """
    before, after = (read_texts(file, text_column=text_column) for file in (original, rewritten))
    if len(before) != len(after):
        raise BadTable(
            f"both files must have the same number of rows, got {len(before)} in '{original}' "
            f"and {len(after)} in '{rewritten}'."
        )
    return before, after
