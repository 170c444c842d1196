"""Delimiters, encodings and compression: found from the header, the first bytes and the name, and kept."""

from __future__ import annotations

import bz2
import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from dpbart.errors import BadParameter, BadTable
from dpbart.options.rewriting import Dialect
from dpbart.tables.table import open_table
from tests.tables.plain_tables import SECRET, copy, copy_refusal, open_writer, read_plainly, write_plainly, written

pytestmark = pytest.mark.usefixtures("no_wait_for_the_disk")

PACK: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".zst": lambda content: zstandard.compress(content),
}
UNPACK: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.decompress,
    ".bz2": bz2.decompress,
    ".zst": lambda content: zstandard.ZstdDecompressor().decompressobj().decompress(content),
}


@pytest.mark.parametrize("delimiter", list(",;\t|"))
def test_the_header_shows_the_delimiter_and_the_output_keeps_it(tmp_path: Path, delimiter: str) -> None:
    header, row = ("id", "text", "label"), ("1", '"a,;|\tb"', "x")
    source = written(tmp_path / "in.csv", f"{delimiter.join(header)}\n{delimiter.join(row)}\n")
    assert open_table(source).columns == ("id", "text", "label")
    copy(source, tmp_path / "out.csv", shout=True)
    kept = f"{delimiter.join(header)}\n{delimiter.join(row)}\n"
    assert (tmp_path / "out.csv").read_text() == kept.replace("a,;|\tb", "A,;|\tB")


@pytest.mark.parametrize(
    ("header", "columns"),
    [
        ('id;"a,b,c,d";text', ("id", "a,b,c,d", "text")),  # what is quoted does not count
        ("name, first;text;label", ("name, first", "text", "label")),
        ("text", ("text",)),
    ],
)
def test_only_the_header_decides(tmp_path: Path, header: str, columns: tuple[str, ...]) -> None:
    row = ";".join(['"a,b|c|d,e;f"'] * len(columns))
    table = open_table(written(tmp_path / "a.csv", f"{header}\n{row}\n"))
    assert table.columns == columns


def test_a_delimiter_may_be_named(tmp_path: Path) -> None:
    source = written(tmp_path / "in.csv", "id^a,b,c^text\n1^2^x,y\n")
    table = open_table(source, dialect=Dialect(delimiter="^"))
    assert table.columns == ("id", "a,b,c", "text")
    assert next(table.batches(1)).texts() == ["x,y"]
    assert Dialect(delimiter="\\t").delimiter == "\t"
    for bad in ("", ";;", '"', "\n", "a"):
        with pytest.raises(BadParameter, match="^a delimiter must be one character"):
            Dialect(delimiter=bad)


def test_another_format_has_its_own_delimiter_unless_one_is_named(tmp_path: Path) -> None:
    source = written(tmp_path / "in.csv", "id;text\n1;a\n")
    copy(source, tmp_path / "out.tsv")
    assert (tmp_path / "out.tsv").read_text() == "id\ttext\n1\ta\n"
    copy(tmp_path / "out.tsv", tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text() == "id,text\n1,a\n"
    rows = written(tmp_path / "in.jsonl", '{"id": 1, "text": "a"}\n')
    copy(rows, tmp_path / "named.csv", dialect=Dialect(delimiter=";"))
    assert (tmp_path / "named.csv").read_text() == "id;text\n1;a\n"


@pytest.mark.parametrize("encoding", ["cp1252", "latin-1", "utf-16", "utf-8"])
@pytest.mark.parametrize("ending", [".csv", ".jsonl", ".json", ".txt"])
def test_an_encoding_is_read_and_kept(tmp_path: Path, encoding: str, ending: str) -> None:
    plain = {".csv": "text,id\nJosé ä,ß\n", ".jsonl": '{"text": "José ä", "id": "ß"}\n', ".txt": "José ä\n"}
    content = plain.get(ending, '[\n{"text": "José ä", "id": "ß"}\n]\n')
    source = written(tmp_path / f"in{ending}", content.encode(encoding))
    dialect = Dialect(encoding=encoding)
    table = open_table(source, dialect=dialect)
    assert next(table.batches(1)).texts() == ["José ä"]
    copy(source, tmp_path / f"out{ending}", shout=True, dialect=dialect)
    assert (tmp_path / f"out{ending}").read_bytes().decode(encoding) == content.replace("José ä", "JOSÉ Ä")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig"])
def test_a_mark_shows_the_encoding_and_is_kept(tmp_path: Path, encoding: str) -> None:
    source = written(tmp_path / "in.csv", "text;id\ncafé;1\n".encode(encoding))
    copy(source, tmp_path / "out.csv", shout=True)
    assert (tmp_path / "out.csv").read_bytes() == "text;id\nCAFÉ;1\n".encode(encoding)
    copy(source, tmp_path / "out.jsonl")
    assert not (tmp_path / "out.jsonl").read_bytes().startswith(b"\xef\xbb\xbf")  # JSON has no such mark


def test_big_endian_utf_16_is_read(tmp_path: Path) -> None:
    source = written(tmp_path / "in.csv", b"\xfe\xff" + "text\ncafé\n".encode("utf-16-be"))
    assert next(open_table(source).batches(1)).texts() == ["café"]


def test_a_named_encoding_must_not_contradict_the_mark(tmp_path: Path) -> None:
    source = written(tmp_path / "in.csv", f"text\n{SECRET}\n".encode("utf-8-sig"))
    with pytest.raises(BadTable, match=r"begins with a mark of UTF-8, but --encoding is cp1252\. Leave it out\.$"):
        open_table(source, dialect=Dialect(encoding="cp1252"))
    with pytest.raises(BadParameter, match=r"^encoding must be one of utf-8, utf-16, cp1252, latin-1, got 'rot13'\.$"):
        Dialect(encoding="rot13")


@pytest.mark.parametrize(("encoding", "bad"), [("cp1252", b"\x81"), ("utf-16", b"\x00\xd8a\x00")])
def test_a_byte_that_an_encoding_lacks_is_found_in_its_own_row(tmp_path: Path, encoding: str, bad: bytes) -> None:
    head = "id,text\n1,a\n2,".encode(encoding)
    source = written(tmp_path / "in.csv", head + bad + "\n3,c\n".encode(encoding).removeprefix(b"\xff\xfe"))
    batches = open_table(source, dialect=Dialect(encoding=encoding)).batches(1)
    assert next(batches).texts() == ["a"]
    with pytest.raises(BadTable, match="is broken at row 2: it is not "):
        next(batches)


def test_a_new_character_that_the_encoding_lacks_is_replaced_and_an_old_one_is_refused(tmp_path: Path) -> None:
    source = written(tmp_path / "in.csv", "text,id\na,é\n".encode("cp1252"))
    table = open_table(source, dialect=Dialect(encoding="cp1252"))
    with open_writer(tmp_path / "out.csv", like=table, columns=table.columns) as writer:
        writer.write(next(table.batches(1)).with_texts(["→ é"]))
    assert (tmp_path / "out.csv").read_bytes() == "text,id\n? é,é\n".encode("cp1252")
    rows = written(tmp_path / "in.jsonl", f'{{"text": "a", "id": "\\u2192 {SECRET}"}}\n')
    with pytest.raises(BadTable, match=r"in\.jsonl' row 1 has a character that cp1252 cannot hold") as caught:
        copy(rows, tmp_path / "no.csv", dialect=Dialect(encoding="cp1252"))
    assert SECRET not in str(caught.value)
    copy(rows, tmp_path / "yes.jsonl", dialect=Dialect(encoding="cp1252"))
    assert read_plainly(tmp_path / "yes.jsonl") == [["text", "id"], ["a", f"→ {SECRET}"]]


@pytest.mark.parametrize("packed", PACK)
@pytest.mark.parametrize("ending", [".csv", ".tsv", ".jsonl", ".json", ".txt"])
def test_text_files_may_be_compressed_in_and_out(tmp_path: Path, packed: str, ending: str) -> None:
    plain = write_plainly(tmp_path / "plain.csv", [[str(n), f"text {n}", "x"] for n in range(500)])
    copy(plain, tmp_path / f"a{ending}")
    source = written(tmp_path / f"in{ending}{packed}", PACK[packed]((tmp_path / f"a{ending}").read_bytes()))
    copy(source, tmp_path / f"out{ending}{packed}")
    unpacked = UNPACK[packed]((tmp_path / f"out{ending}{packed}").read_bytes())
    assert unpacked == (tmp_path / f"a{ending}").read_bytes()
    copy(source, tmp_path / f"plain{ending}.out{ending}")
    assert (tmp_path / f"plain{ending}.out{ending}").read_bytes() == unpacked  # the name says: not compressed


@pytest.mark.parametrize("packed", PACK)
def test_a_compressed_file_that_was_cut_off_is_refused(tmp_path: Path, packed: str) -> None:
    whole = PACK[packed](b"id,text\n" + b"".join(b"%d,%s %d\n" % (n, SECRET.encode(), n * n) for n in range(20_000)))
    for content in (whole[: len(whole) // 2], whole + b"trailing", b"id,text\n1,Mallory\n"):
        with pytest.raises(BadTable) as caught:
            open_table(written(tmp_path / f"in.csv{packed}", content)).visit()
        assert "its compressed data is damaged or cut off. Copy the file again." in str(caught.value)
        assert SECRET not in str(caught.value)


def test_formats_that_compress_themselves_are_not_compressed_again(tmp_path: Path) -> None:
    source = write_plainly(tmp_path / "in.csv", [["1", "a", ""]])
    assert "the ending of 'out.parquet.gz' must be one of" in copy_refusal(source, tmp_path / "out.parquet.gz")


def test_a_line_that_does_not_fit_into_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpbart.tables.formats.format.LONGEST_LINE", 100)
    source = written(tmp_path / "in.txt.gz", gzip.compress(b"a\n" + SECRET.encode() * 100))
    with pytest.raises(BadTable, match=r"is broken at row 2: a line longer than 100 characters\.$"):
        open_table(source).visit()


# pandas


@pytest.mark.parametrize("kind", ["named", "unnamed", "several", "dates"])
def test_a_pandas_index_is_kept(tmp_path: Path, kind: str) -> None:
    index = {
        "named": pd.Index(["x", "y"], name="patient"),
        "unnamed": pd.Index(["x", "y"]),
        "several": pd.MultiIndex.from_tuples([("a", 1), ("b", 2)], names=["ward", None]),
        "dates": pd.to_datetime(["2020-01-01", "2020-01-02"]).tz_localize("Europe/Berlin"),
    }[kind]
    frame = pd.DataFrame({"text": ["a", "b"], "n": [1, 2]}, index=index)
    frame.attrs["secret"] = SECRET
    frame.to_parquet(tmp_path / "in.parquet")
    copy(tmp_path / "in.parquet", tmp_path / "out.parquet", shout=True)
    kept = pd.read_parquet(tmp_path / "out.parquet")
    assert list(kept["text"]) == ["A", "B"]
    assert kept.index.equals(frame.index)
    assert kept.index.names == frame.index.names
    assert list(kept.columns) == ["text", "n"]
    assert SECRET.encode() not in b"".join((pq.read_schema(tmp_path / "out.parquet").metadata or {}).values())


def test_a_range_of_pandas_is_left_out(tmp_path: Path) -> None:
    """It is no column, so no card lists it: neither its name nor its numbers may be released."""
    frame = pd.DataFrame({"text": ["a", "b"]}, index=pd.RangeIndex(5, 9, 2, name=SECRET))
    frame.to_parquet(tmp_path / "in.parquet")
    copy(tmp_path / "in.parquet", tmp_path / "out.parquet")
    assert SECRET.encode() not in (tmp_path / "out.parquet").read_bytes()
    kept = pd.read_parquet(tmp_path / "out.parquet")
    assert (list(kept.index), kept.index.name) == ([0, 1], None)


def test_a_level_of_an_index_has_no_other_name_than_its_column(tmp_path: Path) -> None:
    stored = {"index_columns": ["n"], "columns": [{"field_name": "n", "name": SECRET}], "column_indexes": []}
    table = pa.table({"n": [1, 2], "text": ["a", "b"]}).replace_schema_metadata({"pandas": json.dumps(stored)})
    pq.write_table(table, tmp_path / "in.parquet")
    copy(tmp_path / "in.parquet", tmp_path / "out.parquet")
    assert SECRET.encode() not in (tmp_path / "out.parquet").read_bytes()
    assert pd.read_parquet(tmp_path / "out.parquet").index.name == "n"


def test_an_index_that_is_dropped_is_forgotten(tmp_path: Path) -> None:
    frame = pd.DataFrame({"text": ["a"], "n": [1]}, index=pd.Index(["x"], name="patient"))
    frame.to_parquet(tmp_path / "in.parquet")
    copy(tmp_path / "in.parquet", tmp_path / "out.parquet", drop=("patient",))
    assert list(pd.read_parquet(tmp_path / "out.parquet").columns) == ["text", "n"]
    assert pq.read_schema(tmp_path / "out.parquet").metadata is None
