"""Compressed files, read and written as streams. Arrow's codecs also notice a file that was cut off."""

from __future__ import annotations

import io
from typing import BinaryIO, cast

import pyarrow as pa

from dpbart.tables.faults import Fault

CODECS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}  # the ending of a file, and Arrow's name of its codec


def decompressed(raw: BinaryIO, codec: str) -> BinaryIO:
    """The content of a compressed stream. Reading raises a Fault where the stream is damaged or cut off."""
    return io.BufferedReader(_Decompressed(raw, codec))


class _Decompressed(io.RawIOBase):
    def __init__(self, raw: BinaryIO, codec: str) -> None:
        self._raw = raw
        self._stream = pa.CompressedInputStream(pa.PythonFile(raw, mode="r"), codec)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        try:
            block = self._stream.read(len(buffer))
        except (OSError, pa.ArrowException):
            block = None
        if block is None:
            raise Fault("its compressed data is damaged or cut off. Copy the file again")
        buffer[: len(block)] = block
        return len(block)

    def close(self) -> None:
        if not self.closed:
            self._raw.close()
        super().close()


class Compressor(io.RawIOBase):
    """Compresses what is written, and leaves the handle open. `close` writes the end of the stream."""

    def __init__(self, handle: BinaryIO, codec: str) -> None:
        self._stream = pa.CompressedOutputStream(pa.PythonFile(_KeptOpen(handle), mode="w"), codec)

    def writable(self) -> bool:
        return True

    def write(self, block: bytes) -> int:  # type: ignore[override]
        return int(self._stream.write(block))

    def flush(self) -> None:
        if not self._stream.closed:
            self._stream.flush()

    def close(self) -> None:
        self._stream.close()


class _KeptOpen:
    """A handle that Arrow cannot close: the writer still has to sync it."""

    def __init__(self, handle: BinaryIO) -> None:
        self._handle = handle
        self.closed = False

    def write(self, block: bytes) -> int:
        return self._handle.write(block)

    def flush(self) -> None:
        self._handle.flush()

    def close(self) -> None:
        self.closed = True


def compressor(handle: BinaryIO, codec: str) -> BinaryIO:
    """A stream that compresses into an open file."""
    return cast(BinaryIO, Compressor(handle, codec))
