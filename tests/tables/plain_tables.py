"""Helpers for tests of reading and writing: tables made without the code under test, and copies made by it."""

from __future__ import annotations

import csv
import json
from collections.abc import Collection
from contextlib import AbstractContextManager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpbart.errors import BadTable
from dpbart.options.rewriting import Dialect
from dpbart.tables.table import Table, open_table
from dpbart.tables.writer import TableWriter, plan_writer

SECRET = "Mallory"
COLUMNS = ("id", "text", "label")
ENDINGS = (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet")


def written(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def parquet(path: Path, columns: dict[str, object], **options: object) -> Path:
    pq.write_table(pa.table(columns), path, **options)
    return path


def write_plainly(path: Path, rows: list[list[str]]) -> Path:
    """A table of strings, written without the code under test."""
    if path.suffix in (".csv", ".tsv"):
        with path.open("w", newline="", encoding="utf-8") as handle:
            csv.writer(handle, delimiter="\t" if path.suffix == ".tsv" else ",").writerows([COLUMNS, *rows])
    elif path.suffix == ".parquet":
        pq.write_table(pa.table(dict(zip(COLUMNS, map(list, zip(*rows, strict=True)), strict=True))), path)
    else:
        path.write_text("".join(json.dumps(dict(zip(COLUMNS, row, strict=True))) + "\n" for row in rows))
    return path


def read_plainly(path: Path) -> list[list[object]]:
    """A table's columns and values, read without the code under test."""
    if path.suffix in (".csv", ".tsv"):
        with path.open(newline="", encoding="utf-8") as handle:
            return [list(row) for row in csv.reader(handle, delimiter="\t" if path.suffix == ".tsv" else ",")]
    if path.suffix == ".parquet":
        table = pq.read_table(path)
        return [table.column_names, *([row[name] for name in table.column_names] for row in table.to_pylist())]
    rows = [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]
    return [list(rows[0]), *(list(row.values()) for row in rows)]


def open_writer(
    path: Path | str, *, like: Table, columns: Collection[str], overwrite: bool = False
) -> AbstractContextManager[TableWriter]:
    """A planned writer, once its visitors have seen the whole input."""
    writer, visitors = plan_writer(path, like=like, columns=columns, overwrite=overwrite)
    if visitors:
        like.visit(*visitors)
    return writer


def copy(
    source: Path | str,
    target: Path | str,
    *,
    drop: tuple[str, ...] = (),
    size: int = 2,
    shout: bool = False,
    text_column: str = "text",
    dialect: Dialect | None = None,
) -> None:
    """Copy a table in the way that a job does."""
    table = open_table(source, text_column=text_column, named=drop, dialect=dialect)
    columns = tuple(column for column in table.columns if column not in drop)
    with open_writer(target, like=table, columns=columns) as writer:
        for batch in table.batches(size):
            writer.write(batch.with_texts([text.upper() if shout else text for text in batch.texts()]))
        writer.finish()


def names(place: Path) -> list[str]:
    return sorted(entry.name for entry in place.iterdir())


def copy_refusal(source: Path, target: Path) -> str:
    """The one-line refusal of an output. It quotes no private word and leaves no file behind."""
    before = names(source.parent)
    with pytest.raises(BadTable) as caught:
        copy(source, target)
    assert names(source.parent) == before
    message = str(caught.value)
    assert SECRET not in message
    assert "\n" not in message
    return message.replace(f"{source.parent}/", "")
