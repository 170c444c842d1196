"""What every classifier must do, and what it takes to add one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar

import pytest
import torch

from dpbart.evaluate.classifiers import CLASSIFIERS, Prediction, Training, make_classifier
from dpbart.evaluate.data.splits import LabelledTexts
from dpbart.evaluate.experiment.experiment import Experiment, key_of
from dpbart.evaluate.experiment.plan import ExperimentRequest, read_plan
from dpbart.evaluate.scores import score
from tests.evaluate.learnable import TEST, TRAIN, VALID


def first_training(kind: str) -> Training:
    """With settings for speed, each used by the classifiers that have it."""
    return make_classifier(kind, {"epochs": 4, "batch_size": 16, "seeds": (1,)}).candidates(1)[0]


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_what_can_be_learned_is_learned(kind: str) -> None:
    done = first_training(kind).predict(TRAIN, VALID, TEST.texts)
    assert score(TEST.labels, done.labels).macro_f1 == 1
    assert done.valid_f1 == 1


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_the_same_seed_gives_the_same_labels(kind: str) -> None:
    shuffled = TRAIN.shuffled(0)  # nothing to learn, so every prediction is chance
    first = first_training(kind).predict(shuffled, VALID, TEST.texts)
    torch.rand(1)  # other draws in between make no difference
    second = first_training(kind).predict(shuffled, VALID, TEST.texts)
    assert first.labels == second.labels


# Keys of cells that were computed before classifiers had a registry, so that those are not computed again.
@pytest.mark.parametrize(
    ("kind", "shuffled", "key"),
    [
        ("encoder", False, "28bd7ec923fa290401e8"),
        ("encoder", True, "a66309b58dade236a457"),
        ("linear", False, "1e443638347acae9cb71"),
        ("linear", True, "18d40f7d406ff4aa42fd"),
    ],
)
def test_cached_trainings_are_found_again(kind: str, shuffled: bool, key: str) -> None:
    recipe = {
        "kind": "training",
        "texts": "0123456789abcdef",
        "shuffled": shuffled,
        **make_classifier(kind, {}).candidates(0)[0].recipe,
    }
    if recipe["weights"] is not None:
        recipe["weights"] = "0" * 12  # the key must not depend on which mini this is
    assert key_of(recipe) == key


@dataclass(frozen=True)
class Keyword:
    """A third classifier: everything about it is here. Texts with the word get the label."""

    word: str = "apple"
    seeds: ClassVar[tuple[int, ...]] = (0,)
    learning_rate: ClassVar[float | None] = None

    def candidates(self, seed: int) -> tuple[Keyword, ...]:
        return (self,)

    @property
    def recipe(self) -> dict[str, object]:
        return {"classifier": ["keyword", asdict(self)]}

    def predict(self, train: LabelledTexts, valid: LabelledTexts, texts: Sequence[str]) -> Prediction:
        return Prediction(tuple("apple" if self.word in text else "boat" for text in texts), 1.0, 0, 0.0)


def test_a_classifier_is_one_file_and_a_line_in_the_registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CLASSIFIERS, "keyword", Keyword)
    rows = [
        f"{name},{label},{text}\n"
        for name, split in (("train", TRAIN), ("valid", VALID), ("test", TEST))
        for label, text in zip(split.labels, split.texts, strict=True)
    ]
    (tmp_path / "fruit.csv").write_text("split,label,text\n" + "".join(rows))
    (tmp_path / "plan.toml").write_text(
        'models = ["mini"]\nmechanisms = []\n[[data]]\nname = "fruit"\ndelta = 1e-3\n'
        '[[classifiers]]\nkind = "keyword"\nname = "right"\n'
        '[[classifiers]]\nkind = "keyword"\nname = "wrong"\nword = "boat"\n'
    )
    request = ExperimentRequest(read_plan(str(tmp_path / "plan.toml")), tmp_path, tmp_path / "out")
    right, wrong = Experiment.prepare(request).run()
    assert (right.classifier, right.f1_mean, right.seeds, right.learning_rate) == ("right", 1, 1, None)
    assert (wrong.classifier, wrong.f1_mean) == ("wrong", 0)
