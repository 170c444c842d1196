"""A file to read: where its bytes come from, and how they become text."""

from __future__ import annotations

import io
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, TextIO

from dpbart.tables.bounds import ANY, Bounds
from dpbart.tables.compression import decompressed
from dpbart.tables.encoding import DEFER, marked, shown
from dpbart.tables.faults import Fault
from dpbart.tables.standard import STANDARD, StandardInput


@dataclass(frozen=True)
class File:
    """A file or standard input.

    Attributes:
        path: The file, or "-".
        codec: Arrow's name of its compression, if it is compressed.
        encoding: What the user or a byte order mark says; None means UTF-8.
        delimiter: What the user says; None means that the header line shows it.
        standard: Standard input, if that is the file.
        bounds: What reading it may cost.
    """

    path: Path
    codec: str | None = None
    encoding: str | None = None
    delimiter: str | None = None
    standard: StandardInput | None = None
    bounds: Bounds = ANY

    @property
    def name(self) -> str:
        """The file's name in messages."""
        return "standard input" if self.path == STANDARD else repr(str(self.path))

    def open(self) -> BinaryIO:
        """Its bytes, decompressed."""
        raw = self.path.open("rb") if self.standard is None else self.standard.open()
        return self.bounds.watched(raw if self.codec is None else decompressed(raw, self.codec), self.name)

    def open_text(self, *, newline: str, errors: str = DEFER) -> TextIO:
        """Its text, without a byte order mark; `newline` is as in `open`."""
        encoding = "utf-8-sig" if self.encoding in (None, "utf-8") else self.encoding
        return io.TextIOWrapper(self.open(), encoding=encoding, errors=errors, newline=newline)

    def detected(self) -> File:
        """The same file with the encoding of its byte order mark, if it has one.

        Raises:
            Fault: If the user has given another encoding, or the compressed data is damaged.
        """
        with self.open() as handle:
            mark = marked(handle.read(3))
        if mark is None:
            return self
        if self.encoding not in (None, mark, mark.removesuffix("-sig")):
            raise Fault(f"it begins with a mark of {shown(mark)}, but --encoding is {self.encoding}. Leave it out")
        return replace(self, encoding=mark)

    def seekable(self) -> Path | BinaryIO:
        """The file for readers that jump back and forth. Standard input is read into memory."""
        return self.path if self.standard is None else self.standard.whole()

    def open_seekable(self) -> BinaryIO:
        """The same, opened."""
        source = self.seekable()
        return self.bounds.watched(source.open("rb") if isinstance(source, Path) else source, self.name)
