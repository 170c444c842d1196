from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from dpbart.errors import BadParameter, NotPrepared
from dpbart.evaluate.classifiers.encoder import Classifier, EncoderClassifier
from dpbart.evaluate.classifiers.linear import LinearClassifier
from dpbart.evaluate.classifiers.weights import load_encoder
from dpbart.evaluate.data.parts import Part
from dpbart.evaluate.scores.f1 import score
from dpbart.models.bundle import Bundle


def told_by_a_word(first: int, count: int) -> Part:
    labels = tuple(("apple", "boat")[i % 2] for i in range(first, first + count))
    return Part(tuple(f"number {first + i} has the {label}" for i, label in enumerate(labels)), labels)


TRAIN, VALID, TEST = told_by_a_word(0, 48), told_by_a_word(48, 16), told_by_a_word(100, 30)
FAST = EncoderClassifier(encoder="mini", epochs=4, batch_size=16, seed=1)


@pytest.mark.parametrize("classifier", [LinearClassifier(), FAST])
def test_what_can_be_learned_is_learned(classifier: Classifier) -> None:
    done = classifier.label(TRAIN, VALID, TEST.texts)
    assert score(TEST.labels, done.predicted).macro_f1 == 1
    assert done.valid_f1 == 1


def test_a_weak_signal_in_many_texts_is_trained_on() -> None:
    """Strong noise leaves words that tell a label a little; and shuffled labels are a control only if trained on."""
    dice = random.Random(0)
    words = [f"word{number}" for number in range(2000)]

    def part(count: int) -> Part:
        labels = [dice.choice("abcd") for _ in range(count)]
        hints = [label if dice.random() < 0.12 else dice.choice("abcd") for label in labels]
        return Part(tuple(" ".join([f"hint{hint}", *dice.choices(words, k=10)]) for hint in hints), tuple(labels))

    train, valid = part(3000), part(400)
    plain = Part(tuple(f"hint{label}" for label in "abcd"), tuple("abcd"))
    assert LinearClassifier().label(train, valid, plain.texts).predicted == plain.labels
    luck = LinearClassifier().label(train.shuffled(0), valid.shuffled(0), valid.texts)
    assert len(set(luck.predicted)) == 4


@pytest.mark.parametrize("classifier", [LinearClassifier(), FAST])
def test_the_same_seed_gives_the_same_labels(classifier: Classifier) -> None:
    shuffled = TRAIN.shuffled(0)  # nothing to learn: whatever is predicted, it is luck
    first = classifier.label(shuffled, VALID, TEST.texts)
    torch.rand(1)  # what else draws in between does not matter
    second = classifier.label(shuffled, VALID, TEST.texts)
    assert first.predicted == second.predicted


def test_training_stops_when_patience_ends() -> None:
    seen: list[int] = []

    def count(self: object, ids: object) -> list[str]:
        seen.append(1)
        return ["apple"] * len(VALID)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dpbart.evaluate.classifiers.encoder._Training.predict", count)
        done = EncoderClassifier(epochs=50, patience=2, batch_size=48).label(TRAIN, VALID, VALID.texts)
    assert (done.epochs, len(seen)) == (1, 1 + 2 + 1)  # the best, two without a better one, and the test texts


def test_the_best_epoch_labels_the_test_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here the second epoch spoils the weights, and the first is the one to keep."""
    from dpbart.evaluate.classifiers import encoder

    learn: Callable[..., None] = encoder._Training._epoch

    def spoil(self: encoder._Training, *learned_from: Any) -> None:
        *rest, epoch = learned_from
        for _ in range(4):
            learn(self, *rest, 1)
        if epoch > 1:
            for weights in self.model.head.parameters():
                weights.data.zero_()

    monkeypatch.setattr(encoder._Training, "_epoch", spoil)
    done = EncoderClassifier(epochs=2, batch_size=16, seed=1).label(TRAIN, VALID, TEST.texts)
    assert done.epochs == 1
    assert score(TEST.labels, done.predicted).macro_f1 == 1


@pytest.mark.parametrize("train", [Part(("a b", "c"), ("x", "x")), Part(("", " ", "!"), ("x", "x", "y"))])
def test_where_there_is_nothing_to_learn_the_most_frequent_label_is_given(train: Part) -> None:
    done = LinearClassifier().label(train, train, ["anything", ""])
    assert done.predicted == ("x", "x")


def test_the_vocabulary_is_of_the_train_part_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    from sklearn.feature_extraction.text import TfidfVectorizer

    fitted: list[str] = []
    real = TfidfVectorizer.fit_transform

    def watch(self: TfidfVectorizer, texts: list[str]) -> object:
        fitted.extend(texts)
        return real(self, texts)

    monkeypatch.setattr(TfidfVectorizer, "fit_transform", watch)
    LinearClassifier().label(TRAIN, VALID, TEST.texts)
    assert fitted == list(TRAIN.texts)


def test_a_text_longer_than_the_encoders_positions_is_read_in_pieces() -> None:
    """mini has 20 positions; here the word that tells the label comes after 30 tokens."""
    train, valid, test = (
        Part(tuple(f"{'well ' * 30}{text}" for text in part.texts), part.labels) for part in (TRAIN, VALID, TEST)
    )
    done = FAST.label(train, valid, test.texts)
    assert score(test.labels, done.predicted).macro_f1 == 1
    short = replace(FAST, length=20).label(train, valid, test.texts)
    assert score(test.labels, short.predicted).macro_f1 < 0.7  # it has not seen the word


@pytest.mark.parametrize("words", [5, 15, 40])
def test_pieces_of_padding_change_nothing(tiny: Bundle, words: int) -> None:
    """tiny has 12 positions."""
    model, reader = load_encoder(str(tiny.folder), labels=2, length=128)
    text, long = reader.read(["a child " * words, "the old captain " * 30])
    model.eval()
    with torch.inference_mode():
        alone = model(*reader.pad([text], torch.device("cpu")))
        beside = model(*reader.pad([text, long], torch.device("cpu")))[:1]
    assert torch.isfinite(beside).all()
    assert torch.allclose(alone, beside, atol=1e-5)


def test_an_encoder_may_be_a_directory(tiny: Bundle) -> None:
    done = EncoderClassifier(encoder=str(tiny.folder), epochs=1).label(TRAIN, VALID, ["", "a child"])
    assert set(done.predicted) <= {"apple", "boat"}


def test_padding_changes_nothing(tiny: Bundle) -> None:
    model, reader = load_encoder(str(tiny.folder), labels=2, length=12)
    short, long = reader.read(["a child", "the old captain sold two letters ."])
    model.eval()
    with torch.inference_mode():
        alone = model(*reader.pad([short], torch.device("cpu")))
        beside = model(*reader.pad([short, long], torch.device("cpu")))[:1]
    assert torch.allclose(alone, beside, atol=1e-5)


def test_rare_labels_weigh_more_by_the_root_of_how_rare_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[torch.Tensor | None] = []
    real = torch.nn.functional.cross_entropy

    def watch(scores: torch.Tensor, wanted: torch.Tensor, *, weight: torch.Tensor | None) -> torch.Tensor:
        seen.append(weight)
        return real(scores, wanted, weight=weight)

    monkeypatch.setattr(torch.nn.functional, "cross_entropy", watch)
    train = Part(("a", "b", "c", "d", "e"), ("many", "many", "many", "many", "rare"))
    for weighted in (True, False):
        EncoderClassifier(epochs=1, batch_size=8, weighted=weighted).label(train, VALID, [""])
    assert seen[0] is not None
    assert seen[0].tolist() == pytest.approx([(2.5 / 4) ** 0.5, 2.5**0.5])
    assert seen[1] is None


def test_an_encoder_that_is_not_there_is_one_line(tmp_path: object) -> None:
    with pytest.raises(NotPrepared, match="Give 'mini', a directory, or"):
        load_encoder(f"{tmp_path}/none", labels=2, length=20)


@pytest.mark.parametrize(("name", "value"), [("epochs", 0), ("patience", 0), ("batch_size", 0), ("learning_rate", 0.0)])
def test_settings_out_of_range_are_refused(name: str, value: float) -> None:
    with pytest.raises(BadParameter, match=name):
        EncoderClassifier(**{name: value})  # type: ignore[arg-type]
