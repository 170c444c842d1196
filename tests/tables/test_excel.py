"""Excel workbooks: values are kept, formulas are neither computed nor written."""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Sequence
from datetime import date, datetime, time
from pathlib import Path

import openpyxl
import pytest

from dpbart.errors import BadParameter, BadTable, MissingExtra
from dpbart.options.rewriting import Dialect, Request
from dpbart.rewrite.plan import Outline
from dpbart.tables.table import open_table
from tests.tables.plain_tables import SECRET, copy, copy_refusal, open_writer, read_plainly, write_plainly, written

pytestmark = pytest.mark.usefixtures("no_wait_for_the_disk")


def workbook(path: Path, *rows: Sequence[object], others: int = 0) -> Path:
    book = openpyxl.Workbook()
    assert book.active is not None
    for row in rows:
        book.active.append(list(row))
    for _ in range(others):
        book.create_sheet()
    book.save(path)
    return path


def cells(path: Path) -> list[tuple[object, ...]]:
    sheet = openpyxl.load_workbook(path).active
    assert sheet is not None
    return list(sheet.iter_rows(values_only=True))


def test_cells_keep_their_values(tmp_path: Path) -> None:
    row = [7, "one ☕", 1.5, True, None, datetime(2026, 11, 16, 12, 30), time(8, 15), " a\nb "]
    names = ["id", "text", "price", "ill", "gap", "when", "at", "note"]
    source = workbook(tmp_path / "in.xlsx", names, row, [8, None, 2, False, "x", None, None, "007"], others=2)
    copy(source, tmp_path / "out.xlsx", shout=True, size=1)
    first, second = cells(tmp_path / "out.xlsx")[1:]
    assert cells(tmp_path / "out.xlsx")[0] == tuple(names)
    assert first == (7, "ONE ☕", *row[2:])
    assert second == (8, None, 2, False, "x", None, None, "007")


def test_other_formats_get_dates_as_strings(tmp_path: Path) -> None:
    source = workbook(tmp_path / "in.xlsx", ["text", "when"], ["a", datetime(2026, 11, 16)], ["b", None])
    for ending in (".csv", ".jsonl", ".parquet"):
        copy(source, tmp_path / f"out{ending}")
    assert read_plainly(tmp_path / "out.csv") == [["text", "when"], ["a", "2026-11-16T00:00:00"], ["b", ""]]
    assert read_plainly(tmp_path / "out.jsonl")[1:] == [["a", "2026-11-16T00:00:00"], ["b", None]]
    assert read_plainly(tmp_path / "out.parquet")[1:] == [["a", "2026-11-16T00:00:00"], ["b", None]]


def test_a_text_that_begins_like_a_formula_is_written_as_text(tmp_path: Path) -> None:
    source = written(tmp_path / "in.csv", 'text,id\n=1+1,"=HYPERLINK(""http://x"")"\n#N/A,=a\n')
    copy(source, tmp_path / "out.xlsx")
    sheet = openpyxl.load_workbook(tmp_path / "out.xlsx").active
    assert sheet is not None
    found = [cell for row in sheet.iter_rows(min_row=2) for cell in row]
    assert [cell.value for cell in found] == ["=1+1", '=HYPERLINK("http://x")', "#N/A", "=a"]
    assert {cell.data_type for cell in found} == {"s"}
    with zipfile.ZipFile(tmp_path / "out.xlsx") as archive:
        assert b"<f>" not in archive.read("xl/worksheets/sheet1.xml")


def test_a_formula_is_never_executed_or_written(tmp_path: Path) -> None:
    source = workbook(tmp_path / "in.xlsx", ["text", "sum"], ["a", "=1+1"])  # no program has computed it yet
    copy(source, tmp_path / "out.xlsx")
    assert cells(tmp_path / "out.xlsx") == [("text", "sum"), ("a", None)]


def test_what_a_workbook_cannot_hold_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    source = written(tmp_path / "in.csv", f"text,id\na,{SECRET}\x07\n")
    assert copy_refusal(source, tmp_path / "out.xlsx") == (
        "'in.csv' row 1 has a control character, which .xlsx cannot hold. Write a .csv file."
    )
    source = written(tmp_path / "in.csv", f"text,id\na,{SECRET * 5000}\n")
    assert "row 1 has a value of more than 32767 characters" in copy_refusal(source, tmp_path / "out.xlsx")


def test_new_texts_always_fit(tmp_path: Path) -> None:
    source = workbook(tmp_path / "in.xlsx", ["text"], ["a"])
    table = open_table(source)
    with open_writer(tmp_path / "out.xlsx", like=table, columns=("text",)) as writer:
        writer.write(next(table.batches(1)).with_texts(["\x07" + "b" * 40_000]))
    assert cells(tmp_path / "out.xlsx")[1] == ("\ufffd" + "b" * 32_766,)


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ([["id", None, "text"], [1, 2, SECRET]], "is broken in its header: a column without a name."),
        ([["id", "text"], [1, "a"], [2, "b", SECRET]], "is broken at row 2: a cell to the right of the header."),
        ([["id", "text"], [1, "a"], [], [2, SECRET]], "is broken at row 2: a blank line."),
        ([["id", "text"]], "has no rows. Give a file with at least one."),
        (
            [[SECRET, "b c"], ["a", "b"]],
            "has no column 'text', and its first line may be a private row instead of names.",
        ),
    ],
)
def test_a_bad_sheet_is_refused(tmp_path: Path, rows: list[list[object]], reason: str) -> None:
    with pytest.raises(BadTable) as caught:
        open_table(workbook(tmp_path / "in.xlsx", *rows)).visit()
    assert reason in str(caught.value)
    assert SECRET not in str(caught.value)


@pytest.fixture
def two_sheets(tmp_path: Path) -> Path:
    """A workbook with an empty sheet and two others."""
    book = openpyxl.Workbook()
    for title in ("Notes", "Feedback 2025"):
        sheet = book.create_sheet(title)
        sheet.append(["text", "id"])
        sheet.append([f"{SECRET} {title}", 1])
    book.save(tmp_path / "in.xlsx")
    return tmp_path / "in.xlsx"


def test_several_sheets_with_cells_are_listed(two_sheets: Path) -> None:
    with pytest.raises(BadTable) as caught:
        open_table(two_sheets)
    assert str(caught.value).endswith(
        "in.xlsx' has 2 sheets with cells: 2 'Notes', 3 'Feedback 2025'. Pass --sheet with the name or number of "
        "one of them."
    )


@pytest.mark.parametrize(("sheet", "title"), [("Notes", "Notes"), ("3", "Feedback 2025"), ("Feedback 2025",) * 2])
def test_a_sheet_is_chosen_by_name_or_number(two_sheets: Path, sheet: str, title: str) -> None:
    table = open_table(two_sheets, dialect=Dialect(sheet=sheet))
    (batch,) = table.batches(9)
    assert (table.columns, batch.texts()) == (("text", "id"), [f"{SECRET} {title}"])


def test_a_sheet_that_is_not_there_is_refused(two_sheets: Path) -> None:
    has = r"has no sheet '{}'\. It has: 1 'Sheet', 2 'Notes', 3 'Feedback 2025'\.$"
    for sheet in ("notes", "4", "0"):
        with pytest.raises(BadTable, match=has.format(sheet)):
            open_table(two_sheets, dialect=Dialect(sheet=sheet))
    with pytest.raises(BadTable, match="has no rows"):
        open_table(two_sheets, dialect=Dialect(sheet="Sheet"))


def test_only_a_workbook_has_sheets() -> None:
    with pytest.raises(BadParameter, match="--sheet is for Excel workbooks, and the input is none"):
        Outline.of(Request("in.csv", "out.xlsx", sheet="Notes"))
    Outline.of(Request("in.xlsx", "out.csv", sheet="Notes"))


def test_what_is_not_a_workbook_is_refused(tmp_path: Path) -> None:
    whole = workbook(tmp_path / "in.xlsx", ["text"], [SECRET]).read_bytes()
    for content in (SECRET.encode(), whole[:-30], whole[: len(whole) // 2]):
        with pytest.raises(BadTable, match=r"in\.xlsx' is not a whole Excel workbook\. Write or copy it again\.$"):
            open_table(written(tmp_path / "in.xlsx", content)).visit()


def test_without_the_package_the_message_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = workbook(tmp_path / "in.xlsx", ["text"], ["a"])
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    message = r"^reading and writing \.xlsx needs an extra package\. Install it with: pip install 'dpbart\[excel\]'$"
    with pytest.raises(MissingExtra, match=message):
        open_table(source)
    with pytest.raises(MissingExtra, match=message):
        copy(write_plainly(tmp_path / "in.csv", [["1", "a", ""]]), tmp_path / "out.xlsx")


def test_dates_without_a_time_are_dates(tmp_path: Path) -> None:
    source = workbook(tmp_path / "in.xlsx", ["text", date(2026, 11, 16)], ["a", 1])
    assert open_table(source).columns == ("text", "2026-11-16T00:00:00")
