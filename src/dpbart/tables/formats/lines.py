"""Lines of a UTF-8 file, and rows made from them.

A reader raises `Fault` with a reason. `row_batches` turns it into a BadTable with the file and the row number. Rows
are private, so no reason may quote one.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TypeVar

from dpbart.errors import BadTable
from dpbart.files import reason
from dpbart.tables.batch import Rows, is_unicode

_Blankable = TypeVar("_Blankable", str, list[str])
_Item = TypeVar("_Item")


class Fault(Exception):
    """Why the next row cannot be read. Caught by `numbered`."""


def lines(path: Path, newline: str) -> Iterator[str]:
    """The lines of a file with their ends; `newline` is as in `open`. A byte order mark is skipped."""
    # surrogateescape defers a bad byte to the check below, which meets it in its own row. A strict decoder works in
    # blocks, and would raise some rows too early.
    with path.open(encoding="utf-8-sig", errors="surrogateescape", newline=newline) as handle:
        for line in handle:
            if not is_unicode(line):
                raise Fault("it is not UTF-8. Save the file as UTF-8")
            if "\0" in line:
                raise Fault("a NUL character. Save the file as UTF-8")
            yield line


def up_to_blank_end(rows: Iterator[_Blankable]) -> Iterator[_Blankable]:
    """Skip blank lines at the end of a file. Elsewhere a blank line could be a lost row, and is a fault."""
    blank = False
    for row in rows:
        if row and blank:
            raise Fault("a blank line")
        blank = not row
        if row:
            yield row


def numbered(path: Path, rows: Iterator[_Item], place: str = "at row {}") -> Iterator[_Item]:
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
            problem = f"{str(path)!r} is broken {place.format(number + 1)}: {fault}."
            break
        except OSError as error:
            problem = f"{str(path)!r} cannot be read: {reason(error)}."
            break
        number += 1
        yield row
    raise BadTable(problem)  # outside the handler: the first error, which may hold the row, must not be its context


def row_batches(rows: Iterator[dict[str, object]], text_column: str, size: int) -> Iterator[Rows]:
    """Rows in batches of `size`; the last batch may be smaller."""
    first = 1
    while some := list(islice(rows, size)):
        yield Rows(first, text_column, some)
        first += len(some)
