"""Run an experiment: compute each result once, record failures, and carry on with the rest.

Train and valid are rewritten. Classifiers learn from the rewritten texts alone, and are tested on the original test
texts. Labels are released unchanged, as in the paper, and the results say so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from dpbart.evaluate.data.loading import load_data
from dpbart.evaluate.data.splits import LabelledTexts, Splits
from dpbart.evaluate.experiment.cache import ResultCache, describe
from dpbart.evaluate.experiment.classification import Classification, baselines
from dpbart.evaluate.experiment.plan import ExperimentRequest, Plan, Setting
from dpbart.evaluate.experiment.results import Result, Sample, write_results
from dpbart.evaluate.experiment.rewriting import RewrittenSplits, SplitRewriting
from dpbart.progress import Bar, progress
from dpbart.rewrite.durable.stopping import Stopped
from dpbart.rewrite.engines import choose_engine
from dpbart.rewrite.settings import Settings

SHOWN = 5  # texts of each rewriting in the tables of samples


@dataclass
class Experiment:
    """A request, and the data read for it."""

    request: ExperimentRequest
    data: Mapping[str, Splits]
    results: list[Result] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)

    @classmethod
    def prepare(cls, request: ExperimentRequest) -> Experiment:
        """Read all data first, so that a wrong file is found before hours of work.

        Raises:
            BadParameter: If engine, workers and address do not fit together, or a model knows none of the mechanisms.
            BadTable: If a data set does not exist, or has other counts than the paper's.
        """
        workers = 1 if request.workers is None else request.workers
        choose_engine(request.engine, Settings(), workers=workers, address=request.address)  # refuses a bad one
        _ = request.plan.pairs  # refuses models and mechanisms that do not fit
        data = {}
        for each in request.plan.data:
            whole = load_data(each.name, request.data_folder, allow_different=request.allow_different)
            data[each.name] = whole.sample(train=each.train, valid=each.valid, test=each.test)
        return cls(request, data)

    def run(self) -> list[Result]:
        """All results, including those of earlier runs. They are written to the folder after every setting.

        Raises:
            Stopped: On Ctrl-C, with everything finished so far saved.
        """
        plan = self.request.plan
        try:
            with progress(plan.name, total=plan.cells(), unit="cells") as bar:
                for setting in plan.settings():
                    self._run_setting(setting, bar)
                    write_results(self.request.out, self.results, self.samples)
        except KeyboardInterrupt:
            raise Stopped("Stopped. Finished work is saved. To continue, run the same command again.") from None
        return self.results

    def _run_setting(self, setting: Setting, bar: Bar) -> None:
        data, source, cache = self.data[setting.data.name], "", ResultCache(self.request.out / "cells")
        choices = [each for each in self.request.plan.classifiers if each.scope.covers(setting)]
        facts = _facts(setting, data, self.request.plan)
        if setting.model is None:
            source = data.checksum
        else:
            try:
                done = SplitRewriting(self.request, setting, data).run(cache)
            except Exception as error:  # whatever it is, the other settings do not depend on it
                self.results += [replace(facts, classifier=each.name, error=describe(error)) for each in choices]
                bar.advance(1 + sum(each.trainings for each in choices), note=f"{setting} failed")
                return
            bar.advance(1, note=str(setting))
            self.samples += _samples(setting, data.train, done.data.train)
            data, source, facts = done.data, done.key, _with_rewriting(facts, done)
        for each in choices:
            row = replace(facts, classifier=each.name)
            on_training = partial(bar.advance, 1, note=f"{setting} {each.name}")
            try:
                figures = Classification(each.classifier, data, source, cache, on_training).figures()
                self.results.append(replace(row, **figures))
            except Exception as error:
                self.results.append(replace(row, error=describe(error)))


def _facts(setting: Setting, data: Splits, plan: Plan) -> Result:
    """What is known about a setting before any work."""
    return Result(
        data=setting.data.name,
        setting=setting.name,
        classifier="",
        train=len(data.train),
        valid=len(data.valid),
        test=len(data.test),
        classes=len(set(data.test.labels)),
        unseen=", ".join(data.unseen),
        model=setting.model,
        mechanism=setting.mechanism,
        epsilon=setting.epsilon,
        beams=None if setting.model is None else plan.beams_of(setting.model),
        **baselines(data, setting.epsilon),
    )


def _with_rewriting(facts: Result, done: RewrittenSplits) -> Result:
    names = ("bleu", "bleu_signature", "content_words", "verbatim")
    return replace(facts, delta=done.delta, **{name: done.figures[name] for name in names})


def _samples(setting: Setting, originals: LabelledTexts, rewritten: LabelledTexts) -> list[Sample]:
    pairs = list(zip(originals.texts, rewritten.texts, strict=True))[:SHOWN]
    return [
        Sample(setting.data.name, str(setting.model), str(setting.mechanism), setting.epsilon or 0.0, *pair)
        for pair in pairs
    ]
