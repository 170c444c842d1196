"""DP-BART-PR+: training under the noise of the mechanism that rewrites, told the budget."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from dpbart.errors import BadParameter
from dpbart.models.bart import SplitBart
from dpbart.models.budget import TOKENS, budget_token
from dpbart.models.bundle import Bundle
from dpbart.models.pruning import Columns
from dpbart.models.text import Tokens
from dpbart.prepare import noisy, training
from dpbart.prepare.corpus import CorpusFile
from dpbart.prepare.noisy import NoisyColumns, NoisyRecipe, spread_columns, train_noisy, write_noisy
from dpbart.privacy.clipping import ByValue, Sensitivity
from dpbart.privacy.mechanisms import Gaussian, NonPrivate
from dpbart.rewrite.rewriter import Rewriter

RECIPE = NoisyRecipe(steps=4, batch_size=8)


def test_spreading_the_columns_changes_nothing_that_the_model_computes(tiny: Bundle) -> None:
    ids = Tokens.load(tiny.folder / "tokenizer.json", length=12).encode(["the nurse found an apple .", "a child"])
    bart = SplitBart.load(tiny.folder)

    def logits() -> torch.Tensor:
        on_device = torch.from_numpy(ids)
        out: torch.Tensor = bart.model(input_ids=on_device, attention_mask=torch.ones_like(on_device)).logits
        return out

    before = logits()
    spread_columns(bart, Columns.all(32), ids, gain=1.5)
    torch.testing.assert_close(logits(), before, rtol=1e-3, atol=1e-3)
    latent = bart.encode(ids).reshape(-1, 32)
    np.testing.assert_allclose(latent.mean(axis=0), 0, atol=1e-4)
    np.testing.assert_allclose(latent.std(axis=0), 1.5, rtol=1e-3)


def test_the_channel_clips_noises_and_prunes() -> None:
    latent = torch.full((50, 10, 4), 7.0, requires_grad=True)
    received = NoisyColumns(Columns(4, (1, 3)))(latent, 0.5)
    assert not received[..., [0, 2]].any()
    kept = received[..., [1, 3]].detach()
    assert float(kept.mean()) == pytest.approx(1.0, abs=0.08)  # the bound
    assert float(kept.std()) == pytest.approx(0.5, abs=0.05)


def test_a_saturated_entry_still_learns() -> None:
    latent = torch.full((1, 1, 1), 1.8, requires_grad=True)
    torch.autograd.backward(NoisyColumns(Columns(1, (0,)))(latent, 0.0).sum())
    assert latent.grad is not None
    assert float(latent.grad) > 0.05  # a hard clip would give 0


def test_the_scale_of_the_training_noise_is_the_mechanisms_own(
    tiny: Bundle, corpus: tuple[CorpusFile, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[float] = []
    given: list[float] = []
    real_scale, real_channel = Gaussian.noise_scale, NoisyColumns.__call__

    def scale(self: Gaussian, sensitivity: Sensitivity) -> float:
        assert sensitivity == ByValue(noisy.BOUND).sensitivity(12 * 32)
        asked.append(real_scale(self, sensitivity))
        return asked[-1]

    def channel(self: NoisyColumns, latent: torch.Tensor, scale: float) -> torch.Tensor:
        given.append(scale)
        return real_channel(self, latent, scale)

    monkeypatch.setattr(Gaussian, "noise_scale", scale)
    monkeypatch.setattr(NoisyColumns, "__call__", channel)
    train_noisy(tiny, corpus, NoisyRecipe(steps=4, batch_size=8, noiseless=0.0), tmp_path)
    assert len(given) == 4
    assert set(given) <= set(asked)


def test_budgets_are_drawn_from_high_to_the_whole_range() -> None:
    recipe = NoisyRecipe(epsilon_low=10, epsilon_high=5000, steps=1000, easing=0.2)

    def drawn(step: int) -> list[float]:
        random = np.random.default_rng(0)
        made = [recipe.mechanism_at(step, random) for _ in range(2000)]
        assert sum(isinstance(each, NonPrivate) for each in made) == pytest.approx(100, abs=40)
        return [each.epsilon for each in made if isinstance(each, Gaussian)]

    assert min(drawn(0)) > 4500
    assert min(drawn(999)) < 20
    assert float(np.median(drawn(999))) == pytest.approx(810, rel=0.15)  # 5000 (10 / 5000)^(1 - sqrt(1/2))


def test_one_budget_is_that_budget_in_every_step() -> None:
    recipe = NoisyRecipe(epsilon_low=500, epsilon_high=500)
    random = np.random.default_rng(0)
    for step in (0, 4000):
        mechanism = recipe.mechanism_at(step, random)
        assert isinstance(mechanism, Gaussian)
        assert mechanism.epsilon == pytest.approx(500)


def test_budgets_the_wrong_way_round_are_refused() -> None:
    with pytest.raises(BadParameter, match="lower epsilon must not be above the higher 10, got 20"):
        NoisyRecipe(epsilon_low=20, epsilon_high=10)


def test_each_budget_has_its_token() -> None:
    tokens = [budget_token(bits) for bits in (0.0, 0.7, 8, 138, 800, 1e9, math.inf)]
    assert tokens[0] == tokens[1] == TOKENS[0]
    assert tokens[-1] == tokens[-2] == TOKENS[-1]
    assert len(set(tokens)) == 5


def test_an_interrupted_training_ends_with_the_same_weights(
    tiny: Bundle, corpus: tuple[CorpusFile, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = train_noisy(tiny, corpus, RECIPE, tmp_path / "whole")
    monkeypatch.setattr(training, "STEPS_BETWEEN_SAVES", 2)
    real = training.TextOrder.rows

    def interrupted(self: training.TextOrder, step: int) -> object:
        if step == 3:
            raise KeyboardInterrupt
        return real(self, step)

    with monkeypatch.context() as patched:
        patched.setattr(training.TextOrder, "rows", interrupted)
        with pytest.raises(KeyboardInterrupt):
            train_noisy(tiny, corpus, RECIPE, tmp_path / "stopped")
    resumed = train_noisy(tiny, corpus, RECIPE, tmp_path / "stopped")
    for name, tensor in whole.state_dict().items():
        torch.testing.assert_close(resumed.state_dict()[name], tensor, rtol=0, atol=0, msg=name)


def test_when_rewriting_both_halves_are_told_the_budget(
    tiny: Bundle, corpus: tuple[CorpusFile, ...], tmp_path: Path
) -> None:
    trained = train_noisy(tiny, corpus, RECIPE, tmp_path / "training")
    bundle = write_noisy(tiny, trained, RECIPE, tmp_path / "training", tmp_path / "pr-plus")
    assert (bundle.facts.variant, bundle.clip.bound) == ("pr-plus", noisy.BOUND)
    for epsilon in (10.0, 500.0):
        rewriter = Rewriter.load(str(bundle.folder), epsilon=epsilon, beams=2)
        token = rewriter.tokens.id_of(budget_token(rewriter.mechanism.bits(rewriter.sensitivity)))
        assert set(rewriter.tokens.encode(["a child", ""])[:, 0]) == {token}
        assert rewriter.search.config(rewriter.halves.model, 5).decoder_start_token_id == token
        (text,) = rewriter.rewrite(["a child sold nine keys ."]).texts
        assert "budget" not in text
