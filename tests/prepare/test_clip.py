from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from dpbart.errors import NotPrepared
from dpbart.models.bundle import FACTS_FILE, Bundle
from dpbart.prepare.clip import ENOUGH, LEAST_BLEU, MULTIPLES, UNCLIPPED, Copier, LatentStatistics, choose_clip
from dpbart.prepare.corpus import CorpusFile
from dpbart.privacy.clipping import ByValue, Clip
from tests.command_line import run


def test_statistics_of_known_values() -> None:
    values = np.random.default_rng(0).normal(0.5, 2.0, size=(100, 10, 50)).astype(np.float32)
    measured = LatentStatistics.of(values)
    assert measured.entries == 50_000
    assert measured.mean == pytest.approx(0.5, abs=0.05)
    assert measured.deviation == pytest.approx(2.0, abs=0.03)
    assert measured.quantiles["0.95"] == pytest.approx(0.5 + 1.645 * 2, abs=0.1)
    assert sum(measured.histogram[0]) == pytest.approx(50_000, rel=1e-3)


class Scored:
    """Copies of which only the BLEU is known."""

    def __init__(self, bleu: float) -> None:
        self.bleu = bleu


Scoring = Callable[[Callable[[Clip], float]], Copier]


@pytest.fixture
def scoring(tiny: Bundle, monkeypatch: pytest.MonkeyPatch) -> Scoring:
    """A copier whose copies have the BLEU that a function of the clip gives."""

    def make(bleu: Callable[[Clip], float]) -> Copier:
        def copy(self: Copier, texts: Sequence[str], clip: Clip) -> Scored:
            return Scored(bleu(clip))

        monkeypatch.setattr(Copier, "copy", copy)
        return Copier.load(tiny)

    return make


def test_the_smallest_bound_that_keeps_enough_is_chosen(scoring: Scoring) -> None:
    copier = scoring(lambda clip: 100.0 if clip == UNCLIPPED else min(100.0, 120 * clip.bound))  # grows with the bound
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


def test_a_model_that_copies_nothing_gets_no_bound(tiny_copy: Path, corpus: tuple[CorpusFile, ...]) -> None:
    """Every bound keeps 97% of a BLEU of 0."""
    before = (tiny_copy / FACTS_FILE).read_bytes()
    done = run("prepare", "clip", "--model", tiny_copy, "--corpus", corpus[0].path, "--texts", 3)
    assert done.exit_code == 1
    assert (
        "a model must copy public text before its clip can be chosen, got a BLEU of 0.0 without a clip" in done.stderr
    )
    assert "Train it longer" in done.stderr
    assert (tiny_copy / FACTS_FILE).read_bytes() == before
    assert not (tiny_copy / "clip.png").exists()


def test_the_least_bleu_is_enough(scoring: Scoring) -> None:
    assert choose_clip(scoring(lambda _: LEAST_BLEU), ["a child ."]).unclipped == LEAST_BLEU
    with pytest.raises(NotPrepared, match="must copy public text"):
        choose_clip(scoring(lambda _: 0.99 * LEAST_BLEU), ["a child ."])


def test_where_no_bound_keeps_enough_the_largest_is_not_called_good(scoring: Scoring) -> None:
    choice = choose_clip(scoring(lambda clip: 80.0 if clip == UNCLIPPED else 40.0), ["a child ."])
    assert choice.chosen == max(choice.tried)
    assert choice.why == "the largest bound tried, although it keeps less than 97% of the unclipped BLEU: 40.0 of 80.0"
