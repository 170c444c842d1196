"""JSON lines: one JSON object per line. Each row may have keys of its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from dpbart.tables.batch import Batch
from dpbart.tables.encoding import ESCAPE, Encoder
from dpbart.tables.faults import Fault
from dpbart.tables.file import File
from dpbart.tables.formats.json_values import DECODER, OfObjects, encoded, without_mark
from dpbart.tables.formats.lines import lines, up_to_blank_end


class _Sink:
    """Writes each row with the keys that it has."""

    def __init__(self, handle: BinaryIO, encoding: str) -> None:
        self._encoder = Encoder(handle, without_mark(encoding), ESCAPE)

    def write(self, batch: Batch) -> None:
        self._encoder.write("".join(f"{encoded(row)}\n" for row in batch.as_rows()))

    def close(self) -> None: ...


class JsonLines(OfObjects):
    """A file with one object per line."""

    endings = (".jsonl", ".ndjson")
    sink = _Sink

    def rows(self, file: File) -> Iterator[dict[str, object]]:
        return _rows(file)


def _rows(file: File) -> Iterator[dict[str, object]]:
    for line in up_to_blank_end(line.strip(" \t\r\n") for line in lines(file, newline="\n")):
        try:
            row = DECODER.decode(line)
        except (ValueError, RecursionError):  # ValueError: also an integer with more digits than Python reads
            raise Fault("it is not JSON") from None
        if not isinstance(row, dict):
            raise Fault("it is not a JSON object")
        yield row
