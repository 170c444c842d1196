"""Parquet, with the types of its columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from dpbart.errors import BadTable
from dpbart.tables.batch import ArrowRows, Batch
from dpbart.tables.formats.format import Draft, Format, Header, RowsToWrite
from dpbart.tables.paths import field_at, keys_of, spread_fields, with_field
from dpbart.tables.schema import FoundSchema, bare, index_metadata
from dpbart.tables.streams import File

_UNREADABLE = (pa.ArrowException, OSError, ValueError)
_BLOCK = 2**20  # bytes read at a time: a column of a row group can be larger than memory
_GROUP_ROWS = 2**16  # rows in a row group: one group per batch would be slow to read, and large
_GROUP_BYTES = 2**26
_IN_MEMORY = 2  # divides the bytes that a file may unpack to: a column of a row group is held in memory
_HEADERS = 2**16  # bytes of a column that are not its values, at least
_TEXTS = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)


class Parquet(Format):
    """A Parquet file. Batches keep its types; a text column with a dictionary becomes plain strings."""

    endings = (".parquet",)
    typed = named = True
    compressible = False

    def header(self, file: File, *, text_columns: tuple[str, ...] = (), named: Sequence[str] = ()) -> Header:
        with _opened(file) as opened:
            stored = opened.schema_arrow
        columns = tuple(spread_fields(list(stored), (*text_columns, *named)))
        return Header(columns, _schema(stored, [column for column in text_columns if column in columns]))

    def batches(self, file: File, *, text_columns: tuple[str, ...], size: int) -> Iterator[ArrowRows]:
        done = unpacked = 0
        with _opened(file) as opened:
            schema = _schema(opened.schema_arrow, text_columns)
            _check_size(opened.metadata, file)
            records = opened.iter_batches(batch_size=size, use_threads=False)  # one thread: the model needs the others
            while True:
                try:
                    record = next(records, None)
                    if record is None:
                        return
                    _check_length(record, file, done)
                    record.validate(full=True)  # the Parquet reader does not check that strings are UTF-8
                    arrays = list(map(_as_type, record.columns, schema.types))
                    record = pa.RecordBatch.from_arrays(arrays, schema=schema)
                except _UNREADABLE:
                    break
                unpacked += record.nbytes
                file.bounds.check(unpacked, file.name)
                yield ArrowRows(first=done + 1, text_columns=text_columns, record=record)
                done += record.num_rows
        raise BadTable(f"{file.name} is broken after row {done}: the rows there cannot be decoded.")

    def draft(self, source: RowsToWrite) -> Draft:
        if source.schema is not None:
            schema = pa.schema(list(source.schema), metadata=index_metadata(source.schema))  # of columns that are left
            return Draft(partial(_ParquetSink, schema=schema))
        found = FoundSchema(source.columns)

        def see(batch: Batch) -> None:
            for number, row in enumerate(batch.as_rows(), start=batch.first):
                source.cells(row, number)  # refuses what a column cannot hold
            found.see(batch)

        return Draft(lambda handle: _ParquetSink(handle, found.schema()), see, needs_all=True)


class _ParquetSink:
    """Writes row groups of many batches."""

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
            table = pa.Table.from_batches(self._waiting, schema=self._schema)
            self._writer.write_table(_with_used_categories(table))
        self._waiting = []
        self._rows = self._bytes = 0


@contextmanager
def _opened(file: File) -> Iterator[pq.ParquetFile]:
    with file.open_seekable() as handle:
        try:
            open_file = partial(pq.ParquetFile, handle, buffer_size=_BLOCK, page_checksum_verification=True)
            opened = open_file()
            if file.bounds.longest is not None:  # read strings as dictionaries, to measure them before rows repeat them
                columns = map(opened.schema.column, range(len(opened.schema)))
                strings = [column.path for column in columns if column.physical_type == "BYTE_ARRAY"]
                opened = open_file(metadata=opened.metadata, read_dictionary=strings)
        except _UNREADABLE:
            opened = None
        if opened is None:  # outside the handler: Arrow's own message may quote the file
            raise BadTable(f"{file.name} is not a whole Parquet file. Write or copy it again.")
        with opened:
            yield opened


def _schema(stored: pa.Schema, text_columns: Sequence[str]) -> pa.Schema:
    """The types of a file, without dictionaries of texts and without metadata."""
    fields = list(stored)
    for column in text_columns:
        texts = field_at(stored, column)
        if pa.types.is_dictionary(texts.type):
            fields = with_field(fields, keys_of(stored, column), texts.with_type(texts.type.value_type))
    # Metadata of the file and its fields can describe the private rows, and no card lists it: leave it out.
    bared = [field.with_type(bare(field.type)).remove_metadata() for field in fields]
    return pa.schema(bared, metadata=index_metadata(stored))


def _check_size(stated: pq.FileMetaData, file: File) -> None:
    """Refuse a file that says itself that it is too large. A page is unpacked as a whole."""
    bounds, groups = file.bounds, [stated.row_group(place) for place in range(stated.num_row_groups)]
    bounds.check(sum(group.total_byte_size for group in groups), file.name)
    for column in [group.column(place) for group in groups for place in range(group.num_columns)]:
        bounds.check(column.total_uncompressed_size, file.name, parts=_IN_MEMORY)
        most = None if bounds.longest is None else bounds.longest * column.num_values + _HEADERS
        if most is not None and column.total_uncompressed_size > most:
            raise _too_long(file, 0)


def _too_long(file: File, done: int) -> BadTable:
    return BadTable(f"{file.name} is broken after row {done}: rows longer than {file.bounds.longest} bytes.")


def _check_length(record: pa.RecordBatch, file: File, done: int) -> None:
    longest = file.bounds.longest
    if longest is not None and sum(map(_repeated, record.columns)) > longest * record.num_rows:
        raise _too_long(file, done)


def _repeated(array: pa.Array) -> int:
    """Bytes of the strings that a dictionary will be replaced with."""
    if pa.types.is_struct(array.type):
        return sum(map(_repeated, array.flatten()))
    if pa.types.is_map(array.type):
        return _repeated(array.keys) + _repeated(array.items)
    if any(test(array.type) for test in (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)):
        return _repeated(array.flatten())
    if not pa.types.is_dictionary(array.type) or not any(test(array.dictionary.type) for test in _TEXTS):
        return 0
    import pyarrow.compute as pc  # slow to import, and only limits need it

    return int(pc.sum(pc.binary_length(array.dictionary).take(array.indices)).as_py() or 0)


def _as_type(array: pa.Array, kind: pa.DataType) -> pa.Array:
    return array if array.type.equals(kind, check_metadata=True) else array.cast(kind)


def _with_used_categories(table: pa.Table) -> pa.Table:
    """Leave out categories that no row has: they may come from rows that were filtered out before."""
    table = table.unify_dictionaries()
    for place, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):
            table = table.set_column(place, field, _used_categories(table.column(place).combine_chunks()))
    return table


def _used_categories(array: pa.DictionaryArray) -> pa.DictionaryArray:
    import pyarrow.compute as pc  # slow to import, and only categories need it

    used = pc.drop_null(pc.unique(array.indices))
    used = used.take(pc.sort_indices(used))  # ordered categories stay in their order
    indices = pc.index_in(array.indices, value_set=used).cast(array.type.index_type)
    return pa.DictionaryArray.from_arrays(indices, array.dictionary.take(used), ordered=array.type.ordered)
