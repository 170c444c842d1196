"""JSON objects as rows, for every format that is made of them."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from dpbart.tables.batch import Rows, is_unicode
from dpbart.tables.faults import Fault
from dpbart.tables.file import File
from dpbart.tables.formats.format import Draft, Format, Sink, Source
from dpbart.tables.formats.lines import numbered, row_batches
from dpbart.tables.paths import Row, has, spread, value_at


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    row = dict(pairs)
    if len(row) != len(pairs):
        raise Fault("a key that appears twice")
    if not all(is_unicode(key) for key in row):
        raise Fault("half a surrogate pair in a key")
    return row


def _finite(literal: str) -> float:
    number = float(literal)
    if number in (float("inf"), float("-inf")):
        raise Fault("a number too large to keep")
    return number


DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_float=_finite)
_NAMES = {bool: "a boolean", int: "a number", float: "a number", list: "a list", dict: "an object"}


def checked(row: dict[str, object], text_columns: tuple[str, ...]) -> dict[str, object]:
    """A row, if it has a text or null in each of its text columns."""
    for column in text_columns:
        _check_text(row, column)
    return row


def _check_text(row: dict[str, object], text_column: str) -> None:
    try:
        text = value_at(row, text_column)
    except KeyError:
        missing = True
    else:
        missing = False
    if missing:
        raise Fault(f"it has no column {text_column!r}")
    if isinstance(text, str):
        if not is_unicode(text):
            raise Fault(f"half a surrogate pair in column {text_column!r}")
    elif text is not None:
        raise Fault(f"column {text_column!r} must be a string or null, got {_NAMES[type(text)]}")


def _columns(row: Row, named: Sequence[str]) -> tuple[str, ...]:
    """The columns of a row. One that is named must be there once: a key with a dot can look like a key in an object."""
    columns = tuple(spread(row, named))
    for column in named:
        if column in columns and not has(row, column):
            raise Fault(f"column {column!r} is there twice, or is a key with a dot inside an object. Rename the key")
    return columns


def encoded(row: Row) -> str:
    """A row as JSON. Half a surrogate pair and characters that an encoding lacks are escaped when it is written."""
    return json.dumps(row, ensure_ascii=False)


def without_mark(encoding: str) -> str:
    """The encoding of a JSON file, which has no UTF-8 byte order mark (RFC 8259, section 8.1)."""
    return encoding.removesuffix("-sig")


class OfObjects(Format):
    """A format of one object per row. The keys of the first object are the columns; later ones may have others."""

    further_keys = named = True
    sink: Callable[..., Sink]  # takes a handle and an encoding

    @abstractmethod
    def rows(self, file: File) -> Iterator[dict[str, object]]:
        """The objects of a file, in order."""

    def columns(self, file: File, named: Sequence[str] = ()) -> tuple[str, ...] | None:
        return next(numbered(file, (_columns(row, named) for row in self.rows(file))), None)

    def batches(self, file: File, *, text_columns: tuple[str, ...], size: int) -> Iterator[Rows]:
        rows = (checked(row, text_columns) for row in self.rows(file))
        return row_batches(numbered(file, rows), text_columns, size)

    def draft(self, source: Source) -> Draft:
        source.check_types()
        return Draft(partial(self.sink, encoding=source.encoding))

    def schema(self, file: File, text_columns: tuple[str, ...]) -> None:
        return None
