"""Parquet, with the types of its columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from dpbart.errors import BadTable
from dpbart.tables import structs
from dpbart.tables.batch import ArrowRows, Batch
from dpbart.tables.file import File
from dpbart.tables.formats.format import Draft, Format, Source
from dpbart.tables.pandas_index import index_metadata
from dpbart.tables.schema import FoundSchema, bare

_UNREADABLE = (pa.ArrowException, OSError, ValueError)
_BLOCK = 2**20  # bytes read at a time: a column of a row group can be larger than memory
_GROUP_ROWS = 2**16  # rows in a row group: one group per batch would be slow to read, and large
_GROUP_BYTES = 2**26
_IN_MEMORY = 2  # a column of a row group may unpack to one part in two of what a file may
_HEADERS = 2**16  # bytes of a column that are not its values, at least
_TEXTS = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)


class Parquet(Format):
    """A Parquet file. Batches keep its types; a text column with a dictionary becomes plain strings."""

    endings = (".parquet",)
    typed = named = True
    compressible = False

    def columns(self, file: File, named: Sequence[str] = ()) -> tuple[str, ...]:
        return tuple(structs.spread(list(_file_schema(file)), named))

    def schema(self, file: File, text_columns: tuple[str, ...]) -> pa.Schema:
        schema = _file_schema(file)
        fields = list(schema)
        for column in text_columns:
            texts = structs.field_at(schema, column)
            if pa.types.is_dictionary(texts.type):
                plain = texts.with_type(texts.type.value_type)
                fields = structs.with_field(fields, structs.keys_of(schema, column), plain)
        # Metadata of the file and its fields can describe the private rows, and no card lists it: leave it out.
        bared = [field.with_type(bare(field.type)).remove_metadata() for field in fields]
        return pa.schema(bared, metadata=index_metadata(schema))

    def batches(self, file: File, *, text_columns: tuple[str, ...], size: int) -> Iterator[ArrowRows]:
        schema = self.schema(file, text_columns)
        done = unpacked = 0
        records = _records(file, size)
        while True:
            try:
                record = next(records)
                _check_length(record, file, done)
                record.validate(full=True)  # the Parquet reader does not check that strings are UTF-8
                record = pa.RecordBatch.from_arrays(list(map(_as_type, record.columns, schema.types)), schema=schema)
            except StopIteration:
                return
            except _UNREADABLE:
                break
            unpacked += record.nbytes
            file.bounds.check(unpacked, file.name)
            yield ArrowRows(first=done + 1, text_columns=text_columns, record=record)
            done += record.num_rows
        raise BadTable(f"{file.name} is broken after row {done}: the rows there cannot be decoded.")

    def draft(self, source: Source) -> Draft:
        if source.schema is not None:
            schema = pa.schema(list(source.schema), metadata=index_metadata(source.schema))  # of columns that are left
            return Draft(partial(_Sink, schema=schema))
        found = FoundSchema(source.columns)

        def see(batch: Batch) -> None:
            for number, row in enumerate(batch.as_rows(), start=batch.first):
                source.cells(row, number)  # refuses what a column cannot hold
            found.see(batch)

        return Draft(lambda handle: _Sink(handle, found.schema()), see, needs_all=True)


class _Sink:
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


def _file_schema(file: File) -> pa.Schema:
    try:
        with pq.ParquetFile(file.seekable()) as opened:
            return opened.schema_arrow
    except _UNREADABLE:
        problem = f"{file.name} is not a whole Parquet file. Write or copy it again."
    raise BadTable(problem)  # outside the handler: Arrow's own message may quote the file


def _records(file: File, size: int) -> Iterator[pa.RecordBatch]:
    kept = None if file.bounds.longest is None else _strings(file)
    with pq.ParquetFile(
        file.seekable(), buffer_size=_BLOCK, page_checksum_verification=True, read_dictionary=kept
    ) as opened:
        _check_size(opened.metadata, file)
        # One thread: the model needs the others.
        yield from opened.iter_batches(batch_size=size, use_threads=False)


def _strings(file: File) -> list[str]:
    """The columns that are read with a dictionary, until the length of its values is checked: rows may repeat them."""
    with pq.ParquetFile(file.seekable()) as opened:
        columns = map(opened.schema.column, range(len(opened.schema)))
        return [column.path for column in columns if column.physical_type == "BYTE_ARRAY"]


def _check_size(stated: pq.FileMetaData, file: File) -> None:
    """Refuse a file that says itself that it is too large. A page is unpacked as a whole."""
    bounds, groups = file.bounds, [stated.row_group(place) for place in range(stated.num_row_groups)]
    bounds.check(sum(group.total_byte_size for group in groups), file.name)
    for column in [group.column(place) for group in groups for place in range(group.num_columns)]:
        bounds.check(column.total_uncompressed_size, file.name, parts=_IN_MEMORY)
        if bounds.longest is None:
            continue
        if column.total_uncompressed_size > bounds.longest * column.num_values + _HEADERS:
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
