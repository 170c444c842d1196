"""Run an experiment: compute each result once, record failures, and carry on with the rest.

Train and valid are rewritten, by the same job and engines as `dpbart rewrite`. Classifiers learn from the rewritten
texts alone, and are tested on the original test texts. Labels are released unchanged, as in the paper, and the results
say so. The original texts are copied to a file in the experiment's folder first, which is why an experiment is for
public data only.

A cell is a rewriting or one training of a classifier. Each is stored under a hash of its recipe.
"""

from __future__ import annotations

import hashlib
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dpbart.errors import NotResumable, one_line, require_extra
from dpbart.evaluate.classifiers import Classifier, Training
from dpbart.evaluate.data.loading import load_data
from dpbart.evaluate.data.splits import LabelledTexts, Splits
from dpbart.evaluate.experiment.plan import ClassifierChoice, ExperimentRequest, Plan, Setting
from dpbart.evaluate.experiment.results import Result, Sample, write_results
from dpbart.evaluate.scores import majority, measure_kept, randomised_response, score
from dpbart.files import whole_or_nothing, write_whole
from dpbart.models.text import Tokens
from dpbart.options.rewriting import Request
from dpbart.options.settings import Settings
from dpbart.privacy.calibration import check_delta_for
from dpbart.progress import Bar, progress
from dpbart.rewrite.chosen import ChosenModel
from dpbart.rewrite.durable.folder import folder_of
from dpbart.rewrite.durable.unfinished import Stopped
from dpbart.rewrite.engines import choose_engine
from dpbart.rewrite.job import rewrite_file
from dpbart.version import __version__

SHOWN = 5  # texts of each rewriting in the tables of samples
Recipe = Mapping[str, object]  # everything that a result depends on
Figures = dict[str, Any]  # what JSON holds


@dataclass(frozen=True)
class ResultCache:
    """A folder with one JSON file per recipe. The file holds the recipe, and its result or error."""

    folder: Path

    def get(self, recipe: Recipe, compute: Callable[[], Figures]) -> Figures:
        """The result of a recipe, computed if it is missing. A failure is recorded, and tried again next time."""
        file = self.folder / f"{key_of(recipe)}.json"
        found: Figures | None = json.loads(file.read_text(encoding="utf-8")).get("result") if file.is_file() else None
        if found is None:
            try:
                found = compute()
            except Exception as error:
                _write(file, recipe, {"error": describe(error)})
                raise
            _write(file, recipe, {"result": found})
        return found

    def forget(self, key: str) -> None:
        """Remove the result with this key, and every training on the texts with this key."""
        (self.folder / f"{key}.json").unlink(missing_ok=True)
        for file in self.folder.glob("*.json"):
            if json.loads(file.read_text(encoding="utf-8"))["recipe"].get("texts") == key:
                file.unlink()


def _write(file: Path, recipe: Recipe, held: Figures) -> None:
    write_whole(file, json.dumps({"recipe": recipe, **held}, indent=1) + "\n")


def key_of(recipe: Recipe) -> str:
    """The same for equal recipes, whatever the order of their entries.

    >>> key_of({"a": 1, "b": 2}) == key_of({"b": 2, "a": 1})
    True
    """
    return hashlib.sha256(json.dumps(recipe, sort_keys=True).encode()).hexdigest()[:20]


def describe(error: Exception) -> str:
    """An error in one line."""
    return one_line(f"{type(error).__name__}: {error}")[:500]


@dataclass(frozen=True)
class RewrittenSplits:
    """Rewritten train and valid with their labels, the original test, and how much the rewriting kept."""

    data: Splits
    key: str
    figures: Figures


@dataclass(frozen=True)
class SplitRewriting:
    """The rewriting of one data set in one setting."""

    request: ExperimentRequest
    setting: Setting
    data: Splits

    @cached_property
    def settings(self) -> Settings:
        plan, setting = self.request.plan, self.setting
        return Settings(
            model=str(setting.model),
            epsilon=setting.epsilon,
            delta=setting.data.delta,
            mechanism=setting.mechanism,
            length=plan.length,
            beams=plan.beams_of(str(setting.model)),
            batch_size=plan.batch_size,
        )

    @cached_property
    def chosen(self) -> ChosenModel:
        return ChosenModel(self.settings)

    @property
    def recipe(self) -> Recipe:
        """Everything the texts depend on except the noise."""
        used = self.chosen.described
        return {
            "kind": "rewriting",
            "data": self.data.checksum,
            "channel": used.facts.recipe,
            "model": used.model.identity,
            "model files": used.files,
            "length": used.model.length,
            "decoding": used.model.decoding,
            "version": ".".join(__version__.split(".")[:2]),
        }

    def run(self, cache: ResultCache) -> RewrittenSplits:
        """The rewritten splits, from the folder if they exist."""
        key, folder = key_of(self.recipe), self.request.out / "rewritten"
        source, target = folder / f"{self.data.checksum}.input.parquet", folder / f"{key}.parquet"
        if not target.is_file():
            cache.forget(key)  # the noise will be new, so nothing computed from the old texts is valid
        figures = cache.get(self.recipe, lambda: self._rewrite(source, target))
        texts, train = _read_texts(target), len(self.data.train)
        rewritten = LabelledTexts(texts[:train], self.data.train.labels)
        data = replace(self.data, train=rewritten, valid=LabelledTexts(texts[train:], self.data.valid.labels))
        shown = {name: figures[name] for name in ("bleu", "bleu_signature", "content_words", "verbatim")}
        return RewrittenSplits(data, key, {"delta": self.chosen.described.facts.guarantee.delta, **shown})

    def _rewrite(self, source: Path, target: Path) -> Figures:
        """Rewrite the texts that are not saved yet, and measure all of train."""
        began = time.monotonic()
        if not target.is_file() or folder_of(target).is_dir():
            self._rewrite_file(source, target)
        originals, chosen = self.data.train.texts, self.chosen
        read, written = list(originals), _read_texts(target)[: len(originals)]
        if chosen.options is None:  # a text that does not become a code is cut to the model's length
            tokens = Tokens.load(chosen.bundle.folder / "tokenizer.json", length=chosen.tokens)
            read = tokens.decode(tokens.encode(originals))
        kept = measure_kept(read, written)  # against the part of each text that the model reads
        return {
            "bleu": kept.bleu,
            "bleu_signature": kept.signature,
            "content_words": kept.content_words,
            "verbatim": sum(a == b for a, b in zip(read, written, strict=True)) / len(originals),
            "seconds": time.monotonic() - began,
        }

    def _rewrite_file(self, source: Path, target: Path) -> None:
        texts, delta = self.data.train.texts + self.data.valid.texts, self.chosen.described.facts.guarantee.delta
        whose = f"the {len(texts)} texts of '{self.setting.data.name}'"
        check_delta_for(delta, texts=len(texts), whose=whose, remedy="Set its delta in the experiment's file.")
        if not source.is_file():
            # A lone surrogate (possible in JSON) has no UTF-8 form. The model's tokenizer replaces it in the same way.
            clean = [text.encode("utf-8", "replace").decode("utf-8") for text in texts]
            with whole_or_nothing(source) as copy:
                pq.write_table(pa.table({"index": range(len(clean)), "text": pa.array(clean, pa.string())}), copy)
        asked, request = self.request, Request(source, target, resume=True, overwrite=True)
        rewrite = partial(rewrite_file, engine=asked.engine, workers=asked.workers, address=asked.address)
        settings = self.settings.changed(delta=delta)  # a pure mechanism has none, whatever the data set's delta is
        try:
            rewrite(request, settings)
        except NotResumable:  # the saved texts are from another version or batch size
            rewrite(request.changed(resume=False), settings)


def _read_texts(file: Path) -> tuple[str, ...]:
    return tuple(pq.read_table(file, columns=["text"]).column("text").to_pylist())


@dataclass(frozen=True)
class Classification:
    """Train a classifier on train and valid, and test it on test. It sees no other text."""

    classifier: Classifier
    data: Splits  # train and valid are rewritten, unless the setting is the original; test never is
    source: str  # identifies the texts of train and valid
    cache: ResultCache
    on_training: Callable[[], None]  # called after each training

    def figures(self) -> Figures:
        """Choose a candidate on valid with the first seed; then train with the other seeds, and the control."""
        first, *others = self.classifier.seeds
        candidates = self.classifier.candidates(first)
        searched = [self._train(each, first) for each in candidates]
        best = max(range(len(searched)), key=lambda place: float(searched[place]["valid_f1"]))
        repeated = [self._train(self.classifier.candidates(seed)[best], seed) for seed in others]
        control = self._train(candidates[best], first, shuffled=True)
        runs = [searched[best], *repeated]
        f1, accuracy = [run["macro_f1"] for run in runs], [run["accuracy"] for run in runs]
        labels = runs[0]["class_f1"]
        return {
            "f1_mean": statistics.fmean(f1),
            "f1_deviation": statistics.stdev(f1) if len(f1) > 1 else None,
            "valid_f1": statistics.fmean(run["valid_f1"] for run in runs),
            "accuracy_mean": statistics.fmean(accuracy),
            "accuracy_deviation": statistics.stdev(accuracy) if len(accuracy) > 1 else None,
            "class_f1": json.dumps({name: statistics.fmean(run["class_f1"][name] for run in runs) for name in labels}),
            "seeds": len(runs),
            "learning_rate": candidates[best].learning_rate,
            "shuffled_f1": control["macro_f1"],
        }

    def _train(self, training: Training, seed: int, *, shuffled: bool = False) -> Figures:
        recipe = {"kind": "training", "texts": self.source, "shuffled": shuffled, **training.recipe}
        try:
            return self.cache.get(recipe, lambda: self._compute(training, seed, shuffled))
        finally:
            self.on_training()

    def _compute(self, training: Training, seed: int, shuffled: bool) -> Figures:
        train, valid = (each.shuffled(seed) if shuffled else each for each in (self.data.train, self.data.valid))
        done = training.predict(train, valid, self.data.test.texts)
        reached = score(self.data.test.labels, done.labels)
        return {**asdict(reached), "valid_f1": done.valid_f1, "epochs": done.epochs, "seconds": done.seconds}


def baselines(data: Splits, epsilon: float | None) -> Figures:
    """Scores to compare F1 with, without any training: the most frequent label, and the label alone at epsilon."""
    truth, labels = data.test.labels, len(set(data.train.labels))
    alone = None if epsilon is None else randomised_response(truth, labels=labels, epsilon=epsilon).macro_f1
    return {"majority_f1": majority(data.train.labels, truth).macro_f1, "label_only_f1": alone}


def classify_once(classifier: Classifier, data: Splits, *, epsilon: float | None) -> Figures:
    """All figures of one setting; nothing is cached."""
    compared = baselines(data, epsilon)  # first, since it refuses a bad epsilon before the training
    trainings = ClassifierChoice("", classifier).trainings
    with tempfile.TemporaryDirectory() as folder, progress("Training", total=trainings, unit="trainings") as bar:
        figures = Classification(classifier, data, "", ResultCache(Path(folder)), lambda: bar.advance(1)).figures()
    return {**figures, "class_f1": json.loads(figures["class_f1"]), **compared}


@dataclass
class Experiment:
    """A request, and the data read for it."""

    request: ExperimentRequest
    data: Mapping[str, Splits]
    results: list[Result] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)

    @classmethod
    def prepare(cls, request: ExperimentRequest) -> Experiment:
        """Check engine and plan, and read all data first, so that a wrong file is found before hours of work."""
        require_extra("evaluate", "experiments need", "sacrebleu", "sklearn")
        workers = 1 if request.workers is None else request.workers
        choose_engine(request.engine, ChosenModel(Settings()), workers=workers, address=request.address)
        _ = request.plan.pairs  # refuses models and mechanisms that do not fit
        data = {}
        for each in request.plan.data:
            whole = load_data(each.name, request.data_folder, allow_different=request.allow_different)
            data[each.name] = whole.sample(train=each.train, valid=each.valid, test=each.test)
        return cls(request, data)

    def run(self) -> list[Result]:
        """All results, including those of earlier runs. They are written to the folder after every setting."""
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
        data, cache = self.data[setting.data.name], ResultCache(self.request.out / "cells")
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
            data, source, facts = done.data, done.key, replace(facts, **done.figures)
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


def _samples(setting: Setting, originals: LabelledTexts, rewritten: LabelledTexts) -> list[Sample]:
    where = (setting.data.name, str(setting.model), str(setting.mechanism), setting.epsilon or 0.0)
    return [Sample(*where, *pair) for pair in zip(originals.texts[:SHOWN], rewritten.texts[:SHOWN], strict=True)]
