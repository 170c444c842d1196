"""Make a data set's Parquet file, and read it back."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq

from dpbart.evaluate.data.loading import OwnFile, make_file


def make(kind: str, source: Path, out: Path, *, own: OwnFile | None = None, seed: int = 0) -> dict[str, dict[str, int]]:
    return make_file(kind, [source], out, own=own or OwnFile(), seed=seed, allow_different=True)


def rows_of(file: Path) -> list[tuple[str, str, str]]:
    return [tuple(row.values()) for row in pq.read_table(file).to_pylist()]
