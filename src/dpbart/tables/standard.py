"""Standard input. It can be read only once, but a table looks at its first row before the run begins.

What is read while a table is opened is kept, so that it can be read again. Once the rows are read for good, nothing
is kept any more.
"""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import BinaryIO, cast

STANDARD = Path("-")


class StandardInput:
    """The bytes of standard input, from the first one on."""

    def __init__(self) -> None:
        self._kept = bytearray()
        self._keeping = True

    def open(self) -> BinaryIO:
        """A stream from the first byte on."""
        return io.BufferedReader(_Reader(self))

    def for_good(self) -> None:
        """Keep nothing that is read from now on: the next stream is the last one."""
        self._keeping = False

    def whole(self) -> io.BytesIO:
        """All of it, for formats that cannot be read from beginning to end. It is held in memory."""
        while self.read_at(len(self._kept), 1 << 20, keep=True):
            pass
        return io.BytesIO(self._kept)

    def read_at(self, position: int, size: int, *, keep: bool = False) -> bytes:
        """The next bytes at a position that was kept or comes next; at most `size`, and none at the end."""
        if position < len(self._kept):
            return bytes(self._kept[position : position + size])
        stream = cast(io.BufferedReader, sys.stdin.buffer)
        block = stream.read1(size)  # what is there now: the other end of a pipe may wait for an answer
        if self._keeping or keep:
            self._kept += block
        else:
            self._kept.clear()
        return block


class _Reader(io.RawIOBase):
    def __init__(self, source: StandardInput) -> None:
        self._source = source
        self._position = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        block = self._source.read_at(self._position, len(buffer))
        buffer[: len(block)] = block
        self._position += len(block)
        return len(block)
