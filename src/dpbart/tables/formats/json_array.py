"""JSON: a file that is one array of objects, read object by object."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import BinaryIO, TextIO

from dpbart.tables.batch import Batch
from dpbart.tables.encoding import ESCAPE, Encoder
from dpbart.tables.faults import Fault
from dpbart.tables.file import File
from dpbart.tables.formats.json_values import DECODER, OfObjects, encoded, without_mark
from dpbart.tables.formats.lines import check_text

LONGEST_OBJECT = 2**27  # characters
_BLOCK = 2**16  # characters read at a time
_SPACE = re.compile("[ \t\r\n]*")
_LONGEST_TOKEN = 16  # characters: a literal or escape that the end of a block cuts begins at most this far before it


class _Sink:
    """Writes one object per line, each with the keys that it has."""

    def __init__(self, handle: BinaryIO, encoding: str) -> None:
        self._encoder = Encoder(handle, without_mark(encoding), ESCAPE)
        self._before = "[\n"  # what stands before the next object
        self._closed = False

    def write(self, batch: Batch) -> None:
        for row in batch.as_rows():
            self._encoder.write(self._before + encoded(row))
            self._before = ",\n"

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._encoder.write("[]\n" if self._before.startswith("[") else "\n]\n")


class JsonArray(OfObjects):
    """A file with one array of objects."""

    endings = (".json",)
    sink = _Sink

    def rows(self, file: File) -> Iterator[dict[str, object]]:
        return _rows(file)


def _rows(file: File) -> Iterator[dict[str, object]]:
    with file.open_text(newline="") as handle:
        text = _Text(handle, file.bounds.longest_of(LONGEST_OBJECT))
        if not text.next():
            return
        if text.take() != "[":
            raise Fault("it is not an array of objects. If each line is an object, name the file .jsonl")
        if text.next() == "]":
            text.take()
        else:
            yield from _objects(text, file)
        if text.next():
            raise Fault("something follows the array")


def _objects(text: _Text, file: File) -> Iterator[dict[str, object]]:
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


class _Text:
    """A JSON file, of which only the current object is held."""

    def __init__(self, handle: TextIO, longest: int) -> None:
        self._handle = handle
        self._longest = longest  # characters of an object
        self._held = ""
        self._place = 0
        self._ended = False

    def next(self) -> str:
        """The next character that is not space; empty at the end."""
        while True:
            self._place = _SPACE.match(self._held, self._place).end()  # type: ignore[union-attr]
            if self._place < len(self._held) or self._ended:
                return self._held[self._place : self._place + 1]
            self._read()

    def take(self) -> str:
        """The current character; then step over it."""
        self._place += 1
        return self._held[self._place - 1]

    def object(self) -> tuple[dict[str, object], str]:
        """The object that begins here, and its JSON."""
        while True:
            try:
                row, end = DECODER.raw_decode(self._held, self._place)
            except json.JSONDecodeError as error:
                broken = self._is_broken(error)
            except (ValueError, RecursionError):  # too many digits, or too deep
                broken = True
            else:
                self._check_length(end - self._place)
                source, self._place = self._held[self._place : end], end
                return row, source
            if broken:
                raise Fault("it is not JSON")
            self._read()

    def _is_broken(self, error: json.JSONDecodeError) -> bool:
        """Whether an object is wrong, and not only longer than what has been read of it."""
        cut = error.pos >= len(self._held) - _LONGEST_TOKEN or error.msg.startswith("Unterminated string")
        return self._ended or not cut

    def _check_length(self, characters: int) -> None:
        if characters > self._longest:
            raise Fault(f"an object longer than {self._longest} characters")

    def _read(self) -> None:
        self._held, self._place = self._held[self._place :], 0
        self._check_length(len(self._held))
        more = self._handle.read(max(_BLOCK, len(self._held)))  # twice as much: an object is parsed again each time
        self._held += more
        self._ended = not more
