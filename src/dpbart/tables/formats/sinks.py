"""Batches into bytes, one class a format. `writers` opens the files and puts them in place."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Sequence
from typing import BinaryIO, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from dpbart.errors import BadTable
from dpbart.tables.batch import Batch, Row, as_cell
from dpbart.tables.formats.lines import is_unicode

_NEWLINE = re.compile("\r\n|\r|\n")
_GROUP_ROWS = 2**16  # rows of a Parquet row group: one for each batch would be slow to read and large
_GROUP_BYTES = 2**26


class Sink(Protocol):
    """Where batches go. `close` writes what is left, leaves the handle open, and may be called again."""

    def write(self, batch: Batch) -> None: ...

    def close(self) -> None: ...


class Texts:
    """One text a line, the other columns left out; a newline inside a text becomes a space."""

    def __init__(self, handle: BinaryIO) -> None:
        self._handle = handle

    def write(self, batch: Batch) -> None:
        lines = [_NEWLINE.sub(" ", text) + "\n" for text in batch.texts()]
        self._handle.write("".join(lines).encode(errors="replace"))
        self._handle.flush()  # a reader at the other end of a pipe waits for it

    def close(self) -> None: ...


class JsonLines:
    """One JSON object a line, with the keys that the row has."""

    def __init__(self, handle: BinaryIO) -> None:
        self._handle = handle

    def write(self, batch: Batch) -> None:
        self._handle.writelines(_json_line(row) for row in batch.as_rows())

    def close(self) -> None: ...


class Delimited:
    """CSV or TSV with a header, quotes where needed and lines that end in a line feed.

    Args:
        handle: Open for writing bytes.
        columns: The columns of every row.
        delimiter: A comma or a tab.
        source: What to call the input in a message.
    """

    def __init__(self, handle: BinaryIO, *, columns: Sequence[str], delimiter: str, source: str) -> None:
        self._columns = columns
        self._source = source
        # The terminator is \r\n so that the module puts quotes around a lone \r as well as a lone \n;
        # with \n alone, older versions leave \r bare, and it ends the row when read. _LineFeeds cuts it.
        self._writer = csv.writer(_LineFeeds(handle), delimiter=delimiter, lineterminator="\r\n")
        self._writer.writerow(columns)

    def write(self, batch: Batch) -> None:
        for number, row in enumerate(batch.as_rows(), start=batch.first):
            place = f"{self._source} row {number}"
            cells = cells_of(row, self._columns, place)
            if any("\0" in cell for cell in cells):  # would be refused when read
                raise BadTable(f"{place} has a NUL character, which CSV cannot hold. Write a .jsonl file.")
            self._writer.writerow(cells)

    def close(self) -> None: ...


class Parquet:
    """Parquet with a given schema, in row groups of many batches."""

    def __init__(self, handle: BinaryIO, schema: pa.Schema) -> None:
        self._schema = schema
        self._writer = pq.ParquetWriter(handle, schema)
        self._waiting: list[pa.RecordBatch] = []
        self._rows = self._bytes = 0

    def write(self, batch: Batch) -> None:
        record = batch.as_record(self._schema)
        self._waiting.append(record)
        self._rows += record.num_rows
        self._bytes += record.nbytes
        if self._rows >= _GROUP_ROWS or self._bytes >= _GROUP_BYTES:
            self._write_group()

    def close(self) -> None:
        self._write_group()
        self._writer.close()

    def _write_group(self) -> None:
        if self._waiting:
            self._writer.write_table(pa.Table.from_batches(self._waiting, schema=self._schema))
        self._waiting = []
        self._rows = self._bytes = 0


def cells_of(row: Row, columns: Sequence[str], place: str) -> list[str]:
    """The cells of a row under some columns.

    Raises:
        BadTable: If only JSON lines can hold the row: it has other keys, or half a surrogate pair. Tells the place,
            and nothing that the row says.
    """
    if len(row) != len(columns) or any(column not in row for column in columns):
        raise _only_json(place, "other keys than row 1")
    cells = [as_cell(row[column]) for column in columns]
    if not is_unicode("".join(cells)):
        raise _only_json(place, "half a surrogate pair")
    return cells


def _only_json(place: str, what: str) -> BadTable:
    return BadTable(f"{place} has {what}, which only .jsonl can hold. Write a .jsonl file.")


class _LineFeeds:
    def __init__(self, handle: BinaryIO) -> None:
        self._handle = handle

    def write(self, line: str) -> None:
        self._handle.write(line.removesuffix("\r\n").encode() + b"\n")


def _json_line(row: Row) -> bytes:
    line = json.dumps(row, ensure_ascii=False)
    # Half a surrogate pair is no UTF-8, but JSON can hold it as an escape.
    return (line if is_unicode(line) else json.dumps(row)).encode() + b"\n"
