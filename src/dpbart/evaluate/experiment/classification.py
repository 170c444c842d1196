"""One classifier in one setting: a search, one training per seed, and a control with shuffled labels, all cached."""

from __future__ import annotations

import json
import statistics
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from dpbart.evaluate.classifiers.classifier import Classifier, Training
from dpbart.evaluate.data.splits import Splits
from dpbart.evaluate.experiment.cache import Figures, ResultCache
from dpbart.evaluate.experiment.plan import ClassifierChoice
from dpbart.evaluate.scores.f1 import majority, randomised_response, score
from dpbart.progress import progress


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
        train = self.data.train.shuffled(seed) if shuffled else self.data.train
        valid = self.data.valid.shuffled(seed) if shuffled else self.data.valid
        done = training.predict(train, valid, self.data.test.texts)
        reached = score(self.data.test.labels, done.labels)
        return {**asdict(reached), "valid_f1": done.valid_f1, "epochs": done.epochs, "seconds": done.seconds}


def baselines(data: Splits, epsilon: float | None) -> Figures:
    """Scores to compare F1 with, without any training: the most frequent label, and the label alone at epsilon."""
    alone = None
    if epsilon is not None:
        alone = randomised_response(data.test.labels, labels=len(set(data.train.labels)), epsilon=epsilon).macro_f1
    return {"majority_f1": majority(data.train.labels, data.test.labels).macro_f1, "label_only_f1": alone}


def classify_once(classifier: Classifier, data: Splits, *, epsilon: float | None) -> Figures:
    """All figures of one setting; nothing is cached."""
    compared = baselines(data, epsilon)  # first, since it refuses a bad epsilon before the training
    trainings = ClassifierChoice("", classifier).trainings
    with (
        tempfile.TemporaryDirectory() as folder,
        progress("Training", total=trainings, unit="trainings") as bar,
    ):
        run = Classification(classifier, data, "", ResultCache(Path(folder)), lambda: bar.advance(1))
        figures = run.figures()
    return {**figures, "class_f1": json.loads(figures["class_f1"]), **compared}
