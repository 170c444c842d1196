"""The `Format` protocol: what every table format offers to readers and writers of tables.

To add a format, write one file in this folder with a class derived from `Format`, and add one line to `registry.py`.
No code outside a format's own file may depend on which format it is: it asks the format instead.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, Protocol

import pyarrow as pa

from dpbart.errors import BadTable
from dpbart.tables.batch import Batch, as_cell, fits_json, is_unicode
from dpbart.tables.encoding import holds, shown
from dpbart.tables.file import File
from dpbart.tables.paths import Row, flat

TEXT = "text"  # the text column, unless another is named

Visitor = Callable[[Batch], object]  # what it returns is not used


class Sink(Protocol):
    """Turns batches into bytes. `close` writes the remaining bytes, leaves the handle open, and may be called twice."""

    def write(self, batch: Batch) -> None: ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class Draft:
    """An output that can be opened once its format has seen the input.

    Attributes:
        sink: Makes the sink for an open file.
        see: Takes every batch of the input, with empty texts, before `sink` is called. It refuses rows that the output
            cannot hold. None if the format need not see them.
        needs_all: Whether `see` must have taken the whole input before `sink` is called.
        folder: Makes the sink for a new folder, if the output is a folder.
    """

    sink: Callable[[BinaryIO], Sink]
    see: Visitor | None = None
    needs_all: bool = False
    folder: Callable[[Path], Sink] | None = None


@dataclass(frozen=True)
class Source:
    """What a format knows about the rows to write before it sees the first one.

    Attributes:
        name: The input's name in messages.
        ending: The ending of the input's format. A file of that format can hold every row.
        target: The ending of the output's format.
        columns: The columns to write, in order.
        schema: The types of these columns; None if only the rows show them.
        plain: Whether every value is a string that any format can hold.
        encoding: The encoding of a text file; that of the input, so every value of a text file fits it.
        delimiter: The delimiter of a delimited file, if the input or the user says one.
    """

    name: str
    ending: str
    target: str
    columns: tuple[str, ...]
    schema: pa.Schema | None
    plain: bool
    encoding: str = "utf-8"
    delimiter: str | None = None

    def bared(self) -> Source:
        """The same rows without metadata."""
        return self if self.schema is None else replace(self, schema=self.schema.remove_metadata())

    def check_types(self) -> None:
        """Refuse the first column with values that `Batch.as_rows` would lose, by its name and type."""
        for field in self.schema or ():
            if not fits_json(field.type):
                raise self._refusal(f"column {field.name!r} has type {field.type}")

    def cells(self, row: Row, number: int) -> list[str]:
        """The values of a row as strings, one for each column. Refuses other keys, and half a surrogate pair."""
        pairs = list(flat(row, self.columns))
        values = dict(pairs)
        if len(pairs) != len(self.columns) or any(column not in values for column in self.columns):
            raise self.refusal(number, "other keys than row 1")
        cells = [as_cell(values[column]) for column in self.columns]
        if not is_unicode("".join(cells)):
            raise self.refusal(number, "half a surrogate pair")
        return cells

    def check_encoding(self, cells: Iterable[str], number: int | None = None) -> None:
        """Refuse the values of a row, or the names of columns, that the encoding of the output lacks."""
        if holds("".join(cells), self.encoding):
            return
        where = f"{self.name} has a column" if number is None else f"{self.name} row {number} has a character"
        raise BadTable(f"{where} that {shown(self.encoding)} cannot hold. Write a .jsonl file, or drop --encoding.")

    def refusal(self, number: int, what: str) -> BadTable:
        """The error for a row that has something the output cannot hold. It gives the number, and no content."""
        return self._refusal(f"{self.name} row {number} has {what}")

    def _refusal(self, fact: str) -> BadTable:
        return BadTable(f"{fact}, which {self.target} cannot hold. Write a {self.ending} file.")


class Format(Protocol):
    """Reads and writes one kind of file. The defaults are those of a format that holds nothing but plain strings.

    Attributes:
        endings: The file endings, in lower case. Messages call the format by the first one.
        typed: Whether every column has an Arrow type, and batches keep it.
        named: Whether the file itself says the names of its columns. The first line of a file may be a row instead.
        further_keys: Whether a row may have keys that the first row lacks.
        texts_alone: Whether a file holds the texts and no other column.
        compressible: Whether a file may be compressed as a whole, and is text.
        reading: How a file is read, if users may expect something else; a run says it.
    """

    endings: tuple[str, ...]
    typed: bool = False
    named: bool = False
    further_keys: bool = False
    texts_alone: bool = False
    compressible: bool = True
    reading: str | None = None

    @abstractmethod
    def columns(self, file: File, named: Sequence[str] = ()) -> tuple[str, ...] | None:
        """The names of the columns, in order; None if the file is empty.

        An object inside a row is one column, unless one of the named columns is inside it, such as "note.text". Then
        each of its keys is a column.
        """

    @abstractmethod
    def batches(self, file: File, *, text_column: str, size: int) -> Iterator[Batch]:
        """The rows in order, at most `size` at a time, read when they are needed.

        Raises:
            BadTable: At the first broken row, after the batches before it. Gives its number and none of its content.
        """

    @abstractmethod
    def draft(self, source: Source) -> Draft:
        """Plan to write some columns of an input.

        Raises:
            BadTable: If the format cannot hold the columns.
        """

    def schema(self, file: File, text_column: str) -> pa.Schema | None:
        """The Arrow types of the columns; None if only the rows show them. A text column has no dictionary."""
        return pa.schema([(column, pa.string()) for column in self.columns(file) or ()])

    def delimiter(self, file: File) -> str | None:
        """The delimiter of a file; None if the format has none."""
        return None
