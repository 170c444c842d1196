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
from dpbart.files import create, digest_of, partial_of, put_folder_in_place, put_in_place, reason
from dpbart.tables.batch import Batch
from dpbart.tables.compression import compressor
from dpbart.tables.file import File
from dpbart.tables.formats.format import Format, Sink, Source, Visitor
from dpbart.tables.formats.registry import codec_of, format_of
from dpbart.tables.standard import STANDARD
from dpbart.tables.structs import without_fields
from dpbart.tables.table import Table

Release = Callable[[Batch], Batch]


class Writer(Protocol):
    """Takes the batches of a table, in order."""

    def write(self, batch: Batch) -> None: ...

    def finish(self) -> str | None:
        """Write the remaining bytes, and return the SHA-256 of the file, not yet renamed; None for a stream."""


def open_writer(
    path: Path | str, *, like: Table, columns: Collection[str], overwrite: bool = False
) -> AbstractContextManager[Writer]:
    """Check an output and open it, as `plan_writer` does. If its visitors must see the input, read the input here."""
    writer, visitors = plan_writer(path, like=like, columns=columns, overwrite=overwrite)
    if visitors:
        like.visit(*visitors)
    return writer


def plan_writer(
    path: Path | str, *, like: Table, columns: Collection[str], overwrite: bool = False, bare: bool = False
) -> tuple[AbstractContextManager[Writer], Sequence[Visitor]]:
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
        bare: Whether to write nothing beyond these columns: no keys that the first row lacks, and no metadata, also not
            the index of a pandas frame.

    Raises:
        BadParameter: If columns has a name that the table lacks, or lacks the text column.
        BadTable: If the file exists, is the input, has no folder, or cannot hold the columns.
    """
    path, dropped = Path(path), frozenset(like.columns) - frozenset(columns)
    _check_columns(columns, like)
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
    see = draft.see  # with empty texts: those of the input are never written
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

    def write(self, batch: Batch) -> None:
        self._sink.write(batch)

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
def _streamed(make: Callable[[BinaryIO], Sink], release: Release) -> Iterator[Writer]:
    yield _StreamWriter(make(sys.stdout.buffer), sys.stdout.buffer, release)


@dataclass(frozen=True)
class _TargetWriter:
    """Writes a file or a folder next to its path; it gets its name at the end.

    Attributes:
        path: as the user has named it, for messages.
        partial: what is written.
        sink: writes it.
        release: leaves out what is not written.
        settle: puts everything on disk. A full disk is found here, before anything is replaced.
    """

    path: Path
    partial: Path
    sink: Sink
    release: Release
    settle: Callable[[], None]

    def write(self, batch: Batch) -> None:
        with _one_line(self.path):
            self.sink.write(self.release(batch))

    def finish(self) -> str:
        with _one_line(self.path):
            self.settle()
            return digest_of(self.partial)


@contextmanager
def _written(path: Path, make: Callable[[BinaryIO], Sink], release: Release) -> Iterator[Writer]:
    target, partial_file = partial_of(path)
    with ExitStack() as cleanup:
        with _one_line(path):
            handle = os.fdopen(create(partial_file, replacing=target), "wb")
        cleanup.callback(partial_file.unlink, missing_ok=True)
        cleanup.callback(_quietly, handle.close)
        with _one_line(path):
            sink = make(handle)
        cleanup.callback(_quietly, sink.close)
        yield _TargetWriter(path, partial_file, sink, release, lambda: _settle(sink, handle))
        with _one_line(path):
            sink.close()
            handle.close()
            put_in_place(partial_file, target)  # before a job deletes the texts that it was written from


@contextmanager
def _written_folder(path: Path, make: Callable[[Path], Sink], release: Release) -> Iterator[Writer]:
    target, partial_folder = partial_of(path)
    with ExitStack() as cleanup:
        with _one_line(path):
            partial_folder.mkdir()
        cleanup.callback(shutil.rmtree, partial_folder, ignore_errors=True)
        sink = make(partial_folder)
        yield _TargetWriter(path, partial_folder, sink, release, sink.close)
        with _one_line(path):
            put_folder_in_place(partial_folder, target)


def _settle(sink: Sink, handle: BinaryIO) -> None:
    sink.close()
    handle.flush()
    os.fsync(handle.fileno())


def _quietly(close: Callable[[], None]) -> None:
    # After an error, the remaining bytes may fail as well. Only the first error is reported.
    with suppress(Exception):
        close()


@contextmanager
def _one_line(path: Path) -> Iterator[None]:
    """Report an error of the file system in one line. Errors of the caller do not pass through here."""
    try:
        yield
    except OSError as error:
        raise BadTable(
            f"{str(path)!r} cannot be written: {reason(error)}. Nothing half-written was left behind."
        ) from None


def _source(like: Table, dropped: Collection[str], format: Format) -> Source:
    """The rows to write, in the dialect of the input as far as the format of the output is the same."""
    kept, schema = tuple(column for column in like.columns if column not in dropped), like.schema()
    delimiter = like.format.delimiter(like.file)
    if format.endings != like.format.endings:
        delimiter = like.dialect.delimiter if delimiter is None else None
    return Source(
        like.name,
        like.format.endings[0],
        format.endings[0],
        kept,
        None if schema is None else pa.schema(without_fields(list(schema), dropped), metadata=schema.metadata),
        plain=schema is not None and not like.format.typed,
        encoding=like.file.encoding or "utf-8",
        delimiter=delimiter,
    )


def _check_columns(columns: Collection[str], like: Table) -> None:
    unknown = [column for column in columns if column not in like.columns]
    if unknown:
        raise BadParameter(f"columns must be among those of the input, got {unknown[0]!r}.")
    if like.text_columns[0] not in columns:
        raise BadParameter(f"columns must include the text column {like.text_columns[0]!r}.")


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
