"""The new texts of a run, safe on disk in numbered parts until all are there and the output is written.

A part is written beside its name, synced, and takes its name; so a part that has its name is whole, whatever happens.
It holds new texts and, where labels are randomised, new labels: nothing of the input.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from dpbart.errors import BadTable, NotResumable

_TEXT, _LABEL = "text", "label"
_TEMPORARY = "next.partial"  # never read: where a run died while writing it, the next part is written over it
_ENDING = ".arrow"


@dataclass
class Drawn:
    """New texts that are not safe yet, and, where labels are randomised, new labels."""

    texts: list[str] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)


class Parts:
    """The parts in a folder, in order. Names are NUMBER-ROWS.arrow, ROWS counting from the start of the run."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files = sorted(folder.glob(f"*{_ENDING}"))
        if [_number(file) for file in self._files] != list(range(1, len(self._files) + 1)):
            raise NotResumable(f"parts are missing in {str(folder)!r}. Begin anew with --overwrite.")

    @property
    def rows(self) -> int:
        """How many rows are safe."""
        return int(self._files[-1].stem.partition("-")[2]) if self._files else 0

    @property
    def recipe(self) -> str:
        """How they were made."""
        if not self._files:
            return ""
        with pa.OSFile(str(self._files[-1])) as handle, pa.ipc.open_file(handle) as part:
            return str(part.schema.metadata[b"recipe"].decode())

    def add(self, drawn: Drawn, *, recipe: str) -> None:
        """Make some rows safe. When this returns, they are."""
        columns: dict[str, Sequence[str]] = {_TEXT: drawn.texts}
        if drawn.labels:
            columns[_LABEL] = drawn.labels
        record = pa.record_batch(
            [pa.array(values, pa.large_string()) for values in columns.values()], names=list(columns)
        ).replace_schema_metadata({"recipe": recipe})
        rows = self.rows + record.num_rows
        file = self._folder / f"{len(self._files) + 1:06}-{rows:012}{_ENDING}"
        temporary = self._folder / _TEMPORARY
        try:
            with temporary.open("wb") as handle:
                with pa.ipc.new_file(handle, record.schema) as part:
                    part.write_batch(record)
                handle.flush()
                os.fsync(handle.fileno())
            temporary.rename(file)
            sync_folder(self._folder)
        except OSError as error:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
            problem = error.strerror or "the file system failed"
            raise BadTable(
                f"{str(self._folder)!r} cannot be written: {problem}. {self.rows:,} texts are safe there; "
                "make room, and go on with --resume."
            ) from None
        self._files.append(file)

    def read(self) -> Iterator[tuple[str, str | None]]:
        """All rows in order, a part at a time: the new text, and the new label if there is one."""
        for file in self._files:
            with pa.OSFile(str(file)) as handle, pa.ipc.open_file(handle) as part:
                record = part.get_batch(0)
            texts = record.column(0).to_pylist()
            labels = record.column(1).to_pylist() if record.num_columns > 1 else [None] * len(texts)
            yield from zip(texts, labels, strict=True)


def sync_folder(folder: Path) -> None:
    """Make sure that a new name in a folder outlasts a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _number(file: Path) -> int:
    return int(file.stem.partition("-")[0])
