from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from dpbart.evaluate.classifiers import LinearClassifier, Prediction
from dpbart.evaluate.data.splits import LabelledTexts
from dpbart.evaluate.experiment.plan import Plan
from dpbart.models.bundle import Bundle
from dpbart.rewrite.rewriter import Rewriter, Rewriting
from tests.evaluate.fruit_experiment import Trained, write_fruit, written_plan


@pytest.fixture
def intents(tmp_path: Path) -> Path:
    """As Goo et al. 2018 publish ATIS and Snips."""
    folder = tmp_path / "intents"
    for part, count in (("train", 6), ("valid", 2), ("test", 4)):
        (folder / part).mkdir(parents=True)
        labels = [("book", "play")[row % 2] for row in range(count)]
        (folder / part / "label").write_text("".join(f"{label}\n" for label in labels))
        (folder / part / "seq.in").write_text("".join(f"please {label} {part} {i}\n" for i, label in enumerate(labels)))
        (folder / part / "seq.out").write_text("O O O O\n" * count)
    return folder


@pytest.fixture
def fruit(tmp_path: Path) -> None:
    write_fruit(tmp_path / "fruit.parquet")


@pytest.fixture
def plan(tiny: Bundle, fruit: None, tmp_path: Path) -> Plan:
    return written_plan(tmp_path, f'"{tiny.folder}"')


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that were rewritten, in order."""
    texts_drawn: list[str] = []
    real = Rewriter.rewrite

    def watch(self: Rewriter, texts: Sequence[str], *, row: int | None = None) -> Rewriting:
        done = real(self, texts, row=row)
        texts_drawn.extend(texts)
        return done

    monkeypatch.setattr(Rewriter, "rewrite", watch)
    return texts_drawn


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> Trained:
    """What the classifier was given, call by call."""
    calls: Trained = []
    real = LinearClassifier.predict

    def watch(self: LinearClassifier, train: LabelledTexts, valid: LabelledTexts, texts: Sequence[str]) -> Prediction:
        calls.append((train, valid, tuple(texts)))
        return real(self, train, valid, texts)

    monkeypatch.setattr(LinearClassifier, "predict", watch)
    return calls
