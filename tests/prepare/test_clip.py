from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from dpbart.models.bundle import Bundle
from dpbart.prepare.clip import ENOUGH, MULTIPLES, LatentStatistics, choose_clip
from dpbart.prepare.quality import UNCLIPPED, Copier
from dpbart.privacy.clipping import ByValue, Clip


def test_statistics_of_known_values() -> None:
    values = np.random.default_rng(0).normal(0.5, 2.0, size=(100, 10, 50)).astype(np.float32)
    measured = LatentStatistics.of(values)
    assert measured.entries == 50_000
    assert measured.mean == pytest.approx(0.5, abs=0.05)
    assert measured.deviation == pytest.approx(2.0, abs=0.03)
    assert measured.quantiles["0.95"] == pytest.approx(0.5 + 1.645 * 2, abs=0.1)
    assert sum(measured.histogram[0]) == pytest.approx(50_000, rel=1e-3)


def test_the_smallest_bound_that_keeps_enough_is_chosen(tiny: Bundle, monkeypatch: pytest.MonkeyPatch) -> None:
    copier = Copier.load(tiny)

    class Scored:
        def __init__(self, bleu: float) -> None:
            self.bleu = bleu

    def copy(self: Copier, texts: Sequence[str], clip: Clip) -> Scored:
        return Scored(100.0 if clip == UNCLIPPED else min(100.0, 120 * clip.bound))  # grows with the bound

    monkeypatch.setattr(Copier, "copy", copy)
    choice = choose_clip(copier, ["the nurse found an apple ."])
    assert choice.tried[choice.chosen] >= ENOUGH * 100
    assert all(score < ENOUGH * 100 for bound, score in choice.tried.items() if bound < choice.chosen)
    assert len(choice.tried) == len(MULTIPLES)


def test_without_a_clip_the_copy_is_what_the_model_writes(tiny: Bundle) -> None:
    copier = Copier.load(tiny)
    texts = ["the nurse found an apple .", "a child sold nine keys ."]
    unclipped = copier.copy(texts, UNCLIPPED)
    assert 0 <= unclipped.bleu <= 100
    assert unclipped == copier.copy(texts, ByValue(1e5))
