"""Tables out: all of a file, or nothing.

Batches go to a hidden neighbour of the target, which takes the target's name when all is written. After an error
the neighbour is gone and the target is what it was before; no half-written file ever stands under its name.
"""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO, Protocol

from dpbart.errors import BadParameter, BadTable
from dpbart.files import digest_of, put_in_place, reason
from dpbart.tables.batch import Batch, fits_json
from dpbart.tables.formats.lines import DELIMITERS
from dpbart.tables.formats.parquet import read_schema
from dpbart.tables.formats.sinks import Delimited, JsonLines, Parquet, Sink, Texts
from dpbart.tables.schema import schema_for
from dpbart.tables.table import STANDARD, Format, Table, format_of

_REHEARSED_AT_ONCE = 1024  # rows


class Writer(Protocol):
    """Takes the batches of a table, in order."""

    def write(self, batch: Batch) -> None: ...

    def finish(self) -> str | None:
        """Write what is left, and give the SHA-256 of the file, which has not got its name yet; None of a stream."""


def open_writer(
    path: Path | str, *, like: Table, columns: Collection[str], overwrite: bool = False
) -> AbstractContextManager[Writer]:
    """Write batches of a table to a file of the format its ending names, or to standard output.

    What can be refused is refused here, before the first batch: where the format may not hold every row of the
    input (JSON keys that differ, a NUL), the input is read once to see. From CSV, all values are strings.
    A .txt file and standard output get the texts alone, one a line, a newline inside a text made a space.
    Standard output is flushed at each batch; a broken pipe is the caller's to handle.

    Args:
        path: A file, or "-" for standard output.
        like: The table that the batches come from.
        columns: Those of its columns to write, the text column among them. They keep their order.
        overwrite: Whether an existing file may be replaced.

    Raises:
        BadParameter: If columns has a name that the table has not, or lacks the text column.
        BadTable: If the file exists, is the input, has no folder, or cannot hold the columns.
    """
    path = Path(path)
    _check_columns(columns, like)
    if path == STANDARD:
        return nullcontext(_StreamWriter(Texts(sys.stdout.buffer)))
    format = format_of(path)
    _check_target(path, like, overwrite)
    make = _sink(format, like, [column for column in like.columns if column in columns])
    return _written(path, make, dropped=frozenset(like.columns) - frozenset(columns))


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
        with _told(self.path):
            self.sink.write(batch.without(self.dropped))

    def finish(self) -> str:
        with _told(self.path):
            self.sink.close()
            self.handle.flush()
            return digest_of(self.partial_file)


@contextmanager
def _written(path: Path, make: Callable[[BinaryIO], Sink], dropped: frozenset[str]) -> Iterator[Writer]:
    target = Path(os.path.realpath(path))  # a link stays a link, to the new file
    partial_file = target.with_name(f".{target.name}.{secrets.token_hex(4)}.partial")
    with ExitStack() as cleanup:
        with _told(path):
            handle = partial_file.open("xb")
        cleanup.callback(partial_file.unlink, missing_ok=True)
        cleanup.callback(_quietly, handle.close)
        with _told(path):
            sink = make(handle)
        cleanup.callback(_quietly, sink.close)
        yield _FileWriter(path, partial_file, handle, sink, dropped)
        with _told(path):
            sink.close()
            handle.close()
            put_in_place(partial_file, target)  # before a job throws away the texts that it was written from


def _quietly(close: Callable[[], None]) -> None:
    # After an error there may be bytes left that cannot be written either; the first error is the one to tell.
    with suppress(Exception):
        close()


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """Tell an error of the file system in one line. The caller's own errors do not pass through here."""
    try:
        yield
    except OSError as error:
        raise BadTable(
            f"{str(path)!r} cannot be written: {reason(error)}. Nothing half-written was left behind."
        ) from None


def _sink(format: Format, like: Table, columns: list[str]) -> Callable[[BinaryIO], Sink]:
    if format == "txt":
        return Texts
    if format == "parquet":
        return partial(Parquet, schema=schema_for(like, columns))
    if like.format == "parquet":
        _check_types(like, columns, format)
    if format == "jsonl":
        return JsonLines
    make = partial(Delimited, columns=columns, delimiter=DELIMITERS[format], source=like.name)
    if like.format in ("jsonl", "parquet"):
        _rehearse(make, like, columns)
    return make


def _rehearse(make: Callable[[BinaryIO], Sink], like: Table, columns: list[str]) -> None:
    """Write the whole input to nowhere, to meet now what cannot be written. The texts are left out: others come."""
    dropped = frozenset(like.columns) - frozenset(columns)
    with open(os.devnull, "wb") as nowhere:
        sink = make(nowhere)
        for batch in like.batches(_REHEARSED_AT_ONCE):
            sink.write(batch.with_texts([""] * len(batch)).without(dropped))


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


def _check_types(like: Table, columns: list[str], format: Format) -> None:
    schema = read_schema(like.path, like.text_column)
    for field in (schema.field(column) for column in columns):
        if not fits_json(field.type):
            raise BadTable(
                f"column {field.name!r} has type {field.type}, which .{format} cannot hold. Write a .parquet file."
            )
