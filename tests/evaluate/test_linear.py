from __future__ import annotations

import random

import pytest

from dpbart.evaluate.classifiers import LinearClassifier
from dpbart.evaluate.data.splits import LabelledTexts
from tests.evaluate.learnable import TEST, TRAIN, VALID


def test_a_weak_signal_in_many_texts_is_trained_on() -> None:
    """Strong noise leaves words that tell a label a little; and shuffled labels are a control only if trained on."""
    dice = random.Random(0)
    words = [f"word{number}" for number in range(2000)]

    def split(count: int) -> LabelledTexts:
        labels = [dice.choice("abcd") for _ in range(count)]
        hints = [label if dice.random() < 0.12 else dice.choice("abcd") for label in labels]
        return LabelledTexts(
            tuple(" ".join([f"hint{hint}", *dice.choices(words, k=10)]) for hint in hints), tuple(labels)
        )

    train, valid = split(3000), split(400)
    plain = LabelledTexts(tuple(f"hint{label}" for label in "abcd"), tuple("abcd"))
    assert LinearClassifier().predict(train, valid, plain.texts).labels == plain.labels
    luck = LinearClassifier().predict(train.shuffled(0), valid.shuffled(0), valid.texts)
    assert len(set(luck.labels)) == 4


@pytest.mark.parametrize(
    "train", [LabelledTexts(("a b", "c"), ("x", "x")), LabelledTexts(("", " ", "!"), ("x", "x", "y"))]
)
def test_where_there_is_nothing_to_learn_the_most_frequent_label_is_given(train: LabelledTexts) -> None:
    done = LinearClassifier().predict(train, train, ["anything", ""])
    assert done.labels == ("x", "x")


def test_the_vocabulary_is_of_the_train_split_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    from sklearn.feature_extraction.text import TfidfVectorizer

    fitted: list[str] = []
    real = TfidfVectorizer.fit_transform

    def watch(self: TfidfVectorizer, texts: list[str]) -> object:
        fitted.extend(texts)
        return real(self, texts)

    monkeypatch.setattr(TfidfVectorizer, "fit_transform", watch)
    LinearClassifier().predict(TRAIN, VALID, TEST.texts)
    assert fitted == list(TRAIN.texts)
