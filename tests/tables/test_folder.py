"""A folder of .txt files, and a .txt file as one document."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

import pytest

from dpbart.errors import BadTable
from dpbart.files import digest_of
from dpbart.options.rewriting import Dialect
from dpbart.tables.streams import StandardInput
from dpbart.tables.table import open_table
from tests.tables.plain_tables import SECRET, copy, names, open_writer, read_plainly, written

pytestmark = pytest.mark.usefixtures("no_wait_for_the_disk")


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    folder.mkdir()
    for name, text in {"b.txt": "two\nlines\n", "a.TXT": "one", ".hidden": SECRET, "c.txt": ""}.items():
        (folder / name).write_text(text)
    return folder


def test_each_file_is_a_text_and_its_name_an_id(notes: Path) -> None:
    table = open_table(notes)
    assert table.columns == ("file", "text")
    batches = list(table.batches(2))
    assert [name for batch in batches for name in batch.column("file")] == ["a.TXT", "b.txt", "c.txt"]
    assert [text for batch in batches for text in batch.texts()] == ["one", "two\nlines", ""]


def test_the_output_is_a_folder_with_the_same_names_or_a_table(notes: Path, tmp_path: Path) -> None:
    copy(notes, tmp_path / "out", shout=True)
    assert names(tmp_path / "out") == ["a.TXT", "b.txt", "c.txt"]
    assert (tmp_path / "out" / "b.txt").read_text() == "TWO\nLINES\n"
    copy(notes, tmp_path / "out.csv", shout=True)
    assert read_plainly(tmp_path / "out.csv")[1:] == [["a.TXT", "ONE"], ["b.txt", "TWO\nLINES"], ["c.txt", ""]]
    assert names(tmp_path) == ["notes", "out", "out.csv"]


def test_a_folder_is_written_whole_or_not_at_all(notes: Path, tmp_path: Path) -> None:
    table = open_table(notes)
    with (  # noqa: PT012
        pytest.raises(RuntimeError, match="stop"),
        open_writer(tmp_path / "out", like=table, columns=table.columns) as writer,
    ):
        writer.write(next(table.batches(1)))
        assert not (tmp_path / "out").exists()
        raise RuntimeError("stop")
    assert names(tmp_path) == ["notes"]


def test_only_a_folder_of_texts_is_replaced_and_only_on_request(notes: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    copy(notes, tmp_path / "out")  # an empty folder may be filled
    table = open_table(notes)
    with pytest.raises(BadTable, match=r"out' exists already\. Pass --overwrite"):
        open_writer(tmp_path / "out", like=table, columns=table.columns)
    (tmp_path / "out" / "old.txt").write_text("old")
    with open_writer(tmp_path / "out", like=table, columns=table.columns, overwrite=True) as writer:
        writer.write(next(table.batches(1)))
    assert names(tmp_path / "out") == ["a.TXT"]
    (tmp_path / "out" / "thesis.doc").write_text("years of work")
    with pytest.raises(BadTable, match=r"1 of its 2 entries are not \.txt files"):
        open_writer(tmp_path / "out", like=table, columns=table.columns, overwrite=True)
    assert (tmp_path / "out" / "thesis.doc").exists()


def test_what_is_not_a_folder_of_texts_is_refused(notes: Path, tmp_path: Path) -> None:
    with pytest.raises(BadTable, match=r"notes/out\.csv' is inside the input\. Name an output in another folder\.$"):
        copy(notes, notes / "out.csv")
    with pytest.raises(BadTable, match=r"^only a folder of \.txt files can be written as a folder\."):
        copy(written(tmp_path / "in.csv", "text\na\n"), tmp_path / "out")
    (notes / "d.txt").write_bytes(b"\xff" + SECRET.encode())
    with pytest.raises(BadTable, match=r"is broken at file 4 in the order of their names: it is not UTF-8\."):
        open_table(notes).visit()
    (notes / "deeper").mkdir()
    with pytest.raises(BadTable, match=r"is a directory, and 1 of its 5 entries are not \.txt files\."):
        open_table(notes)


def test_every_file_may_have_a_mark_of_its_own(notes: Path) -> None:
    (notes / "b.txt").write_bytes("zwölf".encode("utf-16"))
    assert [text for batch in open_table(notes).batches(9) for text in batch.texts()] == ["one", "zwölf", ""]


def test_the_digest_of_a_folder_covers_names_and_contents(notes: Path) -> None:
    seen = {digest_of(notes)}
    os.utime(notes / "b.txt")
    seen.add(digest_of(notes))
    assert len(seen) == 1
    (notes / "b.txt").write_text("two\nlineS\n")
    seen.add(digest_of(notes))
    (notes / "b.txt").rename(notes / "bb.txt")
    seen.add(digest_of(notes))
    (notes / "c.txt").write_text((notes / "bb.txt").read_text())
    seen.add(digest_of(notes))
    assert len(seen) == 4


def test_a_txt_file_can_be_one_document(tmp_path: Path) -> None:
    source = written(tmp_path / "in.txt", "one\ntwo\r\n\nthree\n")
    assert [len(batch) for batch in open_table(source).batches(9)] == [4]
    document = Dialect(document=True)
    table = open_table(source, dialect=document)
    assert [batch.texts() for batch in table.batches(9)] == [["one\ntwo\r\n\nthree"]]
    copy(source, tmp_path / "out.txt", dialect=document, shout=True)
    assert (tmp_path / "out.txt").read_text() == "ONE\nTWO\n\nTHREE\n"
    assert open_table(source).format.reading == "one text per line. To rewrite it as one text, pass --document"
    assert table.format.reading is None


# Standard input and output in any format


def standard(monkeypatch: pytest.MonkeyPatch, content: bytes) -> io.BytesIO:
    """Standard input with this content; returns standard output."""
    out = io.BytesIO()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(out))
    return out


@pytest.mark.parametrize(
    "format", ["csv", "tsv", "jsonl", "json", "parquet", "xlsx", "csv.gz", "jsonl.zst", "json.bz2", "txt.gz"]
)
def test_standard_input_and_output_have_any_format(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: str
) -> None:
    plain = written(tmp_path / "in.csv", "text\n" + "".join(f"text {n}\n" for n in range(3000)))
    copy(plain, tmp_path / f"made.{format}")
    dialect = Dialect(format=format)
    out = standard(monkeypatch, (tmp_path / f"made.{format}").read_bytes())
    copy("-", "-", dialect=dialect, shout=True, size=1000)
    (tmp_path / f"back.{format}").write_bytes(out.getvalue())
    copy(tmp_path / f"back.{format}", tmp_path / "read.csv")
    assert (tmp_path / "read.csv").read_text() == plain.read_text().replace("text ", "TEXT ")


def test_the_dialect_of_standard_input_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = standard(monkeypatch, "id;text\n1;é\n".encode("utf-16"))
    copy("-", "-", dialect=Dialect(format="csv"), shout=True)
    assert out.getvalue() == "id;text\n1;É\n".encode("utf-16")


def test_nothing_of_standard_input_is_kept_once_the_rows_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    standard(monkeypatch, b"text\n" + b"a\n" * 100_000)
    table = open_table("-", dialect=Dialect(format="csv"))
    batches = table.batches(1)
    assert isinstance(table.file.source, StandardInput)
    for _ in range(50_000):
        next(batches)
    assert len(table.file.source._kept) == 0


def test_types_that_only_all_rows_show_cannot_be_written_from_standard_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    standard(monkeypatch, b'{"text": "a"}\n')
    with pytest.raises(BadTable, match=r"^\.parquet needs the types of all rows .* Write a \.jsonl file"):
        copy("-", tmp_path / "out.parquet", dialect=Dialect(format="jsonl"))


def test_a_dropped_column_does_not_reach_standard_output(monkeypatch: pytest.MonkeyPatch) -> None:
    out = standard(monkeypatch, f"id,text,ill\n1,a,{SECRET}\n".encode())
    copy("-", "-", dialect=Dialect(format="csv"), drop=("ill",))
    assert out.getvalue() == b"id,text\n1,a\n"
