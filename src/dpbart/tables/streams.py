"""The bytes of a file: where they come from, what reading them may cost, compression and encoding.

The streams of a `File` are layers: its bytes, decompressed, and checked against limits. A table looks at the beginning
of its file first. `KeptFile` and `StandardInput` can be read from the beginning again, until `last_time` is called.
"""

from __future__ import annotations

import codecs
import io
import json
import os
import sys
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO, TextIO, cast

import pyarrow as pa

from dpbart.errors import BadTable

STANDARD = Path("-")
CODECS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}  # ending of a file: Arrow's name of its codec

# Error handlers of encodings: for bytes that cannot be decoded, and characters that cannot be encoded
DEFER = "dpbart-defer"  # reading: half a surrogate pair stands for the bytes
REPLACE = "replace"  # writing: a question mark
ESCAPE = "dpbart-escape"  # writing JSON: an escape sequence

_MARKS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_ROWS = 128  # read at a time from a file whose rows have a maximum length


class Fault(Exception):
    """Why the next row cannot be read, without quoting it. `numbered` adds the file and the number of the row."""


class KeptFile:
    """A file that stays open from the first look at it until its rows are read, so that looking opens it once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._close = weakref.finalize(self, os.close, self._descriptor)  # for a table whose rows are never read
        self._last = False

    def open(self) -> BinaryIO:
        """A stream from the first byte on. A stream that was opened before must not be read any more."""
        if self._descriptor is None:
            return self._path.open("rb")
        os.lseek(self._descriptor, 0, os.SEEK_SET)
        if not self._last:
            return os.fdopen(os.dup(self._descriptor), "rb")
        descriptor, self._descriptor = self._descriptor, None
        self._close.detach()
        return os.fdopen(descriptor, "rb")

    def last_time(self) -> None:
        """Give the open file away with the next stream. Later streams open the file again."""
        self._last = True


class StandardInput:
    """Standard input. It can be read only once, so what is read before `last_time` is kept in memory."""

    def __init__(self) -> None:
        self._kept = bytearray()
        self._keeping = True

    def open(self) -> BinaryIO:
        """A stream from the first byte on."""
        position = 0

        def next_block(size: int) -> bytes:
            nonlocal position
            block = self.read_at(position, size)
            position += len(block)
            return block

        return io.BufferedReader(_Layer(next_block))

    def last_time(self) -> None:
        """Stop keeping what is read: the next stream is the last one."""
        self._keeping = False

    def whole(self) -> io.BytesIO:
        """All bytes, in memory, for formats that cannot be read from beginning to end."""
        while self.read_at(len(self._kept), 1 << 20, keep=True):
            pass
        return io.BytesIO(self._kept)

    def read_at(self, position: int, size: int, *, keep: bool = False) -> bytes:
        """At most `size` bytes from a position that was kept or comes next; none at the end."""
        if position < len(self._kept):
            return bytes(self._kept[position : position + size])
        stream = cast(io.BufferedReader, sys.stdin.buffer)
        block = stream.read1(size)  # only what is there now: the other end of a pipe may wait for an answer
        if self._keeping or keep:
            self._kept += block
        else:
            self._kept.clear()
        return block


class _Layer(io.RawIOBase):
    """A stream whose bytes come from a function, at most as many as it asks for. Closing it closes the one below."""

    def __init__(self, next_block: Callable[[int], bytes], below: BinaryIO | None = None) -> None:
        self._next_block, self._below = next_block, below

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        block = self._next_block(len(buffer))
        buffer[: len(block)] = block
        return len(block)

    def close(self) -> None:
        if not self.closed and self._below is not None:
            self._below.close()
        super().close()


def _decompressed(below: BinaryIO, codec: str) -> BinaryIO:
    """The decompressed bytes. Arrow's codecs notice a file that was cut off, which others do not."""
    stream = pa.CompressedInputStream(pa.PythonFile(below, mode="r"), codec)

    def next_block(size: int) -> bytes:
        try:
            block: bytes | None = stream.read(size)
        except (OSError, pa.ArrowException):
            block = None
        if block is None:
            raise Fault("its compressed data is damaged or cut off. Copy the file again")
        return block

    return io.BufferedReader(_Layer(next_block, below))


class _BoundedLayer(_Layer):
    def __init__(self, below: BinaryIO, bounds: FileBounds, name: str) -> None:
        super().__init__(self._checked, below)
        self._raw, self._bounds, self._name = below, bounds, name
        self._seen = 0  # bytes
        self.seekable, self.seek, self.tell = below.seekable, below.seek, below.tell  # type: ignore[method-assign]

    def _checked(self, size: int) -> bytes:
        block = self._raw.read(size)
        self._seen += len(block)
        self._bounds.check(self._seen, self._name)
        return block


def _go_on() -> None: ...


@dataclass(frozen=True)
class FileBounds:
    """What reading a file may cost. A user's own file may be larger than memory; an uploaded one has limits."""

    most: int | None = None  # bytes that it may unpack to
    longest: int | None = None  # characters of one row; None for as many as its format allows
    going: Callable[[], object] = _go_on  # called repeatedly while the file is read; it raises an error to stop

    def longest_of(self, usual: int) -> int:
        """Characters of the longest row, in a format that allows `usual`."""
        return usual if self.longest is None else min(usual, self.longest)

    def rows_of(self, usual: int) -> int:
        """Rows to read at a time: `usual`, but at most 128 if rows are limited in length."""
        return usual if self.longest is None else min(usual, _ROWS)

    def check(self, unpacked: int, name: str, *, parts: int = 1) -> None:
        """Refuse a file that unpacks to too many bytes. A format that holds them in memory divides the limit."""
        self.going()
        if self.most is not None and unpacked > self.most // parts:
            raise BadTable(f"{name} unpacks to more than {self.most // parts:,} bytes. Split it into smaller files.")

    def watched(self, raw: BinaryIO, name: str) -> BinaryIO:
        """The same stream, which raises an error once it exceeds the limits."""
        return raw if self == ANY else io.BufferedReader(_BoundedLayer(raw, self, name))


ANY = FileBounds()


@dataclass(frozen=True)
class File:
    """A file or standard input."""

    path: Path  # or "-"
    codec: str | None = None  # Arrow's name of its compression
    encoding: str | None = None  # what the user or a byte order mark says, never the content; None means UTF-8
    delimiter: str | None = None  # what the user says; None means that the header line shows it
    bounds: FileBounds = ANY
    sheet: str | None = None  # of a workbook, by name or number; None means the only one that has cells
    # Where its bytes come from, if its beginning is read several times; None opens the path each time
    source: KeptFile | StandardInput | None = field(default=None, compare=False, repr=False)

    @property
    def name(self) -> str:
        """The file's name in messages."""
        return "standard input" if self.path == STANDARD else repr(str(self.path))

    def open(self) -> BinaryIO:
        """Its bytes, decompressed."""
        raw = self._open_raw()
        if self.codec is not None:
            raw = _decompressed(raw, self.codec)
        return self.bounds.watched(raw, self.name)

    def open_text(self, *, newline: str, errors: str = DEFER) -> TextIO:
        """Its text, without a byte order mark; `newline` is as in `open`."""
        encoding = "utf-8-sig" if self.encoding in (None, "utf-8") else self.encoding
        return io.TextIOWrapper(self.open(), encoding=encoding, errors=errors, newline=newline)

    def open_seekable(self) -> BinaryIO:
        """Its bytes, for a reader that jumps back and forth. Standard input is read into memory."""
        return self.source.whole() if isinstance(self.source, StandardInput) else self._open_raw()

    def detected(self) -> File:
        """The same file with the encoding of its byte order mark, if it has one.

        Raises:
            Fault: If the user has given another encoding, or the compressed data is damaged.
        """
        with self.open() as handle:
            first = handle.read(3)
        mark = next((encoding for mark, encoding in _MARKS.items() if first.startswith(mark)), None)
        if mark is None:
            return self
        if self.encoding not in (None, mark, mark.removesuffix("-sig")):
            raise Fault(f"it begins with a mark of {shown(mark)}, but --encoding is {self.encoding}. Leave it out")
        return replace(self, encoding=mark)

    def _open_raw(self) -> BinaryIO:
        return self.path.open("rb") if self.source is None else self.source.open()


def compressor(handle: BinaryIO, codec: str) -> BinaryIO:
    """A stream that compresses what is written. Closing it writes the end and leaves the file below open."""
    return cast(BinaryIO, pa.CompressedOutputStream(pa.PythonFile(_Unclosed(handle), mode="w"), codec))


class _Unclosed:
    """A handle that Arrow cannot close: the writer still has to sync it."""

    closed = False

    def __init__(self, handle: BinaryIO) -> None:
        self.write, self.flush = handle.write, handle.flush

    def close(self) -> None:
        self.closed = True


class TextOutput:
    """Writes strings to an open file. A byte order mark, if the encoding has one, is written once, at the start."""

    def __init__(self, handle: BinaryIO, encoding: str, errors: str) -> None:
        self._handle = handle
        self._encoder = codecs.getincrementalencoder(encoding)(errors)

    def write(self, text: str) -> None:
        self._handle.write(self._encoder.encode(text))


def shown(encoding: str) -> str:
    """The name of an encoding in messages.

    >>> shown("utf-8-sig"), shown("cp1252")
    ('UTF-8', 'cp1252')
    """
    name = encoding.removesuffix("-sig")
    return name.upper() if name.startswith("utf") else name


def _deferred(error: UnicodeError) -> tuple[str, int]:
    # A strict decoder works in blocks, and would raise some rows too early. So bad bytes become half a surrogate pair,
    # which the check of their own row refuses.
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return "\udcff", error.end


def _escaped(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end


codecs.register_error(DEFER, _deferred)
codecs.register_error(ESCAPE, _escaped)
