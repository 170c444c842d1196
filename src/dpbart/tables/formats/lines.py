"""Rows of a text file, one at a time: CSV, TSV, JSON lines, and one text a line.

A row is a dict from column to value. The readers raise `_Fault` with a reason alone, and `numbered` makes of it
a BadTable that names the file and the row. The rows are private: no reason holds a word of what they say.
"""

from __future__ import annotations

import codecs
import csv
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal, TextIO, TypeVar

from dpbart.errors import BadTable

TextFormat = Literal["csv", "tsv", "jsonl", "txt"]
DELIMITERS: dict[str, str] = {"csv": ",", "tsv": "\t"}
TEXT = "text"  # the one column of a file of plain texts

# A text may be many megabytes, but a quote left open must not draw a file larger than memory into one field.
LONGEST_FIELD = 2**27

_Blankable = TypeVar("_Blankable", str, list[str])
_Item = TypeVar("_Item")


class _Fault(Exception):
    """Why the next row cannot be read. Never leaves this file."""


def read_columns(path: Path, format: TextFormat) -> tuple[str, ...] | None:
    """The names of the columns, in order; None if the file holds nothing."""
    if format == "txt":
        return (TEXT,)
    if format == "jsonl":
        return next((tuple(row) for row in numbered(path, _json_rows(path))), None)
    rows = _cells(path, DELIMITERS[format])
    return next((tuple(header) for header in numbered(path, rows, place="in its header")), None)


def read_rows(path: Path, format: TextFormat, text_column: str) -> Iterator[dict[str, object]]:
    """The rows of a file, read as they are asked for.

    Raises:
        BadTable: At the first row that is broken, with its number.
    """
    readers: dict[TextFormat, Callable[[], Iterator[dict[str, object]]]] = {
        "csv": lambda: _delimited_rows(path, ","),
        "tsv": lambda: _delimited_rows(path, "\t"),
        "jsonl": lambda: (_checked(row, text_column) for row in _json_rows(path)),
        "txt": lambda: _text_rows(path),
    }
    return numbered(path, readers[format]())


def read_standard_input() -> Iterator[dict[str, object]]:
    """The lines of standard input.

    Bytes that are not UTF-8 become U+FFFD, where a file would be refused: a stream must not die in the middle.
    """
    for number, raw in enumerate(sys.stdin.buffer):
        line = raw.removeprefix(codecs.BOM_UTF8) if number == 0 else raw
        yield {TEXT: _end_cut(line.decode(errors="replace"))}


def numbered(path: Path, rows: Iterator[_Item], place: str = "at row {}") -> Iterator[_Item]:
    """Pass rows on; where one cannot be read, say which.

    Raises:
        BadTable: Names the file, the number of the row from 1, and the reason.
    """
    number = 0
    while True:
        try:
            row = next(rows)
        except StopIteration:
            return
        except _Fault as fault:
            problem = f"{str(path)!r} is broken {place.format(number + 1)}: {fault}."
            break
        except OSError as error:
            problem = f"{str(path)!r} cannot be read: {error.strerror}."
            break
        number += 1
        yield row
    raise BadTable(problem)  # here, not in the handler: the first error must not travel along


def is_unicode(text: str) -> bool:
    """Whether a string can be written as UTF-8: false where it holds half a surrogate pair."""
    if text.isascii():  # at no cost: Python keeps a flag
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _delimited_rows(path: Path, delimiter: str) -> Iterator[dict[str, object]]:
    cells = _cells(path, delimiter)
    header = next(cells, [])
    for row in cells:
        if len(row) != len(header):
            fields = "1 field" if len(row) == 1 else f"{len(row)} fields"
            raise _Fault(f"{fields} where the header has {len(header)}")
        yield dict(zip(header, row, strict=True))


def _cells(path: Path, delimiter: str) -> Iterator[list[str]]:
    csv.field_size_limit(LONGEST_FIELD)  # one setting for the whole process; 131,072 unless told
    with _open(path, newline="") as handle:
        try:
            yield from _up_to_blank_end(csv.reader(_lines(handle), delimiter=delimiter, strict=True))
        except csv.Error as error:
            long = f"a field longer than {LONGEST_FIELD} characters, or a quote left open"
            quote = "a quote left open, or one inside a field that is not doubled"
            raise _Fault(long if "limit" in str(error) else quote) from None


def _json_rows(path: Path) -> Iterator[dict[str, object]]:
    with _open(path, newline="\n") as handle:
        for line in _up_to_blank_end(line.strip(" \t\r\n") for line in _lines(handle)):
            yield _json_row(line)


def _text_rows(path: Path) -> Iterator[dict[str, object]]:
    with _open(path, newline="\n") as handle:
        for line in _lines(handle):
            yield {TEXT: _end_cut(line)}


def _open(path: Path, newline: str) -> TextIO:
    # surrogateescape lets a bad byte through to `_lines`, which meets it in its own row: a strict
    # decoder works in blocks, and would raise some rows too early.
    return path.open(encoding="utf-8-sig", errors="surrogateescape", newline=newline)


def _lines(handle: TextIO) -> Iterator[str]:
    for line in handle:
        if not is_unicode(line):
            raise _Fault("it is not UTF-8. Save the file as UTF-8")
        if "\0" in line:
            raise _Fault("a NUL character. Save the file as UTF-8")
        yield line


def _up_to_blank_end(rows: Iterator[_Blankable]) -> Iterator[_Blankable]:
    """Leave out blank lines at the end; elsewhere, one could be a lost row."""
    blank = False
    for row in rows:
        if row and blank:
            raise _Fault("a blank line")
        blank = not row
        if row:
            yield row


def _json_row(line: str) -> dict[str, object]:
    try:
        value = _JSON.decode(line)
    except (ValueError, RecursionError):  # ValueError: also an integer of more digits than Python reads
        raise _Fault("it is not JSON") from None
    if not isinstance(value, dict):
        raise _Fault("it is not a JSON object")
    return value


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    row = dict(pairs)
    if len(row) != len(pairs):
        raise _Fault("a key that is there twice")
    if not all(is_unicode(key) for key in row):
        raise _Fault("half a surrogate pair in a key")
    return row


def _finite(literal: str) -> float:
    number = float(literal)
    if number in (float("inf"), float("-inf")):
        raise _Fault("a number too large to keep")
    return number


_JSON = json.JSONDecoder(object_pairs_hook=_unique, parse_float=_finite)
_JSON_NAMES = {bool: "a boolean", int: "a number", float: "a number", list: "a list", dict: "an object"}


def _checked(row: dict[str, object], text_column: str) -> dict[str, object]:
    if text_column not in row:
        raise _Fault(f"it has no column {text_column!r}")
    text = row[text_column]
    if isinstance(text, str):
        if not is_unicode(text):
            raise _Fault(f"half a surrogate pair in column {text_column!r}")
    elif text is not None:
        raise _Fault(f"column {text_column!r} must be a string or null, got {_JSON_NAMES[type(text)]}")
    return row


def _end_cut(line: str) -> str:
    return line.removesuffix("\n").removesuffix("\r")
