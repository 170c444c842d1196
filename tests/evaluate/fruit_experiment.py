"""A small experiment: a tiny model, and two labels that one word gives away."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from dpbart.evaluate.data.splits import LabelledText, LabelledTexts, write_table
from dpbart.evaluate.experiment.experiment import Experiment
from dpbart.evaluate.experiment.plan import ExperimentRequest, Plan, read_plan
from dpbart.evaluate.experiment.results import Result

Trained = list[tuple[LabelledTexts, LabelledTexts, tuple[str, ...]]]  # train, valid and texts of each training
CONFIG = """
models = [{models}]
length = 12
beams = 1
batch_size = 16
[[mechanisms]]
name = "gaussian"
epsilons = [500, inf]
[[data]]
name = "fruit"
delta = 1e-3
[[classifiers]]
kind = "linear"
name = "linear"
"""


def made_up(label: str, number: int) -> str:
    """A text that a classifier can tell by one word: `apple` or `boat`."""
    return f"the {'nurse' if number % 2 else 'baker'} number {number} sold the {label}"


def write_fruit(file: Path, train: int = 24, valid: int = 8, test: int = 12) -> None:
    """Parquet with split, label, text: two labels, recognised by one word."""
    rows, number = [], 0
    for part, count in (("train", train), ("valid", valid), ("test", test)):
        for _ in range(count):
            label = ("apple", "boat")[number % 2]
            rows.append((part, LabelledText(label, made_up(label, number))))
            number += 1
    write_table(file, rows)


def written_plan(folder: Path, models: str, more: str = "") -> Plan:
    (folder / "plan.toml").write_text(CONFIG.format(models=models) + more)
    return read_plan(str(folder / "plan.toml"))


def run(plan: Plan, folder: Path) -> list[Result]:
    return Experiment.prepare(ExperimentRequest(plan, folder, folder / "out")).run()


def rewritten_files(folder: Path) -> Iterator[Path]:
    return (file for file in (folder / "out" / "rewritten").glob("*.parquet") if ".input" not in file.name)
