"""The classifier on sentence vectors. What every classifier must do is in test_classifiers.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpbart.evaluate import classifiers as vectors
from dpbart.evaluate.classifiers import VectorsClassifier
from dpbart.evaluate.data.splits import LabelledTexts
from dpbart.evaluate.experiment.experiment import key_of
from dpbart.models.bundle import Bundle
from tests.evaluate.fruit_experiment import run, written_plan
from tests.evaluate.learnable import TEST, TRAIN, VALID
from tests.evaluate.tiny_bert import make_tiny_bert


@pytest.fixture
def bert(tiny: Bundle, tmp_path: Path) -> Path:
    return make_tiny_bert(tiny.folder / "tokenizer.json", tmp_path / "bert", longest=None)


def test_any_sentence_encoder_will_do(bert: Path) -> None:
    """Random weights tell texts apart that have no word in common."""
    words = LabelledTexts(("the apple", "a boat", "the red apple", "a blue boat") * 4, ("x", "y") * 8)
    done = VectorsClassifier(str(bert)).predict(words, words, ["the apple", "a boat"])
    assert (done.labels, done.valid_f1) == (("x", "y"), 1)


def test_the_strength_is_chosen_on_valid(monkeypatch: pytest.MonkeyPatch) -> None:
    """A made-up regression that is right about valid at one strength only, and right about test at another one."""

    class Fake:
        def __init__(self, C: float, **_: object) -> None:
            self.strength = C

        def fit(self, known: object, labels: object) -> None:
            pass

        def predict(self, asked: list[object]) -> list[str]:
            part, right_at = (VALID, 100.0) if len(asked) == len(VALID) else (TEST, 1.0)
            return list(part.labels) if self.strength == right_at else ["apple"] * len(part)

    monkeypatch.setattr("sklearn.linear_model.LogisticRegression", Fake)
    done = VectorsClassifier().predict(TRAIN, VALID, TEST.texts)
    assert done.valid_f1 == 1
    assert set(done.labels) == {"apple"}


def test_one_label_leaves_nothing_to_learn() -> None:
    only = LabelledTexts(("a b", "c"), ("x", "x"))
    assert VectorsClassifier().predict(only, only, ["anything", ""]).labels == ("x", "x")


def test_a_training_is_cached_for_its_weights_wherever_they_are(bert: Path, tiny: Bundle, tmp_path: Path) -> None:
    first = VectorsClassifier(str(bert)).recipe
    copy = make_tiny_bert(tiny.folder / "tokenizer.json", tmp_path / "copy", longest=None)
    assert key_of(VectorsClassifier(str(copy)).recipe) == key_of(first)
    with (bert / "model.safetensors").open("ab") as weights:
        weights.write(b"more")
    second = VectorsClassifier(str(bert)).recipe
    assert key_of(second) != key_of(first)
    assert (len(str(first["weights"])), first["weights"] != second["weights"]) == (12, True)


def test_texts_are_encoded_once_for_training_and_control(bert: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoded: list[int] = []
    real = vectors._loaded(VectorsClassifier(str(bert)).files)

    class Watched:
        def vectors(self, texts: tuple[str, ...]) -> object:
            encoded.append(len(texts))
            return real.vectors(texts)

    monkeypatch.setattr(vectors, "_loaded", lambda files: Watched())
    vectors._vectors.cache_clear()
    for train in (TRAIN, TRAIN.shuffled(0)):
        VectorsClassifier(str(bert)).predict(train, VALID, TEST.texts)
    assert encoded == [len(TRAIN), len(VALID), len(TEST)]


@pytest.mark.usefixtures("fruit", "no_wait_for_the_disk")
def test_an_experiment_uses_it(tiny: Bundle, bert: Path, tmp_path: Path) -> None:
    more = f'[[classifiers]]\nkind = "vectors"\nname = "sentences"\nencoder = "{bert}"\nsettings = ["original"]\n'
    results = run(written_plan(tmp_path, f'"{tiny.folder}"', more), tmp_path)
    (row,) = [each for each in results if each.classifier == "sentences"]
    assert row.error is None
    assert None not in (row.f1_mean, row.valid_f1, row.shuffled_f1)
    assert (row.seeds, row.f1_deviation, row.learning_rate) == (1, None, None)
