"""Reading tables from files and standard input, batch by batch."""

from __future__ import annotations

import io
import json
import os
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from dpbart.errors import BadParameter, BadTable
from dpbart.tables.batch import DictRows
from dpbart.tables.table import Table, open_table
from tests.tables.plain_tables import SECRET, parquet, written


def texts(table: Table, size: int = 2) -> list[str]:
    return [text for batch in table.batches(size) for text in batch.texts()]


def column(table: Table, name: str) -> list[object]:
    return [value for batch in table.batches(2) for value in batch.column(name)]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", "id,text\n007,one\n8,two\n9,three\n"),
        ("a.CSV", "id,text\r\n007,one\r\n8,two\r\n9,three"),
        ("a.tsv", 'id\ttext\n007\t"one"\n8\ttwo\n9\tthree\n\n\n'),
        ("a.jsonl", '{"id": "007", "text": "one"}\n{"id": 8, "text": "two"}\n{"id": 9, "text": "three"}\n'),
        ("a.ndjson", '{"id": "007", "text": "one"}\r\n{"id": 8, "text": "two"}\r\n{"id": 9, "text": "three"}\r\n\r\n'),
    ],
)
def test_rows_come_in_order_in_batches_of_the_requested_size(tmp_path: Path, name: str, content: str) -> None:
    table = open_table(written(tmp_path / name, content))
    assert table.columns == ("id", "text")
    assert table.visit() == 3
    assert [(batch.first, len(batch), batch.texts()) for batch in table.batches(2)] == [
        (1, 2, ["one", "two"]),
        (3, 1, ["three"]),
    ]
    assert column(table, "id")[0] == "007"


def test_csv_fields_keep_newlines_quotes_emoji_and_control_characters(tmp_path: Path) -> None:
    nasty = 'a "quoted"\nline\r\nand \r another,\twith \u2028 \x0c \x1b[31m 🤷🏽 สวัสดี'
    quoted = nasty.replace('"', '""')
    table = open_table(written(tmp_path / "a.csv", f'text,id\n"{quoted}",1\n'))
    assert texts(table) == [nasty]


def test_a_byte_order_mark_is_not_part_of_the_first_column(tmp_path: Path) -> None:
    assert open_table(written(tmp_path / "a.csv", "\ufefftext,id\na,1\n")).columns == ("text", "id")
    assert texts(open_table(written(tmp_path / "a.jsonl", '\ufeff{"text": "a"}\n'))) == ["a"]
    assert texts(open_table(written(tmp_path / "a.txt", "\ufeffa\n"))) == ["a"]


def test_csv_lines_may_end_in_a_lone_carriage_return(tmp_path: Path) -> None:
    assert texts(open_table(written(tmp_path / "a.csv", "id,text\r1,one\r2,two\r"))) == ["one", "two"]


def test_a_text_of_many_thousand_words_is_read_whole(tmp_path: Path) -> None:
    long = "word, " * 200_000
    assert texts(open_table(written(tmp_path / "a.csv", f'id,text\n1,"{long}"\n'))) == [long]


def test_a_csv_of_one_column_holds_an_empty_text_in_quotes(tmp_path: Path) -> None:
    assert texts(open_table(written(tmp_path / "a.csv", 'text\n""\nb\n""\n'))) == ["", "b", ""]


def test_plain_text_is_cut_at_line_feeds_and_nowhere_else(tmp_path: Path) -> None:
    table = open_table(written(tmp_path / "a.txt", "one\r\n\nt\x0cw\u2028o\x85 \r.\nlast"))
    assert table.columns == ("text",)
    assert texts(table) == ["one", "", "t\x0cw\u2028o\x85 \r.", "last"]
    assert table.visit() == 4


def test_a_null_text_is_an_empty_text(tmp_path: Path) -> None:
    assert texts(open_table(written(tmp_path / "a.jsonl", '{"text": null}\n{"text": "b"}\n'))) == ["", "b"]
    assert texts(open_table(parquet(tmp_path / "a.parquet", {"text": [None, "b"]}))) == ["", "b"]


def test_json_rows_keep_keys_that_the_first_row_lacks(tmp_path: Path) -> None:
    rows = [{"text": "a", "id": 1}, {"more": [1.5, {"x": None}], "text": "b"}]
    table = open_table(written(tmp_path / "a.jsonl", "\n".join(map(json.dumps, rows))))
    assert table.columns == ("text", "id")
    assert [dict(row) for batch in table.batches(1) for row in batch.as_rows()] == rows


def test_parquet_batches_may_span_row_groups(tmp_path: Path) -> None:
    path = parquet(tmp_path / "a.parquet", {"text": list(map(str, range(10)))}, row_group_size=3)
    assert [(batch.first, batch.texts()) for batch in open_table(path).batches(4)] == [
        (1, ["0", "1", "2", "3"]),
        (5, ["4", "5", "6", "7"]),
        (9, ["8", "9"]),
    ]


def test_no_parquet_row_is_lost_when_each_row_group_has_its_own_dictionary(tmp_path: Path) -> None:
    label = pa.array([str(n % 3) for n in range(10)]).dictionary_encode()
    columns = {"text": list(map(str, range(10))), "label": label, "row": list(range(1, 11))}
    table = open_table(parquet(tmp_path / "a.parquet", columns, row_group_size=3))
    batches = list(table.batches(4))
    assert table.visit() == 10
    assert [text for batch in batches for text in batch.texts()] == columns["text"]
    assert [batch.first for batch in batches] == [batch.column("row")[0] for batch in batches]
    assert max(map(len, batches)) <= 4


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())])
def test_parquet_texts_may_be_strings_of_any_encoding(tmp_path: Path, kind: pa.DataType) -> None:
    path = parquet(tmp_path / "a.parquet", {"text": pa.array(["one", "two", None, "two"]).cast(kind)})
    table = open_table(path)
    assert texts(table) == ["one", "two", "", "two"]
    rewritten = next(table.batches(4)).with_texts(["w", "x", "y", "z"])
    assert rewritten.texts() == ["w", "x", "y", "z"]


def test_standard_input_gives_one_text_per_line_and_has_no_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("\ufeffone\r\n\ntwo\u2028.".encode())))
    table = open_table("-", text_column="text")
    assert table.columns == ("text",)
    assert table.visit() is None
    assert texts(table) == ["one", "", "two\u2028."]


def test_standard_input_survives_bytes_that_are_not_utf_8(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"caf\xe9\nb\0d\n")))
    assert texts(open_table("-")) == ["caf\ufffd", "b\0d"]


@pytest.mark.parametrize(
    ("name", "head", "row", "broken"),
    [
        ("a.csv", "id,text\n", "1,a\n", "1,a,b\n"),
        ("a.jsonl", "", '{"text": "a"}\n', "{\n"),
        ("a.txt", "", "a\n", "a\0\n"),
    ],
)
def test_a_batch_is_given_before_the_rest_is_read(tmp_path: Path, name: str, head: str, row: str, broken: str) -> None:
    table = open_table(written(tmp_path / name, head + 100 * row + broken))
    batches = table.batches(40)
    assert [next(batches).first, next(batches).first] == [1, 41]
    with pytest.raises(BadTable, match="at row 101"):
        next(batches)
    with pytest.raises(BadTable, match="at row 101"):
        table.visit()


def test_a_file_is_closed_when_its_batches_are_abandoned(tmp_path: Path) -> None:
    table = open_table(written(tmp_path / "a.txt", "a\n" * 1000))
    batches = table.batches(1)
    next(batches)
    assert str(table.path) in open_files()
    del batches
    assert str(table.path) not in open_files()


def open_files() -> list[str]:
    folder = Path("/proc/self/fd")
    return [os.path.realpath(entry) for entry in folder.iterdir()]


def test_a_batch_has_at_least_one_row(tmp_path: Path) -> None:
    table = open_table(written(tmp_path / "a.txt", "a\n"))
    with pytest.raises(BadParameter, match=r"^size must be 1 or more, got 0\.$"):
        table.batches(0)


def test_there_is_one_new_value_per_row() -> None:
    batch = DictRows(1, ("text",), [{"text": SECRET}, {"text": SECRET}])
    with pytest.raises(BadParameter, match=r"^new values must be one for each of the 2 rows, got 1\.$"):
        batch.with_texts(["a"])


def test_a_column_that_a_row_lacks_is_refused_with_the_row_number() -> None:
    batch = DictRows(33, ("text",), [{"text": SECRET, "person": SECRET}, {"text": SECRET}])
    for act in (lambda: batch.column("person"), lambda: batch.with_column("person", ["a", "b"])):
        with pytest.raises(BadTable, match=r"^row 34 has no column 'person'\. Give every row one\.$"):
            act()


def test_values_that_do_not_fit_a_parquet_column_are_not_quoted(tmp_path: Path) -> None:
    batch = next(open_table(parquet(tmp_path / "a.parquet", {"text": ["a"], "label": [1]})).batches(1))
    with pytest.raises(BadParameter) as caught:
        batch.with_column("label", [SECRET])
    assert str(caught.value) == "values of column 'label' must fit its type int64. Convert them first."
    assert caught.value.__context__ is None


def test_a_rewritten_text_never_holds_what_some_format_cannot() -> None:
    batch = DictRows(1, ("text",), [{"text": "a"}])
    assert batch.with_texts(["a\0b\ud800c"]).texts() == ["a\ufffdb\ufffdc"]
