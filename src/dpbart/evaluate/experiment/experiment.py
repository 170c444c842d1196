"""Run an experiment: every cell once, a failure recorded and the rest gone on with.

The train and validation parts are rewritten; classifiers learn from those alone, and are tested on the original test
part. Labels go along as they are, as in the paper; results say so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from dpbart.evaluate.data.datasets import load_data
from dpbart.evaluate.data.parts import DataParts, Part
from dpbart.evaluate.experiment.cells import Cells, Found, describe
from dpbart.evaluate.experiment.judging import Judging, controls
from dpbart.evaluate.experiment.plan import Plan, Setting
from dpbart.evaluate.experiment.results import Result, Sample, write_results
from dpbart.evaluate.experiment.rewriting import RewritingCell
from dpbart.progress import Bar, progress

SHOWN = 5  # texts of each rewriting in the tables of samples


@dataclass(frozen=True)
class Task:
    """What a user asks for: which plan, on which data, into which folder."""

    plan: Plan
    data_folder: Path
    out: Path
    allow_different: bool = False


@dataclass
class Experiment:
    """A task whose data have been read."""

    task: Task
    data: Mapping[str, DataParts]
    results: list[Result] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)

    @classmethod
    def prepare(cls, task: Task) -> Experiment:
        """Read all data first, so that a wrong file is met before hours of work.

        Raises:
            BadTable: If a data set is not there, or is not the paper's.
        """
        data = {}
        for each in task.plan.data:
            whole = load_data(each.name, task.data_folder, allow_different=task.allow_different)
            data[each.name] = whole.sample(train=each.train, valid=each.valid, test=each.test)
        return cls(task, data)

    @property
    def cells(self) -> Cells:
        return Cells(self.task.out / "cells")

    def run(self) -> list[Result]:
        """All results, those of earlier runs among them; written to the folder after every setting."""
        plan = self.task.plan
        with progress(plan.name, total=plan.cells(), unit="cells") as bar:
            for setting in plan.settings():
                self._run_setting(setting, bar)
                write_results(self.task.out, self.results, self.samples)
        return self.results

    def _run_setting(self, setting: Setting, bar: Bar) -> None:
        data, judges = self.data[setting.data.name], [c for c in self.task.plan.classifiers if c.judges(setting)]
        facts = _facts(setting, data, self.task.plan.beams)
        train, valid, source = data.train, data.valid, data.checksum
        kept: Found = {}
        if setting.model is not None:
            try:
                cell = RewritingCell(self.task.plan, setting, data, self.task.out / "rewritten")
                done = cell.run(self.cells)
            except Exception as error:  # whatever it is, the other cells can do without it
                self.results += [replace(facts, classifier=c.name, error=describe(error)) for c in judges]
                bar.advance(1 + sum(c.trainings for c in judges), note=f"{setting} failed")
                return
            bar.advance(1, note=str(setting))
            train, valid, source, kept = done.train, done.valid, done.key, done.figures
            self.samples += _samples(setting, data, train)
        for choice in judges:
            row = replace(_with_kept(facts, kept), classifier=choice.name)
            try:
                done_one = partial(bar.advance, 1, note=f"{setting} {choice.name}")
                figures = Judging(choice, train, valid, data.test, source, self.cells, done_one).figures()
                self.results.append(replace(row, **figures))
            except Exception as error:
                self.results.append(replace(row, error=describe(error)))


def _facts(setting: Setting, data: DataParts, beams: int) -> Result:
    labels = sorted(set(data.test.labels))
    private = setting.epsilon is not None
    return Result(
        data=setting.data.name,
        setting=setting.name,
        classifier="",
        train=len(data.train),
        valid=len(data.valid),
        test=len(data.test),
        classes=len(labels),
        unseen=", ".join(data.unseen),
        model=setting.model,
        mechanism=setting.mechanism,
        epsilon=setting.epsilon,
        delta=setting.data.delta if setting.mechanism == "gaussian" else 0.0 if private else None,
        beams=None if setting.model is None else beams,
        **controls(data, setting.epsilon),
    )


def _with_kept(facts: Result, kept: Found) -> Result:
    return replace(
        facts,
        bleu=kept.get("bleu"),
        bleu_signature=kept.get("bleu_signature"),
        content_words=kept.get("content_words"),
        verbatim=kept.get("verbatim"),
    )


def _samples(setting: Setting, data: DataParts, train: Part) -> list[Sample]:
    pairs = list(zip(data.train.texts, train.texts, strict=True))[:SHOWN]
    return [
        Sample(setting.data.name, str(setting.model), str(setting.mechanism), setting.epsilon or 0.0, *pair)
        for pair in pairs
    ]
