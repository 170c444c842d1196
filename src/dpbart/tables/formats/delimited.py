"""CSV and TSV with a header. Every value is a string."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain
from typing import BinaryIO

from dpbart.tables.batch import Batch, Rows
from dpbart.tables.encoding import REPLACE, Encoder
from dpbart.tables.faults import Fault
from dpbart.tables.file import File
from dpbart.tables.formats.format import Draft, Format, Source
from dpbart.tables.formats.lines import lines, numbered, row_batches, up_to_blank_end

# A text may have many megabytes, but an open quote must not pull a file larger than memory into one field.
LONGEST_FIELD = 2**27  # characters
_QUOTED = re.compile('"[^"]*"')


class Delimited(Format):
    """Fields between delimiters, quoted where needed; lines written here end in a line feed.

    Args:
        ending: The ending of files.
        delimiters: Those that a header line can show, the usual one first.
    """

    def __init__(self, ending: str, delimiters: str) -> None:
        self.endings = (ending,)
        self._delimiters = delimiters

    def columns(self, file: File, named: Sequence[str] = ()) -> tuple[str, ...] | None:
        return next((tuple(header) for header in numbered(file, self._fields(file), place="in its header")), None)

    def batches(self, file: File, *, text_columns: tuple[str, ...], size: int) -> Iterator[Rows]:
        return row_batches(numbered(file, self._rows(file)), text_columns, size)

    def draft(self, source: Source) -> Draft:
        source.check_types()
        source.check_encoding(source.columns)
        sink = partial(_Sink, source=source, delimiter=source.delimiter or self._delimiters[0])
        return Draft(sink, see=None if source.plain else partial(_check, source))

    def delimiter(self, file: File) -> str:
        header = next(numbered(file, lines(file, newline=""), place="in its header"), "")
        return file.delimiter or self._shown_by(header)

    def _shown_by(self, header: str) -> str:
        """The delimiter that a header line has most often outside quotes. Data never decide: they are private."""
        bare = _QUOTED.sub("", header)
        return max(self._delimiters, key=bare.count)  # of equals, the first

    def _rows(self, file: File) -> Iterator[dict[str, object]]:
        rows = self._fields(file)
        header = next(rows, [])
        for row in rows:
            if len(row) != len(header):
                fields = "1 field" if len(row) == 1 else f"{len(row)} fields"
                raise Fault(f"{fields} where the header has {len(header)}")
            yield dict(zip(header, row, strict=True))

    def _fields(self, file: File) -> Iterator[list[str]]:
        csv.field_size_limit(LONGEST_FIELD)  # one setting for the whole process; its default is 131,072
        rest = lines(file, newline="")
        header = next(rest, "")
        delimiter = file.delimiter or self._shown_by(header)
        row = _OneRow(file.bounds.longest)
        try:
            for fields in up_to_blank_end(
                csv.reader(row.counted(chain([header], rest)), delimiter=delimiter, strict=True)
            ):
                row.length = 0
                yield fields
        except csv.Error as error:
            long = f"a field longer than {LONGEST_FIELD} characters, or a quote left open"
            quote = "a quote left open, or one inside a field that is not doubled"
            raise Fault(long if "limit" in str(error) else quote) from None


class _OneRow:
    """The length of a row, which may have many lines in quotes."""

    def __init__(self, longest: int | None) -> None:
        self._longest = longest
        self.length = 0  # characters so far

    def counted(self, lines: Iterator[str]) -> Iterator[str]:
        for line in lines:
            self.length += len(line)
            if self._longest is not None and self.length > self._longest:
                raise Fault(f"a row longer than {self._longest} characters, or a quote left open")
            yield line


class _Sink:
    def __init__(self, handle: BinaryIO, *, source: Source, delimiter: str) -> None:
        self._source = source
        self._handle = handle
        # With \r\n as terminator, the csv module quotes a lone \r as well as a lone \n. With \n alone, older versions
        # leave \r bare, and it would end the row when read. _LineFeeds replaces the terminator.
        lines = _LineFeeds(Encoder(handle, source.encoding, REPLACE))
        self._writer = csv.writer(lines, delimiter=delimiter, lineterminator="\r\n")
        self._writer.writerow(source.columns)

    def write(self, batch: Batch) -> None:
        self._writer.writerows(_cells(self._source, batch))

    def close(self) -> None: ...


def _check(source: Source, batch: Batch) -> None:
    for number, cells in enumerate(_cells(source, batch), start=batch.first):
        source.check_encoding(cells, number)


def _cells(source: Source, batch: Batch) -> list[list[str]]:
    rows = [source.cells(row, number) for number, row in enumerate(batch.as_rows(), start=batch.first)]
    for number, cells in enumerate(rows, start=batch.first):
        if any("\0" in cell for cell in cells):  # would be refused when read
            raise source.refusal(number, "a NUL character")
    return rows


class _LineFeeds:
    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder

    def write(self, line: str) -> None:
        self._encoder.write(line.removesuffix("\r\n") + "\n")
