"""The classifier that practitioners use: logistic regression on sentence vectors. It has no randomness."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar

from dpbart.evaluate.classifiers.classifier import Prediction
from dpbart.evaluate.data.splits import LabelledTexts
from dpbart.evaluate.scores.f1 import score

if TYPE_CHECKING:
    from dpbart.evaluate.sentences.files import SentenceEncoderFiles
    from dpbart.evaluate.sentences.vectors import Floats, SentenceVectors

STRENGTHS = (1.0, 10.0, 100.0, 1000.0)  # scikit-learn's C; the best on valid is used
TOLERANCE = 1e-4  # see linear.py


@dataclass(frozen=True)
class VectorsClassifier:
    """A linear layer on unit vectors. The encoder is not trained. All labels have the same weight.

    For a fair result, the sentence encoder must not be the one inside the model that rewrote the texts.
    """

    encoder: str = "mini"  # bundled name, sentence-transformers directory, or hub id
    seeds: ClassVar[tuple[int, ...]] = (0,)
    learning_rate: ClassVar[float | None] = None

    def candidates(self, seed: int) -> tuple[VectorsClassifier, ...]:
        return (self,)

    @property
    def files(self) -> SentenceEncoderFiles:
        """The encoder's files, found again each time: another file under the same name is another encoder."""
        from dpbart.evaluate.sentences.files import SentenceEncoderFiles

        return SentenceEncoderFiles.find(self.encoder)

    @property
    def recipe(self) -> dict[str, object]:
        used = {**self.files.recipe, "strengths": STRENGTHS, "tolerance": TOLERANCE}
        return {"classifier": ["vectors", used], "weights": used["weights"]}

    def predict(self, train: LabelledTexts, valid: LabelledTexts, texts: Sequence[str]) -> Prediction:
        from sklearn.linear_model import LogisticRegression

        began = time.monotonic()
        if len(set(train.labels)) == 1:  # nothing to learn
            only = train.labels[0]
            reached = score(valid.labels, [only] * len(valid)).macro_f1
            return Prediction((only,) * len(texts), reached, 0, time.monotonic() - began)
        files = self.files
        known, tuned, asked = (_vectors(files, tuple(each)) for each in (train.texts, valid.texts, texts))
        best: tuple[float, tuple[str, ...]] = (-1.0, ())
        for strength in STRENGTHS:
            model = LogisticRegression(C=strength, class_weight="balanced", max_iter=2000, tol=TOLERANCE)
            model.fit(known, train.labels)
            reached = score(valid.labels, [str(label) for label in model.predict(tuned)]).macro_f1
            if reached > best[0]:
                best = (reached, tuple(str(label) for label in model.predict(asked)))
        return Prediction(best[1], best[0], 0, time.monotonic() - began)


@lru_cache(maxsize=8)
def _vectors(files: SentenceEncoderFiles, texts: tuple[str, ...]) -> Floats:
    """(texts, width). Kept for the control, which has the same texts, and for the test texts of the next setting."""
    return _loaded(files).of(texts)


@lru_cache(maxsize=1)
def _loaded(files: SentenceEncoderFiles) -> SentenceVectors:
    from dpbart.evaluate.sentences.vectors import load_vectors  # torch is slow to import

    return load_vectors(files)
