"""JSON lines: one JSON object per line. Each row may have keys of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import BinaryIO

from dpbart.tables.batch import Batch, Rows
from dpbart.tables.encoding import ESCAPE, Encoder
from dpbart.tables.faults import Fault
from dpbart.tables.file import File
from dpbart.tables.formats.format import Draft, Format, Source
from dpbart.tables.formats.json_values import DECODER, checked, encoded, without_mark
from dpbart.tables.formats.lines import lines, numbered, row_batches, up_to_blank_end
from dpbart.tables.paths import spread


class JsonLines(Format):
    """A file with one object per line. The keys of the first row are the columns."""

    endings = (".jsonl", ".ndjson")
    further_keys = named = True

    def columns(self, file: File, named: Sequence[str] = ()) -> tuple[str, ...] | None:
        return next((tuple(spread(row, named)) for row in numbered(file, _rows(file))), None)

    def batches(self, file: File, *, text_columns: tuple[str, ...], size: int) -> Iterator[Rows]:
        rows = (checked(row, text_columns) for row in _rows(file))
        return row_batches(numbered(file, rows), text_columns, size)

    def draft(self, source: Source) -> Draft:
        source.check_types()
        return Draft(partial(_Sink, encoding=source.encoding))

    def schema(self, file: File, text_columns: tuple[str, ...]) -> None:
        return None


class _Sink:
    """Writes each row with the keys that it has."""

    def __init__(self, handle: BinaryIO, encoding: str) -> None:
        self._encoder = Encoder(handle, without_mark(encoding), ESCAPE)

    def write(self, batch: Batch) -> None:
        self._encoder.write("".join(f"{encoded(row)}\n" for row in batch.as_rows()))

    def close(self) -> None: ...


def _rows(file: File) -> Iterator[dict[str, object]]:
    for line in up_to_blank_end(line.strip(" \t\r\n") for line in lines(file, newline="\n")):
        try:
            row = DECODER.decode(line)
        except (ValueError, RecursionError):  # ValueError: also an integer with more digits than Python reads
            raise Fault("it is not JSON") from None
        if not isinstance(row, dict):
            raise Fault("it is not a JSON object")
        yield row
