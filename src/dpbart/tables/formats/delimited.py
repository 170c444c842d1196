"""CSV and TSV with a header. Every value is a string."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import BinaryIO

from dpbart.tables.batch import Batch, Rows
from dpbart.tables.formats.format import Draft, Format, Source
from dpbart.tables.formats.lines import Fault, lines, numbered, row_batches, up_to_blank_end

# A text may have many megabytes, but an open quote must not pull a file larger than memory into one field.
LONGEST_FIELD = 2**27  # characters


class Delimited(Format):
    """Fields between delimiters, quoted where needed; lines written here end in a line feed."""

    def __init__(self, ending: str, delimiter: str) -> None:
        self.endings = (ending,)
        self._delimiter = delimiter

    def columns(self, path: Path) -> tuple[str, ...] | None:
        return next((tuple(header) for header in numbered(path, self._fields(path), place="in its header")), None)

    def batches(self, path: Path, *, text_column: str, size: int) -> Iterator[Rows]:
        return row_batches(numbered(path, self._rows(path)), text_column, size)

    def draft(self, source: Source) -> Draft:
        source.check_types()
        sink = partial(_Sink, source=source, delimiter=self._delimiter)
        return Draft(sink, see=None if source.plain else partial(_cells, source))

    def _rows(self, path: Path) -> Iterator[dict[str, object]]:
        rows = self._fields(path)
        header = next(rows, [])
        for row in rows:
            if len(row) != len(header):
                fields = "1 field" if len(row) == 1 else f"{len(row)} fields"
                raise Fault(f"{fields} where the header has {len(header)}")
            yield dict(zip(header, row, strict=True))

    def _fields(self, path: Path) -> Iterator[list[str]]:
        csv.field_size_limit(LONGEST_FIELD)  # one setting for the whole process; its default is 131,072
        try:
            yield from up_to_blank_end(csv.reader(lines(path, newline=""), delimiter=self._delimiter, strict=True))
        except csv.Error as error:
            long = f"a field longer than {LONGEST_FIELD} characters, or a quote left open"
            quote = "a quote left open, or one inside a field that is not doubled"
            raise Fault(long if "limit" in str(error) else quote) from None


class _Sink:
    def __init__(self, handle: BinaryIO, *, source: Source, delimiter: str) -> None:
        self._source = source
        # With \r\n as terminator, the csv module quotes a lone \r as well as a lone \n. With \n alone, older versions
        # leave \r bare, and it would end the row when read. _LineFeeds replaces the terminator.
        self._writer = csv.writer(_LineFeeds(handle), delimiter=delimiter, lineterminator="\r\n")
        self._writer.writerow(source.columns)

    def write(self, batch: Batch) -> None:
        self._writer.writerows(_cells(self._source, batch))

    def close(self) -> None: ...


def _cells(source: Source, batch: Batch) -> list[list[str]]:
    rows = [source.cells(row, number) for number, row in enumerate(batch.as_rows(), start=batch.first)]
    for number, cells in enumerate(rows, start=batch.first):
        if any("\0" in cell for cell in cells):  # would be refused when read
            raise source.refusal(number, "a NUL character")
    return rows


class _LineFeeds:
    def __init__(self, handle: BinaryIO) -> None:
        self._handle = handle

    def write(self, line: str) -> None:
        self._handle.write(line.removesuffix("\r\n").encode() + b"\n")
