"""Which tables are refused, and that no refusal quotes a private word."""

from __future__ import annotations

import json
import os
import traceback
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpbart.errors import BadTable
from dpbart.tables.table import open_table
from tests.tables.plain_tables import SECRET, parquet, written


def refusal(path: Path | str, text_column: str = "text") -> str:
    """The one-line refusal of a table, as a user in its folder sees it."""
    with pytest.raises(BadTable) as caught:
        open_table(path, text_column=text_column).visit()
    shown = "".join(traceback.format_exception(caught.value))
    assert SECRET not in shown
    assert caught.value.__context__ is None, "the first error is attached, and may hold the row"
    message = str(caught.value)
    assert "\n" not in message
    return message.replace(f"{Path(path).parent}/", "")


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
    "latin-1": (
        "a.csv",
        b"id,text\n1,a\n2,Mallory caf\xe9\n3,c\n",
        "it is not UTF-8. Save the file as UTF-8, or pass --encoding NAME.",
    ),
    "latin-1 lines": (
        "a.txt",
        b"1,a\n2,Mallory caf\xe9\n3,c\n",
        "it is not UTF-8. Save the file as UTF-8, or pass --encoding NAME.",
    ),
    "latin-1 JSON": (
        "a.jsonl",
        b'{"text": "a"}\n{"text": "Mallory \xe9"}',
        "it is not UTF-8. Save the file as UTF-8, or pass --encoding NAME.",
    ),
    "a NUL": (
        "a.csv",
        f"id,text\n1,a\n2,{SECRET}\0\n",
        "a NUL character. Save the file as UTF-8, or pass --encoding NAME.",
    ),
    "no JSON": ("a.jsonl", f'{{"text": "a"}}\n{{"text": "{SECRET}"\n', "it is not JSON."),
    "JSON too deep": ("a.jsonl", f'{{"text": "a"}}\n{"[" * 200_000}{SECRET}\n', "it is not JSON."),
    "JSON of another kind": ("a.jsonl", f'{{"text": "a"}}\n["{SECRET}"]\n', "it is not a JSON object."),
    "a key given twice": (
        "a.jsonl",
        f'{{"text": "a"}}\n{{"text": "{SECRET}", "text": "b"}}\n',
        "a key that appears twice.",
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


def test_an_endless_field_is_refused_before_it_fills_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dpbart.tables.formats.delimited.LONGEST_FIELD", 1000)
    path = written(tmp_path / "a.csv", 'id,text\n1,a\n2,"' + f"{SECRET}\n" * 1000)
    assert refusal(path) == ("'a.csv' is broken at row 2: a field longer than 1000 characters, or a quote left open.")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"id,te\xe9xt\n1,a\n", "it is not UTF-8. Save the file as UTF-8, or pass --encoding NAME"),
        (b"\n\nid,text\n1,a\n", "a blank line"),
        (
            "id,text\n1,a\n".encode("utf-16-le"),
            "a NUL character. Save the file as UTF-8, or pass --encoding NAME",
        ),
    ],
)
def test_an_error_in_the_header_says_so(tmp_path: Path, content: bytes, reason: str) -> None:
    assert refusal(written(tmp_path / "a.csv", content)) == f"'a.csv' is broken in its header: {reason}."


def test_an_unknown_column_is_answered_with_the_known_ones(tmp_path: Path) -> None:
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


def test_all_columns_of_a_header_are_named_up_to_30(tmp_path: Path) -> None:
    names = ["id", "patient", "date", "sentiment", "stars", "triage_level", "Customer feedback"]
    path = written(tmp_path / "feedback.csv", ",".join(names) + f"\n1,2,3,4,5,6,{SECRET}\n")
    assert f"has no column 'text'. It has: {', '.join(names)}. Pass --text-column" in refusal(path)
    names = [f"id{number}" for number in range(28)] + ["date", "id"]
    path = written(tmp_path / "wide.jsonl", json.dumps(dict.fromkeys(names, SECRET)))
    assert f"It has: {', '.join(names)}. Pass" in refusal(path)


def test_json_without_any_key_has_rows_but_no_column(tmp_path: Path) -> None:
    assert "has no column 'text'" in refusal(written(tmp_path / "a.jsonl", "{}\n{}\n"))


def test_the_first_text_of_a_file_without_a_header_is_not_quoted(tmp_path: Path) -> None:
    for row in (f"1,I am {SECRET} and ill,good", f"{SECRET},ill", SECRET):
        path = written(tmp_path / "a.csv", f"{row}\n{row}\n")
        assert refusal(path) == (
            "'a.csv' has no column 'text', and its first line may be a private row instead of names. "
            "Give it a header, or pass --text-column NAME."
        )
    path = written(tmp_path / "a.tsv", f"{SECRET}\tTEXT\tid\tI am ill\n1\ta\tb\tc\n")
    assert refusal(path) == (
        "'a.tsv' has no column 'text'. It has: TEXT, id and 2 more. Pass --text-column NAME with one of them."
    )
    path = written(tmp_path / "c.csv", f"{SECRET},{SECRET}\n2,b\n")
    assert refusal(path) == "'c.csv' has more than one column of the same name. Give each its own name."
    path = written(tmp_path / "b.csv", f"text,I am {SECRET} and ill,I am {SECRET} and ill\n2,b,bad\n")
    assert refusal(path) == "'b.csv' has more than one column of the same name. Give each its own name."


def test_a_very_long_list_of_columns_is_cut(tmp_path: Path) -> None:
    names = json.dumps({f"c{n}": "" for n in range(5000)})
    assert ", c29 and 4970 more. Pass" in refusal(written(tmp_path / "a.jsonl", names))


def test_a_column_name_that_appears_twice_is_refused(tmp_path: Path) -> None:
    message = "has more than one column 'id'. Give each its own name."
    assert refusal(written(tmp_path / "a.csv", "id,text,id\n1,b,c\n")) == f"'a.csv' {message}"
    table = pa.Table.from_arrays([pa.array([1]), pa.array(["b"]), pa.array([2])], names=["id", "text", "id"])
    pq.write_table(table, tmp_path / "a.parquet")
    assert refusal(tmp_path / "a.parquet") == f"'a.parquet' {message}"


def test_an_unknown_ending_is_answered_with_the_known_ones(tmp_path: Path) -> None:
    assert refusal(written(tmp_path / "a.pdf", SECRET)) == (
        "the ending of 'a.pdf' must be one of .csv, .tsv, .jsonl, .ndjson, .json, .parquet, .xlsx, .txt, got '.pdf'. "
        "Text files may be compressed (.gz, .bz2, .zst). Convert it first."
    )


def test_only_regular_files_are_read(tmp_path: Path) -> None:
    assert refusal(tmp_path / "a.csv") == "'a.csv' does not exist. Check the path."
    (tmp_path / "b.csv").mkdir()
    assert refusal(tmp_path / "b.csv") == "'b.csv' is a directory without .txt files. Name a file in it."
    os.mkfifo(tmp_path / "c.csv")
    assert refusal(tmp_path / "c.csv") == "'c.csv' is not a file. To read a pipe, pass -."
    assert refusal(written(tmp_path / "d.csv", "x") / "e.csv") == "'e.csv' cannot be read: Not a directory."


def test_a_file_that_may_not_be_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "a.csv", "text\na\n")

    def denied(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", denied)  # chmod would not stop root
    assert refusal(path) == "'a.csv' may not be read: permission denied. Check who owns it."


# Broken Parquet files


def test_what_is_not_parquet_is_refused(tmp_path: Path) -> None:
    message = "is not a whole Parquet file. Write or copy it again."
    assert refusal(written(tmp_path / "a.parquet", f"id,text\n1,{SECRET}\n")) == f"'a.parquet' {message}"
    whole = parquet(tmp_path / "b.parquet", {"text": [SECRET] * 100}).read_bytes()
    assert refusal(written(tmp_path / "c.parquet", whole[:-20])) == f"'c.parquet' {message}"


def test_damage_inside_a_parquet_file_is_found_by_a_visit_after_good_batches(tmp_path: Path) -> None:
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
    # 2000 rows are good; the whole batch that spans both row groups is lost.
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


def test_standard_input_has_no_other_column() -> None:
    assert refusal("-", "review") == (
        "standard input has no column 'review'. It has: text. Pass --text-column NAME with one of them."
    )
