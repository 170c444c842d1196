"""Write tables: the whole file, or nothing.

Batches go to a hidden file next to the target, which takes the target's name when everything is written. After an
error the hidden file is deleted and the target is unchanged. No half-written file ever has the target's name.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol

import pyarrow as pa

from dpbart.errors import BadParameter, BadTable
from dpbart.files import create, digest_of, partial_of, put_in_place, reason
from dpbart.tables.batch import Batch
from dpbart.tables.formats.format import Sink, Source, Visitor
from dpbart.tables.formats.registry import format_of
from dpbart.tables.table import STANDARD, Table


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
    path: Path | str, *, like: Table, columns: Collection[str], overwrite: bool = False
) -> tuple[AbstractContextManager[Writer], Sequence[Visitor]]:
    """Check an output, and return its writer and the visitors that must see the whole input before it is entered.

    Pass the visitors to `Table.visit`, together with your own. They refuse every row that the format cannot hold (JSON
    keys that differ, a NUL), so nothing is written before all rows are known to be good. Standard output gets only the
    texts, one per line, and is flushed after each batch. The caller handles a broken pipe.

    Args:
        path: A file, or "-" for standard output.
        like: The table that the batches come from.
        columns: The columns to write, including the text column. They keep the order of the table.
        overwrite: Whether an existing file may be replaced.

    Raises:
        BadParameter: If columns has a name that the table lacks, or lacks the text column.
        BadTable: If the file exists, is the input, has no folder, or cannot hold the columns.
    """
    path, dropped = Path(path), frozenset(like.columns) - frozenset(columns)
    _check_columns(columns, like)
    format = format_of(path)
    if path != STANDARD:
        _check_target(path, like, overwrite)
    draft = format.draft(_source(like, dropped, format.endings[0]))
    see = draft.see  # with empty texts: those of the input are never written
    visitors = [] if see is None else [lambda batch: see(batch.with_texts([""] * len(batch)).without(dropped))]
    if path == STANDARD:
        return nullcontext(_StreamWriter(draft.sink(sys.stdout.buffer))), visitors
    return _written(path, draft.sink, dropped), visitors


@dataclass(frozen=True)
class _StreamWriter:
    sink: Sink

    def write(self, batch: Batch) -> None:
        self.sink.write(batch)

    def finish(self) -> None:
        return None


@dataclass(frozen=True)
class _FileWriter:
    path: Path
    partial_file: Path
    handle: BinaryIO
    sink: Sink
    dropped: frozenset[str]

    def write(self, batch: Batch) -> None:
        with _one_line(self.path):
            self.sink.write(batch.without(self.dropped))

    def finish(self) -> str:
        with _one_line(self.path):
            self.sink.close()
            self.handle.flush()
            os.fsync(self.handle.fileno())  # a full disk is found here, before anything is replaced
            return digest_of(self.partial_file)


@contextmanager
def _written(path: Path, make: Callable[[BinaryIO], Sink], dropped: frozenset[str]) -> Iterator[Writer]:
    target, partial_file = partial_of(path)
    with ExitStack() as cleanup:
        with _one_line(path):
            handle = os.fdopen(create(partial_file, replacing=target), "wb")
        cleanup.callback(partial_file.unlink, missing_ok=True)
        cleanup.callback(_quietly, handle.close)
        with _one_line(path):
            sink = make(handle)
        cleanup.callback(_quietly, sink.close)
        yield _FileWriter(path, partial_file, handle, sink, dropped)
        with _one_line(path):
            sink.close()
            handle.close()
            put_in_place(partial_file, target)  # before a job deletes the texts that it was written from


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


def _source(like: Table, dropped: Collection[str], target: str) -> Source:
    kept, schema = tuple(column for column in like.columns if column not in dropped), like.schema()
    types = None if schema is None else pa.schema([schema.field(column) for column in kept])
    plain = schema is not None and not like.format.typed
    return Source(like.name, like.format.endings[0], target, kept, types, plain)


def _check_columns(columns: Collection[str], like: Table) -> None:
    unknown = [column for column in columns if column not in like.columns]
    if unknown:
        raise BadParameter(f"columns must be among those of the input, got {unknown[0]!r}.")
    if like.text_column not in columns:
        raise BadParameter(f"columns must include the text column {like.text_column!r}.")


def _check_target(path: Path, like: Table, overwrite: bool) -> None:
    folder = Path(os.path.realpath(path)).parent
    if not folder.is_dir():
        raise BadTable(
            f"{str(path)!r} cannot be written: its folder {str(path.parent)!r} does not exist. Make it first."
        )
    if not path.exists():
        return
    if path.is_dir():
        raise BadTable(f"{str(path)!r} is a directory. Name a file in it.")
    if like.path != STANDARD and path.samefile(like.path):
        raise BadTable(f"{str(path)!r} is both input and output. Name another output.")
    if not overwrite:
        raise BadTable(f"{str(path)!r} exists already. Pass --overwrite to replace it, or name another file.")
