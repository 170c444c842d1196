"""The fast classifier, for wide sweeps: logistic regression on words and pairs of words. It has no randomness."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from dpbart.evaluate.classifiers.classifier import Prediction
from dpbart.evaluate.data.splits import LabelledTexts
from dpbart.evaluate.scores.f1 import score

STRENGTHS = (1.0, 10.0, 100.0)  # scikit-learn's C; the best on valid is used
# Training ends when the largest entry of the gradient is below this. The gradient is a mean over the texts. It starts
# below 1e-3 when words say little about the label, so with 1e-3 there would be no training at all on weak signals or
# shuffled labels.
TOLERANCE = 1e-4
_WORD = r"(?u)\b\w+\b"


@dataclass(frozen=True)
class LinearClassifier:
    """A linear layer on TF-IDF, with the vocabulary of train alone. All labels have the same weight."""

    seeds: ClassVar[tuple[int, ...]] = (0,)
    learning_rate: ClassVar[float | None] = None

    def candidates(self, seed: int) -> tuple[LinearClassifier, ...]:
        return (self,)

    @property
    def recipe(self) -> dict[str, object]:
        return {"classifier": ["linear", {"strengths": STRENGTHS, "tolerance": TOLERANCE}], "weights": None}

    def predict(self, train: LabelledTexts, valid: LabelledTexts, texts: Sequence[str]) -> Prediction:
        from sklearn.feature_extraction.text import TfidfVectorizer
        from sklearn.linear_model import LogisticRegression

        began = time.monotonic()
        features = TfidfVectorizer(ngram_range=(1, 2), token_pattern=_WORD, sublinear_tf=True)
        if len(set(train.labels)) == 1 or not any(features.build_analyzer()(text) for text in train.texts):
            return _always_the_most_frequent(train, valid, len(texts))
        known = features.fit_transform(train.texts)  # (texts, words and pairs)
        best: tuple[float, Sequence[str]] = (-1.0, ())
        for strength in STRENGTHS:
            model = LogisticRegression(C=strength, class_weight="balanced", max_iter=2000, tol=TOLERANCE)
            model.fit(known, train.labels)
            reached = score(valid.labels, [str(label) for label in model.predict(features.transform(valid.texts))])
            if reached.macro_f1 > best[0]:
                best = (reached.macro_f1, [str(label) for label in model.predict(features.transform(texts))])
        return Prediction(tuple(best[1]), best[0], 0, time.monotonic() - began)


def _always_the_most_frequent(train: LabelledTexts, valid: LabelledTexts, texts: int) -> Prediction:
    """With one label, or without a single word, there is nothing to learn."""
    most = max(sorted(set(train.labels)), key=train.labels.count)
    return Prediction((most,) * texts, score(valid.labels, [most] * len(valid)).macro_f1, 0, 0.0)
