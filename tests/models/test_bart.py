"""The two halves equal the whole model, and only the private latent passes between them."""

from __future__ import annotations

import inspect
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import BartConfig, BartForConditionalGeneration

from dpbart import Rewriter
from dpbart.errors import BadParameter, NotPrepared
from dpbart.models.bart import SplitBart
from dpbart.models.bundle import BUNDLED, Bundle
from dpbart.models.search import BeamSearch
from dpbart.models.text import Tokens
from dpbart.privacy.clipping import ByValue
from dpbart.privacy.mechanisms import Noised, NonPrivate
from dpbart.privacy.sampling import SystemEntropy

TEXTS = [
    "play the new album by the red hot chili peppers",
    "",
    "I have been waiting for this all year and it was worth every single penny of it.",
    "Rain.",
]


def unchanged(latent: npt.NDArray[np.float32]) -> Noised:
    return NonPrivate().privatize(ByValue(1e6).clip(latent), SystemEntropy())


@pytest.fixture(scope="module")
def mini() -> SplitBart:
    return SplitBart.load(BUNDLED / "mini")


@pytest.mark.parametrize("beams", [1, 4, 10])
def test_the_two_halves_write_exactly_what_the_whole_model_writes(mini: SplitBart, beams: int) -> None:
    ids = Tokens.load(BUNDLED / "mini" / "tokenizer.json", length=20).encode(TEXTS)
    halves = mini.decode(unchanged(mini.encode(ids)), BeamSearch(beams), length=20)
    whole = mini.model.generate(
        input_ids=torch.from_numpy(ids),
        attention_mask=torch.ones(ids.shape, dtype=torch.int64),  # all positions, as in rewriting
        generation_config=BeamSearch(beams).config(mini.model, new_tokens=20),
    )
    np.testing.assert_array_equal(halves, whole.numpy())


def test_padding_is_read_like_any_other_token(mini: SplitBart) -> None:
    """The control for the test above: with BART's own padding mask, the latent is different."""
    ids = torch.from_numpy(Tokens.load(BUNDLED / "mini" / "tokenizer.json", length=20).encode(["Rain."]))
    masked = mini.model.get_encoder()(input_ids=ids, attention_mask=(ids != 1).long()).last_hidden_state
    assert not np.allclose(masked.detach().numpy(), mini.encode(ids.numpy()), atol=1e-3)


def test_the_decoder_takes_only_a_private_latent() -> None:
    assert list(inspect.signature(SplitBart.decode).parameters) == ["self", "private", "search", "length"]


def test_equal_private_latents_of_texts_of_different_length_give_equal_output(mini: SplitBart) -> None:
    tokens = Tokens.load(BUNDLED / "mini" / "tokenizer.json", length=20)
    short, long = mini.encode(tokens.encode(["Rain."])), mini.encode(tokens.encode([TEXTS[2]]))
    same = np.random.default_rng(0).normal(size=short.shape).astype(np.float32)
    after_short, after_long = (
        mini.decode(unchanged(latent).post_processed(same, recipe=""), BeamSearch(4), length=20)
        for latent in (short, long)
    )
    np.testing.assert_array_equal(after_short, after_long)


def test_a_models_own_decoding_settings_are_ignored() -> None:
    """bart-base's config has no_repeat_ngram_size 3 and forced tokens, which would change the text silently."""
    config = BartConfig(
        vocab_size=50,
        max_position_embeddings=16,
        d_model=16,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=32,
        decoder_ffn_dim=32,
    )
    torch.manual_seed(1)
    plain, meddled = BartForConditionalGeneration(config), BartForConditionalGeneration(config)
    meddled.load_state_dict(plain.state_dict())
    meddled.generation_config.no_repeat_ngram_size = 1
    meddled.generation_config.forced_bos_token_id = 7
    latent = np.random.default_rng(0).normal(size=(3, 16, 16)).astype(np.float32)
    cpu = torch.device("cpu")
    a, b = (SplitBart(model, cpu).decode(unchanged(latent), BeamSearch(3), length=16) for model in (plain, meddled))
    np.testing.assert_array_equal(a, b)


def test_halves_work_with_any_width_and_length(tiny: Bundle) -> None:
    bart = SplitBart.load(tiny.folder)
    assert (bart.width, bart.longest) == (32, 12)
    for length in (3, 7, 12):
        latent = bart.encode(np.full((2, length), 5))
        assert latent.shape == (2, length, 32)
        assert bart.decode(unchanged(latent), BeamSearch(2), length=length).shape[1] <= length + 1


@pytest.mark.parametrize("beams", [0, 101])
def test_beams_outside_their_range_are_refused(beams: int) -> None:
    with pytest.raises(BadParameter, match=f"beams must be from 1 to 100, got {beams}"):
        BeamSearch(beams)


def test_missing_weights_are_refused_not_filled_with_random_numbers(tiny_copy: Path) -> None:
    weights = load_file(tiny_copy / "model.safetensors")
    del weights["model.decoder.layers.0.fc1.weight"]
    save_file(weights, tiny_copy / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(NotPrepared, match="lack model.decoder.layers.0.fc1.weight"):
        SplitBart.load(tiny_copy)


def test_damaged_weights_are_refused(tiny_copy: Path) -> None:
    (tiny_copy / "model.safetensors").write_bytes((tiny_copy / "model.safetensors").read_bytes()[:5000])
    with pytest.raises(NotPrepared, match="cannot be loaded"):
        SplitBart.load(tiny_copy)


def test_a_device_is_chosen_by_the_operator(tiny: Bundle, tiny_code: Bundle) -> None:
    """On this machine only the CPU is sure to be there."""
    texts = ["the nurse found an apple ."]
    assert len(Rewriter.load(str(tiny.folder), epsilon=500, device="cpu").rewrite(texts).texts) == 1
    assert len(Rewriter.load(str(tiny_code.folder), epsilon=10, device="cpu").rewrite(texts).texts) == 1
    for device in ("cuda:99", "nowhere"):
        with pytest.raises(BadParameter, match=f"there is no device '{device}' here. Leave out --device"):
            Rewriter.load(str(tiny.folder), epsilon=500, device=device)
        with pytest.raises(BadParameter, match=f"'tiny-code' runs on the CPU, got the device '{device}'"):
            Rewriter.load(str(tiny_code.folder), epsilon=10, device=device)
