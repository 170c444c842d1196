"""The new texts of a run, safe on disk in numbered parts until all are there and the output is written.

A part is written beside its name, synced, and takes its name; so a part that has its name is whole, whatever happens.
It holds new texts and, where labels are randomised, new labels: nothing of the input.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from dpbart.errors import BadTable, NotResumable
from dpbart.files import whole_or_nothing

_TEXT, _LABEL = "text", "label"
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
        try:
            with whole_or_nothing(file) as partial, pa.ipc.new_file(partial, record.schema) as part:
                part.write_batch(record)
        except BadTable as error:
            raise BadTable(
                f"{error} {self.rows:,} texts are safe in its folder; make room, and go on with --resume."
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


def _number(file: Path) -> int:
    return int(file.stem.partition("-")[0])
