"""DP-BART-PR+: training under the noise of the mechanism that rewrites, told what is public."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import torch

from dpbart.channels.columns import Columns
from dpbart.channels.side_information import row_places
from dpbart.errors import BadParameter
from dpbart.models.bundle import Bundle
from dpbart.models.halves import SplitBart
from dpbart.models.latent import clip_of
from dpbart.models.text import Tokens
from dpbart.prepare import noisy, training
from dpbart.prepare.corpus import CorpusFile
from dpbart.prepare.noisy import NoisyColumns, NoisyRecipe, forget_pruned, spread_columns, train_noisy, write_noisy
from dpbart.prepare.objective import batch_of
from dpbart.privacy.clipping import ByValue, Sensitivity
from dpbart.privacy.mechanisms import Gaussian, NonPrivate
from dpbart.privacy.sampling import SystemEntropy
from dpbart.rewrite.rewriter import Rewriter
from tests.latents import channel_of, model_of

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


def test_the_channel_clips_noises_scales_and_tells_the_places() -> None:
    columns = Columns(4, (1, 3))
    torch.manual_seed(0)
    latent = torch.full((50, 10, 4), 7.0, requires_grad=True)
    received = NoisyColumns(columns, length=10)(latent, torch.full((50,), 0.5), torch.full((50,), 0.8)).detach()
    places = torch.from_numpy(row_places(columns, length=10))
    assert torch.equal(received[..., [0, 2]], places[:, [0, 2]].expand(50, 10, 2))
    kept = received[..., [1, 3]]
    assert float(kept.mean()) == pytest.approx(0.8 * 1.0, abs=0.06)  # 1 is the bound
    assert float(kept.std()) == pytest.approx(0.8 * 0.5, abs=0.04)


def test_a_saturated_entry_still_learns() -> None:
    latent = torch.full((1, 1, 1), 1.8, requires_grad=True)
    torch.autograd.backward(NoisyColumns(Columns(1, (0,)), length=1)(latent, torch.zeros(1), torch.ones(1)).sum())
    assert latent.grad is not None
    assert float(latent.grad) > 0.05  # a hard clip would give 0


def test_training_begins_with_what_the_pruned_model_computes(tiny: Bundle) -> None:
    columns = Columns(32, tuple(range(0, 32, 2)))
    ids = Tokens.load(tiny.folder / "tokenizer.json", length=12).encode(["the nurse found an apple .", "a child"])
    bart = SplitBart.load(tiny.folder)

    def logits(around: torch.Tensor) -> torch.Tensor:
        received = around.expand(2, 12, 32).clone()
        received[..., list(columns.kept)] = torch.from_numpy(columns.keep(bart.encode(ids)))
        out: torch.Tensor = bart.model(
            decoder_input_ids=torch.from_numpy(ids), encoder_outputs=(received,), use_cache=False
        ).logits
        return out.detach()

    before = logits(torch.zeros(12, 32))
    forget_pruned(bart, columns)
    torch.testing.assert_close(logits(torch.from_numpy(row_places(columns, length=12))), before)


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

    def channel(self: NoisyColumns, latent: torch.Tensor, scale: torch.Tensor, loudness: torch.Tensor) -> torch.Tensor:
        given.extend(scale.tolist())
        return real_channel(self, latent, scale, loudness)

    monkeypatch.setattr(Gaussian, "noise_scale", scale)
    monkeypatch.setattr(NoisyColumns, "__call__", channel)
    train_noisy(tiny, corpus, NoisyRecipe(steps=4, batch_size=8, noiseless=0.0), tmp_path)
    assert len(given) == 4 * 8  # one for each text of each step
    assert len(set(given)) > 8
    assert set(given) <= {float(np.float32(each)) for each in asked}


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
    other = replace(tiny, facts=replace(tiny.facts, kept=tuple(range(16))))
    with pytest.raises(BadParameter, match="was begun with another model"):  # the same weights, other columns
        train_noisy(other, corpus, RECIPE, tmp_path / "stopped")
    for name, tensor in whole.state_dict().items():
        torch.testing.assert_close(resumed.state_dict()[name], tensor, rtol=0, atol=0, msg=name)


def test_rewriting_gives_the_decoder_what_training_gave_it(
    tiny: Bundle, corpus: tuple[CorpusFile, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same token, loudness and places, asked of the training's own channel at the same budget and without noise."""
    pruned = replace(tiny, facts=replace(tiny.facts, kept=tuple(range(0, 32, 2))))
    recipe = replace(RECIPE, epsilon_low=500.0, epsilon_high=500.0, steps=1)
    seen: list[npt.NDArray[np.int64]] = []
    settings: list[torch.Tensor] = []
    real = NoisyColumns.__call__

    def channel(self: NoisyColumns, latent: torch.Tensor, scale: torch.Tensor, loudness: torch.Tensor) -> torch.Tensor:
        settings.append(loudness)
        return real(self, latent, scale, loudness)

    def batch(*, shown: npt.NDArray[np.int64], whole: npt.NDArray[np.int64], start: npt.NDArray[np.int64]) -> object:
        seen.append(shown)
        assert list(shown[:, 0]) == list(start)
        return batch_of(shown=shown, whole=whole, start=start)

    monkeypatch.setattr(NoisyColumns, "__call__", channel)
    monkeypatch.setattr("dpbart.prepare.noisy.batch_of", batch)
    trained = train_noisy(pruned, corpus, recipe, tmp_path / "training")
    bundle = write_noisy(pruned, trained, corpus, recipe, tmp_path / "training", tmp_path / "pr-plus")
    assert (bundle.facts.variant, bundle.facts.told, clip_of(bundle).bound) == ("pr-plus", True, noisy.BOUND)

    rewriter = Rewriter.load(str(bundle.folder), epsilon=500.0, beams=2)
    texts = ["a child sold nine keys .", ""]
    token = int(seen[0][0, 0])
    model, sent_by = model_of(rewriter), channel_of(rewriter)
    assert set(model.tokens.encode(texts)[:, 0]) == {token}
    assert model.search.config(model.halves.model, 5).decoder_start_token_id == token
    latent = model.encode(texts)
    quiet = replace(sent_by, mechanism=NonPrivate()).send(latent, SystemEntropy())  # the side information stays
    noisy_columns = NoisyColumns(sent_by.columns, length=12)
    in_training = real(noisy_columns, torch.from_numpy(latent), torch.zeros(2), settings[0][:2])
    np.testing.assert_allclose(quiet.values, in_training.numpy(), atol=1e-6)
    assert not any("budget" in text for text in rewriter.rewrite(texts).texts)


def test_a_model_trained_under_noise_can_be_trained_further_for_one_budget(
    tiny: Bundle, corpus: tuple[CorpusFile, ...], tmp_path: Path
) -> None:
    pruned = replace(tiny, facts=replace(tiny.facts, kept=tuple(range(0, 32, 2))))
    trained = train_noisy(pruned, corpus, RECIPE, tmp_path / "first")
    bundle = write_noisy(pruned, trained, corpus, RECIPE, tmp_path / "first", tmp_path / "pr-plus")
    one = NoisyRecipe(epsilon_low=500.0, epsilon_high=500.0, steps=1, batch_size=8, learning_rate=1e-9)
    further = train_noisy(bundle, corpus, one, tmp_path / "second").state_dict()
    for name, tensor in SplitBart.load(bundle.folder).model.state_dict().items():
        torch.testing.assert_close(further[name], tensor, rtol=0, atol=1e-6, msg=name)  # it began where it was
