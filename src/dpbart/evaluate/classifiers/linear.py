"""The fast classifier: logistic regression on words and pairs of words, for wide sweeps. It has no randomness."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from dpbart.evaluate.classifiers.encoder import Labelling
from dpbart.evaluate.data.parts import Part
from dpbart.evaluate.scores.f1 import score

_WORD = r"(?u)\b\w+\b"


@dataclass(frozen=True)
class LinearClassifier:
    """TF-IDF of words and pairs of words of the train part alone, and a linear layer; rare labels weigh as frequent."""

    strengths: tuple[float, ...] = (1.0, 10.0, 100.0)  # scikit-learn's C, tried on the validation part
    # Largest entry of the gradient at which training ends. It is a mean over the texts, and begins below 1e-3 where
    # words say little of the label: with that, weak signals and shuffled labels would never be trained on at all.
    tolerance: float = 1e-4

    def label(self, train: Part, valid: Part, texts: Sequence[str]) -> Labelling:
        from sklearn.feature_extraction.text import TfidfVectorizer
        from sklearn.linear_model import LogisticRegression

        began = time.monotonic()
        features = TfidfVectorizer(ngram_range=(1, 2), token_pattern=_WORD, sublinear_tf=True)
        if len(set(train.labels)) == 1 or not any(features.build_analyzer()(text) for text in train.texts):
            return _always_the_most_frequent(train, valid, len(texts))
        known = features.fit_transform(train.texts)  # (texts, words and pairs)
        best: tuple[float, Sequence[str]] = (-1.0, ())
        for strength in self.strengths:
            model = LogisticRegression(C=strength, class_weight="balanced", max_iter=2000, tol=self.tolerance)
            model.fit(known, train.labels)
            reached = score(valid.labels, [str(label) for label in model.predict(features.transform(valid.texts))])
            if reached.macro_f1 > best[0]:
                best = (reached.macro_f1, [str(label) for label in model.predict(features.transform(texts))])
        return Labelling(tuple(best[1]), best[0], 0, time.monotonic() - began)


def _always_the_most_frequent(train: Part, valid: Part, texts: int) -> Labelling:
    """Where there is one label, or not one word, there is nothing to learn."""
    most = max(sorted(set(train.labels)), key=train.labels.count)
    return Labelling((most,) * texts, score(valid.labels, [most] * len(valid)).macro_f1, 0, 0.0)
