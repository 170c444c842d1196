"""Tables in: what is read, what is refused, and that no refusal tells a private word."""

from __future__ import annotations

import io
import json
import os
import sys
import traceback
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpbart.errors import BadParameter, BadTable
from dpbart.rewrite.batches import Rows
from dpbart.rewrite.tables import Table, open_table

SECRET = "Mallory"


def written(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def texts(table: Table, size: int = 2) -> list[str]:
    return [text for batch in table.batches(size) for text in batch.texts()]


def column(table: Table, name: str) -> list[object]:
    return [value for batch in table.batches(2) for value in batch.column(name)]


def refusal(path: Path | str, text_column: str = "text") -> str:
    """The one line that a table is refused with, as a user in its folder sees it."""
    with pytest.raises(BadTable) as caught:
        open_table(path, text_column=text_column).count()
    told = "".join(traceback.format_exception(caught.value))
    assert SECRET not in told
    assert caught.value.__context__ is None, "the first error travels along, and may hold the row"
    message = str(caught.value)
    assert "\n" not in message
    return message.replace(f"{Path(path).parent}/", "")


def parquet(path: Path, columns: dict[str, object], **options: object) -> Path:
    pq.write_table(pa.table(columns), path, **options)
    return path


# What is read


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
def test_rows_come_in_order_in_batches_of_the_asked_size(tmp_path: Path, name: str, content: str) -> None:
    table = open_table(written(tmp_path / name, content))
    assert table.columns == ("id", "text")
    assert table.count() == 3
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


def test_a_byte_order_mark_is_no_part_of_the_first_column(tmp_path: Path) -> None:
    assert open_table(written(tmp_path / "a.csv", "\ufefftext,id\na,1\n")).columns == ("text", "id")
    assert texts(open_table(written(tmp_path / "a.jsonl", '\ufeff{"text": "a"}\n'))) == ["a"]
    assert texts(open_table(written(tmp_path / "a.txt", "\ufeffa\n"))) == ["a"]


def test_csv_lines_may_end_in_carriage_returns_alone(tmp_path: Path) -> None:
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
    assert table.count() == 4


def test_a_null_text_is_an_empty_text(tmp_path: Path) -> None:
    assert texts(open_table(written(tmp_path / "a.jsonl", '{"text": null}\n{"text": "b"}\n'))) == ["", "b"]
    assert texts(open_table(parquet(tmp_path / "a.parquet", {"text": [None, "b"]}))) == ["", "b"]


def test_json_rows_keep_keys_that_the_first_row_has_not(tmp_path: Path) -> None:
    rows = [{"text": "a", "id": 1}, {"more": [1.5, {"x": None}], "text": "b"}]
    table = open_table(written(tmp_path / "a.jsonl", "\n".join(map(json.dumps, rows))))
    assert table.columns == ("text", "id")
    assert [dict(row) for batch in table.batches(1) for row in batch.as_rows()] == rows


def test_parquet_batches_pass_over_the_borders_of_row_groups(tmp_path: Path) -> None:
    path = parquet(tmp_path / "a.parquet", {"text": list(map(str, range(10)))}, row_group_size=3)
    assert [(batch.first, batch.texts()) for batch in open_table(path).batches(4)] == [
        (1, ["0", "1", "2", "3"]),
        (5, ["4", "5", "6", "7"]),
        (9, ["8", "9"]),
    ]


def test_parquet_rows_are_all_there_where_each_row_group_has_a_dictionary(tmp_path: Path) -> None:
    label = pa.array([str(n % 3) for n in range(10)]).dictionary_encode()
    columns = {"text": list(map(str, range(10))), "label": label, "row": list(range(1, 11))}
    table = open_table(parquet(tmp_path / "a.parquet", columns, row_group_size=3))
    batches = list(table.batches(4))
    assert table.count() == 10
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


# Standard input


def test_standard_input_gives_one_text_a_line_and_has_no_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("\ufeffone\r\n\ntwo\u2028.".encode())))
    table = open_table("-", text_column="text")
    assert table.columns == ("text",)
    assert table.count() is None
    assert texts(table) == ["one", "", "two\u2028."]


def test_standard_input_lives_through_bytes_that_are_not_utf_8(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"caf\xe9\nb\0d\n")))
    assert texts(open_table("-")) == ["caf\ufffd", "b\0d"]


def test_standard_input_has_no_other_column() -> None:
    assert refusal("-", "review") == (
        "standard input has no column 'review'. It has: text. Pass --text-column NAME with one of them."
    )


# Streams


@pytest.mark.parametrize(
    ("name", "head", "row", "broken"),
    [
        ("a.csv", "id,text\n", "1,a\n", "1,a,b\n"),
        ("a.jsonl", "", '{"text": "a"}\n', "{\n"),
        ("a.txt", "", "a\n", "a\0\n"),
    ],
)
def test_a_batch_is_there_before_the_rest_is_read(tmp_path: Path, name: str, head: str, row: str, broken: str) -> None:
    table = open_table(written(tmp_path / name, head + 100 * row + broken))
    batches = table.batches(40)
    assert [next(batches).first, next(batches).first] == [1, 41]
    with pytest.raises(BadTable, match="at row 101"):
        next(batches)
    with pytest.raises(BadTable, match="at row 101"):
        table.count()


def test_a_file_is_closed_when_its_batches_are_left(tmp_path: Path) -> None:
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


# What is refused


BAD = {
    "no rows": ("a.csv", "", "'a.csv' has no rows. Give a file with at least one."),
    "a header alone": ("a.tsv", "id\ttext\n\n", "'a.tsv' has no rows. Give a file with at least one."),
    "blank lines alone": ("a.jsonl", "\n\n", "'a.jsonl' has no rows. Give a file with at least one."),
    "a mark alone": ("a.txt", "\ufeff", "'a.txt' has no rows. Give a file with at least one."),
    "an empty parquet": ("a.parquet", "", "'a.parquet' has no rows. Give a file with at least one."),
    "too few fields": ("a.csv", f"id,text,x,y\n{SECRET},a,b,c\n{SECRET},a,b\n", "3 fields where the header has 4."),
    "one field": ("a.csv", f"id,text\n1,a\n{SECRET}\n", "1 field where the header has 2."),
    "too many fields": ("a.tsv", f"id\ttext\n1\ta\n2\t{SECRET}\tb\n", "3 fields where the header has 2."),
    "a blank line inside": ("a.csv", f"id,text\n1,a\n\n2,{SECRET}\n", "a blank line."),
    "an open quote": (
        "a.csv",
        f'id,text\n1,a\n2,"{SECRET}\n3,c\n',
        "a quote left open, or one inside a field that is not doubled.",
    ),
    "a lone quote": (
        "a.tsv",
        f'id\ttext\n1\ta\n2\t"{SECRET}" b\n',
        "a quote left open, or one inside a field that is not doubled.",
    ),
    "latin-1": ("a.csv", b"id,text\n1,a\n2,Mallory caf\xe9\n3,c\n", "it is not UTF-8. Save the file as UTF-8."),
    "latin-1 lines": ("a.txt", b"1,a\n2,Mallory caf\xe9\n3,c\n", "it is not UTF-8. Save the file as UTF-8."),
    "latin-1 JSON": ("a.jsonl", b'{"text": "a"}\n{"text": "Mallory \xe9"}', "it is not UTF-8. Save the file as UTF-8."),
    "a NUL": ("a.csv", f"id,text\n1,a\n2,{SECRET}\0\n", "a NUL character. Save the file as UTF-8."),
    "no JSON": ("a.jsonl", f'{{"text": "a"}}\n{{"text": "{SECRET}"\n', "it is not JSON."),
    "JSON too deep": ("a.jsonl", f'{{"text": "a"}}\n{"[" * 200_000}{SECRET}\n', "it is not JSON."),
    "JSON of another kind": ("a.jsonl", f'{{"text": "a"}}\n["{SECRET}"]\n', "it is not a JSON object."),
    "a key given twice": (
        "a.jsonl",
        f'{{"text": "a"}}\n{{"text": "{SECRET}", "text": "b"}}\n',
        "a key that is there twice.",
    ),
    "a number no float holds": ("a.jsonl", '{"text": "a"}\n{"text": "b", "n": 1e999}', "a number too large to keep."),
    "no text": ("a.jsonl", f'{{"text": "a"}}\n{{"name": "{SECRET}"}}\n', "it has no column 'text'."),
    "a text of another kind": (
        "a.jsonl",
        f'{{"text": "a"}}\n{{"text": ["{SECRET}"]}}\n',
        "column 'text' must be a string or null, got a list.",
    ),
    "half a surrogate pair in a key": (
        "a.jsonl",
        '{"text": "a"}\n{"text": "b", "\\ud800": 1}\n',
        "half a surrogate pair in a key.",
    ),
    "half a surrogate pair": (
        "a.jsonl",
        f'{{"text": "a"}}\n{{"text": "{SECRET} \\ud83d"}}\n',
        "half a surrogate pair in column 'text'.",
    ),
}


@pytest.mark.parametrize(("name", "content", "reason"), BAD.values(), ids=BAD)
def test_a_bad_file_is_refused_in_one_line(tmp_path: Path, name: str, content: str | bytes, reason: str) -> None:
    message = refusal(written(tmp_path / name, content))
    assert message == (reason if "no rows" in reason else f"'{name}' is broken at row 2: {reason}")


def test_a_field_without_end_is_refused_before_it_fills_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dpbart.rewrite.lines.LONGEST_FIELD", 1000)
    path = written(tmp_path / "a.csv", 'id,text\n1,a\n2,"' + f"{SECRET}\n" * 1000)
    assert refusal(path) == ("'a.csv' is broken at row 2: a field longer than 1000 characters, or a quote left open.")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"id,te\xe9xt\n1,a\n", "it is not UTF-8. Save the file as UTF-8"),
        (b"\n\nid,text\n1,a\n", "a blank line"),
        ("id,text\n1,a\n".encode("utf-16"), "it is not UTF-8. Save the file as UTF-8"),
    ],
)
def test_a_broken_header_is_called_one(tmp_path: Path, content: bytes, reason: str) -> None:
    assert refusal(written(tmp_path / "a.csv", content)) == f"'a.csv' is broken in its header: {reason}."


def test_an_unknown_column_is_answered_with_those_that_are_there(tmp_path: Path) -> None:
    answer = "has no column 'txt'. It has: id, text, label. Pass --text-column NAME with one of them."
    path = written(tmp_path / "reviews.csv", f"id,text,label\n1,{SECRET},b\n")
    assert refusal(path, "txt") == f"'reviews.csv' {answer}"
    path = written(tmp_path / "reviews.jsonl", json.dumps({"id": 1, "text": SECRET, "label": "b"}))
    assert refusal(path, "txt") == f"'reviews.jsonl' {answer}"
    path = parquet(tmp_path / "reviews.parquet", {"id": [1], "text": [SECRET], "label": ["b"]})
    assert refusal(path, "txt") == f"'reviews.parquet' {answer}"
    assert refusal(written(tmp_path / "a.txt", SECRET), "txt") == (
        "'a.txt' has no column 'txt'. It has: text. Pass --text-column NAME with one of them."
    )


def test_json_without_any_key_has_rows_but_no_column(tmp_path: Path) -> None:
    assert "has no column 'text'" in refusal(written(tmp_path / "a.jsonl", "{}\n{}\n"))


def test_a_file_without_a_header_does_not_have_its_first_text_told(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", f"1,I am {SECRET} and ill,good\n2,b,bad\n")
    assert refusal(path) == (
        "'a.csv' has no column 'text', and its first line does not look like names of columns. "
        "Give it a header, or pass --text-column NAME."
    )
    path = written(tmp_path / "b.csv", f"text,I am {SECRET} and ill,I am {SECRET} and ill\n2,b,bad\n")
    assert refusal(path) == "'b.csv' has more than one column of the same name. Give each its own name."


def test_a_list_of_very_many_columns_is_cut(tmp_path: Path) -> None:
    names = ",".join(f"c{n}" for n in range(5000))
    assert ", c19 and 4980 more. Pass" in refusal(written(tmp_path / "a.csv", f"{names}\n{names}\n"))


def test_a_column_name_that_stands_twice_is_refused(tmp_path: Path) -> None:
    message = "has more than one column 'id'. Give each its own name."
    assert refusal(written(tmp_path / "a.csv", "id,text,id\n1,b,c\n")) == f"'a.csv' {message}"
    table = pa.Table.from_arrays([pa.array([1]), pa.array(["b"]), pa.array([2])], names=["id", "text", "id"])
    pq.write_table(table, tmp_path / "a.parquet")
    assert refusal(tmp_path / "a.parquet") == f"'a.parquet' {message}"


def test_an_unknown_ending_is_answered_with_the_known_ones(tmp_path: Path) -> None:
    assert refusal(written(tmp_path / "a.xlsx", SECRET)) == (
        "the ending of 'a.xlsx' must be one of .csv, .tsv, .jsonl, .ndjson, .parquet, .txt, got '.xlsx'. "
        "Convert it first."
    )


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    assert refusal(tmp_path / "a.csv") == "'a.csv' does not exist. Check the path."
    (tmp_path / "b.csv").mkdir()
    assert refusal(tmp_path / "b.csv") == "'b.csv' is a directory. Name a file in it."
    os.mkfifo(tmp_path / "c.csv")
    assert refusal(tmp_path / "c.csv") == "'c.csv' is not a file. To read a pipe, pass -."
    assert refusal(written(tmp_path / "d.csv", "x") / "e.csv") == "'e.csv' cannot be read: Not a directory."


def test_a_file_that_may_not_be_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "a.csv", "text\na\n")

    def denied(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", denied)  # chmod would not stop root
    assert refusal(path) == "'a.csv' may not be read: permission denied. Check who owns it."


# Parquet that is broken


def test_what_is_not_parquet_is_refused(tmp_path: Path) -> None:
    message = "is not a whole Parquet file. Write or copy it again."
    assert refusal(written(tmp_path / "a.parquet", f"id,text\n1,{SECRET}\n")) == f"'a.parquet' {message}"
    whole = parquet(tmp_path / "b.parquet", {"text": [SECRET] * 100}).read_bytes()
    assert refusal(written(tmp_path / "c.parquet", whole[:-20])) == f"'c.parquet' {message}"


def test_parquet_that_is_damaged_inside_is_refused_by_count_after_good_batches(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    rows = [f"{SECRET} {n}" for n in range(4000)]
    parquet(
        path, {"text": rows}, row_group_size=2000, compression="none", use_dictionary=False, write_page_checksum=True
    )
    column = pq.read_metadata(path).row_group(1).column(0)
    content = bytearray(path.read_bytes())
    content[column.data_page_offset + column.total_compressed_size // 2] ^= 1  # one bit
    written(path, bytes(content))
    assert next(open_table(path).batches(10)).texts() == rows[:10]
    # 2000 rows are good; the batch that crosses the border of the groups is lost whole.
    assert refusal(path) == "'a.parquet' is broken after row 1024: the rows there cannot be decoded."


def test_parquet_strings_that_are_not_utf_8_are_refused(tmp_path: Path) -> None:
    binary = pa.array([b"good", b"Mallory \xff"])
    text = pa.Array.from_buffers(pa.string(), 2, binary.buffers())
    path = parquet(tmp_path / "a.parquet", {"text": text})
    assert refusal(path) == "'a.parquet' is broken after row 0: the rows there cannot be decoded."


def test_parquet_texts_must_be_strings(tmp_path: Path) -> None:
    path = parquet(tmp_path / "a.parquet", {"id": [1], "text": ["b"]})
    assert refusal(path, "id") == (
        "column 'id' of 'a.parquet' must hold strings, got int64. Pass --text-column NAME with one that does."
    )


# Batches


def test_new_values_are_one_for_each_row() -> None:
    batch = Rows(1, "text", [{"text": SECRET}, {"text": SECRET}])
    with pytest.raises(BadParameter, match=r"^new values must be one for each of the 2 rows, got 1\.$"):
        batch.with_texts(["a"])


def test_a_column_that_a_row_lacks_is_refused_with_its_number() -> None:
    batch = Rows(33, "text", [{"text": SECRET, "person": SECRET}, {"text": SECRET}])
    for act in (lambda: batch.column("person"), lambda: batch.with_column("person", ["a", "b"])):
        with pytest.raises(BadTable, match=r"^row 34 has no column 'person'\. Give every row one\.$"):
            act()


def test_values_that_do_not_fit_a_parquet_column_are_not_told(tmp_path: Path) -> None:
    batch = next(open_table(parquet(tmp_path / "a.parquet", {"text": ["a"], "label": [1]})).batches(1))
    with pytest.raises(BadParameter) as caught:
        batch.with_column("label", [SECRET])
    assert str(caught.value) == "values of column 'label' must fit its type int64. Convert them first."
    assert caught.value.__context__ is None


def test_a_rewritten_text_never_holds_what_some_format_cannot() -> None:
    batch = Rows(1, "text", [{"text": "a"}])
    assert batch.with_texts(["a\0b\ud800c"]).texts() == ["a\ufffdb\ufffdc"]
