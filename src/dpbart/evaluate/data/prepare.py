"""Make one Parquet file (split, label, text) from a data set in its original format: streamed and seeded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dpbart.errors import BadParameter, BadTable
from dpbart.evaluate.data.amazon import AMAZON, read_amazon
from dpbart.evaluate.data.known import KNOWN
from dpbart.evaluate.data.loading import read_rows
from dpbart.evaluate.data.splits import SPLITS, LabelledText, SourceRow, SplitRow
from dpbart.evaluate.data.splitting import Preparation, named_splits, with_splits, with_validation, without_repeats
from dpbart.evaluate.data.tables import read_table, write_table


@dataclass(frozen=True)
class OwnFile:
    """How to read and prepare the user's own file."""

    text_column: str = "text"
    label_column: str = "label"
    longest: int | None = None  # words
    balanced: bool = False


def make_file(
    kind: str, source: Sequence[Path], out: Path, *, own: OwnFile, seed: int, allow_different: bool
) -> dict[str, dict[str, int]]:
    """Write the file, and return how many texts of each label each split has.

    Raises:
        BadParameter: If the output does not end in .parquet, or there are more sources than the kind accepts.
        BadTable: If a source cannot be read, or has other counts than the paper's.
    """
    if out.suffix != ".parquet":
        raise BadParameter(f"the output must end in .parquet, got '{out}'.")
    if kind != "amazon" and len(source) > 1:
        raise BadParameter(f"'{kind}' has exactly one source, got {len(source)}.")
    counts: dict[str, Counter[str]] = {split: Counter() for split in SPLITS}

    def counted() -> Iterator[SplitRow]:
        for split, row in _rows(kind, source, own, seed):
            counts[split][row.label] += 1
            yield split, row
        if kind in KNOWN and not allow_different:  # before the file gets its name
            KNOWN[kind].check(counts)
        empty = [split for split, labels in counts.items() if not labels]
        if empty:
            raise BadTable(f"every split must have a text, got none for {', '.join(empty)}. Add more rows.")

    write_table(out, counted())
    return {split: dict(labels.most_common()) for split, labels in counts.items()}


def _rows(kind: str, source: Sequence[Path], own: OwnFile, seed: int) -> Iterator[SplitRow]:
    if kind == "amazon":
        return with_validation(replace(AMAZON, seed=seed).run(lambda: read_amazon(source)), seed)
    if kind == "own":
        return _own_rows(source[0], own, seed)
    return with_splits(read_rows(source[0], KNOWN[kind]), seed)


def _own_rows(file: Path, own: OwnFile, seed: int) -> Iterator[SplitRow]:
    """Splits that the file names stay as they are, and each is balanced separately."""

    def read() -> Iterator[SourceRow]:
        return read_table(file, text_column=own.text_column, label_column=own.label_column)

    def grouped() -> Iterator[LabelledText]:
        return without_repeats(replace(row, group=split or "") for split, row in read())

    named = named_splits(read())
    recipe = Preparation(own.longest, own.balanced, seed=seed)
    rows = ((row.group or assigned, row) for assigned, row in recipe.run(grouped))
    return rows if "valid" in named else with_validation(rows, seed)
