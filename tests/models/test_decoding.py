"""Our search finds the ids of `generate`, and each of its parts is needed for that."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from transformers import BartConfig, BartForConditionalGeneration

from dpbart.models.bart import Halves, Ids, SplitBart
from dpbart.models.decoding import _Steps
from dpbart.models.search import BeamSearch
from dpbart.privacy.clipping import ByValue
from dpbart.privacy.mechanisms import Noised, NonPrivate
from dpbart.privacy.sampling import SystemEntropy

LENGTH = 12


def random_bart(vocabulary: int = 130, **more: object) -> SplitBart:
    """Weights that are large enough for beams to cross, and for texts to end at many different lengths."""
    torch.manual_seed(3)
    heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 2}
    layers = {"encoder_layers": 1, "decoder_layers": 2, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32}
    settings = {"vocab_size": vocabulary, "max_position_embeddings": LENGTH, "d_model": 16, "init_std": 0.7}
    model = BartForConditionalGeneration(BartConfig(**settings, **heads, **layers, **more))
    model.final_logits_bias[0, 2] = 6.0  # ends happen
    return SplitBart(model, torch.device("cpu"))


def latents(texts: int = 40) -> Noised:
    values = np.random.default_rng(0).normal(size=(texts, 9, 16)).astype(np.float32)
    return NonPrivate().privatize(ByValue(1e6).clip(values), SystemEntropy())


def generated(bart: SplitBart, search: BeamSearch) -> Ids:
    return Halves.decode(bart, latents(), search, length=LENGTH)


@pytest.mark.parametrize("beams", [1, 4, 10])
@pytest.mark.parametrize("early", [True, False])
def test_the_ids_are_those_of_generate(beams: int, early: bool) -> None:
    bart, search = random_bart(), BeamSearch(beams, early_stopping=early)
    theirs = generated(bart, search)
    np.testing.assert_array_equal(bart.decode(latents(), search, length=LENGTH), theirs)
    assert len(set((theirs != 1).sum(1))) > 4  # texts leave the batch one after the other


@pytest.mark.parametrize("penalty", [-1.0, 0.0, 2.0])
def test_the_length_penalty_is_that_of_generate(penalty: float) -> None:
    bart, search = random_bart(), BeamSearch(4, length_penalty=penalty)
    np.testing.assert_array_equal(bart.decode(latents(), search, length=LENGTH), generated(bart, search))


def test_a_start_token_and_scaled_embeddings_are_used() -> None:
    bart, search = random_bart(scale_embedding=True), BeamSearch(4, start_id=77)
    ids = bart.decode(latents(), search, length=LENGTH)
    np.testing.assert_array_equal(ids, generated(bart, search))
    assert (ids[:, 0] == 77).all()


def test_fewer_ids_than_options_are_enough() -> None:
    """The other beams start as copies of the first one; without them, ids outside the vocabulary would be chosen."""
    bart, search = random_bart(vocabulary=4), BeamSearch(6)
    np.testing.assert_array_equal(bart.decode(latents(), search, length=LENGTH), generated(bart, search))


def test_a_text_does_not_depend_on_the_others_of_its_batch() -> None:
    bart, search = random_bart(), BeamSearch(4)
    together = bart.decode(latents(), search, length=LENGTH)
    for row in range(0, 40, 7):
        alone = latents().post_processed(latents().values[row : row + 1], recipe="")
        ids = bart.decode(alone, search, length=LENGTH)[0]
        np.testing.assert_array_equal(ids, together[row, : len(ids)])
        assert (together[row, len(ids) :] == 1).all()


@pytest.mark.parametrize("beams", [1, 4, 10])
def test_in_bfloat16_most_ids_are_those_of_generate(beams: int) -> None:
    """With 8 bits for a number, sums in another order may choose another id, and the texts differ from there on."""
    bart, search = random_bart(), BeamSearch(beams)
    whole = bart.decode(latents(), search, length=LENGTH)
    bart.model.to(torch.bfloat16)
    half, theirs = bart.decode(latents(), search, length=LENGTH), generated(bart, search)
    assert (half[:, 1] != 1).all()
    assert same_rows(half, theirs) > 0.8
    assert same_rows(whole, half) < 1.0  # it did compute in bfloat16


def same_rows(one: Ids, two: Ids) -> float:
    """The share of equal texts."""
    padded = [np.pad(ids, ((0, 0), (0, LENGTH + 1 - ids.shape[1])), constant_values=1) for ids in (one, two)]
    return float((padded[0] == padded[1]).all(1).mean())


def test_no_text_gives_no_ids() -> None:
    nothing = latents().post_processed(latents().values[:0], recipe="")
    assert len(random_bart().decode(nothing, BeamSearch(4), length=LENGTH)) == 0


@pytest.mark.parametrize("what", ["beams", "texts"])
def test_the_control_a_wrong_order_in_a_cache_changes_the_ids(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bart, search, follow = random_bart(), BeamSearch(4), _Steps.follow
    theirs = generated(bart, search)

    def as_before(self: _Steps, texts: torch.Tensor, parents: torch.Tensor) -> None:
        beams = torch.arange(parents.shape[1]) % self.mask.shape[1]
        follow(self, texts, beams.expand_as(parents))

    if what == "beams":
        monkeypatch.setattr(_Steps, "follow", as_before)
    else:
        monkeypatch.setattr(_Steps, "move", lambda *_: None)
    ids = bart.decode(latents(), search, length=LENGTH)
    assert ids.shape != theirs.shape or (ids != theirs).any()
