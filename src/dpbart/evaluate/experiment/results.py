"""The results of an experiment, as Parquet and CSV: one row per setting and classifier."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import MISSING, asdict, dataclass, fields
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from dpbart.errors import BadTable
from dpbart.files import whole_or_nothing

RESULTS, SAMPLES = "results.parquet", "samples.parquet"
LABELS_AS_THEY_ARE = "released as they are, with the rewritten text"


@dataclass(frozen=True)
class Result:
    """The scores of one classifier in one setting. F1 and accuracy range from 0 to 1, BLEU from 0 to 100."""

    data: str
    setting: str  # original, rewrite-no-dp or rewrite-dp
    classifier: str
    train: int  # texts
    valid: int
    test: int
    classes: int  # labels in test
    unseen: str  # labels in test but not in train, separated by commas
    model: str | None = None
    mechanism: str | None = None
    epsilon: float | None = None  # infinite: no noise; None: original texts
    delta: float | None = None
    beams: int | None = None  # None: original texts, or a model that does not search
    bleu: float | None = None  # of the rewritten train split
    bleu_signature: str | None = None
    content_words: float | None = None  # share that was kept
    verbatim: float | None = None  # share of texts that came back unchanged
    f1_mean: float | None = None  # macro F1 on the original test texts, mean over the seeds
    f1_deviation: float | None = None  # sample standard deviation over the seeds; None for one seed
    valid_f1: float | None = None  # macro F1 on the rewritten valid texts, mean over the seeds; chooses the best judge
    accuracy_mean: float | None = None
    accuracy_deviation: float | None = None
    class_f1: str | None = None  # JSON: the mean F1 of each label
    seeds: int = 0
    learning_rate: float | None = None  # the best on valid
    majority_f1: float | None = None  # of always guessing the most frequent label
    label_only_f1: float | None = None  # control: only the label, by randomised response at this epsilon
    shuffled_f1: float | None = None  # control: trained on the same texts with shuffled labels
    labels: str = LABELS_AS_THEY_ARE
    error: str | None = None


@dataclass(frozen=True)
class Sample:
    """A text and its rewriting."""

    data: str
    model: str
    mechanism: str
    epsilon: float
    original: str
    rewritten: str


_TYPES = {"str": pa.string(), "int": pa.int64(), "float": pa.float64()}


def _schema(kind: type) -> pa.Schema:
    return pa.schema([(each.name, _TYPES[str(each.type).split(" ")[0]]) for each in fields(kind)])


def write_results(folder: Path, results: Sequence[Result], samples: Sequence[Sample]) -> None:
    """Write results.parquet, results.csv and samples.parquet. Each appears only when it is complete."""
    table = pa.Table.from_pylist([asdict(each) for each in results], schema=_schema(Result))
    shown = pa.Table.from_pylist([asdict(each) for each in samples], schema=_schema(Sample))
    for name, held in ((RESULTS, table), (SAMPLES, shown)):
        with whole_or_nothing(folder / name) as partial:
            pq.write_table(held, partial)
    with whole_or_nothing(folder / "results.csv") as partial:
        pyarrow.csv.write_csv(table, partial)


def read_results(folder: Path) -> list[Result]:
    """Read the results in a folder.

    Raises:
        BadTable: If there are none, or the file is damaged.
    """
    return [Result(**row) for row in _rows(folder / RESULTS, Result)]


def read_samples(folder: Path) -> list[Sample]:
    return [Sample(**row) for row in _rows(folder / SAMPLES, Sample)]


def _rows(file: Path, kind: type) -> list[dict[str, Any]]:
    if not file.is_file():
        raise BadTable(f"'{file.parent}' has no '{file.name}'. Make it with 'dpbart experiment run'.")
    known = {each.name for each in fields(kind)}
    needed = {each.name for each in fields(kind) if each.default is MISSING}
    try:
        table = pq.read_table(file)
    except (pa.ArrowException, OSError):
        table = pa.table({})
    if not needed <= set(table.column_names) <= known:
        raise BadTable(f"'{file}' is damaged, or not from an experiment. Make it again with 'dpbart experiment run'.")
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows
