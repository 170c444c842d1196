"""One sheet of an Excel workbook (.xlsx); its first row is the header.

Formulas are neither computed nor written. A formula counts as the value that Excel stored with it, and a text that
begins with "=" is written as text. A workbook is a ZIP archive of XML files. Dangerous ones are refused before a parser
unpacks them into memory.
"""

from __future__ import annotations

import math
import re
import warnings
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from functools import partial
from itertools import islice
from types import ModuleType
from typing import IO, TYPE_CHECKING, Any, BinaryIO, cast
from xml.parsers import expat

import pyarrow as pa

from dpbart.errors import BadTable, MissingExtra
from dpbart.tables.batch import Batch, DictRows, as_cell
from dpbart.tables.formats.format import Draft, Format, Header, RowsToWrite, numbered, row_batches, up_to_blank_end
from dpbart.tables.paths import Row, value_at
from dpbart.tables.streams import Fault, File

if TYPE_CHECKING:
    from openpyxl.workbook.workbook import Workbook

_BLOCK = 1 << 16  # bytes
_IN_MEMORY = 4  # divides the bytes that a file may unpack to: the strings of a workbook are held in memory
_MOST_ROWS = 2**20  # with the header
_READ_AT_ONCE = 256  # rows
_SHEETS_SHOWN = 30
_LONGEST_CELL = 32_767  # characters
_EXACT = 2**53  # Excel's numbers are floats
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")  # characters that XML lacks
_Dated = date | time | timedelta  # a datetime is a date


@dataclass(frozen=True)
class _SheetRows(DictRows):
    """Rows with dates and times, which only another workbook can hold."""

    def as_rows(self) -> Sequence[Row]:
        return [{name: _without_dates(value) for name, value in row.items()} for row in self.rows]

    def as_record(self, schema: pa.Schema) -> pa.RecordBatch:
        return DictRows(self.first, self.text_columns, self.as_rows()).as_record(schema)


class Excel(Format):
    """A workbook. Cells keep their values: texts, numbers, booleans, dates and times."""

    endings = (".xlsx",)
    sheets = True
    compressible = False

    def header(self, file: File, *, text_columns: tuple[str, ...] = (), named: Sequence[str] = ()) -> Header | None:
        names = next(numbered(file, map(_names, _cells(file)), place="in its header"), None)
        return None if names is None else Header(tuple(names), schema=None)

    def batches(self, file: File, *, text_columns: tuple[str, ...], size: int) -> Iterator[DictRows]:
        for batch in row_batches(numbered(file, _sheet_rows(file)), text_columns, size):
            yield _SheetRows(batch.first, batch.text_columns, batch.rows)

    def draft(self, source: RowsToWrite) -> Draft:
        _openpyxl()
        source.check_types()
        _check_cells(source, source.columns, 0)

        def see(batch: Batch) -> None:
            for number, row in enumerate(batch.as_rows(), start=batch.first):
                _check_cells(source, source.cells(row, number), number)

        return Draft(partial(_SheetSink, source=source), see)


class _SheetSink:
    """Streams rows to a sheet; the workbook is put together at the end."""

    def __init__(self, handle: BinaryIO, source: RowsToWrite) -> None:
        self._handle, self._source = handle, source
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
        if not text.startswith(("=", "#")):
            return text
        # Excel must not take it for a formula or an error, even after somebody has edited the cell.
        cell = _openpyxl().cell.WriteOnlyCell(self._sheet, value=text)
        cell.data_type, cell.quotePrefix = "s", True
        return cell


def _check_cells(source: RowsToWrite, cells: Sequence[str], number: int) -> None:
    if number >= _MOST_ROWS:
        raise source.refusal(number, f"more than {_MOST_ROWS - 1} rows before it")
    if any(_FORBIDDEN.search(cell) for cell in cells):
        raise source.refusal(number, "a control character")
    if any(len(cell) > _LONGEST_CELL for cell in cells):
        raise source.refusal(number, f"a value of more than {_LONGEST_CELL} characters")


def _sheet_rows(file: File) -> Iterator[dict[str, object]]:
    rows = _cells(file)
    header = _names(next(rows, []))
    for cells in up_to_blank_end(rows):
        if len(cells) > len(header):
            raise Fault("a cell to the right of the header")
        yield dict(zip(header, [*cells, *[None] * (len(header) - len(cells))], strict=True))


def _names(cells: list[object]) -> list[str]:
    if None in cells:
        raise Fault("a column without a name")
    return [as_cell(_without_dates(cell)) for cell in cells]


def _cells(file: File) -> Iterator[list[object]]:
    """The rows of the sheet, each up to its last cell that is not empty."""
    openpyxl = _openpyxl()
    with file.bounds.watched(file.open_seekable(), file.name) as source:
        with _whole_workbook(file):
            _check_parts(source, file)
            workbook = openpyxl.load_workbook(source, read_only=True, data_only=True, keep_links=False)
        with closing(workbook):
            yield from _cells_of(workbook, file)


def _cells_of(workbook: Workbook, file: File) -> Iterator[list[object]]:
    with _whole_workbook(file):
        sheet = _chosen_sheet(workbook.worksheets, file)
    rows, longest = iter(()) if sheet is None else _values(sheet, file), file.bounds.longest
    while True:
        with _whole_workbook(file):
            some = list(map(_trimmed, islice(rows, _READ_AT_ONCE)))
        if not some:
            return
        for row in some:
            if longest is not None and sum(len(cell) for cell in row if isinstance(cell, str)) > longest:
                raise Fault(f"a row longer than {longest} characters")
            yield row


def _chosen_sheet(sheets: Sequence[Any], file: File) -> object | None:
    """The sheet that the user names, by name or number, or the only one that has cells; None if no sheet has any."""
    if file.sheet is not None:
        numbers = {str(number): sheet for number, sheet in enumerate(sheets, start=1)}
        found = {**numbers, **{sheet.title: sheet for sheet in sheets}}.get(file.sheet)
        if found is None:
            raise BadTable(f"{file.name} has no sheet {file.sheet!r}. It has: {_listed(sheets, sheets)}.")
        return cast(object, found)
    filled = [sheet for sheet in sheets if any(map(_trimmed, _values(sheet, file)))]
    if len(filled) > 1:
        raise BadTable(
            f"{file.name} has {len(filled)} sheets with cells: {_listed(filled, sheets)}. Pass --sheet with the "
            "name or number of one of them."
        )
    return filled[0] if filled else None


def _listed(shown: Sequence[Any], sheets: Sequence[Any]) -> str:
    """Sheets by number and name."""
    more = f" and {len(shown) - _SHEETS_SHOWN} more" if len(shown) > _SHEETS_SHOWN else ""
    return ", ".join(f"{sheets.index(sheet) + 1} {sheet.title!r}" for sheet in shown[:_SHEETS_SHOWN]) + more


def _values(sheet: object, file: File) -> Iterator[tuple[object, ...]]:
    file.bounds.going()
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


def _check_parts(source: BinaryIO, file: File) -> None:
    """Refuse a workbook that unpacks to too much, or whose XML may define entities, which can expand to gigabytes."""
    with zipfile.ZipFile(source) as archive:
        unpacked = sum(part.file_size for part in archive.infolist())  # zipfile reads no more than that of a part
        file.bounds.check(unpacked, file.name, parts=_IN_MEMORY)
        for part in archive.infolist():
            with archive.open(part) as opened:
                if _declares_types(opened):
                    raise BadTable(f"{file.name} has a part with a DOCTYPE, which no workbook has. Save it again.")


class _Known(Exception):
    """A document type begins, or the first element. Its argument says whether it is a document type."""


def _declares_types(part: IO[bytes]) -> bool:
    """Whether an XML file has a document type. Reads up to the first element, because it must come before that."""

    def stop(declares: bool, *_: object) -> None:
        raise _Known(declares)

    parser = expat.ParserCreate()
    parser.StartDoctypeDeclHandler, parser.StartElementHandler = partial(stop, True), partial(stop, False)
    try:
        while block := part.read(_BLOCK):
            parser.Parse(block)
    except _Known as known:
        return bool(known.args[0])
    except expat.ExpatError:  # what is not XML, such as a picture, has no document type
        return False
    return False


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
