from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from tokenizers import Tokenizer

from dpbart import Rewriter
from dpbart.errors import BadParameter, NotPrepared
from dpbart.models.bart import SplitBart
from dpbart.models.bundle import Bundle
from dpbart.models.search import BeamSearch
from dpbart.privacy.mechanisms import Noised
from dpbart.privacy.sampling import ReplaySeed
from tests.latents import channel_of, entries_of, model_of

NASTY = ["", " ", "word " * 10_000, "😀🎉 parrot", "\x00\x07\x1b", "日本語のテキスト", "\ud800 lone", "line\nline"]


@pytest.fixture(scope="module")
def rewriter(tiny: Bundle) -> Rewriter:
    return Rewriter.load(str(tiny.folder), epsilon=500, beams=2)


@pytest.fixture
def written() -> list[npt.NDArray[np.int64]]:
    """The decoder's outputs, one per call (filled by `decoded`)."""
    return []


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch, written: list[npt.NDArray[np.int64]]) -> list[Noised]:
    """The decoder's inputs, one per call."""
    seen: list[Noised] = []
    real = SplitBart.decode

    def watch(self: SplitBart, private: Noised, search: BeamSearch, *, length: int) -> npt.NDArray[np.int64]:
        seen.append(private)
        written.append(real(self, private, search, length=length))
        return written[-1]

    monkeypatch.setattr(SplitBart, "decode", watch)
    return seen


def test_a_rewriting_has_texts_guarantee_and_recipe(rewriter: Rewriter) -> None:
    done = rewriter.rewrite(["the nurse found an apple", "a child sold nine keys"])
    assert len(done.texts) == 2
    assert (done.guarantee.epsilon, done.guarantee.delta) == (500, 1e-5)
    assert done.recipe.startswith(
        "mech:gaussian|eps:500|delta:1e-05|clip:value:0.5|kept:32/32|len:12|beams:2|model:tiny@"
    )


def test_unusual_texts_take_the_same_path_and_spend_the_same(
    rewriter: Rewriter, decoded: list[Noised], written: list[npt.NDArray[np.int64]]
) -> None:
    """Every output text is exactly what the decoder wrote from a private latent."""
    done = rewriter.rewrite(NASTY)
    assert [each.values.shape[0] for each in decoded] == [len(NASTY)]
    assert done.texts == tuple(model_of(rewriter).tokens.decode(written[0]))
    assert not set(done.texts) & {text for text in NASTY if text}
    assert done.guarantee.epsilon == 500


def test_an_empty_list_gets_the_true_guarantee(rewriter: Rewriter) -> None:
    assert rewriter.rewrite([]).guarantee.epsilon == 500
    assert not replace(rewriter, entropy=ReplaySeed(1)).rewrite([]).guarantee.private


def test_a_replay_repeats_itself_and_is_not_private(tiny: Bundle, decoded: list[Noised]) -> None:
    for _ in range(2):
        replay = Rewriter.load(str(tiny.folder), epsilon=500, beams=1, replay_seed=7)
        done = replay.rewrite(["the nurse found an apple"])
        assert not done.guarantee.private
        assert done.recipe.count("NOT PRIVATE") == 1
    np.testing.assert_array_equal(decoded[0].values, decoded[1].values)


def test_without_noise_nothing_is_promised(tiny: Bundle) -> None:
    done = Rewriter.load(str(tiny.folder), mechanism="none", beams=2).rewrite(["a child"])
    assert done.guarantee.epsilon == math.inf


def test_every_entry_that_reaches_the_decoder_has_fresh_noise(tiny: Bundle, decoded: list[Noised]) -> None:
    """This includes begin, end and padding: two rewritings of a text differ at every position."""
    rewriter = Rewriter.load(str(tiny.folder), epsilon=10, beams=1)
    for _ in range(2):
        rewriter.rewrite(["a"])
    first, second = (each.values for each in decoded)
    assert first.shape == (1, 12, 32)
    # Over the 32 columns of each position: two draws are equal with probability 6e-5, four in one position with 4e-12.
    assert (first != second).mean(axis=(0, 2)).min() > 0.9


def test_a_models_columns_must_fit_its_width(tiny: Bundle, tiny_copy: Path) -> None:
    replace(tiny.facts, width=64, kept=(0, 63)).write(tiny_copy)
    with pytest.raises(NotPrepared, match="dpbart.json is for a model of width 64, but config.json has width 32"):
        Rewriter.load(str(tiny_copy), epsilon=10)


def test_only_kept_columns_count_in_the_sensitivity(tiny: Bundle, tiny_copy: Path) -> None:
    replace(tiny.facts, kept=(1, 5, 30)).write(tiny_copy)
    pruned = Rewriter.load(str(tiny_copy), epsilon=10)
    assert entries_of(pruned) == 3 * 12
    assert channel_of(pruned).bounds.sensitivity.l2 == pytest.approx(2 * 0.5 * 6)


def test_pruned_columns_of_the_encoder_do_not_reach_the_decoder(
    tiny: Bundle, tiny_copy: Path, decoded: list[Noised], monkeypatch: pytest.MonkeyPatch
) -> None:
    replace(tiny.facts, kept=(1, 5, 30)).write(tiny_copy)
    real = SplitBart.encode

    def other(self: SplitBart, ids: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        latent: npt.NDArray[np.float32] = real(self, ids) + np.float32(9)
        latent[..., [1, 5, 30]] -= np.float32(9)
        return latent

    for encode in (real, other):
        monkeypatch.setattr(SplitBart, "encode", encode)
        Rewriter.load(str(tiny_copy), epsilon=500, beams=1, replay_seed=7).rewrite(["a child"])
    np.testing.assert_allclose(decoded[0].values, decoded[1].values, atol=0.01)  # a step of the grid, at most


def test_a_length_above_the_models_maximum_is_refused(tiny: Bundle) -> None:
    with pytest.raises(BadParameter, match="length must be at most 12 for the model 'tiny', got 13"):
        Rewriter.load(str(tiny.folder), epsilon=10, length=13)


def test_a_bad_budget_is_refused_before_the_model_is_searched() -> None:
    with pytest.raises(BadParameter, match=r"epsilon must be greater than 0, got -1"):
        Rewriter.load("no such model", epsilon=-1)
    with pytest.raises(NotPrepared):
        Rewriter.load("no such model", epsilon=1)


def test_a_delta_without_effect_is_refused(tiny: Bundle) -> None:
    with pytest.raises(BadParameter, match="a delta of 0.3 would have no effect: the mechanism 'laplace' is pure"):
        Rewriter.load(str(tiny.folder), epsilon=5, delta=0.3, mechanism="laplace")
    for delta in (0.0, 1e-5):
        assert Rewriter.load(str(tiny.folder), epsilon=5, delta=delta, mechanism="laplace").facts.guarantee.delta == 0
    with pytest.raises(BadParameter, match="delta must be between 0 and 1, both excluded, got 0"):
        Rewriter.load(str(tiny.folder), epsilon=5, delta=0.0)


def test_one_string_is_not_a_list_of_texts(rewriter: Rewriter) -> None:
    with pytest.raises(BadParameter, match="got one string"):
        rewriter.rewrite("a child")


def test_the_batch_size_does_not_change_number_or_order(tiny: Bundle) -> None:
    texts = [f"a child sold nine keys {number}" for number in range(7)]
    whole, parts = (
        Rewriter.load(str(tiny.folder), mechanism="none", beams=1, batch_size=size).rewrite(texts).texts
        for size in (7, 3)
    )
    assert whole == parts


def test_a_rewriter_uses_private_entropy_by_default(rewriter: Rewriter) -> None:
    assert rewriter.entropy.private


def test_a_tokenizer_with_more_tokens_than_embeddings_is_refused(tiny: Bundle, tiny_copy: Path) -> None:
    """Otherwise a rare word in a private text would stop the run, and the failure would reveal it."""
    tokenizer = Tokenizer.from_file(str(tiny_copy / "tokenizer.json"))
    tokenizer.add_tokens(["surplus"])
    tokenizer.save(str(tiny_copy / "tokenizer.json"))
    with pytest.raises(NotPrepared, match="must fit its weights"):
        Rewriter.load(str(tiny_copy), epsilon=10)
