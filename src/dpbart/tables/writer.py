"""Write tables: the whole file, or nothing.

Batches go to a hidden file next to the target, which takes the target's name when everything is written. After an
error the hidden file is deleted and the target is unchanged. No half-written file ever has the target's name.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol

import pyarrow as pa

from dpbart.errors import BadParameter, BadTable
from dpbart.files import digest_of, partial_of, put_in_place, reason
from dpbart.tables.batch import Batch
from dpbart.tables.formats.format import Draft, Sink, Source, Visitor
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
    """Write batches of a table to a file or to standard output. If the format requires it, read the input first.

    The arguments and errors are those of `plan_writer`. In addition, rows that the output cannot hold are refused here.
    """
    planned = plan_writer(path, like=like, columns=columns, overwrite=overwrite)
    if planned.visitors:
        like.visit(*planned.visitors)
    return planned.open()


def plan_writer(path: Path | str, *, like: Table, columns: Collection[str], overwrite: bool = False) -> PlannedWriter:
    """Check everything about an output that can be checked without reading the input.

    A caller then passes the visitors of the plan to `Table.visit`, with visitors of its own, and opens the plan.
    That refuses every row that the format cannot hold (JSON keys that differ, a NUL) before the first batch. Values
    from CSV stay strings. A .txt file and standard output get only the texts, one per line; a newline inside a text
    becomes a space. Standard output is flushed after each batch, and the caller handles a broken pipe.

    Args:
        path: A file, or "-" for standard output.
        like: The table that the batches come from.
        columns: The columns to write, including the text column. They keep the order of the table.
        overwrite: Whether an existing file may be replaced.

    Raises:
        BadParameter: If columns has a name that the table lacks, or lacks the text column.
        BadTable: If the file exists, is the input, has no folder, or cannot hold the columns.
    """
    path = Path(path)
    _check_columns(columns, like)
    format = format_of(path)
    if path != STANDARD:
        _check_target(path, like, overwrite)
    return PlannedWriter(path, format.draft(_source(like, columns)), frozenset(like.columns) - frozenset(columns))


@dataclass(frozen=True)
class PlannedWriter:
    """A checked output, to be opened after its visitors have seen the whole input."""

    path: Path
    draft: Draft
    dropped: frozenset[str]  # columns of the input

    @property
    def visitors(self) -> tuple[Visitor, ...]:
        """What must see the input, for `Table.visit`; empty for many pairs of formats."""
        return () if self.draft.see is None else (self._see,)

    def open(self) -> AbstractContextManager[Writer]:
        """The writer. The file has its name when the context ends without an error."""
        if self.path == STANDARD:
            return nullcontext(_StreamWriter(self.draft.sink(sys.stdout.buffer)))
        return _written(self.path, self.draft.sink, self.dropped)

    def _see(self, batch: Batch) -> None:
        if self.draft.see is not None:  # with empty texts: the output gets others
            self.draft.see(batch.with_texts([""] * len(batch)).without(self.dropped))


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
            return digest_of(self.partial_file)


@contextmanager
def _written(path: Path, make: Callable[[BinaryIO], Sink], dropped: frozenset[str]) -> Iterator[Writer]:
    target, partial_file = partial_of(path)
    with ExitStack() as cleanup:
        with _one_line(path):
            handle = partial_file.open("xb")
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


def _source(like: Table, columns: Collection[str]) -> Source:
    kept, schema = tuple(column for column in like.columns if column in columns), like.schema()
    types = None if schema is None else pa.schema([schema.field(column) for column in kept])
    plain = schema is not None and not like.format.typed
    return Source(like.name, like.format.endings[0], kept, types, plain)


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
