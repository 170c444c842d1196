"""Columns inside JSON objects, named by dotted paths: `note.text` is the key "text" of the object "note".

A key that itself has dots is found first under its full name. A row with both readings is refused: to rewrite the one
and release the other as it is could release a private text.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import cast

Row = Mapping[str, object]
_MISSING = object()


def spread(row: Row, named: Collection[str], above: str = "") -> Iterator[str]:
    """The columns of a row. An object is replaced by its keys if one of the named columns is inside it.

    >>> list(spread({"id": 1, "note": {"text": "a", "by": "b"}, "meta": {"x": 1}}, ["note.text"]))
    ['id', 'note.text', 'note.by', 'meta']
    """
    for key, value in row.items():
        column = above + key
        inside = column not in named and any(name.startswith(f"{column}.") for name in named)
        if inside and isinstance(value, dict):
            yield from spread(value, named, f"{column}.")
        else:
            yield column


def value_at(row: Row, column: str) -> object:
    """The value of a column.

    >>> value_at({"note": {"text": "a"}}, "note.text"), value_at({"note.text": "b"}, "note.text")
    ('a', 'b')

    Raises:
        KeyError: If the row has no such column, or two.
    """
    if "." not in column:
        return row[column]
    literal, nested = row.get(column, _MISSING), _nested(row, column)
    if (literal is _MISSING) == (nested is _MISSING):
        raise KeyError
    return nested if literal is _MISSING else literal


def has(row: Row, column: str) -> bool:
    """Whether a row has a column, and only one of that name."""
    try:
        value_at(row, column)
    except KeyError:
        return False
    return True


def with_value(row: Row, column: str, value: object) -> dict[str, object]:
    """A row with another value in a column that it has.

    >>> with_value({"note": {"text": "a", "by": "b"}}, "note.text", "A")
    {'note': {'text': 'A', 'by': 'b'}}
    """
    return {**row, column: value} if column in row else _with_nested(row, column.split("."), value)


def without(row: Row, columns: Collection[str], above: str = "") -> dict[str, object]:
    """A row without some columns.

    >>> without({"id": 1, "note": {"text": "a", "by": "b"}}, ["note.by"])
    {'id': 1, 'note': {'text': 'a'}}
    """
    kept = {key: value for key, value in row.items() if above + key not in columns}
    for key, value in kept.items():
        if isinstance(value, dict) and any(column.startswith(f"{above}{key}.") for column in columns):
            kept[key] = without(value, columns, f"{above}{key}.")
    return kept


def only(row: Row, columns: Iterable[str]) -> dict[str, object]:
    """A row with only these columns, inside the same objects.

    >>> only({"id": 1, "note": {"text": "a", "by": "b"}}, ["note.text"])
    {'note': {'text': 'a'}}
    """
    kept: dict[str, object] = {}
    for column in columns:
        inside, key = kept, column
        if column not in row:
            *above, key = column.split(".")
            for each in above:
                inside = cast(dict[str, object], inside.setdefault(each, {}))
        inside[key] = value_at(row, column)
    return kept


def within(row: Row, columns: Iterable[str]) -> dict[str, object]:
    """A row with those of these columns that it has, inside the same objects.

    >>> within({"id": 1, "note": {"text": "a", "by": "b"}}, ["day", "note.text"])
    {'note': {'text': 'a'}}
    """
    return only(row, [column for column in columns if has(row, column)])


def flat(row: Row, columns: Collection[str], above: str = "") -> Iterator[tuple[str, object]]:
    """The columns of a row and their values. A row with further keys gives more columns than the given ones.

    >>> list(flat({"id": 1, "note": {"text": "a", "by": "b"}}, ["id", "note.text", "note.by"]))
    [('id', 1), ('note.text', 'a'), ('note.by', 'b')]
    """
    for key, value in row.items():
        column = above + key
        if isinstance(value, dict) and column not in columns:
            yield from flat(value, columns, f"{column}.")
        else:
            yield column, value


def _with_nested(row: Row, keys: Sequence[str], value: object) -> dict[str, object]:
    # The same steps as `_nested`: a key with dots inside an object must not be taken for the column.
    key, *rest = keys
    return {**row, key: _with_nested(cast(Row, row[key]), rest, value) if rest else value}


def _nested(row: Row, column: str) -> object:
    value: object = row
    for key in column.split("."):
        if not isinstance(value, dict) or key not in value:
            return _MISSING
        value = value[key]
    return value
