"""A folder of .txt files: one document per file. The names of the files are released as they are."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import BinaryIO

from dpbart.errors import BadTable
from dpbart.tables.batch import Batch, Rows, is_unicode
from dpbart.tables.encoding import REPLACE, Encoder
from dpbart.tables.file import File
from dpbart.tables.formats.format import TEXT, Draft, Format, Sink, Source
from dpbart.tables.formats.lines import numbered, row_batches, whole_text

FILE = "file"  # the column with the names of the files
_ENDING = ".txt"


class Folder(Format):
    """A folder with .txt files and nothing else. Hidden files are not read."""

    endings = ("/",)
    named = True
    compressible = False

    def columns(self, file: File, named: Sequence[str] = ()) -> tuple[str, ...]:
        return (FILE, TEXT)

    def batches(self, file: File, *, text_columns: tuple[str, ...], size: int) -> Iterator[Rows]:
        rows = numbered(file, _rows(file), place="at file {} in the order of their names")
        return row_batches(rows, text_columns, size)

    def draft(self, source: Source) -> Draft:
        if source.ending in self.endings and FILE not in source.columns:
            raise BadTable(
                f"the files of a folder need their names, and the column {FILE!r} is left out. Name an output file "
                "with an ending, such as .csv or .jsonl, or keep the column."
            )
        if source.ending not in self.endings:
            raise BadTable(
                "only a folder of .txt files can be written as a folder. "
                "Name an output file with an ending, such as .csv or .jsonl."
            )
        return Draft(_no_file, folder=partial(_Sink, encoding=source.encoding))


class _Sink:
    """Writes one file per row."""

    def __init__(self, folder: Path, encoding: str) -> None:
        self._folder = folder
        self._encoding = encoding

    def write(self, batch: Batch) -> None:
        for name, text in zip(batch.column(FILE), batch.texts(), strict=True):
            with (self._folder / str(name)).open("xb") as handle:
                Encoder(handle, self._encoding, REPLACE).write(f"{text}\n")
                handle.flush()
                os.fsync(handle.fileno())

    def close(self) -> None: ...


def names(folder: Path) -> list[str]:
    """The names of the files in a folder of documents, in order.

    Raises:
        BadTable: If the folder has anything else, or nothing.
    """
    entries = [entry for entry in os.scandir(folder) if not entry.name.startswith(".")]
    others = sum(1 for entry in entries if not (entry.name.lower().endswith(_ENDING) and entry.is_file()))
    if not entries:
        raise BadTable(f"{str(folder)!r} is a directory without .txt files. Name a file in it.")
    if others:
        raise BadTable(
            f"{str(folder)!r} is a directory, and {others} of its {len(entries)} entries are not .txt files. "
            "Move them to another directory, or name a file in it."
        )
    if not all(is_unicode(entry.name) for entry in entries):
        raise BadTable(f"{str(folder)!r} has a file whose name is not UTF-8. Rename it.")
    return sorted(entry.name for entry in entries)


def _rows(file: File) -> Iterator[dict[str, object]]:
    for name in names(file.path):
        yield {FILE: name, TEXT: whole_text(replace(file, path=file.path / name).detected())}


def _no_file(_: BinaryIO) -> Sink:
    raise BadTable("a folder cannot be written to standard output. Name an output.")
