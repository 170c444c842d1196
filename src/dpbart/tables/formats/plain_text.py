"""Plain text, one text per line, in files and on standard input and output."""

from __future__ import annotations

import codecs
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from dpbart.tables.batch import Batch, Rows
from dpbart.tables.formats.format import TEXT, Draft, Format, Source
from dpbart.tables.formats.lines import lines, numbered, row_batches

_NEWLINE = re.compile("\r\n|\r|\n")


class PlainText(Format):
    """A file of texts, cut at line feeds and nowhere else."""

    endings = (".txt",)
    texts_alone = True

    def columns(self, path: Path) -> tuple[str, ...]:
        return (TEXT,)

    def batches(self, path: Path, *, text_column: str, size: int) -> Iterator[Rows]:
        return row_batches(numbered(path, _rows(path)), text_column, size)

    def draft(self, source: Source) -> Draft:
        return Draft(_Sink)


class StandardStream(PlainText):
    """Standard input and output. Bytes that are not UTF-8 become U+FFFD: a stream must not end in the middle."""

    def batches(self, path: Path, *, text_column: str, size: int) -> Iterator[Rows]:
        return row_batches(_standard_input(), text_column, size)


class _Sink:
    """Writes the texts, and no other column. A newline inside a text becomes a space."""

    def __init__(self, handle: BinaryIO) -> None:
        self._handle = handle

    def write(self, batch: Batch) -> None:
        ended = [_NEWLINE.sub(" ", text) + "\n" for text in batch.texts()]
        self._handle.write("".join(ended).encode(errors="replace"))
        self._handle.flush()  # the reader of a pipe waits for it

    def close(self) -> None: ...


def _rows(path: Path) -> Iterator[dict[str, object]]:
    for line in lines(path, newline="\n"):
        yield {TEXT: _without_end(line)}


def _standard_input() -> Iterator[dict[str, object]]:
    for number, raw in enumerate(sys.stdin.buffer):
        line = raw.removeprefix(codecs.BOM_UTF8) if number == 0 else raw
        yield {TEXT: _without_end(line.decode(errors="replace"))}


def _without_end(line: str) -> str:
    return line.removesuffix("\n").removesuffix("\r")
