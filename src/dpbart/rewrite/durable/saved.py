"""The new texts of a run, saved on disk in numbered parts until the output is written.

A part is written to a temporary file, synced, and then renamed. So a part with its final name is always complete. It
holds new texts and, if labels are randomised, new labels. It holds nothing from the input.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from dpbart.errors import BadTable, NotResumable
from dpbart.files import OWN, whole_or_nothing

_TEXT, _LABEL = "text", "label"
_ENDING = ".arrow"


@dataclass
class NewTexts:
    """New texts that are not saved yet and, if labels are randomised, their new labels."""

    texts: list[str] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)


class SavedTexts:
    """The saved parts in a folder, in order. Files are named NUMBER-ROWS.arrow; ROWS is the total up to that part."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files = sorted(folder.glob(f"*{_ENDING}"))
        if [_number(file) for file in self._files] != list(range(1, len(self._files) + 1)):
            raise NotResumable(f"saved texts are missing in {str(folder)!r}. Start again with --overwrite.")

    @property
    def rows(self) -> int:
        """How many rows are saved."""
        return int(self._files[-1].stem.partition("-")[2]) if self._files else 0

    @property
    def recipe(self) -> str:
        """The recipe of the texts in the last part; empty if there is no part."""
        if not self._files:
            return ""
        with pa.OSFile(str(self._files[-1])) as handle, pa.ipc.open_file(handle) as part:
            return str(part.schema.metadata[b"recipe"].decode())

    def add(self, new: NewTexts, *, recipe: str) -> None:
        """Save the next rows as one part. When this returns, they survive a power cut."""
        columns: dict[str, Sequence[str]] = {_TEXT: new.texts}
        if new.labels:
            columns[_LABEL] = new.labels
        record = pa.record_batch(
            [pa.array(values, pa.large_string()) for values in columns.values()], names=list(columns)
        ).replace_schema_metadata({"recipe": recipe})
        rows = self.rows + record.num_rows
        file = self._folder / f"{len(self._files) + 1:06}-{rows:012}{_ENDING}"
        try:
            with whole_or_nothing(file, mode=OWN) as partial, pa.ipc.new_file(partial, record.schema) as part:
                part.write_batch(record)
        except BadTable as error:
            raise BadTable(
                f"{error} {self.rows:,} texts are saved in its folder. Free some space, then continue with --resume."
            ) from None
        self._files.append(file)

    def read(self) -> Iterator[tuple[str, str | None]]:
        """All rows in order: the new text, and the new label if there is one."""
        for record in self.records():
            yield from rows_of(record)

    def records(self) -> Iterator[pa.RecordBatch]:
        """The parts in order, read one at a time."""
        for file in self._files:
            with pa.OSFile(str(file)) as handle, pa.ipc.open_file(handle) as part:
                yield part.get_batch(0).replace_schema_metadata(None)


def rows_of(record: pa.RecordBatch) -> Iterator[tuple[str, str | None]]:
    """The rows of a part: the new text, and the new label if there is one."""
    texts = record.column(0).to_pylist()
    labels = record.column(1).to_pylist() if record.num_columns > 1 else [None] * len(texts)
    return zip(texts, labels, strict=True)


def _number(file: Path) -> int:
    return int(file.stem.partition("-")[0])
