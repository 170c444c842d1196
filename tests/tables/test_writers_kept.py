"""What stays the same when a table is written: every column except the text."""

from __future__ import annotations

import csv
import json
import math
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tables.plain_tables import COLUMNS, ENDINGS, copy, read_plainly, write_plainly

pytestmark = pytest.mark.usefixtures("no_wait_for_the_disk")

NASTY = ["007", "", 'a "b"\n\r\n\rc', "🤷🏽‍♀️ สวัสดี \u2028 \x0c\x1b\x85", " ,;\t' ", "NaN", "null"]

unicode = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
cell = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)
json_value = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | unicode,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(unicode, inner, max_size=2),
    max_leaves=3,
)


@contextmanager
def folder() -> Iterator[Path]:
    """A new folder for each example of Hypothesis, since all of them share tmp_path."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


@pytest.mark.parametrize("target", ENDINGS)
@pytest.mark.parametrize("source", ENDINGS)
def test_every_format_becomes_every_other_with_all_columns_kept(tmp_path: Path, source: str, target: str) -> None:
    rows = [[value, f"text {n}", value[::-1]] for n, value in enumerate(NASTY)]
    copy(write_plainly(tmp_path / f"in{source}", rows), tmp_path / f"out{target}", shout=True)
    assert read_plainly(tmp_path / f"out{target}") == [
        list(COLUMNS),
        *([first, text.upper(), last] for first, text, last in rows),
    ]


@pytest.mark.parametrize("ending", [".csv", ".tsv"])
@settings(max_examples=40)
@given(rows=st.lists(st.tuples(cell, cell, cell), min_size=1, max_size=4))
def test_any_cells_survive(ending: str, rows: list[tuple[str, str, str]]) -> None:
    with folder() as place:
        source = write_plainly(place / f"in{ending}", [list(row) for row in rows])
        copy(source, place / f"out{ending}")
        assert read_plainly(place / f"out{ending}") == [list(COLUMNS), *map(list, rows)]


@settings(max_examples=40)
@given(texts=st.lists(cell, min_size=1, max_size=4))
def test_any_texts_of_a_single_column_survive(texts: list[str]) -> None:
    with folder() as place:
        with (place / "in.csv").open("w", newline="", encoding="utf-8") as handle:
            csv.writer(handle).writerows([["text"], *([text] for text in texts)])
        copy(place / "in.csv", place / "out.csv")
        assert read_plainly(place / "out.csv") == [["text"], *([text] for text in texts)]


@settings(max_examples=40)
@given(rows=st.lists(st.dictionaries(unicode, json_value, max_size=3), min_size=1, max_size=4), text=cell)
def test_any_json_survives(rows: list[dict[str, object]], text: str) -> None:
    rows = [{**row, "text": text} for row in rows]
    with folder() as place:
        (place / "in.jsonl").write_text("\n".join(map(json.dumps, rows)))
        copy(place / "in.jsonl", place / "out.jsonl")
        lines = (place / "out.jsonl").read_bytes().split(b"\n")
        assert lines.pop() == b""
        assert [list(json.loads(line).items()) for line in lines] == [list(row.items()) for row in rows]


@settings(max_examples=30)
@given(values=st.lists(unicode | st.none(), min_size=1, max_size=4), numbers=st.integers(-(2**63), 2**63 - 1))
def test_any_parquet_strings_survive(values: list[str | None], numbers: int) -> None:
    table = pa.table(
        {"text": ["a"] * len(values), "other": pa.array(values, pa.string()), "n": [numbers] * len(values)}
    )
    with folder() as place:
        pq.write_table(table, place / "in.parquet")
        copy(place / "in.parquet", place / "out.parquet")
        assert pq.read_table(place / "out.parquet").equals(table)


def test_half_a_surrogate_pair_in_another_json_column_survives(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text('{"text": "é", "name": "\\ud83d"}\n')
    copy(tmp_path / "in.jsonl", tmp_path / "out.jsonl")
    assert json.loads((tmp_path / "out.jsonl").read_bytes()) == {"text": "é", "name": "\ud83d"}


def test_json_keeps_nan_and_integers_of_any_length(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text(f'{{"text": "", "a": NaN, "b": {10**40}}}\n')
    copy(tmp_path / "in.jsonl", tmp_path / "out.jsonl")
    row = json.loads((tmp_path / "out.jsonl").read_bytes())
    assert math.isnan(row["a"])
    assert row["b"] == 10**40


def typed_table() -> pa.Table:
    columns = {
        "when": pa.array([1, None], pa.timestamp("ns", "UTC")),
        "text": pa.array([None, "b"], pa.large_string()),
        "price": pa.array([Decimal("1.50"), None]),
        "label": pa.array(["x", "y"]).dictionary_encode(),
        "tags": pa.array([["a"], None]),
        "raw": pa.array([b"\xff", b""]),
        "small": pa.array([1, None], pa.int8()),
    }
    return pa.table(columns).replace_schema_metadata({"origin": "here"})


def test_parquet_keeps_types_and_order_but_not_metadata(tmp_path: Path) -> None:
    pq.write_table(typed_table(), tmp_path / "in.parquet")
    table = pq.read_table(tmp_path / "in.parquet")
    copy(tmp_path / "in.parquet", tmp_path / "out.parquet", size=1)
    written = pq.read_table(tmp_path / "out.parquet")
    assert written.schema.equals(table.schema.remove_metadata(), check_metadata=True)
    assert written.drop_columns("text").equals(table.drop_columns("text"))
    assert written["text"].to_pylist() == ["", "b"]


NOTE = {b"note": b"written by Mallory"}
NOTED = pa.schema(
    [
        pa.field("text", pa.string(), metadata=NOTE),
        pa.field("struct", pa.struct([pa.field("a", pa.int64(), metadata=NOTE)]), metadata=NOTE),
        pa.field("list", pa.list_(pa.field("element", pa.struct([pa.field("b", pa.string(), metadata=NOTE)])))),
        pa.field("large", pa.large_list(pa.field("element", pa.int64(), metadata=NOTE))),
        pa.field("pair", pa.list_(pa.field("element", pa.int64(), metadata=NOTE), 2)),
        pa.field(
            "map",
            pa.map_(
                pa.field("key", pa.string(), nullable=False, metadata=NOTE),
                pa.field("value", pa.list_(pa.field("element", pa.int8(), metadata=NOTE)), metadata=NOTE),
            ),
        ),
    ],
    metadata=NOTE,
)
NOTED_ROW = {"text": "x", "struct": {"a": 1}, "list": [{"b": "y"}], "large": [2], "pair": [3, 4], "map": [("k", [5])]}


def metadata_in(fields: Iterable[pa.Field]) -> list[str]:
    """The names of all fields, at any depth, that have metadata."""
    found = []
    for field in fields:
        found += [field.name] if field.metadata else []
        found += metadata_in(field.type.field(place) for place in range(field.type.num_fields))
    return found


def test_no_metadata_of_a_parquet_file_survives_at_any_depth(tmp_path: Path) -> None:
    """Arrow keeps its schema in base64 inside the file, so read it back: a search of the bytes would find nothing."""
    pq.write_table(pa.Table.from_pylist([NOTED_ROW], NOTED), tmp_path / "in.parquet")
    assert len(metadata_in(pq.read_schema(tmp_path / "in.parquet"))) == 9
    copy(tmp_path / "in.parquet", tmp_path / "out.parquet")
    written = pq.read_schema(tmp_path / "out.parquet")
    assert metadata_in(written) == []
    assert written.metadata is None
    assert set(pq.read_metadata(tmp_path / "out.parquet").metadata) == {b"ARROW:schema"}
    assert pq.read_table(tmp_path / "out.parquet").to_pylist() == [NOTED_ROW]


def test_a_parquet_type_with_free_parameters_becomes_the_type_that_it_is_stored_as(tmp_path: Path) -> None:
    kind = pa.fixed_shape_tensor(pa.int32(), [2], dim_names=["Mallory"])
    tensor = pa.ExtensionArray.from_storage(kind, pa.array([[1, 2]], pa.list_(pa.int32(), 2)))
    pq.write_table(pa.table({"text": ["a"], "t": tensor}), tmp_path / "in.parquet")
    copy(tmp_path / "in.parquet", tmp_path / "out.parquet")
    assert pq.read_schema(tmp_path / "out.parquet").field("t").type.equals(pa.list_(pa.int32(), 2))
    assert pq.read_table(tmp_path / "out.parquet").column("t").to_pylist() == [[1, 2]]


def test_categories_that_no_row_has_are_not_written(tmp_path: Path) -> None:
    """They may come from rows that were filtered out before, and no card mentions them."""
    kinds = pa.array(["low", "Mallory", "high"])
    kept = pa.DictionaryArray.from_arrays(pa.array([2, None, 0, 2], pa.int8()), kinds, ordered=True)
    pq.write_table(pa.table({"text": list("abcd"), "kind": kept}), tmp_path / "in.parquet")
    copy(tmp_path / "in.parquet", tmp_path / "out.parquet", size=3)
    written = pq.read_table(tmp_path / "out.parquet").column("kind")
    assert written.to_pylist() == ["high", None, "low", "high"]
    assert written.chunk(0).dictionary.to_pylist() == ["low", "high"]  # in their order
    assert written.type == pq.read_schema(tmp_path / "in.parquet").field("kind").type


def test_a_dictionary_of_texts_becomes_plain_strings(tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": pa.array(["a", "b", "a"]).dictionary_encode()}), tmp_path / "in.parquet")
    copy(tmp_path / "in.parquet", tmp_path / "out.parquet", shout=True)
    assert pq.read_table(tmp_path / "out.parquet").equals(pa.table({"text": ["A", "B", "A"]}))


def test_small_batches_share_a_row_group(tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": ["a"] * 100}), tmp_path / "in.parquet")
    copy(tmp_path / "in.parquet", tmp_path / "out.parquet", size=1)
    assert pq.read_metadata(tmp_path / "out.parquet").num_row_groups == 1


def test_the_size_of_a_row_group_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpbart.tables.formats.parquet._GROUP_ROWS", 40)
    pq.write_table(pa.table({"text": list(map(str, range(100)))}), tmp_path / "in.parquet")
    copy(tmp_path / "in.parquet", tmp_path / "out.parquet", size=20)
    assert pq.read_metadata(tmp_path / "out.parquet").num_row_groups == 3
    assert pq.read_table(tmp_path / "out.parquet")["text"].to_pylist() == list(map(str, range(100)))
