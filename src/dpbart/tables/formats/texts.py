"""Plain text: one text per line, one text per file, or a folder of .txt files with one document each.

The names of the files in a folder are released as they are.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import BinaryIO

from dpbart.errors import BadTable
from dpbart.tables.batch import Batch, DictRows, holds
from dpbart.tables.formats.format import (
    TEXT,
    Draft,
    Format,
    Header,
    RowsToWrite,
    Sink,
    lines,
    numbered,
    row_batches,
    whole_text,
    without_end,
)
from dpbart.tables.streams import REPLACE, File, TextOutput

FILE = "file"  # the column of a folder with the names of the files
_ENDING = ".txt"
_NEWLINE = re.compile("\r\n|\r|\n")


class PlainText(Format):
    """A file of texts, cut at line feeds and nowhere else."""

    endings = (_ENDING,)
    texts_alone = True
    reading: str | None = "one text per line. To rewrite it as one text, pass --document"

    def header(self, file: File, *, text_columns: tuple[str, ...] = (), named: Sequence[str] = ()) -> Header:
        return Header.of_strings([TEXT])

    def batches(self, file: File, *, text_columns: tuple[str, ...], size: int) -> Iterator[DictRows]:
        rows: Iterator[dict[str, object]] = ({TEXT: without_end(line)} for line in lines(file, newline="\n"))
        return row_batches(numbered(file, rows), text_columns, size)

    def draft(self, source: RowsToWrite) -> Draft:
        return Draft(partial(_TextsSink, encoding=source.encoding))


class StandardStream(PlainText):
    """Standard input and output. Bytes that are not UTF-8 become U+FFFD: a stream must not end in the middle."""

    reading = None

    def batches(self, file: File, *, text_columns: tuple[str, ...], size: int) -> Iterator[DictRows]:
        return row_batches(_decoded_lines(file), text_columns, size)


class Document(PlainText):
    """A file that is one text, with its line ends."""

    reading = None

    def batches(self, file: File, *, text_columns: tuple[str, ...], size: int) -> Iterator[DictRows]:
        return row_batches(numbered(file, ({TEXT: whole_text(one)} for one in [file])), text_columns, size)

    def draft(self, source: RowsToWrite) -> Draft:
        return Draft(partial(_TextsSink, encoding=source.encoding, within="\n"))


class _TextsSink(Sink):
    """Writes the texts, and no other column. A newline inside a text becomes a space, unless a text is a file."""

    def __init__(self, handle: BinaryIO, encoding: str, within: str = " ") -> None:
        self._output = TextOutput(handle, encoding, REPLACE)
        self._within = within

    def write(self, batch: Batch) -> None:
        self._output.write("".join(_NEWLINE.sub(self._within, text) + "\n" for text in batch.texts()))


def _decoded_lines(file: File) -> Iterator[dict[str, object]]:
    with file.open_text(newline="\n", errors="replace") as handle:
        for line in handle:
            yield {TEXT: without_end(line)}


class Folder(Format):
    """A folder with .txt files and nothing else. Hidden files are not read."""

    endings = ("/",)
    named = True
    folder = True
    compressible = False

    def header(self, file: File, *, text_columns: tuple[str, ...] = (), named: Sequence[str] = ()) -> Header:
        return Header.of_strings([FILE, TEXT])

    def batches(self, file: File, *, text_columns: tuple[str, ...], size: int) -> Iterator[DictRows]:
        rows = numbered(file, _files_as_rows(file), place="at file {} in the order of their names")
        return row_batches(rows, text_columns, size)

    def draft(self, source: RowsToWrite) -> Draft:
        if source.ending in self.endings and FILE not in source.columns:
            raise BadTable(
                f"the files of a folder need their names, and the column {FILE!r} is left out. Name an output file "
                f"with an ending, such as .csv or .jsonl, or pass --keep-column {FILE} to release the names."
            )
        if source.ending not in self.endings:
            raise BadTable(
                "only a folder of .txt files can be written as a folder. "
                "Name an output file with an ending, such as .csv or .jsonl."
            )
        return Draft(_no_file, folder=partial(_FolderSink, encoding=source.encoding))


class _FolderSink(Sink):
    """Writes one file per row."""

    def __init__(self, folder: Path, encoding: str) -> None:
        self._folder, self._encoding = folder, encoding

    def write(self, batch: Batch) -> None:
        for name, text in zip(batch.column(FILE), batch.texts(), strict=True):
            with (self._folder / str(name)).open("xb") as handle:
                TextOutput(handle, self._encoding, REPLACE).write(f"{text}\n")
                handle.flush()
                os.fsync(handle.fileno())


def _names(folder: Path) -> list[str]:
    """The names of the files in a folder of documents, in order. Refuses a folder with anything else, or nothing."""
    entries = [entry for entry in os.scandir(folder) if not entry.name.startswith(".")]
    others = sum(1 for entry in entries if not (entry.name.lower().endswith(_ENDING) and entry.is_file()))
    if not entries:
        raise BadTable(f"{str(folder)!r} is a directory without .txt files. Name a file in it.")
    if others:
        raise BadTable(
            f"{str(folder)!r} is a directory, and {others} of its {len(entries)} entries are not .txt files. "
            "Move them to another directory, or name a file in it."
        )
    if not all(holds(entry.name) for entry in entries):
        raise BadTable(f"{str(folder)!r} has a file whose name is not UTF-8. Rename it.")
    return sorted(entry.name for entry in entries)


def _files_as_rows(file: File) -> Iterator[dict[str, object]]:
    for name in _names(file.path):
        yield {FILE: name, TEXT: whole_text(replace(file, path=file.path / name).detected())}


def _no_file(_: BinaryIO) -> Sink:
    raise BadTable("a folder cannot be written to standard output. Name an output.")
