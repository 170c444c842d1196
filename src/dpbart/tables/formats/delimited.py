"""CSV and TSV with a header. Every value is a string."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain
from typing import BinaryIO

from dpbart.tables.batch import Batch, DictRows
from dpbart.tables.formats.format import (
    Draft,
    Format,
    Header,
    RowsToWrite,
    Sink,
    lines,
    numbered,
    row_batches,
    up_to_blank_end,
)
from dpbart.tables.streams import REPLACE, Fault, File, TextOutput

# A text may have many megabytes, but an open quote must not pull a file larger than memory into one field.
LONGEST_FIELD = 2**27  # characters
_QUOTED = re.compile('"[^"]*"')


class Delimited(Format):
    """Fields between delimiters, quoted where needed; lines written here end in a line feed."""

    def __init__(self, ending: str, delimiters: str) -> None:
        self.endings = (ending,)
        self._delimiters = delimiters  # those that a header line can show, the usual one first

    def header(self, file: File, *, text_columns: tuple[str, ...] = (), named: Sequence[str] = ()) -> Header | None:
        fields = _Fields(file, self._delimiters)
        columns = next(numbered(file, iter(fields), place="in its header"), None)
        return None if columns is None else Header.of_strings(columns, delimiter=fields.delimiter)

    def batches(self, file: File, *, text_columns: tuple[str, ...], size: int) -> Iterator[DictRows]:
        return row_batches(numbered(file, self._named_fields(file)), text_columns, size)

    def draft(self, source: RowsToWrite) -> Draft:
        source.check_types()
        source.check_encoding(source.columns)
        sink = partial(_DelimitedSink, source=source, delimiter=source.delimiter or self._delimiters[0])
        return Draft(sink, see=None if source.plain else partial(_check, source))

    def _named_fields(self, file: File) -> Iterator[dict[str, object]]:
        rows = iter(_Fields(file, self._delimiters))
        header = next(rows, [])
        for row in rows:
            if len(row) != len(header):
                fields = "1 field" if len(row) == 1 else f"{len(row)} fields"
                raise Fault(f"{fields} where the header has {len(header)}")
            yield dict(zip(header, row, strict=True))


class _Fields:
    """The fields of each row, the header first. `delimiter` is known once the header is read."""

    def __init__(self, file: File, delimiters: str) -> None:
        self.delimiter = file.delimiter or ""
        self._file, self._delimiters = file, delimiters
        self._longest = file.bounds.longest  # characters of a row
        self._length = 0  # characters of the current row, which may have many lines in quotes

    def __iter__(self) -> Iterator[list[str]]:
        csv.field_size_limit(LONGEST_FIELD)  # one setting for the whole process; its default is 131,072
        rest = lines(self._file, newline="")
        header = next(rest, "")
        # The delimiter that the header has most often outside quotes, of equals the first. Rows never decide: they are
        # private.
        self.delimiter = self.delimiter or max(self._delimiters, key=_QUOTED.sub("", header).count)
        whole = chain([header], rest)
        counted = whole if self._longest is None else self._counted(whole, self._longest)
        try:
            for fields in up_to_blank_end(csv.reader(counted, delimiter=self.delimiter, strict=True)):
                self._length = 0
                yield fields
        except csv.Error as error:
            long = f"a field longer than {LONGEST_FIELD} characters, or a quote left open"
            quote = "a quote left open, or one inside a field that is not doubled"
            raise Fault(long if "limit" in str(error) else quote) from None

    def _counted(self, rest: Iterator[str], longest: int) -> Iterator[str]:
        for line in rest:
            self._length += len(line)
            if self._length > longest:
                raise Fault(f"a row longer than {longest} characters, or a quote left open")
            yield line


class _DelimitedSink(Sink):
    def __init__(self, handle: BinaryIO, *, source: RowsToWrite, delimiter: str) -> None:
        self._source = source
        # With \r\n as terminator, the csv module quotes a lone \r as well as a lone \n. With \n alone, older versions
        # leave \r bare, and it would end the row when read. _LineFeeds replaces the terminator.
        output = _LineFeeds(handle, source.encoding, REPLACE)
        self._writer = csv.writer(output, delimiter=delimiter, lineterminator="\r\n")
        self._writer.writerow(source.columns)

    def write(self, batch: Batch) -> None:
        self._writer.writerows(_cells(self._source, batch))


class _LineFeeds(TextOutput):
    def write(self, text: str) -> None:
        super().write(text.removesuffix("\r\n") + "\n")


def _check(source: RowsToWrite, batch: Batch) -> None:
    for number, cells in enumerate(_cells(source, batch), start=batch.first):
        source.check_encoding(cells, number)


def _cells(source: RowsToWrite, batch: Batch) -> list[list[str]]:
    rows = [source.cells(row, number) for number, row in enumerate(batch.as_rows(), start=batch.first)]
    for number, cells in enumerate(rows, start=batch.first):
        if any("\0" in cell for cell in cells):  # would be refused when read
            raise source.refusal(number, "a NUL character")
    return rows
