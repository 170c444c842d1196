"""Columns inside objects: dotted paths in JSON and Parquet."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpbart.errors import BadTable
from dpbart.tables.table import open_table
from tests.tables.plain_tables import SECRET, copy, written

pytestmark = pytest.mark.usefixtures("no_wait_for_the_disk")

ROWS = [
    {"id": 1, "note": {"by": "anna", "text": "one"}, "meta": {"ill": True, "site": {"x": 1}}},
    {"id": 2, "note": {"by": "ben", "text": None}, "meta": {"ill": False, "site": {"x": 2}}},
]


@pytest.fixture(params=[".jsonl", ".json", ".parquet"])
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / f"in{request.param}"
    if request.param == ".parquet":
        pq.write_table(pa.Table.from_pylist(ROWS), path)
    else:
        path.write_text(json.dumps(ROWS) if request.param == ".json" else "\n".join(map(json.dumps, ROWS)))
    return path


def rows_of(path: Path) -> list[dict[str, object]]:
    if path.suffix == ".parquet":
        rows: list[dict[str, object]] = pq.read_table(path).to_pylist()
        return rows
    text = path.read_text()
    return list(json.loads(text)) if path.suffix == ".json" else [json.loads(line) for line in text.splitlines()]


def test_the_object_of_a_named_column_is_spread(source: Path) -> None:
    assert open_table(source, text_column="note.text").columns == ("id", "note.by", "note.text", "meta")
    table = open_table(source, text_column="note.text", named=("meta.ill",))
    assert table.columns == ("id", "note.by", "note.text", "meta.ill", "meta.site")
    batch = next(table.batches(2))
    assert batch.texts() == ["one", ""]
    assert batch.column("note.by") == ["anna", "ben"]
    assert batch.column("meta.ill") == [True, False]
    assert batch.with_column("meta.ill", [False, True]).column("meta.ill") == [False, True]


def test_the_text_changes_inside_its_object_and_all_else_stays(source: Path, tmp_path: Path) -> None:
    copy(source, tmp_path / f"out{source.suffix}", text_column="note.text", shout=True)
    first, second = rows_of(tmp_path / f"out{source.suffix}")
    assert first == {**ROWS[0], "note": {"by": "anna", "text": "ONE"}}
    assert second == {**ROWS[1], "note": {"by": "ben", "text": ""}}
    assert list(first) == ["id", "note", "meta"]


def test_a_column_inside_an_object_can_be_dropped(source: Path, tmp_path: Path) -> None:
    copy(source, tmp_path / f"out{source.suffix}", text_column="note.text", drop=("meta.ill", "note.by"))
    assert [row["meta"] for row in rows_of(tmp_path / f"out{source.suffix}")] == [
        {"site": {"x": 1}},
        {"site": {"x": 2}},
    ]
    assert [row["note"] for row in rows_of(tmp_path / f"out{source.suffix}")] == [{"text": "one"}, {"text": ""}]


def test_other_formats_get_one_column_for_each_key(source: Path, tmp_path: Path) -> None:
    copy(source, tmp_path / "out.csv", text_column="note.text", drop=("meta.ill",))
    assert (tmp_path / "out.csv").read_text().splitlines() == [
        "id,note.by,note.text,meta.site",
        '1,anna,one,"{""x"": 1}"',
        '2,ben,,"{""x"": 2}"',
    ]


def test_a_dictionary_inside_a_struct_becomes_plain_strings(tmp_path: Path) -> None:
    texts = pa.array(["a", "b", "a"]).dictionary_encode()
    note = pa.StructArray.from_arrays([texts, pa.array([1, 2, 3])], names=["text", "n"])
    pq.write_table(pa.table({"note": note}), tmp_path / "in.parquet")
    copy(tmp_path / "in.parquet", tmp_path / "out.parquet", text_column="note.text", shout=True)
    written_note = pq.read_table(tmp_path / "out.parquet")["note"]
    assert written_note.to_pylist() == [{"text": "A", "n": 1}, {"text": "B", "n": 2}, {"text": "A", "n": 3}]


def test_a_missing_path_is_refused_by_row(tmp_path: Path) -> None:
    good = '{"note": {"text": "a"}}\n'
    for bad in (
        '{"note": null}',
        '{"note": {}}',
        f'{{"note": "{SECRET}"}}',
        '{"note": {"text": "a"}, "note.text": "b"}',
    ):
        table = open_table(written(tmp_path / "in.jsonl", good + bad), text_column="note.text")
        with pytest.raises(BadTable, match=r"is broken at row 2: it has no column 'note\.text'\.$"):
            table.visit()
    pq.write_table(pa.table({"note": pa.array([{"text": "a"}, None])}), tmp_path / "in.parquet")
    with pytest.raises(BadTable, match=r"^row 2 has no column 'note\.text'\. Give every row one\.$"):
        next(open_table(tmp_path / "in.parquet", text_column="note.text").batches(2)).texts()


def test_a_key_with_dots_is_found_under_its_full_name(tmp_path: Path) -> None:
    source = written(tmp_path / "in.jsonl", '{"note.text": "a", "note": {"b": 1}}\n')
    copy(source, tmp_path / "out.jsonl", text_column="note.text", shout=True)
    assert json.loads((tmp_path / "out.jsonl").read_text()) == {"note.text": "A", "note": {"b": 1}}


@pytest.mark.parametrize("inner", ['"b.c": "x", "b": {"c": "%s"}', '"b": {"c": "%s"}, "b.c": "x"'])
def test_a_path_is_read_and_written_at_the_same_place(tmp_path: Path, inner: str) -> None:
    first = '{"a": {"b": {"c": "a"}}}\n'
    source = written(tmp_path / "in.jsonl", f'{first}{{"a": {{{inner}}}}}\n'.replace("%s", SECRET))
    copy(source, tmp_path / "out.jsonl", text_column="a.b.c", shout=True)
    assert SECRET not in (tmp_path / "out.jsonl").read_text()


def test_two_columns_that_one_path_names_are_refused(tmp_path: Path) -> None:
    table = pa.table({"note.text": ["a"], "note": pa.array([{"text": SECRET}])})
    pq.write_table(table, tmp_path / "in.parquet")
    with pytest.raises(BadTable, match="has more than one column"):
        open_table(tmp_path / "in.parquet", text_column="note.text")
