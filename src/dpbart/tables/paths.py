"""Columns named by dotted paths: `note.text` is the key "text" of a JSON object "note", or a field of an Arrow struct.

A key or column whose own name has dots is found first. A row or schema with both readings is refused: rewriting one and
releasing the other as it is could release a private text.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import cast

import pyarrow as pa

Row = Mapping[str, object]
Fields = Sequence[pa.Field]
_MISSING = object()


def spread(row: Row, named: Collection[str], above: str = "") -> Iterator[str]:
    """The columns of a row. An object is replaced with its keys if one of the named columns is inside it.

    >>> list(spread({"id": 1, "note": {"text": "a", "by": "b"}, "meta": {"x": 1}}, ["note.text"]))
    ['id', 'note.text', 'note.by', 'meta']
    """
    for key, value in row.items():
        column = above + key
        if isinstance(value, dict) and _is_above(column, named):
            yield from spread(value, named, f"{column}.")
        else:
            yield column


def value_at(row: Row, column: str) -> object:
    """The value of a column; a KeyError if the row has no such column, or two.

    >>> value_at({"note": {"text": "a"}}, "note.text"), value_at({"note.text": "b"}, "note.text")
    ('a', 'b')
    """
    if "." not in column:
        return row[column]
    literal, nested = row.get(column, _MISSING), _nested(row, column)
    if (literal is _MISSING) == (nested is _MISSING):
        raise KeyError
    return nested if literal is _MISSING else literal


def has(row: Row, column: str) -> bool:
    """Whether a row has exactly one column of this name."""
    try:
        value_at(row, column)
    except KeyError:
        return False
    return True


def with_value(row: Row, column: str, value: object) -> dict[str, object]:
    """A row with another value in an existing column.

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
        if isinstance(value, dict) and _is_above(above + key, columns):
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
            for outer in above:
                inside = cast(dict[str, object], inside.setdefault(outer, {}))
        inside[key] = value_at(row, column)
    return kept


def within(row: Row, columns: Iterable[str]) -> dict[str, object]:
    """A row with only these columns, as far as it has them, inside the same objects.

    >>> within({"id": 1, "note": {"text": "a", "by": "b"}}, ["day", "note.text"])
    {'note': {'text': 'a'}}
    """
    return only(row, [column for column in columns if has(row, column)])


def flat(row: Row, columns: Collection[str], above: str = "") -> Iterator[tuple[str, object]]:
    """The columns of a row and their values, also those of keys beyond the given columns.

    >>> list(flat({"id": 1, "note": {"text": "a", "by": "b"}}, ["id", "note.text", "note.by"]))
    [('id', 1), ('note.text', 'a'), ('note.by', 'b')]
    """
    for key, value in row.items():
        column = above + key
        if isinstance(value, dict) and column not in columns:
            yield from flat(value, columns, f"{column}.")
        else:
            yield column, value


def _is_above(column: str, columns: Collection[str]) -> bool:
    """Whether one of the columns is inside this one, which is not among them itself."""
    return column not in columns and any(name.startswith(f"{column}.") for name in columns)


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


def spread_fields(fields: Fields, named: Collection[str], above: str = "") -> Iterator[str]:
    """The columns of a schema. A struct is replaced with its fields if one of the named columns is inside it."""
    for field in fields:
        column = above + field.name
        if pa.types.is_struct(field.type) and _is_above(column, named):
            yield from spread_fields(list(field.type), named, f"{column}.")
        else:
            yield column


def keys_of(schema: pa.Schema, column: str) -> list[str]:
    """The names on the way to a column: one, unless it is inside a struct."""
    return [column] if column in schema.names else column.split(".")


def field_at(schema: pa.Schema, column: str) -> pa.Field:
    """The field of a column; a KeyError if there is none."""
    fields: pa.Schema | pa.StructType = schema
    for key in keys_of(schema, column):
        index = fields.get_field_index(key) if isinstance(fields, pa.Schema | pa.StructType) else -1
        if index < 0:
            raise KeyError(column)
        field = fields.field(index)
        fields = field.type
    return field


def with_field(fields: Fields, keys: Sequence[str], new: pa.Field) -> list[pa.Field]:
    """The same fields with another one at a place inside them."""
    key, *rest = keys
    place = [field.name for field in fields].index(key)
    inner = fields[place].with_type(pa.struct(with_field(list(fields[place].type), rest, new))) if rest else new
    return [*fields[:place], inner, *fields[place + 1 :]]


def without_fields(fields: Fields, columns: Collection[str], above: str = "") -> list[pa.Field]:
    """The same fields without some columns. A struct that has no field left is left out."""
    kept = []
    for field in fields:
        column = above + field.name
        if column in columns:
            continue
        if pa.types.is_struct(field.type) and _is_above(column, columns):
            inner = without_fields(list(field.type), columns, f"{column}.")
            if inner:
                kept.append(field.with_type(pa.struct(inner)))
        else:
            kept.append(field)
    return kept


def array_at(record: pa.RecordBatch, keys: Sequence[str]) -> tuple[pa.Array, pa.Array | None]:
    """The values at a place, and the first struct on the way there that is null in some row."""
    array, broken = record.column(record.schema.get_field_index(keys[0])), None
    for key in keys[1:]:
        broken = array if broken is None and array.null_count else broken
        array = array.field(array.type.get_field_index(key))
    return array, broken


def with_array(record: pa.RecordBatch, keys: Sequence[str], new: pa.Array, field: pa.Field) -> pa.RecordBatch:
    """The same rows with other values at a place."""
    index = record.schema.get_field_index(keys[0])
    if len(keys) == 1:
        return record.set_column(index, field, new)
    struct = _with_child(record.column(index), keys[1:], new, field)
    return record.set_column(index, record.schema.field(index).with_type(struct.type), struct)


def without_arrays(record: pa.RecordBatch, columns: Collection[str]) -> pa.RecordBatch:
    """The same rows without some columns."""
    schema = pa.schema(without_fields(list(record.schema), columns), metadata=record.schema.metadata)
    arrays = [_pruned(record.column(record.schema.get_field_index(field.name)), field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _with_child(struct: pa.StructArray, keys: Sequence[str], new: pa.Array, field: pa.Field) -> pa.StructArray:
    key, *rest = keys
    fields, children = list(struct.type), [struct.field(index) for index in range(struct.type.num_fields)]
    index = struct.type.get_field_index(key)
    children[index] = _with_child(children[index], rest, new, field) if rest else new
    fields[index] = fields[index].with_type(children[index].type) if rest else field
    return pa.StructArray.from_arrays(children, fields=fields, mask=struct.is_null())


def _pruned(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """An array with only those fields of its structs that a type has."""
    if array.type == kind:
        return array
    children = [_pruned(array.field(array.type.get_field_index(field.name)), field.type) for field in kind]
    return pa.StructArray.from_arrays(children, fields=list(kind), mask=array.is_null())
