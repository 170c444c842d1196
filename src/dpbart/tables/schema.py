"""Arrow types of columns: found from values, used to convert labels, and freed of everything that could be private.

pandas stores the values of an index as columns, which are kept like any other column. The metadata of the file says
which columns they are. Only this part of the metadata is kept: the rest can describe private rows. A range is no column
but metadata alone, with a name and numbers that no card lists, so it is left out, and pandas numbers the rows from 0.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import pyarrow as pa

from dpbart.errors import BadTable
from dpbart.tables.batch import Batch
from dpbart.tables.paths import field_at

_EXACT = 2**53  # a float holds every integer up to this one
_LONG = 2**63
_PANDAS = b"pandas"  # the key of its metadata
_LISTS = (
    (pa.types.is_list, pa.list_),
    (pa.types.is_large_list, pa.large_list),
    (pa.types.is_list_view, pa.list_view),
    (pa.types.is_large_list_view, pa.large_list_view),
)


class FoundSchema:
    """Finds the types of columns from the values in their rows, as JSON has them."""

    def __init__(self, columns: Sequence[str]) -> None:
        self._kinds: dict[str, set[str]] = {column: set() for column in columns}

    def see(self, batch: Batch) -> None:
        """Take note of the next rows."""
        for column, kinds in self._kinds.items():
            kinds.update(_kind(value) for value in batch.column(column) if value is not None)

    def schema(self) -> pa.Schema:
        """The schema that holds every row seen so far."""
        return pa.schema([(column, _type(kinds)) for column, kinds in self._kinds.items()])


def holds_texts(kind: pa.DataType) -> bool:
    """Whether a column of this type holds strings."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def bare(kind: pa.DataType) -> pa.DataType:
    """A type without the free text that it can carry at any depth: metadata, extension parameters and categories.

    >>> bare(pa.list_(pa.field("item", pa.int8(), metadata={"note": "private"}))).value_field.metadata is None
    True
    """
    if isinstance(kind, pa.BaseExtensionType):
        return bare(kind.storage_type)
    if pa.types.is_struct(kind):
        return pa.struct([bare_field(field) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(bare_field(kind.key_field), bare_field(kind.item_field), keys_sorted=kind.keys_sorted)
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(bare_field(kind.value_field), kind.list_size)
    for test, make in _LISTS:
        if test(kind):
            return make(bare_field(kind.value_field))
    return kind


def bare_field(field: pa.Field) -> pa.Field:
    """A field inside another one, without metadata. Its categories become plain values."""
    kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
    return field.with_type(bare(kind)).remove_metadata()


def values_of(labels: Sequence[str], column: str, schema: pa.Schema | None) -> list[object]:
    """Labels as the values of a column, whose type they must fit. Without one, all become numbers or booleans, or none.

    >>> values_of(["1", "2.5"], "stars", None), values_of(["1", "two"], "stars", None)
    ([1, 2.5], ['1', 'two'])
    >>> values_of(["True", "False"], "ill", None)
    [True, False]
    """
    if schema is None:
        return _numbers(labels) or list(labels)
    kind = field_at(schema, column).type
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    if holds_texts(kind):
        return list(labels)
    try:
        values: list[object] = pa.array(labels, pa.string()).cast(kind).to_pylist()
    except pa.ArrowException:
        raise BadTable(f"the labels must fit the type {kind} of column {column!r}. Change the set.") from None
    return values


def index_metadata(schema: pa.Schema) -> dict[bytes, bytes] | None:
    """Metadata that tells pandas which columns are the index; None if none of them is.

    A level has the name of its column or none, so everything in it is on the card.
    """
    try:
        stored = json.loads((schema.metadata or {}).get(_PANDAS, b"null"))
        levels = [level for level in stored["index_columns"] if isinstance(level, str) and level in schema.names]
        names = {column["field_name"]: column["name"] for column in stored["columns"]}
    except (ValueError, TypeError, KeyError, RecursionError):  # written by another program, or damaged
        return None
    unknown = dict.fromkeys(("pandas_type", "numpy_type", "metadata"))  # pandas takes the types from the columns
    columns = [
        {"name": None if names.get(level) is None else level, "field_name": level, **unknown} for level in levels
    ]
    kept = {"index_columns": levels, "column_indexes": [], "columns": columns}
    return {_PANDAS: json.dumps(kept).encode()} if levels else None


def _numbers(labels: Sequence[str]) -> list[object] | None:
    try:
        values: list[object] = [json.loads(label.lower() if label.isalpha() else label) for label in labels]
    except ValueError:
        return None
    return values if all(isinstance(value, int | float) for value in values) else None


def _kind(value: object) -> str:
    if isinstance(value, bool):  # before int: in Python, a bool is an int
        return "boolean"
    if isinstance(value, int):
        return "integer" if abs(value) <= _EXACT else "long" if -_LONG <= value < _LONG else "other"
    return "float" if isinstance(value, float) else "string" if isinstance(value, str) else "other"


def _type(kinds: set[str]) -> pa.DataType:
    """The narrowest type that holds every value. If there is none, strings that hold JSON."""
    if kinds == {"boolean"}:
        return pa.bool_()
    if kinds and kinds <= {"integer", "long"}:
        return pa.int64()
    if kinds and kinds <= {"integer", "float"}:
        return pa.float64()
    return pa.string()
