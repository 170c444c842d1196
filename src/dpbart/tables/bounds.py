"""What reading a file may cost. A user's own file may be larger than memory; that of a stranger has limits."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import BinaryIO

from dpbart.errors import BadTable

_ROWS = 128


def _go_on() -> None: ...


@dataclass(frozen=True)
class Bounds:
    """Limits for one file.

    Attributes:
        most: Bytes that it may unpack to; None for any number.
        longest: Characters of one row; None for as many as its format allows.
        going: Called again and again while the file is read. It raises an error to stop.
    """

    most: int | None = None
    longest: int | None = None
    going: Callable[[], object] = _go_on

    def longest_of(self, usual: int) -> int:
        """The longest row, if a format allows so many characters."""
        return usual if self.longest is None else min(usual, self.longest)

    def rows_of(self, usual: int) -> int:
        """Rows that are held at once, if so many are usual: each of them may be as long as possible."""
        return usual if self.longest is None else min(usual, _ROWS)

    def check(self, unpacked: int, name: str, *, parts: int = 1) -> None:
        """Refuse a file that unpacks to so many bytes, if they are too many.

        Args:
            unpacked: bytes.
            name: of the file.
            parts: what is held in memory may unpack to one part in so many of what a file may.
        """
        self.going()
        if self.most is not None and unpacked > self.most // parts:
            raise BadTable(f"{name} unpacks to more than {self.most // parts:,} bytes. Split it into smaller files.")

    def watched(self, raw: BinaryIO, name: str) -> BinaryIO:
        """The same bytes, which end with an error where a limit is reached."""
        return raw if self == ANY else io.BufferedReader(_Watched(raw, self, name))


ANY = Bounds()


class _Watched(io.RawIOBase):
    def __init__(self, raw: BinaryIO, bounds: Bounds, name: str) -> None:
        self._raw, self._bounds, self._name = raw, bounds, name
        self._seen = 0  # bytes

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return self._raw.seekable()

    def seek(self, place: int, whence: int = io.SEEK_SET) -> int:
        return self._raw.seek(place, whence)

    def tell(self) -> int:
        return self._raw.tell()

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        block = self._raw.read(len(buffer))
        self._seen += len(block)
        self._bounds.check(self._seen, self._name)
        buffer[: len(block)] = block
        return len(block)

    def close(self) -> None:
        if not self.closed:
            self._raw.close()
        super().close()
