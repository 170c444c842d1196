"""JSON: files with one object per line, and files that are one array of objects, read object by object.

The keys of the first object are the columns. Each later row may have keys of its own.
"""

from __future__ import annotations

import json
import re
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import BinaryIO, TextIO

from dpbart.tables.batch import Batch, DictRows, holds
from dpbart.tables.formats.format import (
    Draft,
    Format,
    Header,
    RowsToWrite,
    Sink,
    check_text,
    lines,
    numbered,
    row_batches,
    up_to_blank_end,
)
from dpbart.tables.paths import Row, has, spread, value_at
from dpbart.tables.streams import ESCAPE, Fault, File, TextOutput

LONGEST_OBJECT = 2**27  # characters
_BLOCK = 2**16  # characters read at a time
_SPACE = re.compile("[ \t\r\n]*")
_LONGEST_TOKEN = 16  # characters: how far before the end of a block a token that it cuts can begin


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    row = dict(pairs)
    if len(row) != len(pairs):
        raise Fault("a key that appears twice")
    if not all(holds(key) for key in row):
        raise Fault("half a surrogate pair in a key")
    return row


def _finite(literal: str) -> float:
    number = float(literal)
    if number in (float("inf"), float("-inf")):
        raise Fault("a number too large to keep")
    return number


_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_float=_finite)
_NAMES = {bool: "a boolean", int: "a number", float: "a number", list: "a list", dict: "an object"}


def _checked(row: dict[str, object], text_columns: tuple[str, ...]) -> dict[str, object]:
    """Refuse a row that lacks a text or null in one of its text columns."""
    for column in text_columns:
        if not has(row, column):
            raise Fault(f"it has no column {column!r}")
        text = value_at(row, column)
        if text is not None and not isinstance(text, str):
            raise Fault(f"column {column!r} must be a string or null, got {_NAMES[type(text)]}")
        if text and not holds(text):
            raise Fault(f"half a surrogate pair in column {column!r}")
    return row


def _columns(row: Row, named: Sequence[str]) -> tuple[str, ...]:
    """The columns of a row. A named one must occur once: a key with a dot can look like a key in an object."""
    columns = tuple(spread(row, named))
    for column in named:
        if column in columns and not has(row, column):
            raise Fault(f"column {column!r} is there twice, or is a key with a dot inside an object. Rename the key")
    return columns


class _Objects(Format):
    """A format with one object per row."""

    further_keys = named = True
    sink: Callable[..., Sink]  # takes a handle and an encoding

    @abstractmethod
    def rows(self, file: File) -> Iterator[dict[str, object]]:
        """The objects of a file, in order."""

    def header(self, file: File, *, text_columns: tuple[str, ...] = (), named: Sequence[str] = ()) -> Header | None:
        first = next(numbered(file, (_columns(row, (*text_columns, *named)) for row in self.rows(file))), None)
        return None if first is None else Header(first, schema=None)

    def batches(self, file: File, *, text_columns: tuple[str, ...], size: int) -> Iterator[DictRows]:
        rows = (_checked(row, text_columns) for row in self.rows(file))
        return row_batches(numbered(file, rows), text_columns, size)

    def draft(self, source: RowsToWrite) -> Draft:
        source.check_types()
        return Draft(partial(self.sink, encoding=source.encoding))


class _ObjectLinesSink(Sink):
    """Writes one object per line, each with the keys that it has."""

    def __init__(self, handle: BinaryIO, encoding: str) -> None:
        # A JSON file has no UTF-8 byte order mark (RFC 8259, section 8.1). Half a surrogate pair and characters that
        # the encoding lacks are escaped.
        self._output = TextOutput(handle, encoding.removesuffix("-sig"), ESCAPE)

    def write(self, batch: Batch) -> None:
        self._output.write("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in batch.as_rows()))


class JsonLines(_Objects):
    """A file with one object per line."""

    endings = (".jsonl", ".ndjson")
    sink = _ObjectLinesSink

    def rows(self, file: File) -> Iterator[dict[str, object]]:
        for line in up_to_blank_end(line.strip(" \t\r\n") for line in lines(file, newline="\n")):
            try:
                row = _DECODER.decode(line)
            except (ValueError, RecursionError):  # ValueError: also an integer with more digits than Python reads
                raise Fault("it is not JSON") from None
            if not isinstance(row, dict):
                raise Fault("it is not a JSON object")
            yield row


class _ObjectArraySink(_ObjectLinesSink):
    """Writes one object per line, with brackets around them and commas between them."""

    _before = "[\n"  # what stands before the next object
    _closed = False

    def write(self, batch: Batch) -> None:
        for row in batch.as_rows():
            self._output.write(self._before + json.dumps(row, ensure_ascii=False))
            self._before = ",\n"

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._output.write("[]\n" if self._before.startswith("[") else "\n]\n")


class JsonArray(_Objects):
    """A file with one array of objects."""

    endings = (".json",)
    sink = _ObjectArraySink

    def rows(self, file: File) -> Iterator[dict[str, object]]:
        with file.open_text(newline="") as handle:
            text = _JsonText(handle, file.bounds.longest_of(LONGEST_OBJECT))
            if not text.next():
                return
            if text.take() != "[":
                raise Fault("it is not an array of objects. If each line is an object, name the file .jsonl")
            if text.next() == "]":
                text.take()
            else:
                yield from _items(text, file)
            if text.next():
                raise Fault("something follows the array")


def _items(text: _JsonText, file: File) -> Iterator[dict[str, object]]:
    while True:
        if text.next() != "{":
            raise Fault("it is not a JSON object")
        row, source = text.object()
        check_text(source, file)
        yield row
        after = text.next() and text.take()
        if after == "]":
            return
        if after != ",":
            raise Fault("a comma or the end of the array is missing before it")


class _JsonText:
    """The text of a JSON file. Only the current object is held in memory."""

    def __init__(self, handle: TextIO, longest: int) -> None:
        self._handle = handle
        self._longest = longest  # characters of an object
        self._buffer, self._position, self._ended = "", 0, False

    def next(self) -> str:
        """The next character that is not space; empty at the end."""
        while True:
            self._position = _SPACE.match(self._buffer, self._position).end()  # type: ignore[union-attr]
            if self._position < len(self._buffer) or self._ended:
                return self._buffer[self._position : self._position + 1]
            self._read()

    def take(self) -> str:
        """The current character; then step over it."""
        self._position += 1
        return self._buffer[self._position - 1]

    def object(self) -> tuple[dict[str, object], str]:
        """The object that begins here, and its JSON."""
        while True:
            try:
                row, end = _DECODER.raw_decode(self._buffer, self._position)
            except json.JSONDecodeError as error:  # invalid, or just longer than what was read so far
                cut = error.pos >= len(self._buffer) - _LONGEST_TOKEN or error.msg.startswith("Unterminated string")
                broken = self._ended or not cut
            except (ValueError, RecursionError):  # too many digits, or too deep
                broken = True
            else:
                self._check_length(end - self._position)
                source, self._position = self._buffer[self._position : end], end
                return row, source
            if broken:
                raise Fault("it is not JSON")
            self._read()

    def _check_length(self, characters: int) -> None:
        if characters > self._longest:
            raise Fault(f"an object longer than {self._longest} characters")

    def _read(self) -> None:
        self._buffer, self._position = self._buffer[self._position :], 0
        self._check_length(len(self._buffer))
        more = self._handle.read(max(_BLOCK, len(self._buffer)))  # twice as much: an object is parsed again each time
        self._buffer += more
        self._ended = not more
