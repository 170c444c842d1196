"""A file of a stranger may be small and unpack to gigabytes. It is refused in words, and reading it can be stopped."""

from __future__ import annotations

import gzip
import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpbart.errors import BadTable
from dpbart.options.rewriting import Dialect
from dpbart.tables.streams import ANY, FileBounds, compressor
from dpbart.tables.table import open_table

MOST, LONGEST = 100_000, 2_000
BOUNDS = FileBounds(MOST, LONGEST)
TEXTS = ["hello there"] * 20_000


def compressed(file: Path, content: bytes, codec: str = "gzip") -> Path:
    with file.open("wb") as handle:
        stream = compressor(handle, codec)
        stream.write(content)
        stream.close()
    return file


def csv(texts: list[str]) -> bytes:
    return ("text\n" + "".join(f"{text}\n" for text in texts)).encode()


def jsonl(texts: list[str]) -> bytes:
    return "".join(json.dumps({"text": text}) + "\n" for text in texts).encode()


def xlsx(file: Path, texts: list[str]) -> Path:
    workbook = openpyxl.Workbook(write_only=True)
    sheet = workbook.create_sheet()
    for text in ("text", *texts):
        sheet.append([text])
    workbook.save(file)
    return file


def parquet(file: Path, texts: list[str]) -> Path:
    pq.write_table(pa.table({"text": texts}), file, compression="zstd")
    return file


MAKE: dict[str, Callable[[Path, list[str]], Path]] = {
    ".csv.gz": lambda file, texts: compressed(file, csv(texts)),
    ".csv.bz2": lambda file, texts: compressed(file, csv(texts), "bz2"),
    ".tsv.zst": lambda file, texts: compressed(file, csv(texts), "zstd"),
    ".jsonl.gz": lambda file, texts: compressed(file, jsonl(texts)),
    ".json.gz": lambda file, texts: compressed(file, json.dumps([{"text": text} for text in texts]).encode()),
    ".txt.zst": lambda file, texts: compressed(file, "\n".join(texts).encode(), "zstd"),
    ".xlsx": xlsx,
    ".parquet": parquet,
}


def rows(file: Path, bounds: FileBounds = BOUNDS) -> int | None:
    return open_table(file, bounds=bounds).visit()


@pytest.mark.parametrize("ending", MAKE)
def test_a_file_that_unpacks_to_too_much_is_refused(tmp_path: Path, ending: str) -> None:
    file = MAKE[ending](tmp_path / f"a{ending}", TEXTS)
    assert rows(file, ANY) == 20_000, "a user's own file may have any size"
    most = MOST // 4 if ending == ".xlsx" else MOST
    with pytest.raises(BadTable, match=f"unpacks to more than {most:,} bytes. Split it into smaller files.$"):
        rows(file)


@pytest.mark.parametrize("ending", MAKE)
def test_a_row_that_is_too_long_is_refused(tmp_path: Path, ending: str) -> None:
    file = MAKE[ending](tmp_path / f"a{ending}", ["x" * 3_000])
    assert rows(file, ANY) == rows(file, FileBounds(MOST, LONGEST + 1_500)) == 1
    with pytest.raises(BadTable, match=f"longer than {LONGEST} (characters|bytes)"):
        rows(file)


@pytest.mark.parametrize("ending", MAKE)
def test_what_is_within_the_bounds_is_read_as_without_them(tmp_path: Path, ending: str) -> None:
    file = MAKE[ending](tmp_path / f"a{ending}", [f"text {number}" for number in range(300)])
    wide = FileBounds(1_000_000, LONGEST)  # an empty workbook has many parts
    usual = [text for batch in open_table(file).batches(10) for text in batch.texts()]
    bounded = [text for batch in open_table(file, bounds=wide).batches(10) for text in batch.texts()]
    assert bounded == usual == [f"text {number}" for number in range(300)]


class Cancelled(KeyboardInterrupt): ...


@pytest.mark.parametrize("ending", MAKE)
def test_whoever_watches_can_stop_it(tmp_path: Path, ending: str) -> None:
    file, asked = MAKE[ending](tmp_path / f"a{ending}", TEXTS), 0

    def going() -> None:
        nonlocal asked
        asked += 1
        if asked > 5:
            raise Cancelled

    with pytest.raises(Cancelled):
        rows(file, FileBounds(going=going))


def test_one_field_with_many_lines_is_one_row(tmp_path: Path) -> None:
    file = compressed(tmp_path / "a.csv.gz", b'text\n"' + b"a\n" * 3_000)
    with pytest.raises(BadTable, match="a row longer than 2000 characters, or a quote left open"):
        rows(file)
    file = compressed(tmp_path / "b.csv.gz", b"text\n" + b'"a\nb"\n' * 3_000)
    assert rows(file) == 3_000, "each row is counted on its own"


def test_a_document_is_one_row(tmp_path: Path) -> None:
    file = compressed(tmp_path / "a.txt.gz", b"a\n" * 3_000)
    with pytest.raises(BadTable, match="a text longer than 2000 characters"):
        open_table(file, dialect=Dialect(document=True), bounds=BOUNDS).visit()


@pytest.mark.parametrize("nested", [False, True])
def test_a_dictionary_is_not_unpacked_before_its_values_are_measured(tmp_path: Path, nested: bool) -> None:
    """20 kB can stand for 20 GB: a value of a megabyte, and many rows that repeat it."""
    many = pa.DictionaryArray.from_arrays(pa.array([0] * 1_000, type=pa.int32()), pa.array(["x" * 1_000_000]))
    lists = pa.ListArray.from_arrays(pa.array(range(1_001), type=pa.int32()), many)
    table = pa.table({"text": ["a"] * 1_000, "tags": lists}) if nested else pa.table({"text": many})
    pq.write_table(table, tmp_path / "a.parquet", compression="zstd", store_schema=False)
    pool = pa.default_memory_pool()
    before = pool.total_bytes_allocated()
    with pytest.raises(BadTable, match="rows longer than 2000 bytes"):
        rows(tmp_path / "a.parquet", FileBounds(10_000_000, LONGEST))
    assert pool.total_bytes_allocated() - before < 20_000_000


def test_a_column_that_says_itself_how_long_its_rows_are_is_not_unpacked(tmp_path: Path) -> None:
    pq.write_table(
        pa.table({"text": ["x" * 1_000_000]}), tmp_path / "a.parquet", compression="zstd", use_dictionary=False
    )
    pool = pa.default_memory_pool()
    before = pool.total_bytes_allocated()
    with pytest.raises(BadTable, match="rows longer than 2000 bytes"):
        rows(tmp_path / "a.parquet", FileBounds(10_000_000, LONGEST))
    assert pool.total_bytes_allocated() - before < 500_000


def changed(file: Path, part: str, content: bytes) -> Path:
    """A workbook with another content of one part."""
    old = io.BytesIO(xlsx(file, ["hello"]).read_bytes())
    with zipfile.ZipFile(old) as read, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for each in read.infolist():
            archive.writestr(each.filename, content if each.filename == part else read.read(each))
    return file


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_a_workbook_with_entities_is_refused(tmp_path: Path, encoding: str) -> None:
    laughs = (
        f'<?xml version="1.0" encoding="{encoding}"?>{"<!-- -->" * 10_000}<!DOCTYPE x [<!ENTITY a "aaaa">]>'
        '<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData><row><c t="inlineStr">'
        "<is><t>text&a;</t></is></c></row></sheetData></worksheet>"
    )
    file = changed(tmp_path / "a.xlsx", "xl/worksheets/sheet1.xml", laughs.encode(encoding))
    with pytest.raises(BadTable, match="has a part with a DOCTYPE, which no workbook has"):
        rows(file, ANY)


def test_a_workbook_that_lies_about_its_size_is_refused(tmp_path: Path) -> None:
    file = changed(tmp_path / "a.xlsx", "xl/worksheets/sheet1.xml", b"<worksheet>" + b" " * 1_000_000)
    content = bytearray(file.read_bytes())
    place = content.rindex(b"xl/worksheets/sheet1.xml") - 46 + 24  # of the size, in the central directory
    assert int.from_bytes(content[place : place + 4], "little") == 1_000_011
    content[place : place + 4] = (1_000).to_bytes(4, "little")
    file.write_bytes(content)
    with pytest.raises(BadTable, match="is not a whole Excel workbook"):
        rows(file)


def test_the_bytes_of_each_pass_count_on_their_own(tmp_path: Path) -> None:
    file = tmp_path / "a.csv.gz"
    file.write_bytes(gzip.compress(csv(["hello there"] * 5_000)))
    table = open_table(file, bounds=BOUNDS)
    assert [table.visit() for _ in range(3)] == [5_000] * 3
