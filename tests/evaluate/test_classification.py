"""The figures of one classifier, from known results of its trainings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from dpbart.evaluate.classifiers import EncoderClassifier
from dpbart.evaluate.data.splits import LabelledTexts, Splits
from dpbart.evaluate.experiment.experiment import Classification, Figures, Recipe, ResultCache

TEXTS = LabelledTexts(("an apple", "a boat"), ("apple", "boat"))
DATA = Splits(TEXTS, TEXTS, TEXTS)
# Learning rate, seed, shuffled: macro F1 on valid, and on test.
KNOWN = {
    (1e-3, 0, False): (0.6, 0.9),
    (1e-4, 0, False): (0.7, 0.5),
    (1e-4, 1, False): (0.1, 0.6),
    (1e-4, 2, False): (0.1, 0.1),
    (1e-4, 0, True): (0.1, 0.3),
}


class KnownResults(ResultCache):
    """A cache that has every result already."""

    def get(self, recipe: Recipe, compute: Callable[[], Figures]) -> Figures:
        settings = recipe["classifier"][1]  # type: ignore[index]
        valid, test = KNOWN[settings["learning_rate"], settings["seed"], bool(recipe["shuffled"])]
        return {"valid_f1": valid, "macro_f1": test, "accuracy": test, "class_f1": {"apple": test}}


def test_the_rate_is_chosen_on_valid_and_the_seeds_are_averaged(tmp_path: Path) -> None:
    classifier = EncoderClassifier(learning_rates=(1e-3, 1e-4), seeds=(0, 1, 2))
    figures = Classification(classifier, DATA, "", KnownResults(tmp_path), lambda: None).figures()
    assert figures["learning_rate"] == 1e-4  # the better one on valid, though the worse one on test
    assert figures["f1_mean"] == pytest.approx(0.4)
    assert figures["f1_deviation"] == pytest.approx((0.07) ** 0.5)  # of a sample: (0.1² + 0.2² + 0.3²) / 2
    assert figures["shuffled_f1"] == 0.3
    assert figures["seeds"] == 3
