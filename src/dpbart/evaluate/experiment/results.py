"""The results of an experiment: their files, the best classifier of each setting, and the paper's tables."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import MISSING, asdict, dataclass, fields, replace
from pathlib import Path, PurePath
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from dpbart.errors import BadParameter, BadTable
from dpbart.files import whole_or_nothing
from dpbart.models.families import FAMILIES
from dpbart.privacy.mechanisms import NonPrivate

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


def write_results(folder: Path, results: Sequence[Result], samples: Sequence[Sample]) -> None:
    """Write results.parquet, results.csv and samples.parquet. Each appears only when it is complete."""
    for name, kind, rows in ((RESULTS, Result, results), (SAMPLES, Sample, samples)):
        schema = pa.schema([(each.name, _TYPES[str(each.type).split(" ")[0]]) for each in fields(kind)])
        table = pa.Table.from_pylist([asdict(row) for row in rows], schema=schema)
        with whole_or_nothing(folder / name) as partial:
            pq.write_table(table, partial)
        if kind is Result:
            with whole_or_nothing(folder / "results.csv") as partial:
                pyarrow.csv.write_csv(table, partial)


def read_results(folder: Path) -> list[Result]:
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


BEST = "best on validation"


def best_on_validation(results: Sequence[Result]) -> list[Result]:
    """The result of the best classifier of each setting, for data sets with several classifiers.

    The best is the one with the highest F1 on valid; the test texts have no say. A setting where no classifier has an
    F1 on valid is left out: it failed, or was computed by an older version.
    """
    by_setting: dict[tuple[object, ...], list[Result]] = {}
    for each in (each for each in results if each.valid_f1 is not None):
        by_setting.setdefault((each.data, each.model, each.mechanism, each.epsilon), []).append(each)
    compared = {rows[0].data for rows in by_setting.values() if len(rows) > 1}
    found = (max(rows, key=lambda each: each.valid_f1 or 0.0) for rows in by_setting.values())
    return [replace(each, classifier=BEST) for each in found if each.data in compared]


Row = tuple[str, ...]
UNNAMED = {NonPrivate.name, *(family.mechanisms[0] for family in FAMILIES.values())}

_Named = TypeVar("_Named", Result, Sample)
_LATEX = str.maketrans(
    {
        **{char: f"\\{char}" for char in "_#%&${}"},
        "\\": "\\textbackslash{}",
        "~": "\\textasciitilde{}",
        "^": "\\textasciicircum{}",
        "|": "\\textbar{}",  # the default font shows a dash instead
        "<": "\\textless{}",
        ">": "\\textgreater{}",
        "±": "$\\pm$",
        "∞": "$\\infty$",
    }
)


@dataclass(frozen=True)
class ResultTable:
    """The results of one data set and one classifier."""

    title: str
    header: Row
    rows: tuple[Row, ...]
    notes: tuple[str, ...]

    def as_markdown(self) -> str:
        lines = [f"### {self.title}", ""]
        lines += [f"| {' | '.join(row)} |" for row in (self.header, ("---",) * len(self.header), *self.rows)]
        return "\n".join([*lines, "", *self.notes]) + "\n"

    def as_latex(self) -> str:
        columns = "ll" + "r" * (len(self.header) - 2)
        lines = ["\\begin{table}", "\\centering", f"\\begin{{tabular}}{{{columns}}}", "\\toprule"]
        lines += [_latex_row(self.header), "\\midrule", *(_latex_row(row) for row in self.rows), "\\bottomrule"]
        caption = " ".join((f"{self.title}.", *self.notes)).translate(_LATEX)
        return "\n".join([*lines, "\\end{tabular}", f"\\caption{{{caption}}}", "\\end{table}"]) + "\n"


def paper_tables(results: Sequence[Result]) -> list[ResultTable]:
    """One table for each data set and classifier, in the order of the results; then one for the best classifiers."""
    results = with_short_names([*results, *best_on_validation(results)])
    pairs = list(dict.fromkeys((each.data, each.classifier) for each in results))
    if not pairs:
        raise BadParameter("a table needs results, got none. Run the experiment first.")
    return [_table([each for each in results if (each.data, each.classifier) == pair]) for pair in pairs]


def system_of(result: Result | Sample) -> str:
    """The name of a line: the model, followed by the mechanism unless that is a default."""
    return str(result.model) if result.mechanism in UNNAMED else f"{result.model}, {result.mechanism}"


def with_short_names(results: Sequence[_Named]) -> list[_Named]:
    """Shorten each model to the last part of its path, unless two models would then have the same name."""
    models = {each.model for each in results if each.model is not None}
    short = {model: PurePath(model).name or model for model in models}
    times = Counter(short.values())
    names = {model: name if times[name] == 1 else model for model, name in short.items()}
    return [each if each.model is None else replace(each, model=names[each.model]) for each in results]


def _table(results: list[Result]) -> ResultTable:
    first = results[0]
    budgets = sorted({each.epsilon for each in results if each.epsilon is not None}, reverse=True)
    original = next((each for each in results if each.setting == "original"), None)
    shown = [each for each in results if each.model is not None]
    rows: list[Row] = []
    for system in dict.fromkeys(system_of(each) for each in shown):
        at = {each.epsilon: each for each in shown if system_of(each) == system}
        rows.append((system, "F1", _f1(original), *(_f1(at.get(budget)) for budget in budgets)))
        rows.append(("", "BLEU", "", *(_number(at[b].bleu, 1) if b in at else "" for b in budgets)))
        shuffled = [_number(at[b].shuffled_f1, 2) if b in at else "" for b in budgets]
        rows.append(("", "F1, labels shuffled", _number(original.shuffled_f1, 2) if original else "", *shuffled))
    if original is not None and not shown:
        rows.append(("no rewriting", "F1", _f1(original)))
        rows.append(("", "F1, labels shuffled", _number(original.shuffled_f1, 2)))
    alone = {each.epsilon: each.label_only_f1 for each in shown}
    if budgets:
        rows.append(("label alone, no text", "F1", "", *(_number(alone.get(budget), 2) for budget in budgets)))
    guess = _number(first.majority_f1, 2)
    rows.append(("most frequent label", "F1", guess, *(guess for _ in budgets)))
    header = ("system", "measure", "original", *map(_budget, budgets))
    return ResultTable(f"{first.data}, {first.classifier}", header, tuple(rows), _notes(results))


def _notes(results: list[Result]) -> tuple[str, ...]:
    first = results[0]
    deltas = sorted({each.delta for each in results if each.delta})
    seeds = max(each.seeds for each in results)
    spread = f", mean ± standard deviation over {seeds} seeds" if seeds > 1 else " of one training"
    rewritten = any(each.model is not None for each in results)
    texts, labels = ("rewritten texts", f" Labels are {first.labels}.") if rewritten else ("original texts", "")
    signature = next((each.bleu_signature for each in results if each.bleu_signature), None)
    notes = [
        f"Trained on {first.train:,} and tuned on {first.valid:,} {texts}, tested on {first.test:,} original texts "
        f"with {first.classes} labels; macro F1{spread}.{labels}",
    ]
    if first.classifier == BEST:
        notes.append("Each figure is from the classifier with the highest F1 on the validation part of its setting.")
    if deltas:
        pure = dict.fromkeys(str(each.mechanism) for each in results if each.delta == 0 and each.epsilon != math.inf)
        zero = f" ({', '.join(pure)}: 0)" if pure else ""
        notes.append(f"Delta {', '.join(f'{delta:g}' for delta in deltas)}{zero}.")
    beams = next((each.beams for each in results if each.beams is not None), None)
    if beams is not None:
        others = dict.fromkeys(each.model for each in results if each.model is not None and each.beams is None)
        own = f" ({', '.join(map(str, others))}: by its own settings)" if others else ""
        notes.append(f"Rewritten with a beam of {beams}{own}.")
    if first.unseen:
        notes.append(f"Not in train, so never predicted: {first.unseen}.")
    if signature:
        notes.append(f"BLEU of the rewritten train split, sacrebleu {signature}.")
    failed = sum(each.error is not None for each in results)
    if failed:
        notes.append(f"{failed} failed; see the column 'error' in results.csv.")
    return tuple(notes)


def sample_tables(samples: Sequence[Sample]) -> str:
    """Some texts and their rewritings, as Markdown: one table per text, one line per system and budget."""
    tables = []
    samples = with_short_names(samples)
    for data, original in dict.fromkeys((each.data, each.original) for each in samples):
        of_text = [each for each in samples if (each.data, each.original) == (data, original)]
        lines = [f"### {data}: {_cell(original)}", "", "| system | epsilon | rewritten |", "|---|---|---|"]
        for each in of_text:
            lines.append(f"| {system_of(each)} | {_budget(each.epsilon)} | {_cell(each.rewritten)} |")
        tables.append("\n".join(lines) + "\n")
    return "\n".join(tables)


def _budget(epsilon: float) -> str:
    return "∞" if math.isinf(epsilon) else f"{epsilon:,g}"


def _f1(result: Result | None) -> str:
    if result is None or result.f1_mean is None:
        return "failed" if result and result.error else ""
    spread = "" if result.f1_deviation is None else f" ± {result.f1_deviation:.2f}"
    return f"{result.f1_mean:.2f}{spread}"


def _number(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def _cell(text: str) -> str:
    short = " ".join(text.split())
    return (short if len(short) <= 200 else short[:199] + "…").replace("|", "\\|")


def _latex_row(row: Row) -> str:
    return " & ".join(cell.translate(_LATEX) for cell in row) + " \\\\"
