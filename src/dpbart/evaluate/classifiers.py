"""Classifiers that are trained on rewritten texts with their labels, and tested on original texts.

A classifier is given train, valid and the texts to label, and nothing else of a data set. So it cannot see an original
text that it should not. To add one: its class, a line in CLASSIFIERS, and its test.

Importing this file is fast: scikit-learn and torch are imported when a classifier is trained.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias

from dpbart.errors import BadParameter, require_extra

if TYPE_CHECKING:
    from dpbart.evaluate.data.splits import LabelledTexts
    from dpbart.models.sentences import Floats, SentenceEncoderFiles, SentenceVectors

_Features: TypeAlias = Any  # (texts, features), dense or sparse
_Known: TypeAlias = tuple[_Features, Sequence[str]]  # features, and the labels


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


STRENGTHS = (1.0, 10.0, 100.0)  # scikit-learn's C; the best on valid is used
VECTOR_STRENGTHS = (*STRENGTHS, 1000.0)
# Training ends when the largest entry of the gradient is below this. The gradient is a mean over the texts. It starts
# below 1e-3 when words say little about the label, so with 1e-3 there would be no training at all on weak signals or
# shuffled labels.
TOLERANCE = 1e-4


@dataclass(frozen=True)
class LinearClassifier:
    """The fast one: logistic regression on TF-IDF of words and pairs of words in train. It has no randomness."""

    seeds: ClassVar[tuple[int, ...]] = (0,)
    learning_rate: ClassVar[float | None] = None

    def candidates(self, seed: int) -> tuple[LinearClassifier, ...]:
        return (self,)

    @property
    def recipe(self) -> dict[str, object]:
        return {"classifier": ["linear", {"strengths": STRENGTHS, "tolerance": TOLERANCE}], "weights": None}

    def predict(self, train: LabelledTexts, valid: LabelledTexts, texts: Sequence[str]) -> Prediction:
        require_extra("evaluate", "classifiers need", "sklearn")
        from sklearn.feature_extraction.text import TfidfVectorizer

        began = time.monotonic()
        features = TfidfVectorizer(ngram_range=(1, 2), token_pattern=r"(?u)\b\w+\b", sublinear_tf=True)
        if len(set(train.labels)) == 1 or not any(features.build_analyzer()(text) for text in train.texts):
            return _always_the_most_frequent(train, valid, len(texts))
        known = features.fit_transform(train.texts)  # (texts, words and pairs)
        tuned, asked = features.transform(valid.texts), features.transform(texts)
        return _regression(STRENGTHS, (known, train.labels), (tuned, valid.labels), asked, began)


def _regression(strengths: Sequence[float], train: _Known, valid: _Known, asked: _Features, began: float) -> Prediction:
    """Logistic regression with the best strength on valid. All labels have the same weight."""
    from sklearn.linear_model import LogisticRegression

    from dpbart.evaluate.scores import score

    best, labels = -1.0, tuple[str, ...]()
    for strength in strengths:
        model = LogisticRegression(C=strength, class_weight="balanced", max_iter=2000, tol=TOLERANCE)
        model.fit(*train)
        reached = score(valid[1], [str(label) for label in model.predict(valid[0])]).macro_f1
        if reached > best:
            best, labels = reached, tuple(str(label) for label in model.predict(asked))
    return Prediction(labels, best, 0, time.monotonic() - began)


def _always_the_most_frequent(train: LabelledTexts, valid: LabelledTexts, texts: int) -> Prediction:
    """With one label, or without a single word, there is nothing to learn."""
    from dpbart.evaluate.scores import score

    most = max(sorted(set(train.labels)), key=train.labels.count)
    return Prediction((most,) * texts, score(valid.labels, [most] * len(valid)).macro_f1, 0, 0.0)


@dataclass(frozen=True)
class VectorsClassifier:
    """The one that practitioners use: logistic regression on sentence vectors. It has no randomness.

    For a fair result, the sentence encoder must not be the one inside the model that rewrote the texts.
    """

    encoder: str = "mini"  # bundled name, sentence-transformers directory, or hub id
    seeds: ClassVar[tuple[int, ...]] = (0,)
    learning_rate: ClassVar[float | None] = None

    def candidates(self, seed: int) -> tuple[VectorsClassifier, ...]:
        return (self,)

    @property
    def files(self) -> SentenceEncoderFiles:
        """The encoder's files, found again each time: they may have been replaced."""
        from dpbart.models.sentences import SentenceEncoderFiles

        return SentenceEncoderFiles.find(self.encoder)

    @property
    def recipe(self) -> dict[str, object]:
        used = {**self.files.recipe, "strengths": VECTOR_STRENGTHS, "tolerance": TOLERANCE}
        return {"classifier": ["vectors", used], "weights": used["weights"]}

    def predict(self, train: LabelledTexts, valid: LabelledTexts, texts: Sequence[str]) -> Prediction:
        require_extra("evaluate", "classifiers need", "sklearn")
        began = time.monotonic()
        if len(set(train.labels)) == 1:
            return _always_the_most_frequent(train, valid, len(texts))
        files = self.files
        known, tuned, asked = (_vectors(files, tuple(each)) for each in (train.texts, valid.texts, texts))
        return _regression(VECTOR_STRENGTHS, (known, train.labels), (tuned, valid.labels), asked, began)


@lru_cache(maxsize=8)
def _vectors(files: SentenceEncoderFiles, texts: tuple[str, ...]) -> Floats:
    """(texts, width). Cached for the control, which has the same texts, and for the test texts of the next setting."""
    return _loaded(files).vectors(texts)


@lru_cache(maxsize=1)
def _loaded(files: SentenceEncoderFiles) -> SentenceVectors:
    from dpbart.models.vectors import load_vectors  # torch is slow to import

    return load_vectors(files)


@dataclass(frozen=True)
class EncoderClassifier:
    """The paper's classifier: a pre-trained encoder, fine-tuned with Adam, decoupled weight decay and early stopping.

    Each epoch ends with the macro F1 on valid. Training stops when that has not risen for `patience` epochs, and the
    weights of the best epoch label the test texts. Learning rates are searched with the first seed.
    """

    encoder: str = "mini"  # bundled name, directory, or hub id
    learning_rates: tuple[float, ...] = (5e-4,)
    seeds: tuple[int, ...] = (0,)
    batch_size: int = 32
    length: int = 128  # the most tokens of a text that are read
    epochs: int = 50  # at most
    patience: int = 5  # epochs
    weight_decay: float = 0.001
    weighted: bool = False  # whether rare labels weigh more, by the square root of their rarity

    def __post_init__(self) -> None:
        if not self.learning_rates or not self.seeds:
            raise BadParameter("learning_rates and seeds must each have a value, got none.")
        if len(set(self.seeds)) != len(self.seeds):
            raise BadParameter(f"seeds must differ, got {list(self.seeds)}.")
        for name in ("batch_size", "length", "epochs", "patience"):
            if getattr(self, name) < 1:
                raise BadParameter(f"{name} must be at least 1, got {getattr(self, name)}.")
        for rate in (each for each in self.learning_rates if not each > 0):
            raise BadParameter(f"a learning rate must be greater than 0, got {rate}.")

    def candidates(self, seed: int) -> tuple[EncoderTraining, ...]:
        return tuple(EncoderTraining(self, rate, seed) for rate in self.learning_rates)


@dataclass(frozen=True)
class EncoderTraining:
    """One learning rate and one seed."""

    settings: EncoderClassifier
    learning_rate: float
    seed: int

    @property
    def recipe(self) -> dict[str, object]:
        from dpbart.models.sentences import weights_of

        return {"classifier": ["encoder", self._settings], "weights": weights_of(self.settings.encoder)}

    def predict(self, train: LabelledTexts, valid: LabelledTexts, texts: Sequence[str]) -> Prediction:
        require_extra("evaluate", "classifiers need", "sklearn")
        require_extra("bart", "the classifier 'encoder' needs", "torch", "transformers")
        from dpbart.evaluate.fine_tuning import FineTuning, fine_tune

        began = time.monotonic()
        labels, best, epochs = fine_tune(FineTuning(**self._settings), train, valid, texts)  # type: ignore[arg-type]
        return Prediction(tuple(labels), best, epochs, time.monotonic() - began)

    @property
    def _settings(self) -> dict[str, object]:
        shared = {key: value for key, value in asdict(self.settings).items() if key not in ("learning_rates", "seeds")}
        return {**shared, "learning_rate": self.learning_rate, "seed": self.seed}


CLASSIFIERS: dict[str, type[Classifier]] = {
    "encoder": EncoderClassifier,
    "linear": LinearClassifier,
    "vectors": VectorsClassifier,
}


def settings_of(kind: str) -> list[str]:
    """The names of a classifier's settings."""
    return [each.name for each in fields(CLASSIFIERS[kind])]  # type: ignore[arg-type]  # all are dataclasses


def make_classifier(kind: str, settings: Mapping[str, object]) -> Classifier:
    """A classifier with those of the settings that it has. Settings of other classifiers have no effect."""
    return CLASSIFIERS[kind](**{name: settings[name] for name in settings_of(kind) if name in settings})
