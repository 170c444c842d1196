"""Columns inside Arrow structs, named by dotted paths: `note.text` is the field "text" of the struct "note".

A column whose own name has dots is found first. A schema with both readings is refused when a table is opened.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import pyarrow as pa

Fields = Sequence[pa.Field]


def spread(fields: Fields, named: Collection[str], above: str = "") -> Iterator[str]:
    """The columns of a schema. A struct is replaced by its fields if one of the named columns is inside it."""
    for field in fields:
        column = above + field.name
        inside = column not in named and any(name.startswith(f"{column}.") for name in named)
        if inside and pa.types.is_struct(field.type):
            yield from spread(list(field.type), named, f"{column}.")
        else:
            yield column


def keys_of(schema: pa.Schema, column: str) -> list[str]:
    """The names on the way to a column: one, unless it is inside a struct."""
    return [column] if column in schema.names else column.split(".")


def field_at(schema: pa.Schema, column: str) -> pa.Field:
    """The field of a column.

    Raises:
        KeyError: If there is none.
    """
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
    return [
        field
        if field.name != key
        else new
        if not rest
        else field.with_type(pa.struct(with_field(list(field.type), rest, new)))
        for field in fields
    ]


def without_fields(fields: Fields, columns: Collection[str], above: str = "") -> list[pa.Field]:
    """The same fields without some columns. A struct that has no field left is left out."""
    kept = []
    for field in fields:
        column = above + field.name
        if column in columns:
            continue
        if _reaches_into(field.type, column, columns):
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
    arrays = [_pruned(record.column(record.schema.get_field_index(each.name)), each.type) for each in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _reaches_into(kind: pa.DataType, column: str, columns: Collection[str]) -> bool:
    return bool(pa.types.is_struct(kind)) and any(each.startswith(f"{column}.") for each in columns)


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
