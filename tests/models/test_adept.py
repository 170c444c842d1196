"""ADePT's halves: the latent is one row [h; c], and the search finds the best text."""

from __future__ import annotations

import inspect
from itertools import product

import numpy as np
import numpy.typing as npt
import pytest
import torch

from dpbart.models.adept import AdeptConfig, AdeptForGeneration, SplitAdept
from dpbart.models.bundle import Bundle
from dpbart.models.search import BeamSearch
from dpbart.models.text import Tokens
from dpbart.privacy.clipping import ByNorm
from dpbart.privacy.mechanisms import Noised, NonPrivate
from dpbart.privacy.sampling import SystemEntropy

CPU = torch.device("cpu")


def clipped(latent: npt.NDArray[np.float32], radius: float = 5.0) -> Noised:
    return NonPrivate().privatize(ByNorm(radius).clip(latent), SystemEntropy())


def small(*, seed: int, reversed: bool = True) -> AdeptForGeneration:
    """Six words; 0, 1 and 2 are begin, padding and end. The weights are large, so that choices matter."""
    torch.manual_seed(seed)
    model = AdeptForGeneration(
        AdeptConfig(vocab_size=6, embedding=3, hidden=4, max_position_embeddings=5, reversed=reversed)
    )
    with torch.no_grad():
        for each in model.parameters():
            each.mul_(5)
    return model


def lstm_by_hand(rnn: torch.nn.LSTM, embedded: torch.Tensor) -> torch.Tensor:
    """[h; c] after reading one text (words, embedding), from the LSTM equations."""
    weights = dict(rnn.named_parameters())
    h = c = torch.zeros(rnn.hidden_size)
    for x in embedded:
        gates = weights["weight_ih_l0"] @ x + weights["bias_ih_l0"] + weights["weight_hh_l0"] @ h
        i, f, g, o = (gates + weights["bias_hh_l0"]).chunk(4)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
    return torch.cat([h, c])


@pytest.mark.parametrize("reversed", [True, False])
def test_the_latent_is_the_last_state_after_all_ids_and_padding(reversed: bool) -> None:
    model = small(seed=0, reversed=reversed)
    ids = np.array([[0, 4, 2, 1, 1], [0, 5, 3, 4, 2], [0, 2, 1, 1, 1]])
    latent = SplitAdept(model, CPU).encode(ids)
    assert latent.shape == (3, 1, 8)
    for row, state in zip(ids, latent[:, 0], strict=True):
        order = row[::-1].copy() if reversed else row
        expected = lstm_by_hand(model.encoder.rnn, model.encoder.embeds(torch.from_numpy(order)))
        np.testing.assert_allclose(state, expected.detach().numpy(), atol=1e-5)


@torch.inference_mode()
def log_probability(model: AdeptForGeneration, latent: torch.Tensor, words: tuple[int, ...]) -> float:
    """The log probability of these words, computed step by step with the decoder's layers."""
    h, c = latent[None, None, :4].contiguous(), latent[None, None, 4:].contiguous()
    before, total = 0, 0.0
    for word in words:
        embedded = model.decoder.embeds(torch.tensor([[before]]))
        out, (h, c) = model.decoder.rnn(embedded, (h, c))
        total += float(torch.log_softmax(model.decoder.generator(out[0, 0]), dim=0)[word])
        before = word
    return total


def best_by_brute_force(model: AdeptForGeneration, latent: torch.Tensor, length: int) -> tuple[int, ...]:
    """The text with the best mean log probability: ended ones of up to `length` words, or unended ones of `length`."""
    end, others = 2, (0, 1, 3, 4, 5)
    texts = [(*body, end) for words in range(length) for body in product(others, repeat=words)]
    texts += list(product(others, repeat=length))
    return max(texts, key=lambda text: log_probability(model, latent, text) / len(text))


@pytest.mark.parametrize("seed", range(4))
def test_a_wide_beam_search_finds_the_best_text_of_all(seed: int) -> None:
    model, length = small(seed=seed), 3
    latent = np.random.default_rng(seed).normal(size=(2, 1, 8)).astype(np.float32)
    private = clipped(latent)
    search = BeamSearch(beams=100, early_stopping=False)
    found = SplitAdept(model, CPU).decode(private, search, length=length)
    for row, values in zip(found, private.values[:, 0], strict=True):
        best = best_by_brute_force(model, torch.from_numpy(values), length)
        assert tuple(row[1 : len(best) + 1]) == best  # after the start token
        assert set(row[len(best) + 1 :]) <= {1}  # padding up to the longest in the batch


def test_the_decoder_takes_only_a_private_latent() -> None:
    assert list(inspect.signature(SplitAdept.decode).parameters) == ["self", "private", "search", "length"]
    step = inspect.signature(AdeptForGeneration.forward).parameters
    assert list(step) == ["self", "decoder_input_ids", "encoder_outputs", "return_dict"]


def test_equal_private_latents_of_texts_of_different_length_give_equal_output(tiny_adept: Bundle) -> None:
    halves = SplitAdept.load(tiny_adept.folder, device=CPU)
    tokens = Tokens.load(tiny_adept.folder / "tokenizer.json", length=12)
    short, long = (halves.encode(tokens.encode([text])) for text in ("", "the nurse found " * 500))
    assert short.shape == long.shape == (1, 1, 32)
    assert not np.allclose(short, long)
    same = np.random.default_rng(0).normal(size=short.shape).astype(np.float32)
    after_short, after_long = (
        halves.decode(clipped(latent).post_processed(same, recipe=""), BeamSearch(4), length=12)
        for latent in (short, long)
    )
    np.testing.assert_array_equal(after_short, after_long)


def test_a_search_ends_at_the_given_length(tiny_adept: Bundle) -> None:
    halves = SplitAdept.load(tiny_adept.folder, device=CPU)
    with torch.no_grad():
        halves.model.decoder.generator.bias[2] = -1e9  # the end token is never chosen
    latent = clipped(halves.encode(np.full((2, 12), 5)))
    for length in (3, 12):
        assert halves.decode(latent, BeamSearch(2), length=length).shape == (2, length + 1)


def test_the_embedding_of_padding_is_read(tiny_adept: Bundle) -> None:
    """With a mask or a packed sequence, it would have no effect."""
    halves = SplitAdept.load(tiny_adept.folder, device=CPU)
    ids = Tokens.load(tiny_adept.folder / "tokenizer.json", length=12).encode(["an apple"])
    before = halves.encode(ids)
    with torch.no_grad():
        halves.model.encoder.embeds.weight[1] += 1.0
    assert not np.allclose(before, halves.encode(ids), atol=1e-3)
