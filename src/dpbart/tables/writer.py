"""Write tables: the whole file, or nothing.

Batches go to a hidden file next to the target, which takes the target's name when everything is written. After an
error the hidden file is deleted and the target is unchanged. No half-written file ever has the target's name.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO, Protocol

import pyarrow as pa

from dpbart.errors import BadParameter, BadTable
from dpbart.files import create, digest_of, one_line_errors, partial_of, put_folder_in_place, put_in_place
from dpbart.tables.batch import Batch
from dpbart.tables.formats.format import Format, RowsToWrite, Sink, Visitor
from dpbart.tables.formats.registry import codec_of, format_of
from dpbart.tables.paths import without_fields
from dpbart.tables.streams import STANDARD, File, compressor
from dpbart.tables.table import Table

Release = Callable[[Batch], Batch]


class TableWriter(Protocol):
    """Takes the batches of a table, in order."""

    def write(self, batch: Batch) -> None: ...

    def finish(self) -> str | None:
        """Write the remaining bytes, and return the SHA-256 of the file, not yet renamed; None for a stream."""


def plan_writer(
    path: Path | str, *, like: Table, columns: Collection[str], overwrite: bool = False, bare: bool = False
) -> tuple[AbstractContextManager[TableWriter], Sequence[Visitor]]:
    """Check an output, and return its writer and the visitors that must see the whole input before it is entered.

    Pass the visitors to `Table.visit`, together with your own. They refuse every row that the format cannot hold (JSON
    keys that differ, a NUL), so nothing is written before all rows are known to be good. Standard output gets only the
    texts, one per line, unless the dialect names another format. It is flushed after each batch. The caller handles a
    broken pipe.

    Args:
        path: A file, "-" for standard output, or a new folder if the input is a folder.
        like: The table that the batches come from.
        columns: The columns to write, including the first text column. They keep the order of the table.
        overwrite: Whether an existing file may be replaced.
        bare: Whether to write nothing but these columns: no keys that the first row lacks, and no metadata, not even
            the index of a pandas frame.
    """
    path, dropped = Path(path), frozenset(like.columns) - frozenset(columns)
    unknown = [column for column in columns if column not in like.columns]
    if unknown:
        raise BadParameter(f"columns must be among those of the input, got {unknown[0]!r}.")
    if like.text_columns[0] not in columns:
        raise BadParameter(f"columns must include the text column {like.text_columns[0]!r}.")
    format = format_of(path, like.dialect)
    if path != STANDARD:
        _check_target(path, like, overwrite)
    source = _source(like, dropped, format)
    draft = format.draft(source.bared() if bare else source)
    if draft.needs_all and like.path == STANDARD:
        raise BadTable(
            f"{format.endings[0]} needs the types of all rows before the first is written, and standard input can be "
            f"read only once. Write a {like.format.endings[0]} file, or save the input to a file first."
        )
    see = draft.see  # takes empty texts, because those of the input are never written
    blank, has_more = [""] * len(like.text_columns), bare and like.format.further_keys

    def release(batch: Batch) -> Batch:
        left = batch.without(dropped)
        return left.within(source.columns) if has_more else left

    visitors = [] if see is None else [lambda batch: see(release(batch.with_texts(blank * len(batch))))]
    if draft.folder is not None:
        return _written_folder(path, draft.folder, release), visitors
    codec = codec_of(path, like.dialect)
    make = draft.sink if codec is None else partial(_CompressedSink, make=draft.sink, codec=codec)
    return _streamed(make, release) if path == STANDARD else _written(path, make, release), visitors


class _CompressedSink:
    """Compresses what another sink writes."""

    def __init__(self, handle: BinaryIO, *, make: Callable[[BinaryIO], Sink], codec: str) -> None:
        self._compressor = compressor(handle, codec)
        self._sink = make(self._compressor)
        self.write = self._sink.write

    def close(self) -> None:
        if not self._compressor.closed:
            self._sink.close()
            self._compressor.close()


@dataclass(frozen=True)
class _StreamWriter:
    sink: Sink
    handle: BinaryIO
    release: Release

    def write(self, batch: Batch) -> None:
        self.sink.write(self.release(batch))
        self.handle.flush()

    def finish(self) -> None:
        self.sink.close()
        self.handle.flush()


@contextmanager
def _streamed(make: Callable[[BinaryIO], Sink], release: Release) -> Iterator[TableWriter]:
    yield _StreamWriter(make(sys.stdout.buffer), sys.stdout.buffer, release)


@dataclass(frozen=True)
class _TargetWriter:
    """Writes a file or a folder next to its path; it gets its name at the end."""

    path: Path  # as the user named it, for messages
    partial: Path  # what is written
    sink: Sink
    release: Release  # leaves out what is not written
    settle: Callable[[], None]  # syncs everything to disk; if the disk is full, this fails before anything is replaced

    def write(self, batch: Batch) -> None:
        with _one_line(self.path):
            self.sink.write(self.release(batch))

    def finish(self) -> str:
        with _one_line(self.path):
            self.settle()
            return digest_of(self.partial)


@contextmanager
def _written(path: Path, make: Callable[[BinaryIO], Sink], release: Release) -> Iterator[TableWriter]:
    target, partial_file = partial_of(path)
    with ExitStack() as cleanup:
        with _one_line(path):
            handle = os.fdopen(create(partial_file, replacing=target), "wb")
        cleanup.callback(partial_file.unlink, missing_ok=True)
        cleanup.callback(_quietly, handle.close)
        with _one_line(path):
            sink = make(handle)
        cleanup.callback(_quietly, sink.close)

        def settle() -> None:
            sink.close()
            handle.flush()
            os.fsync(handle.fileno())

        yield _TargetWriter(path, partial_file, sink, release, settle)
        with _one_line(path):
            sink.close()
            handle.close()
            put_in_place(partial_file, target)  # before a job deletes the texts that it was written from


@contextmanager
def _written_folder(path: Path, make: Callable[[Path], Sink], release: Release) -> Iterator[TableWriter]:
    target, partial_folder = partial_of(path)
    with ExitStack() as cleanup:
        with _one_line(path):
            partial_folder.mkdir()
        cleanup.callback(shutil.rmtree, partial_folder, ignore_errors=True)
        sink = make(partial_folder)
        yield _TargetWriter(path, partial_folder, sink, release, sink.close)
        with _one_line(path):
            put_folder_in_place(partial_folder, target)


def _quietly(close: Callable[[], None]) -> None:
    # After an error, the remaining bytes may fail as well. Only the first error is reported.
    with suppress(Exception):
        close()


def _one_line(path: Path) -> AbstractContextManager[None]:
    return one_line_errors(path, then="Nothing half-written was left behind.")


def _source(like: Table, dropped: Collection[str], format: Format) -> RowsToWrite:
    """The rows to write, in the dialect of the input as far as the format of the output is the same."""
    kept, schema = tuple(column for column in like.columns if column not in dropped), like.header.schema
    delimiter = like.header.delimiter
    if format.endings != like.format.endings:
        delimiter = like.dialect.delimiter if delimiter is None else None
    return RowsToWrite(
        like.name,
        like.format.endings[0],
        format.endings[0],
        kept,
        None if schema is None else pa.schema(without_fields(list(schema), dropped), metadata=schema.metadata),
        plain=schema is not None and not like.format.typed,
        encoding=like.file.encoding or "utf-8",
        delimiter=delimiter,
    )


def _check_target(path: Path, like: Table, overwrite: bool) -> None:
    real = Path(os.path.realpath(path))
    if not real.parent.is_dir():
        raise BadTable(
            f"{str(path)!r} cannot be written: its folder {str(path.parent)!r} does not exist. Make it first."
        )
    if like.path.is_dir() and Path(os.path.realpath(like.path)) in real.parents:
        raise BadTable(f"{str(path)!r} is inside the input. Name an output in another folder.")
    if not path.exists():
        return
    if like.path != STANDARD and path.samefile(like.path):
        raise BadTable(f"{str(path)!r} is both input and output. Name another output.")
    if path.is_dir() and not like.path.is_dir():
        raise BadTable(f"{str(path)!r} is a directory. Name a file in it.")
    if path.is_dir() and not any(path.iterdir()):
        return
    if not overwrite:
        raise BadTable(f"{str(path)!r} exists already. Pass --overwrite to replace it, or name another file.")
    if path.is_dir():
        next(like.format.batches(File(path), text_columns=like.text_columns, size=1))  # refuses to delete other files
