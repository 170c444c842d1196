"""A batch: consecutive rows of a table. Its texts can be read and replaced; all other columns stay as they are.

`DictRows` holds dicts, `ArrowRows` holds Arrow columns with their types. Messages give the numbers of rows, never
their content.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import pyarrow as pa

from dpbart.errors import BadParameter, BadTable
from dpbart.tables import paths
from dpbart.tables.paths import Row

_UNWRITABLE = re.compile("[\0\ud800-\udfff]")  # CSV cannot hold the first, UTF-8 cannot hold the others
_CANNOT_CONVERT = (pa.ArrowException, TypeError, ValueError, OverflowError)


class Batch(Protocol):
    """Consecutive rows of a table. Batches never change: every method returns a new value."""

    first: int  # the number of the first row, counted from 1 without the header
    text_columns: tuple[str, ...]

    def __len__(self) -> int: ...

    def texts(self) -> list[str]:
        """The texts of each row, in the order of the text columns; a null text is an empty string."""
        columns = [self.column(name) for name in self.text_columns]
        return ["" if text is None else str(text) for row in zip(*columns, strict=True) for text in row]

    def column(self, name: str) -> list[object]:
        """The value of each row in one column."""

    def with_texts(self, new: Sequence[str]) -> Batch:
        """The same rows with other texts, as many as `texts` gives.

        NUL and half a surrogate pair, which some formats lack, become U+FFFD.
        """
        count, batch = len(self.text_columns), self
        for place, name in enumerate(self.text_columns):
            batch = batch.with_column(name, [_UNWRITABLE.sub("\ufffd", text) for text in new[place::count]])
        return batch

    def with_column(self, name: str, values: Sequence[object]) -> Batch:
        """The same rows with other values in one column. The order of the columns stays the same."""

    def without(self, columns: Collection[str]) -> Batch:
        """The same rows without some columns."""

    def within(self, columns: Sequence[str]) -> Batch:
        """The same rows without keys beyond these columns. Arrow rows have no such keys."""
        return self

    def as_rows(self) -> Sequence[Row]:
        """The rows as dicts of JSON values; dates and decimals are strings."""

    def natives(self) -> Sequence[Row]:
        """The rows as dicts of values that Arrow columns can hold."""
        return self.as_rows()

    def as_record(self, schema: pa.Schema) -> pa.RecordBatch:
        """The rows as Arrow columns, in the order of the schema."""


@dataclass(frozen=True)
class DictRows(Batch):
    """Rows as dicts from column to value."""

    first: int
    text_columns: tuple[str, ...]
    rows: Sequence[Row]

    def __len__(self) -> int:
        return len(self.rows)

    def column(self, name: str) -> list[object]:
        values: list[object] = []
        try:
            for row in self.rows:
                values.append(paths.value_at(row, name))
        except KeyError:
            raise _no_column(self.first + len(values), name) from None
        return values

    def with_column(self, name: str, values: Sequence[object]) -> DictRows:
        _check_length(values, len(self))
        self.column(name)  # refuses a column that some row lacks, instead of adding it
        rows = [paths.with_value(row, name, value) for row, value in zip(self.rows, values, strict=True)]
        return replace(self, rows=rows)

    def without(self, columns: Collection[str]) -> DictRows:
        rows = [paths.without(row, columns) for row in self.rows] if columns else self.rows
        return replace(self, rows=rows, text_columns=_left(self.text_columns, columns))

    def within(self, columns: Sequence[str]) -> DictRows:
        return replace(self, rows=[paths.within(row, columns) for row in self.rows])

    def as_rows(self) -> Sequence[Row]:
        return self.rows

    def as_record(self, schema: pa.Schema) -> pa.RecordBatch:
        columns = [self.column(field.name) for field in schema]
        for place, kind in enumerate(schema.types):
            if pa.types.is_string(kind):
                columns[place] = [None if value is None else as_cell(value) for value in columns[place]]
        return pa.RecordBatch.from_arrays(list(map(_array, columns, schema)), schema=schema)


@dataclass(frozen=True)
class ArrowRows(Batch):
    """Rows as Arrow columns, with the schema of their file."""

    first: int
    text_columns: tuple[str, ...]
    record: pa.RecordBatch

    def __len__(self) -> int:
        return int(self.record.num_rows)

    def column(self, name: str) -> list[object]:
        array, broken = paths.array_at(self.record, self._keys(name))
        if broken is not None:
            raise _no_column(self.first + broken.is_null().index(True).as_py(), name)
        values: list[object] = array.to_pylist()
        return values

    def with_column(self, name: str, values: Sequence[object]) -> ArrowRows:
        _check_length(values, len(self))
        keys, field = self._keys(name), paths.field_at(self.record.schema, name)
        return replace(self, record=paths.with_array(self.record, keys, _array(values, field), field))

    def without(self, columns: Collection[str]) -> ArrowRows:
        record = paths.without_arrays(self.record, columns) if columns else self.record
        return replace(self, record=record, text_columns=_left(self.text_columns, columns))

    def as_rows(self) -> Sequence[Row]:
        read = [array.cast(pa.string()) if _reads_as_string(array.type) else array for array in self.record.columns]
        rows: list[Row] = pa.RecordBatch.from_arrays(read, names=self.record.schema.names).to_pylist()
        return rows

    def natives(self) -> Sequence[Row]:
        rows: list[Row] = self.record.to_pylist()
        return rows

    def as_record(self, schema: pa.Schema) -> pa.RecordBatch:
        return self.record.select(schema.names)

    def _keys(self, name: str) -> list[str]:
        try:
            paths.field_at(self.record.schema, name)
        except KeyError:
            raise _no_column(self.first, name) from None
        return paths.keys_of(self.record.schema, name)


def as_cell(value: object) -> str:
    """A value as a string: a string unchanged, null as an empty string, anything else as JSON.

    >>> [as_cell(value) for value in ("007", None, 1.5, True, ["a", 1])]
    ['007', '', '1.5', 'true', '["a", 1]']
    """
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value, ensure_ascii=False)


def holds(text: str, encoding: str = "utf-8") -> bool:
    """Whether an encoding has every character of a string. None of them has half a surrogate pair.

    >>> holds("🤷"), holds(chr(0xD83E)), holds("café", "cp1252"), holds("→", "cp1252")
    (True, False, True, False)
    """
    if text.isascii():  # Python keeps a flag, so this is free
        return True
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return False
    return True


def fits_json(kind: pa.DataType) -> bool:
    """Whether `as_rows` gives the values of an Arrow type without loss.

    >>> fits_json(pa.list_(pa.int64())), fits_json(pa.date32()), fits_json(pa.binary())
    (True, True, False)
    """
    return _reads_as_string(kind) or _is_json(kind)


def _is_json(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind) or pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _is_json(kind.value_type)
    if pa.types.is_struct(kind):
        return all(_is_json(field.type) for field in kind)
    tests = (pa.types.is_string, pa.types.is_large_string, pa.types.is_boolean, pa.types.is_null)
    numbers = (pa.types.is_integer, pa.types.is_float32, pa.types.is_float64)
    return any(test(kind) for test in tests + numbers)


def _reads_as_string(kind: pa.DataType) -> bool:
    # Python's datetime has no nanoseconds and JSON has no decimals. Arrow's strings lose nothing.
    dated = pa.types.is_timestamp(kind) or pa.types.is_date(kind) or pa.types.is_time(kind)
    return bool(dated or pa.types.is_decimal(kind))


def _array(values: Sequence[object], field: pa.Field) -> pa.Array:
    try:
        return pa.array(values, type=field.type)
    except _CANNOT_CONVERT:  # Arrow's message quotes the private value: keep it out, also as context
        message = f"values of column {field.name!r} must fit its type {field.type}. Convert them first."
    raise BadParameter(message)


def _left(text_columns: tuple[str, ...], dropped: Collection[str]) -> tuple[str, ...]:
    return tuple(name for name in text_columns if name not in dropped)


def _no_column(row: int, name: str) -> BadTable:
    return BadTable(f"row {row} has no column {name!r}. Give every row one.")


def _check_length(values: Sequence[object], rows: int) -> None:
    if len(values) != rows:
        raise BadParameter(f"new values must be one for each of the {rows} rows, got {len(values)}.")
