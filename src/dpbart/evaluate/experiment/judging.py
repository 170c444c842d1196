"""One classifier in one setting: search, seeds, and the control with shuffled labels, each training a cell."""

from __future__ import annotations

import json
import statistics
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from dpbart.evaluate.classifiers.encoder import Classifier, EncoderClassifier
from dpbart.evaluate.classifiers.linear import LinearClassifier
from dpbart.evaluate.classifiers.weights import weights_of
from dpbart.evaluate.data.parts import DataParts, Part
from dpbart.evaluate.experiment.cells import Cells, Found
from dpbart.evaluate.experiment.plan import ClassifierChoice
from dpbart.evaluate.scores.f1 import majority, randomised_response, score
from dpbart.progress import progress


@dataclass(frozen=True)
class Judging:
    """One classifier in one setting. It has the parts to learn from and the test part, and no other text."""

    choice: ClassifierChoice
    train: Part
    valid: Part
    test: Part
    source: str  # which texts exactly
    cells: Cells
    done: Callable[[], None]  # called after each training

    def figures(self) -> Found:
        """Search with the first seed on the validation part; then the other seeds, and the shuffled control."""
        first, *others = self.choice.seeds if self.choice.kind == "encoder" else (0,)
        rates = self.choice.learning_rates if self.choice.kind == "encoder" else (0.0,)
        found = {rate: self._train(rate, first) for rate in rates}
        best = max(found, key=lambda rate: float(found[rate]["valid_f1"]))
        runs = [found[best], *(self._train(best, seed) for seed in others)]
        control = self._train(best, first, shuffled=True)
        f1, accuracy = [run["macro_f1"] for run in runs], [run["accuracy"] for run in runs]
        labels = runs[0]["class_f1"]
        return {
            "f1_mean": statistics.fmean(f1),
            "f1_deviation": statistics.stdev(f1) if len(f1) > 1 else None,
            "accuracy_mean": statistics.fmean(accuracy),
            "accuracy_deviation": statistics.stdev(accuracy) if len(accuracy) > 1 else None,
            "class_f1": json.dumps({name: statistics.fmean(run["class_f1"][name] for run in runs) for name in labels}),
            "seeds": len(runs),
            "learning_rate": best or None,
            "shuffled_f1": control["macro_f1"],
        }

    def _train(self, rate: float, seed: int, *, shuffled: bool = False) -> Found:
        classifier = make_classifier(self.choice, rate, seed)
        recipe = {
            "kind": "training",
            "texts": self.source,
            "classifier": [self.choice.kind, asdict(classifier)],
            "weights": weights_of(self.choice.encoder) if self.choice.kind == "encoder" else None,
            "shuffled": shuffled,
        }
        try:
            return self.cells.get(recipe, lambda: self._compute(classifier, seed, shuffled))
        finally:
            self.done()

    def _compute(self, classifier: Classifier, seed: int, shuffled: bool) -> Found:
        train = self.train.shuffled(seed) if shuffled else self.train
        valid = self.valid.shuffled(seed) if shuffled else self.valid
        done = classifier.label(train, valid, self.test.texts)
        reached = score(self.test.labels, done.predicted)
        return {**asdict(reached), "valid_f1": done.valid_f1, "epochs": done.epochs, "seconds": done.seconds}


def make_classifier(choice: ClassifierChoice, rate: float, seed: int) -> EncoderClassifier | LinearClassifier:
    """The classifier of a choice, at one learning rate and seed."""
    if choice.kind == "linear":
        return LinearClassifier()
    return EncoderClassifier(
        encoder=choice.encoder,
        learning_rate=rate,
        batch_size=choice.batch_size,
        length=choice.length,
        epochs=choice.epochs,
        patience=choice.patience,
        weight_decay=choice.weight_decay,
        weighted=choice.weighted,
        seed=seed,
    )


def controls(data: DataParts, epsilon: float | None) -> Found:
    """What F1 must be held against, and needs no training: the most frequent label, and the label alone at epsilon."""
    alone = None
    if epsilon is not None:
        alone = randomised_response(data.test.labels, labels=len(set(data.train.labels)), epsilon=epsilon).macro_f1
    return {"majority_f1": majority(data.train.labels, data.test.labels).macro_f1, "label_only_f1": alone}


def judge_once(choice: ClassifierChoice, data: DataParts, *, epsilon: float | None) -> Found:
    """All figures of one setting, with nothing kept."""
    beside = controls(data, epsilon)  # first: it refuses a bad epsilon before the training
    with (
        tempfile.TemporaryDirectory() as folder,
        progress("Training", total=choice.trainings, unit="trainings") as bar,
    ):
        cells = Cells(Path(folder))
        judging = Judging(choice, data.train, data.valid, data.test, "", cells, lambda: bar.advance(1))
        figures = judging.figures()
    return {**figures, "class_f1": json.loads(figures["class_f1"]), **beside}
