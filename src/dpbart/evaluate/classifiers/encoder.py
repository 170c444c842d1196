"""The paper's classifier: a pre-trained encoder, fine-tuned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from dpbart.errors import BadParameter
from dpbart.evaluate.classifiers.classifier import Prediction
from dpbart.evaluate.data.splits import LabelledTexts


@dataclass(frozen=True)
class EncoderClassifier:
    """Adam with decoupled weight decay, and early stopping.

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
        for rate in self.learning_rates:
            if not rate > 0:
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
        from dpbart.evaluate.classifiers.encoder_model import weights_of

        used = {key: value for key, value in asdict(self.settings).items() if key not in ("learning_rates", "seeds")}
        used |= {"learning_rate": self.learning_rate, "seed": self.seed}
        return {"classifier": ["encoder", used], "weights": weights_of(self.settings.encoder)}

    def predict(self, train: LabelledTexts, valid: LabelledTexts, texts: Sequence[str]) -> Prediction:
        from dpbart.evaluate.classifiers.encoder_training import fine_tune  # torch is slow to import

        return fine_tune(self, train, valid, texts)
