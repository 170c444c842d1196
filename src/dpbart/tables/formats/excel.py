"""Excel workbooks (.xlsx) with one sheet, whose first row is the header.

Formulas are neither computed nor written. A formula counts as the value that Excel stored with it, and a text that
begins with "=" is written as text.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from functools import partial
from itertools import islice
from types import ModuleType
from typing import TYPE_CHECKING, BinaryIO

import pyarrow as pa

from dpbart.errors import BadTable, MissingExtra
from dpbart.tables.batch import Batch, Rows, as_cell
from dpbart.tables.faults import Fault
from dpbart.tables.file import File
from dpbart.tables.formats.format import Draft, Format, Source
from dpbart.tables.formats.lines import numbered, row_batches, up_to_blank_end
from dpbart.tables.paths import Row, value_at
from dpbart.tables.workbook_parts import check_parts

if TYPE_CHECKING:
    from openpyxl.cell.cell import Cell
    from openpyxl.workbook.workbook import Workbook

_MOST_ROWS = 2**20  # with the header
_READ_AT_ONCE = 256  # rows
_LONGEST_CELL = 32_767  # characters
_EXACT = 2**53  # Excel's numbers are floats
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")  # characters that XML lacks
_Dated = date | time | timedelta  # a datetime is a date


@dataclass(frozen=True)
class _SheetRows(Rows):
    """Rows with dates and times, which only another workbook can hold."""

    def as_rows(self) -> Sequence[Row]:
        return [{name: _without_dates(value) for name, value in row.items()} for row in self.rows]

    def as_record(self, schema: pa.Schema) -> pa.RecordBatch:
        return Rows(self.first, self.text_columns, self.as_rows()).as_record(schema)


class Excel(Format):
    """A workbook. Cells keep their values: texts, numbers, booleans, dates and times."""

    endings = (".xlsx",)
    compressible = False

    def columns(self, file: File, named: Sequence[str] = ()) -> tuple[str, ...] | None:
        return next((tuple(header) for header in numbered(file, _header(file), place="in its header")), None)

    def batches(self, file: File, *, text_columns: tuple[str, ...], size: int) -> Iterator[Rows]:
        for batch in row_batches(numbered(file, _rows(file)), text_columns, size):
            yield _SheetRows(batch.first, batch.text_columns, batch.rows)

    def draft(self, source: Source) -> Draft:
        _openpyxl()
        source.check_types()
        _check_cells(source, source.columns, 0)

        def see(batch: Batch) -> None:
            for number, row in enumerate(batch.as_rows(), start=batch.first):
                _check_cells(source, source.cells(row, number), number)

        return Draft(partial(_Sink, source=source), see)

    def schema(self, file: File, text_columns: tuple[str, ...]) -> None:
        return None


class _Sink:
    """Streams rows to a sheet; the workbook is put together at the end."""

    def __init__(self, handle: BinaryIO, source: Source) -> None:
        self._handle = handle
        self._source = source
        self._workbook = _openpyxl().Workbook(write_only=True)
        self._sheet = self._workbook.create_sheet()
        self._sheet.append([self._cell(name) for name in source.columns])
        self._closed = False

    def write(self, batch: Batch) -> None:
        dated = batch.rows if isinstance(batch, _SheetRows) else batch.as_rows()
        for row in dated:
            self._sheet.append([self._cell(value_at(row, name)) for name in self._source.columns])

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._workbook.save(self._handle)

    def _cell(self, value: object) -> object:
        if value is None or isinstance(value, bool | _Dated):
            return value
        if isinstance(value, int | float) and math.isfinite(value) and abs(value) <= _EXACT:
            return value
        text = _FORBIDDEN.sub("\ufffd", as_cell(value))[:_LONGEST_CELL]
        return self._as_text(text) if text.startswith(("=", "#")) else text

    def _as_text(self, text: str) -> Cell:
        """A cell that Excel does not take for a formula or an error, even after somebody has edited it."""
        cell = _openpyxl().cell.WriteOnlyCell(self._sheet, value=text)
        cell.data_type = "s"
        cell.quotePrefix = True
        return cell  # type: ignore[no-any-return]


def _check_cells(source: Source, cells: Sequence[str], number: int) -> None:
    if number >= _MOST_ROWS:
        raise source.refusal(number, f"more than {_MOST_ROWS - 1} rows before it")
    if any(_FORBIDDEN.search(cell) for cell in cells):
        raise source.refusal(number, "a control character")
    if any(len(cell) > _LONGEST_CELL for cell in cells):
        raise source.refusal(number, f"a value of more than {_LONGEST_CELL} characters")


def _rows(file: File) -> Iterator[dict[str, object]]:
    rows = _cells(file)
    header = _names(next(rows, []))
    for cells in up_to_blank_end(rows):
        if len(cells) > len(header):
            raise Fault("a cell to the right of the header")
        yield dict(zip(header, [*cells, *[None] * (len(header) - len(cells))], strict=True))


def _header(file: File) -> Iterator[list[str]]:
    cells = next(_cells(file), None)
    if cells is not None:
        yield _names(cells)


def _names(cells: list[object]) -> list[str]:
    if None in cells:
        raise Fault("a column without a name")
    return [as_cell(_without_dates(cell)) for cell in cells]


def _cells(file: File) -> Iterator[list[object]]:
    """The rows of the sheet, each up to its last cell that is not empty."""
    openpyxl = _openpyxl()
    with file.open_seekable() as source:
        with _whole_workbook(file):
            check_parts(source, file)
            workbook = openpyxl.load_workbook(source, read_only=True, data_only=True, keep_links=False)
        try:
            yield from _cells_of(workbook, file)
        finally:
            workbook.close()


def _cells_of(workbook: Workbook, file: File) -> Iterator[list[object]]:
    with _whole_workbook(file):
        sheets = [sheet for sheet in workbook.worksheets if _has_cells(sheet, file)]
    if len(sheets) > 1:
        raise Fault(f"{len(sheets)} sheets have cells, but a table has one. Keep one sheet")
    rows = _values(sheets[0]) if sheets else iter(())
    while True:
        with _whole_workbook(file):
            some = list(map(_trimmed, islice(rows, _READ_AT_ONCE)))
        if not some:
            return
        for row in some:
            _check_length(row, file)
            yield row


def _has_cells(sheet: object, file: File) -> bool:
    file.bounds.going()
    return any(map(_trimmed, _values(sheet)))


def _check_length(row: list[object], file: File) -> None:
    longest = file.bounds.longest
    if longest is not None and sum(len(cell) for cell in row if isinstance(cell, str)) > longest:
        raise Fault(f"a row longer than {longest} characters")


def _values(sheet: object) -> Iterator[tuple[object, ...]]:
    sheet.reset_dimensions()  # type: ignore[attr-defined]  # some programs write wrong ones, and cells would be lost
    # A damaged row number would make openpyxl fill a gap of any length with empty rows.
    yield from islice(sheet.iter_rows(values_only=True), _MOST_ROWS)  # type: ignore[attr-defined]


def _trimmed(row: tuple[object, ...]) -> list[object]:
    cells = list(row)
    while cells and cells[-1] is None:
        cells.pop()
    return cells


@contextmanager
def _whole_workbook(file: File) -> Iterator[None]:
    """Report a damaged workbook in one line. Its parts fail in many ways, with messages that may quote cells."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            yield
            return
        except BadTable:
            raise
        except Exception:
            pass
    raise BadTable(f"{file.name} is not a whole Excel workbook. Write or copy it again.")


def _without_dates(value: object) -> object:
    """A value as JSON has it: dates and times as strings.

    >>> [_without_dates(value) for value in (date(2026, 11, 16), timedelta(minutes=90), 7, "a")]
    ['2026-11-16', '1:30:00', 7, 'a']
    """
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    return str(value) if isinstance(value, timedelta) else value


def _openpyxl() -> ModuleType:
    try:
        import openpyxl
        import openpyxl.cell
    except ImportError:
        raise MissingExtra(
            "reading and writing .xlsx needs an extra package. Install it with: pip install 'dpbart[excel]'"
        ) from None
    return openpyxl
