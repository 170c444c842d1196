"""The Arrow schema of a Parquet output: that of a Parquet input, strings for CSV and text, found out for JSON."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from dpbart.tables.formats.parquet import read_schema
from dpbart.tables.formats.sinks import cells_of
from dpbart.tables.table import Table

_EXACT = 2**53  # the largest run of integers that a float holds without a gap
_LONG = 2**63
_READ_AT_ONCE = 1024  # rows


def schema_for(table: Table, columns: Sequence[str]) -> pa.Schema:
    """The schema that holds some columns of a table. A JSON table is read once to find out.

    Raises:
        BadTable: If rows of a JSON table have other keys than the first.
    """
    if table.format == "parquet":
        schema = read_schema(table.path, table.text_column)
        # Without metadata, of the file and of its columns: it says things of the private rows, and no card lists it.
        return pa.schema([schema.field(column).remove_metadata() for column in columns])
    if table.format == "jsonl":
        return _inferred(table, columns)
    return pa.schema([(column, pa.string()) for column in columns])


def _inferred(table: Table, columns: Sequence[str]) -> pa.Schema:
    dropped = frozenset(table.columns) - frozenset(columns)
    kinds: dict[str, set[str]] = {column: set() for column in columns}
    for batch in table.batches(_READ_AT_ONCE):
        kept = batch.without(dropped)
        for number, row in enumerate(kept.as_rows(), start=kept.first):
            cells_of(row, columns, f"{table.name} row {number}")  # refuses what a column cannot hold
        for column in columns:
            kinds[column].update(_kind(value) for value in kept.column(column) if value is not None)
    return pa.schema([(column, _type(kinds[column])) for column in columns])


def _kind(value: object) -> str:
    if isinstance(value, bool):  # before int, of which Python makes it a kind
        return "boolean"
    if isinstance(value, int):
        return "integer" if abs(value) <= _EXACT else "long" if -_LONG <= value < _LONG else "other"
    return "float" if isinstance(value, float) else "string" if isinstance(value, str) else "other"


def _type(kinds: set[str]) -> pa.DataType:
    """The narrowest type that holds every value; strings, with JSON in them, where none does."""
    if kinds == {"boolean"}:
        return pa.bool_()
    if kinds and kinds <= {"integer", "long"}:
        return pa.int64()
    if kinds and kinds <= {"integer", "float"}:
        return pa.float64()
    return pa.string()
