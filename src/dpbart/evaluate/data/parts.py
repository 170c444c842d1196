"""Labelled texts in three parts: train, valid and test."""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from dpbart.errors import BadParameter, BadTable
from dpbart.files import whole_or_nothing

NAMES = ("train", "valid", "test")
SCHEMA = pa.schema([("split", pa.string()), ("label", pa.string()), ("text", pa.string())])
_WRITTEN_AT_ONCE = 2**14  # rows


@dataclass(frozen=True)
class Labelled:
    """One text and its label. `group` is what balancing looks at by itself, such as a product category."""

    label: str
    text: str
    group: str = ""


@dataclass(frozen=True)
class Part:
    """Texts and their labels, in order."""

    texts: tuple[str, ...]
    labels: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(self.texts) != len(self.labels):
            raise BadParameter(
                f"a part must have a label for each text, got {len(self.texts)} texts and {len(self.labels)} labels."
            )

    def __len__(self) -> int:
        return len(self.texts)

    def sample(self, rows: int | None, seed: int) -> Part:
        """So many rows, drawn without replacement, in the order they stand; all of them with None."""
        if rows is None or rows >= len(self):
            return self
        drawn = sorted(random.Random(seed).sample(range(len(self)), rows))
        return Part(tuple(self.texts[i] for i in drawn), tuple(self.labels[i] for i in drawn))

    def shuffled(self, seed: int) -> Part:
        """The same texts, their labels dealt out anew: the control that must learn nothing."""
        labels = list(self.labels)
        random.Random(seed).shuffle(labels)
        return Part(self.texts, tuple(labels))


@dataclass(frozen=True)
class DataParts:
    """A labelled data set, split."""

    train: Part
    valid: Part
    test: Part

    @property
    def checksum(self) -> str:
        """The beginning of a SHA-256 over every split, label and text, in order: which data exactly."""
        digest = hashlib.sha256()
        for name in NAMES:
            part: Part = getattr(self, name)
            for label, text in zip(part.labels, part.texts, strict=True):
                digest.update(f"{name}\0{label}\0{text}\0".encode("utf-8", "surrogatepass"))
        return digest.hexdigest()[:16]

    @property
    def unseen(self) -> tuple[str, ...]:
        """Labels of the test part that the train part has not: no classifier can get them right."""
        return tuple(sorted(set(self.test.labels) - set(self.train.labels)))

    @property
    def untested(self) -> tuple[str, ...]:
        """Labels of the train part that the test part has not: they have no F1."""
        return tuple(sorted(set(self.train.labels) - set(self.test.labels)))

    def counts(self) -> dict[str, Counter[str]]:
        """For each part, how often each label stands in it."""
        return {name: Counter(getattr(self, name).labels) for name in NAMES}

    def sample(self, *, train: int | None, valid: int | None, test: int | None, seed: int = 0) -> DataParts:
        """Smaller parts, drawn without replacement."""
        return replace(
            self,
            train=self.train.sample(train, seed),
            valid=self.valid.sample(valid, seed),
            test=self.test.sample(test, seed),
        )


def gather(rows: Iterable[tuple[str, Labelled]]) -> DataParts:
    """Parts of rows that are named by their part.

    Raises:
        BadTable: If a part has no rows.
    """
    texts: dict[str, list[str]] = {name: [] for name in NAMES}
    labels: dict[str, list[str]] = {name: [] for name in NAMES}
    for name, row in rows:
        texts[name].append(row.text)
        labels[name].append(row.label)
    empty = [name for name in NAMES if not texts[name]]
    if empty:
        raise BadTable(
            f"every part must have a row, got none for {', '.join(empty)}. Give more rows, or name the parts."
        )
    return DataParts(*(Part(tuple(texts[name]), tuple(labels[name])) for name in NAMES))


def write_parts(path: Path, rows: Iterable[tuple[str, Labelled]]) -> int:
    """Rows as Parquet with split, label and text, streamed; their number comes back."""
    done = 0
    with whole_or_nothing(path) as partial, pq.ParquetWriter(partial, SCHEMA) as writer:
        waiting: list[tuple[str, str, str]] = []
        for name, row in rows:
            waiting.append((name, row.label, row.text))
            if len(waiting) == _WRITTEN_AT_ONCE:
                done += _write(writer, waiting)
                waiting = []
        done += _write(writer, waiting)
    return done


def _write(writer: pq.ParquetWriter, rows: Sequence[tuple[str, str, str]]) -> int:
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    writer.write_table(pa.table([pa.array(column, pa.string()) for column in columns], schema=SCHEMA))
    return len(rows)
