"""Tables of labelled texts: read from any format, written as Parquet with the columns split, label and text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from dpbart.errors import BadTable
from dpbart.evaluate.data.splits import LabelledText, SourceRow, SplitRow
from dpbart.files import whole_or_nothing
from dpbart.tables.table import open_table

# Other names for the three splits.
SPLIT_OF = {"train": "train", "training": "train", "valid": "valid", "validation": "valid", "dev": "valid"}
SPLIT_OF |= {"val": "valid", "test": "test", "testing": "test"}
NO_SPLIT = ("", "all")  # of a row that has not been assigned to a split yet
SCHEMA = pa.schema([("split", pa.string()), ("label", pa.string()), ("text", pa.string())])
READ_AT_ONCE = 1024  # rows
_WRITTEN_AT_ONCE = 2**14  # rows


def read_table(
    path: Path, *, text_column: str = "text", label_column: str = "label", split_column: str | None = "split"
) -> Iterator[SourceRow]:
    """Rows of a table. The split is None if the table does not name one, or if `split_column` is None."""
    table = open_table(path, text_column=text_column)
    table.require(label_column, option="--label-column")
    for batch in table.batches(READ_AT_ONCE):
        labels = batch.column(label_column)
        splits: list[object] = [None] * len(batch)
        if split_column is not None and split_column in table.columns:
            splits = batch.column(split_column)
        for place, (text, label, split) in enumerate(zip(batch.texts(), labels, splits, strict=True)):
            if label is None or str(label) == "":
                raise BadTable(f"{table.name} row {batch.first + place} has no label. Every row needs one.")
            name = str(split or "").lower()
            if name not in (*SPLIT_OF, *NO_SPLIT):
                raise BadTable(
                    f"'{split_column}' in {table.name} row {batch.first + place} must be train, valid or test, got "
                    f"{split!r}. To have dpbart split the rows, write 'all' in every row."
                )
            yield SPLIT_OF.get(name), LabelledText(str(label), text)


def read_folder(folder: Path) -> Iterator[SourceRow]:
    """Tables named after their split, as on the hub: train-00000-of-00001.parquet, test.csv."""
    found = {file: SPLIT_OF.get(file.stem.split("-")[0].split("_")[0].lower()) for file in sorted(folder.rglob("*.*"))}
    named = {
        file: split for file, split in found.items() if split and file.suffix in (".parquet", ".csv", ".tsv", ".jsonl")
    }
    if not named:
        raise BadTable(f"'{folder}' has no tables named after their split, such as train.parquet and test.csv.")
    for file, split in named.items():
        for _, row in read_table(file, split_column=None):
            yield split, row


def write_table(path: Path, rows: Iterable[SplitRow]) -> None:
    """Stream rows into a Parquet file, which appears only when it is complete."""
    with whole_or_nothing(path) as partial, pq.ParquetWriter(partial, SCHEMA) as writer:
        cells = ({"split": split, "label": row.label, "text": row.text} for split, row in rows)
        while some := list(islice(cells, _WRITTEN_AT_ONCE)):
            writer.write_table(pa.Table.from_pylist(some, schema=SCHEMA))
