"""Batches of a Parquet file, with the types it holds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from dpbart.errors import BadTable
from dpbart.tables.batch import Columns

_UNREADABLE = (pa.ArrowException, OSError, ValueError)
_BLOCK = 2**20  # bytes read at a time: a column of a row group can be larger than memory


def read_schema(path: Path, text_column: str | None = None) -> pa.Schema:
    """The columns and types of a file; the text column, if named, as strings without a dictionary.

    Raises:
        BadTable: If the file is not Parquet.
    """
    try:
        with pq.ParquetFile(path) as file:
            schema = file.schema_arrow
    except _UNREADABLE:
        schema = None
    if schema is None:
        raise BadTable(f"{str(path)!r} is not a whole Parquet file. Write or copy it again.")
    return schema if text_column is None else _decoded(schema, text_column)


def holds_texts(kind: pa.DataType) -> bool:
    """Whether a column of this type holds strings."""
    if pa.types.is_dictionary(kind):
        return holds_texts(kind.value_type)
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def read_batches(path: Path, *, text_column: str, size: int) -> Iterator[Columns]:
    """The rows of a file, at most `size` at a time, each checked for values that its type does not allow.

    Raises:
        BadTable: Where the file is broken, with the number of the last row before.
    """
    schema = read_schema(path, text_column)
    done = 0
    records = _records(path, size)
    while True:
        try:
            record = next(records)
            record.validate(full=True)  # Parquet's reader does not look whether strings are UTF-8
            record = _with_plain_texts(record, schema, text_column)
        except StopIteration:
            return
        except _UNREADABLE:
            break
        yield Columns(first=done + 1, text_column=text_column, record=record)
        done += record.num_rows
    raise BadTable(f"{str(path)!r} is broken after row {done}: the rows there cannot be decoded.")


def _records(path: Path, size: int) -> Iterator[pa.RecordBatch]:
    with pq.ParquetFile(path, buffer_size=_BLOCK, page_checksum_verification=True) as file:
        # One thread: the model needs the others.
        yield from file.iter_batches(batch_size=size, use_threads=False)


def _with_plain_texts(record: pa.RecordBatch, schema: pa.Schema, text_column: str) -> pa.RecordBatch:
    index = schema.get_field_index(text_column)
    texts = record.column(index)
    if not pa.types.is_dictionary(texts.type):
        return record
    return record.set_column(index, schema.field(index), texts.dictionary_decode())


def _decoded(schema: pa.Schema, text_column: str) -> pa.Schema:
    index = schema.get_field_index(text_column)
    field = schema.field(index)
    if not pa.types.is_dictionary(field.type):
        return schema
    return schema.set(index, field.with_type(field.type.value_type))
