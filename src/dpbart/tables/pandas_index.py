"""The index of a pandas frame in a Parquet file.

pandas stores the values of an index as columns, which are kept like any other column. Which columns they are stands in
the metadata of the file. Of that metadata only this is kept: the rest can describe private rows.
"""

from __future__ import annotations

import json
from collections.abc import Collection

import pyarrow as pa

_KEY = b"pandas"
_RANGE = {"kind": str, "name": str | None, "start": int, "stop": int, "step": int}


def index_metadata(schema: pa.Schema) -> dict[bytes, bytes] | None:
    """Metadata that tells pandas which columns are the index; None if none of them is."""
    try:
        held = json.loads((schema.metadata or {}).get(_KEY, b"null"))
        levels = [level for level in held["index_columns"] if _is_level(level, schema.names)]
        names = {each["field_name"]: each["name"] for each in held["columns"]}
    except (ValueError, TypeError, KeyError, RecursionError):  # written by another program, or damaged
        return None
    unknown = dict.fromkeys(("pandas_type", "numpy_type", "metadata"))  # pandas takes the types from the columns
    columns = [{"name": names.get(level), "field_name": level, **unknown} for level in levels if isinstance(level, str)]
    kept = {"index_columns": levels, "column_indexes": [], "columns": columns}
    return {_KEY: json.dumps(kept).encode()} if levels else None


def _is_level(level: object, names: Collection[str]) -> bool:
    if isinstance(level, str):
        return level in names
    return (
        isinstance(level, dict)
        and level.keys() == _RANGE.keys()
        and all(isinstance(level[key], kind) for key, kind in _RANGE.items())
    )
