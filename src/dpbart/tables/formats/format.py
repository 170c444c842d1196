"""The `Format` protocol, and what formats share: reading lines and numbering rows.

To add a format, write one file in this folder with a class derived from `Format`, and add one line to `registry.py`.
No code outside a format's own file may depend on which format it is: it asks the format instead.

A reader raises `Fault` with a reason, and `numbered` turns it into a BadTable with the file and the row number. Rows
are private, so no reason may quote one.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count, islice
from pathlib import Path
from typing import BinaryIO, Protocol, TypeVar

import pyarrow as pa

from dpbart.errors import BadTable
from dpbart.files import reason
from dpbart.tables.batch import Batch, DictRows, as_cell, fits_json, holds
from dpbart.tables.paths import Row, flat
from dpbart.tables.streams import Fault, File, shown

TEXT = "text"  # the text column, unless another is named
LONGEST_LINE = 2**27  # characters; a small compressed file can hold a line that is larger than memory

Visitor = Callable[[Batch], object]  # what it returns is not used
_Blankable = TypeVar("_Blankable", str, list[str], list[object])
_Item = TypeVar("_Item")


class Sink(Protocol):
    """Turns batches into bytes."""

    @abstractmethod
    def write(self, batch: Batch) -> None: ...

    def close(self) -> None:
        """Write the rest, and leave the handle open. It may be called twice."""
        return


@dataclass(frozen=True)
class Draft:
    """An output that can be opened once its format has seen the input.

    `see` takes every batch of the input, with empty texts, before `sink` is called. It refuses rows that the output
    cannot hold. It is None if the format need not see them.
    """

    sink: Callable[[BinaryIO], Sink]
    see: Visitor | None = None
    needs_all: bool = False  # whether `see` must have taken the whole input before `sink` is called
    folder: Callable[[Path], Sink] | None = None  # makes the sink for a new folder, if the output is a folder


@dataclass(frozen=True)
class Header:
    """What the beginning of a file says about all of it."""

    columns: tuple[str, ...]
    schema: pa.Schema | None  # None if only the rows show the types; a text column has no dictionary
    delimiter: str | None = None  # of a delimited file

    @classmethod
    def of_strings(cls, columns: Sequence[str], *, delimiter: str | None = None) -> Header:
        """The header of a file in which every value is a string."""
        return cls(tuple(columns), pa.schema([(column, pa.string()) for column in columns]), delimiter)


@dataclass(frozen=True)
class RowsToWrite:
    """What a format knows about the rows to write before it sees the first one."""

    name: str  # of the input, in messages
    ending: str  # of the input's format; a file of that format can hold every row
    target: str  # ending of the output's format
    columns: tuple[str, ...]
    schema: pa.Schema | None  # None if only the rows show the types
    plain: bool  # whether every value is a string that any format can hold
    encoding: str = "utf-8"  # that of the input, so every value of a text file fits it
    delimiter: str | None = None  # if the input or the user says one

    def bared(self) -> RowsToWrite:
        """The same rows without metadata."""
        return self if self.schema is None else replace(self, schema=self.schema.remove_metadata())

    def check_types(self) -> None:
        """Refuse the first column with values that `Batch.as_rows` would lose, by its name and type."""
        for field in self.schema or ():
            if not fits_json(field.type):
                raise self._refusal(f"column {field.name!r} has type {field.type}")

    def cells(self, row: Row, number: int) -> list[str]:
        """The values of a row as strings, one for each column. Refuses other keys, and half a surrogate pair."""
        values = dict(pairs := list(flat(row, self.columns)))
        if len(pairs) != len(self.columns) or any(column not in values for column in self.columns):
            raise self.refusal(number, "other keys than row 1")
        cells = [as_cell(values[column]) for column in self.columns]
        if not holds("".join(cells)):
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
    """Reads and writes one kind of file. The defaults are those of a format that holds nothing but plain strings."""

    endings: tuple[str, ...]  # in lower case; messages call the format by the first one
    typed: bool = False  # whether every column has an Arrow type, and batches keep it
    named: bool = False  # whether the columns certainly have names; otherwise, the first line may be a row instead
    further_keys: bool = False  # whether a row may have keys that the first row lacks
    texts_alone: bool = False  # whether a file holds the texts and no other column
    folder: bool = False  # whether it is a folder with a file for each row
    sheets: bool = False  # whether a file holds several tables, of which --sheet names one
    compressible: bool = True  # whether a file may be compressed as a whole, and is text
    reading: str | None = None  # how a file is read, if users may expect something else; a run prints it

    @abstractmethod
    def header(self, file: File, *, text_columns: tuple[str, ...] = (), named: Sequence[str] = ()) -> Header | None:
        """What the beginning of a file says; None if the file is empty.

        An object inside a row is one column, unless a text column or a named column is inside it, such as "note.text".
        Then each of its keys is a column.
        """

    @abstractmethod
    def batches(self, file: File, *, text_columns: tuple[str, ...], size: int) -> Iterator[Batch]:
        """The rows in order, at most `size` at a time, read when they are needed.

        Raises:
            BadTable: At the first broken row, after the batches before it. Gives its number and none of its content.
        """

    @abstractmethod
    def draft(self, source: RowsToWrite) -> Draft:
        """Plan to write some columns of an input. Refuses columns that the format cannot hold."""


def lines(file: File, newline: str) -> Iterator[str]:
    """The lines of a file with their ends; `newline` is as in `open`. A byte order mark is skipped."""
    longest = file.bounds.longest_of(LONGEST_LINE)
    with file.open_text(newline=newline) as handle:
        while line := handle.readline(longest + 1):
            check_text(line, file)
            if len(line) > longest:
                raise Fault(f"a line longer than {longest} characters")
            yield line


def check_text(text: str, file: File) -> None:
    """Refuse bytes that are not in the encoding of their file, and NUL."""
    if not holds(text):
        raise Fault(f"it is not {shown(file.encoding or 'utf-8')}. Save the file as UTF-8, or pass --encoding NAME")
    if "\0" in text:
        raise Fault("a NUL character. Save the file as UTF-8, or pass --encoding NAME")


def whole_text(file: File) -> str:
    """The text of a file, without the end of its last line."""
    longest = file.bounds.longest_of(LONGEST_LINE)
    with file.open_text(newline="") as handle:
        text = handle.read(longest + 1)
    check_text(text, file)
    if len(text) > longest:
        raise Fault(f"a text longer than {longest} characters")
    return without_end(text)


def without_end(line: str) -> str:
    """A line without its line feed or carriage return and line feed."""
    return line.removesuffix("\n").removesuffix("\r")


def up_to_blank_end(rows: Iterator[_Blankable]) -> Iterator[_Blankable]:
    """Skip blank lines at the end of a file. Elsewhere a blank line could be a lost row, and is a fault."""
    blank = False
    for row in rows:
        if row and blank:
            raise Fault("a blank line")
        blank = not row
        if row:
            yield row


def numbered(file: File, rows: Iterator[_Item], place: str = "at row {}") -> Iterator[_Item]:
    """Pass rows on. For one that cannot be read, raise a BadTable with its number, counted from 1, and the reason."""
    for number in count(1):
        try:
            row = next(rows)
        except StopIteration:
            return
        except Fault as fault:
            problem = f"{file.name} is broken {place.format(number)}: {fault}."
            break
        except OSError as error:
            problem = f"{file.name} cannot be read: {reason(error)}."
            break
        yield row
    raise BadTable(problem)  # outside the handler: the first error, which may hold the row, must not be its context


def row_batches(rows: Iterator[dict[str, object]], text_columns: tuple[str, ...], size: int) -> Iterator[DictRows]:
    """Rows in batches of `size`; the last batch may be smaller."""
    first = 1
    while some := list(islice(rows, size)):
        yield DictRows(first, text_columns, some)
        first += len(some)
