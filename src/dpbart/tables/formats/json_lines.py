"""JSON lines: one JSON object per line. Each row may have keys of its own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from dpbart.tables.batch import Batch, Row, Rows, is_unicode
from dpbart.tables.formats.format import Draft, Format, Source
from dpbart.tables.formats.lines import Fault, lines, numbered, row_batches, up_to_blank_end


class JsonLines(Format):
    """A file with one object per line. The keys of the first row are the columns."""

    endings = (".jsonl", ".ndjson")
    further_keys = named = True

    def columns(self, path: Path) -> tuple[str, ...] | None:
        return next((tuple(row) for row in numbered(path, _rows(path))), None)

    def batches(self, path: Path, *, text_column: str, size: int) -> Iterator[Rows]:
        rows = (_checked(row, text_column) for row in _rows(path))
        return row_batches(numbered(path, rows), text_column, size)

    def draft(self, source: Source) -> Draft:
        source.check_types()
        return Draft(_Sink)

    def schema(self, path: Path, text_column: str) -> None:
        return None


class _Sink:
    """Writes each row with the keys that it has."""

    def __init__(self, handle: BinaryIO) -> None:
        self._handle = handle

    def write(self, batch: Batch) -> None:
        self._handle.writelines(_line(row) for row in batch.as_rows())

    def close(self) -> None: ...


def _rows(path: Path) -> Iterator[dict[str, object]]:
    for line in up_to_blank_end(line.strip(" \t\r\n") for line in lines(path, newline="\n")):
        try:
            row = _JSON.decode(line)
        except (ValueError, RecursionError):  # ValueError: also an integer with more digits than Python reads
            raise Fault("it is not JSON") from None
        if not isinstance(row, dict):
            raise Fault("it is not a JSON object")
        yield row


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


_JSON = json.JSONDecoder(object_pairs_hook=_unique, parse_float=_finite)
_JSON_NAMES = {bool: "a boolean", int: "a number", float: "a number", list: "a list", dict: "an object"}


def _checked(row: dict[str, object], text_column: str) -> dict[str, object]:
    if text_column not in row:
        raise Fault(f"it has no column {text_column!r}")
    text = row[text_column]
    if isinstance(text, str):
        if not is_unicode(text):
            raise Fault(f"half a surrogate pair in column {text_column!r}")
    elif text is not None:
        raise Fault(f"column {text_column!r} must be a string or null, got {_JSON_NAMES[type(text)]}")
    return row


def _line(row: Row) -> bytes:
    line = json.dumps(row, ensure_ascii=False)
    # UTF-8 cannot hold half a surrogate pair, but JSON can hold it as an escape.
    return (line if is_unicode(line) else json.dumps(row)).encode() + b"\n"
