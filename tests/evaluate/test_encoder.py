from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from dpbart.errors import BadParameter, NotPrepared
from dpbart.evaluate.classifiers import EncoderClassifier, EncoderTraining
from dpbart.evaluate.data.splits import LabelledTexts
from dpbart.evaluate.fine_tuning import load_encoder
from dpbart.evaluate.scores import score
from dpbart.models.bundle import Bundle
from tests.evaluate.learnable import TEST, TRAIN, VALID


def training(*, seed: int = 0, **settings: Any) -> EncoderTraining:
    return EncoderTraining(EncoderClassifier(**settings), 5e-4, seed)


def test_training_stops_when_patience_ends() -> None:
    seen: list[int] = []

    def count(self: object, ids: object) -> list[str]:
        seen.append(1)
        return ["apple"] * len(VALID)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dpbart.evaluate.fine_tuning._Training.predict", count)
        done = training(epochs=50, patience=2, batch_size=48).predict(TRAIN, VALID, VALID.texts)
    assert (done.epochs, len(seen)) == (1, 1 + 2 + 1)  # the best, two without a better one, and the test texts


def test_the_best_epoch_labels_the_test_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here the second epoch spoils the weights, and the first is the one to keep."""
    from dpbart.evaluate import fine_tuning

    learn: Callable[..., None] = fine_tuning._Training._epoch

    def spoil(self: fine_tuning._Training, *learned_from: Any) -> None:
        *rest, epoch = learned_from
        for _ in range(4):
            learn(self, *rest, 1)
        if epoch > 1:
            for weights in self.model.head.parameters():
                weights.data.zero_()

    monkeypatch.setattr(fine_tuning._Training, "_epoch", spoil)
    done = training(seed=1, epochs=2, batch_size=16).predict(TRAIN, VALID, TEST.texts)
    assert done.epochs == 1
    assert score(TEST.labels, done.labels).macro_f1 == 1


def test_a_text_longer_than_the_encoders_positions_is_read_in_pieces() -> None:
    """mini has 20 positions; here the word that tells the label comes after 30 tokens."""
    train, valid, test = (
        LabelledTexts(tuple(f"{'well ' * 30}{text}" for text in part.texts), part.labels)
        for part in (TRAIN, VALID, TEST)
    )
    done = training(seed=1, epochs=4, batch_size=16).predict(train, valid, test.texts)
    assert score(test.labels, done.labels).macro_f1 == 1
    short = training(seed=1, epochs=4, batch_size=16, length=20).predict(train, valid, test.texts)
    assert score(test.labels, short.labels).macro_f1 < 0.7  # it has not seen the word


@pytest.mark.parametrize("words", [5, 15, 40])
def test_pieces_of_padding_change_nothing(tiny: Bundle, words: int) -> None:
    """tiny has 12 positions."""
    model, reader = load_encoder(str(tiny.folder), labels=2, length=128)
    text, long = reader.read(["a child " * words, "the old captain " * 30])
    model.eval()
    with torch.inference_mode():
        alone = model(*reader.pad([text], torch.device("cpu")))
        padded = model(*reader.pad([text, long], torch.device("cpu")))[:1]
    assert torch.isfinite(padded).all()
    assert torch.allclose(alone, padded, atol=1e-5)


def test_an_encoder_may_be_a_directory(tiny: Bundle) -> None:
    done = training(encoder=str(tiny.folder), epochs=1).predict(TRAIN, VALID, ["", "a child"])
    assert set(done.labels) <= {"apple", "boat"}


def test_padding_changes_nothing(tiny: Bundle) -> None:
    model, reader = load_encoder(str(tiny.folder), labels=2, length=12)
    short, long = reader.read(["a child", "the old captain sold two letters ."])
    model.eval()
    with torch.inference_mode():
        alone = model(*reader.pad([short], torch.device("cpu")))
        padded = model(*reader.pad([short, long], torch.device("cpu")))[:1]
    assert torch.allclose(alone, padded, atol=1e-5)


def test_rare_labels_weigh_more_by_the_root_of_how_rare_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[torch.Tensor | None] = []
    real = torch.nn.functional.cross_entropy

    def watch(scores: torch.Tensor, wanted: torch.Tensor, *, weight: torch.Tensor | None) -> torch.Tensor:
        seen.append(weight)
        return real(scores, wanted, weight=weight)

    monkeypatch.setattr(torch.nn.functional, "cross_entropy", watch)
    train = LabelledTexts(("a", "b", "c", "d", "e"), ("many", "many", "many", "many", "rare"))
    for weighted in (True, False):
        training(epochs=1, batch_size=8, weighted=weighted).predict(train, VALID, [""])
    assert seen[0] is not None
    assert seen[0].tolist() == pytest.approx([(2.5 / 4) ** 0.5, 2.5**0.5])
    assert seen[1] is None


def test_an_encoder_that_does_not_exist_is_one_line(tmp_path: object) -> None:
    with pytest.raises(NotPrepared, match="Pass 'mini', a directory, or"):
        load_encoder(f"{tmp_path}/none", labels=2, length=20)


@pytest.mark.parametrize(
    ("name", "value"), [("epochs", 0), ("patience", 0), ("batch_size", 0), ("learning_rates", (0.0,))]
)
def test_settings_out_of_range_are_refused(name: str, value: object) -> None:
    with pytest.raises(BadParameter, match=name.replace("_", ".").removesuffix("s")):
        EncoderClassifier(**{name: value})  # type: ignore[arg-type]
