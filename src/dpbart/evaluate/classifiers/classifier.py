"""What a classifier is: trained on rewritten texts with their labels, tested on original texts.

It is given train, valid and the texts to label, and nothing else of a data set. So it cannot see an original text
that it should not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from dpbart.evaluate.data.splits import LabelledTexts


@dataclass(frozen=True)
class Prediction:
    """Predicted labels of the test texts, and how the training went."""

    labels: tuple[str, ...]
    valid_f1: float  # the best macro F1 on valid
    epochs: int  # up to that best; 0 for a classifier without epochs
    seconds: float


class Training(Protocol):
    """One training with every setting fixed, including the seed."""

    @property
    def learning_rate(self) -> float | None:
        """As reported in the results; None if there is none."""

    @property
    def recipe(self) -> dict[str, object]:
        """Everything the prediction depends on except the texts. A change to it makes cached results invalid."""

    def predict(self, train: LabelledTexts, valid: LabelledTexts, texts: Sequence[str]) -> Prediction:
        """Learn from `train`, tune on `valid`, and label `texts`."""


class Classifier(Protocol):
    """A frozen dataclass of settings. Its fields are the keys of a [[classifiers]] table."""

    @property
    def seeds(self) -> tuple[int, ...]:
        """One training per seed is averaged; the first seed is used for the search."""

    def candidates(self, seed: int) -> Sequence[Training]:
        """The trainings to choose from on valid, always in the same order."""
