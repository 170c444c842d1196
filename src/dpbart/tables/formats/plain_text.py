"""Plain text, one text per line or one text per file, in files and on standard input and output."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from typing import BinaryIO

from dpbart.tables.batch import Batch, Rows
from dpbart.tables.encoding import REPLACE, Encoder
from dpbart.tables.file import File
from dpbart.tables.formats.format import TEXT, Draft, Format, Source
from dpbart.tables.formats.lines import lines, numbered, row_batches, whole_text, without_end

_NEWLINE = re.compile("\r\n|\r|\n")


class PlainText(Format):
    """A file of texts, cut at line feeds and nowhere else."""

    endings = (".txt",)
    texts_alone = True
    reading: str | None = "one text per line. To rewrite it as one text, pass --document"

    def columns(self, file: File, named: Sequence[str] = ()) -> tuple[str, ...]:
        return (TEXT,)

    def batches(self, file: File, *, text_columns: tuple[str, ...], size: int) -> Iterator[Rows]:
        return row_batches(numbered(file, _rows(file)), text_columns, size)

    def draft(self, source: Source) -> Draft:
        return Draft(partial(_Sink, encoding=source.encoding))


class StandardStream(PlainText):
    """Standard input and output. Bytes that are not UTF-8 become U+FFFD: a stream must not end in the middle."""

    reading = None

    def batches(self, file: File, *, text_columns: tuple[str, ...], size: int) -> Iterator[Rows]:
        return row_batches(_standard_input(file), text_columns, size)


class Document(PlainText):
    """A file that is one text, with its line ends."""

    reading = None

    def batches(self, file: File, *, text_columns: tuple[str, ...], size: int) -> Iterator[Rows]:
        return row_batches(numbered(file, _document(file)), text_columns, size)

    def draft(self, source: Source) -> Draft:
        return Draft(partial(_Sink, encoding=source.encoding, within="\n"))


def _document(file: File) -> Iterator[dict[str, object]]:
    yield {TEXT: whole_text(file)}


class _Sink:
    """Writes the texts, and no other column. A newline inside a text becomes a space, unless a text is a file."""

    def __init__(self, handle: BinaryIO, encoding: str, within: str = " ") -> None:
        self._encoder = Encoder(handle, encoding, REPLACE)
        self._within = within

    def write(self, batch: Batch) -> None:
        self._encoder.write("".join(_NEWLINE.sub(self._within, text) + "\n" for text in batch.texts()))

    def close(self) -> None: ...


def _rows(file: File) -> Iterator[dict[str, object]]:
    for line in lines(file, newline="\n"):
        yield {TEXT: without_end(line)}


def _standard_input(file: File) -> Iterator[dict[str, object]]:
    with file.open_text(newline="\n", errors="replace") as handle:
        for line in handle:
            yield {TEXT: without_end(line)}
