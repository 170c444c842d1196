"""Lines of a text file, and rows made from them.

A reader raises `Fault` with a reason. `numbered` turns it into a BadTable with the file and the row number. Rows are
private, so no reason may quote one.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TypeVar

from dpbart.errors import BadTable
from dpbart.files import reason
from dpbart.tables.batch import Rows, is_unicode
from dpbart.tables.encoding import shown
from dpbart.tables.faults import Fault
from dpbart.tables.file import File

LONGEST_LINE = 2**27  # characters; a small compressed file can hold a line that is larger than memory

_Blankable = TypeVar("_Blankable", str, list[str], list[object])
_Item = TypeVar("_Item")


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
    if not is_unicode(text):
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
    """Pass rows on, and say which one cannot be read.

    Raises:
        BadTable: Names the file, the number of the row counted from 1, and the reason.
    """
    number = 0
    while True:
        try:
            row = next(rows)
        except StopIteration:
            return
        except Fault as fault:
            problem = f"{file.name} is broken {place.format(number + 1)}: {fault}."
            break
        except OSError as error:
            problem = f"{file.name} cannot be read: {reason(error)}."
            break
        number += 1
        yield row
    raise BadTable(problem)  # outside the handler: the first error, which may hold the row, must not be its context


def row_batches(rows: Iterator[dict[str, object]], text_columns: tuple[str, ...], size: int) -> Iterator[Rows]:
    """Rows in batches of `size`; the last batch may be smaller."""
    first = 1
    while some := list(islice(rows, size)):
        yield Rows(first, text_columns, some)
        first += len(some)
