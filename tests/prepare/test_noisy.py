"""DP-BART-PR+: training with the noise of the mechanism that rewrites, and with public side information."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import torch
from transformers import BartForConditionalGeneration

from dpbart.channels.columns import Columns, SideInformation, row_places
from dpbart.errors import BadParameter
from dpbart.models.bart import SplitBart
from dpbart.models.bundle import Bundle
from dpbart.models.families import clip_of
from dpbart.models.text import Tokens
from dpbart.options.recipes import NoisyRecipe
from dpbart.prepare import noisy
from dpbart.prepare.corpus import CorpusFile
from dpbart.prepare.noisy import (
    NoisyBatch,
    NoisyColumns,
    forget_pruned,
    mechanism_at,
    spread_columns,
    train_noisy,
    with_budget_tokens,
    write_noisy,
)
from dpbart.prepare.pretrain import batch_of
from dpbart.privacy.clipping import ByValue, Sensitivity
from dpbart.privacy.mechanisms import Gaussian, NonPrivate
from dpbart.privacy.sampling import SystemEntropy
from dpbart.rewrite.rewriter import Rewriter
from tests.latents import channel_of, model_of

RECIPE = NoisyRecipe(steps=4, batch_size=8)


def trained(
    bundle: Bundle, files: tuple[CorpusFile, ...], recipe: NoisyRecipe, folder: Path
) -> BartForConditionalGeneration:
    model = train_noisy(bundle, files, recipe, folder)
    assert model is not None
    return model


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


def test_the_channel_clips_adds_noise_scales_and_writes_the_places() -> None:
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


def test_training_starts_from_what_the_pruned_model_computes(tiny: Bundle) -> None:
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


def test_a_batch_holds_the_token_noise_and_loudness_of_the_side_information(tiny: Bundle, tmp_path: Path) -> None:
    """Token, scale and loudness are those that `SideInformation.of` and the mechanism give for each text's budget."""
    with_budget_tokens(tiny.folder / "tokenizer.json").save(str(tmp_path / "tokenizer.json"))
    tokens, clip = Tokens.load(tmp_path / "tokenizer.json", length=12), ByValue(noisy.BOUND)
    columns, recipe = Columns(32, tuple(range(0, 32, 2))), NoisyRecipe(noiseless=0.3)
    whole = tokens.encode(["the nurse found an apple ."] * 40)
    sensitivity = clip.sensitivity(12 * 16)
    shown, before, wanted, scale, loudness = NoisyBatch(recipe, tokens, sensitivity)(
        whole, np.random.default_rng(5), 7000
    )
    random = np.random.default_rng(5)
    random.integers(2**62)  # the seed of the noise
    mechanisms = [mechanism_at(recipe, 7000, random) for _ in whole]
    told = [SideInformation.of(each, clip, columns, length=12) for each in mechanisms]
    token = torch.tensor([tokens.id_of(each.token) for each in told])
    assert len(set(token.tolist())) > 5
    assert torch.equal(shown[:, 0], token)
    assert torch.equal(before[:, 0], token)
    assert torch.equal(shown[:, 1:], torch.from_numpy(whole[:, 1:]))
    assert torch.equal(before[:, 1:], torch.from_numpy(whole[:, :-1]))
    assert torch.equal(wanted, torch.from_numpy(whole))
    assert torch.equal(scale, torch.tensor([each.noise_scale(sensitivity) for each in mechanisms]))
    assert torch.equal(loudness, torch.tensor([each.loudness for each in told]))


def test_an_interrupted_training_ends_with_the_same_weights(
    tiny: Bundle,
    corpus: tuple[CorpusFile, ...],
    tmp_path: Path,
    stopped_at: Callable[[int], AbstractContextManager[None]],
) -> None:
    whole = trained(tiny, corpus, RECIPE, tmp_path / "whole")
    with stopped_at(4):
        train_noisy(tiny, corpus, RECIPE, tmp_path / "stopped")
    resumed = trained(tiny, corpus, RECIPE, tmp_path / "stopped")
    other = replace(tiny, facts=replace(tiny.facts, kept=tuple(range(16))))
    with pytest.raises(BadParameter, match="was started with another model"):  # the same weights, other columns
        train_noisy(other, corpus, RECIPE, tmp_path / "stopped")
    for name, tensor in whole.state_dict().items():
        torch.testing.assert_close(resumed.state_dict()[name], tensor, rtol=0, atol=0, msg=name)


def test_rewriting_gives_the_decoder_what_training_gave_it(
    tiny: Bundle, corpus: tuple[CorpusFile, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same token, loudness and places as the training channel gives at the same budget, without noise."""
    pruned = replace(tiny, facts=replace(tiny.facts, kept=tuple(range(0, 32, 2))))
    recipe = RECIPE.changed(epsilon_low=500.0, epsilon_high=500.0, steps=1)
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
    model = trained(pruned, corpus, recipe, tmp_path / "training")
    bundle = write_noisy(pruned, model, corpus, recipe, tmp_path / "training", tmp_path / "pr-plus")
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
    model = trained(pruned, corpus, RECIPE, tmp_path / "first")
    bundle = write_noisy(pruned, model, corpus, RECIPE, tmp_path / "first", tmp_path / "pr-plus")
    one = NoisyRecipe(epsilon_low=500.0, epsilon_high=500.0, steps=1, batch_size=8, learning_rate=1e-9)
    further = trained(bundle, corpus, one, tmp_path / "second").state_dict()
    for name, tensor in SplitBart.load(bundle.folder).model.state_dict().items():
        torch.testing.assert_close(
            further[name], tensor, rtol=0, atol=1e-6, msg=name
        )  # it started from the weights of the bundle
