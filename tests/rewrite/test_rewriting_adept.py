"""ADePT is rewritten through the same path as BART, and leaks neither unknown words nor lengths."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dpbart import Rewriter
from dpbart.errors import NotPrepared
from dpbart.models.adept import AdeptForGeneration
from dpbart.models.bart import Halves, Ids
from dpbart.models.bundle import Bundle
from dpbart.models.search import BeamSearch
from dpbart.privacy.clipping import ByNorm
from dpbart.privacy.mechanisms import Noised
from tests.latents import channel_of, entries_of, model_of

ENTRIES = 32  # 16 from h, 16 from c
TEXTS = ["", "the nurse found an apple .", "a child " * 5000, "Zanzibar Zebediah", "\x00", "日本語", "\ud800"]


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
def test_the_latent_is_the_lstm_state_clipped_by_its_norm(tiny_adept: Bundle, mechanism: str) -> None:
    rewriter = Rewriter.load(str(tiny_adept.folder), epsilon=100, mechanism=mechanism, beams=2)
    assert channel_of(rewriter).clip == ByNorm(5.0)
    assert entries_of(rewriter) == ENTRIES
    assert channel_of(rewriter).bounds.sensitivity.l1 == pytest.approx(10 * ENTRIES**0.5)
    assert channel_of(rewriter).bounds.sensitivity.l2 == 10
    done = rewriter.rewrite(TEXTS)
    assert len(done.texts) == len(TEXTS)
    assert done.guarantee.epsilon == 100
    assert "|clip:l2:5|kept:32/32|len:12|" in done.recipe


def test_every_text_is_sent_as_one_row_and_decoded_with_the_same_number_of_tokens(
    tiny_adept: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[tuple[tuple[int, ...], int]] = []
    real = Halves.decode

    def watch(self: Halves, private: Noised, search: BeamSearch, *, length: int) -> Ids:
        given.append((private.values.shape, length))
        return real(self, private, search, length=length)

    monkeypatch.setattr(Halves, "decode", watch)
    rewriter = Rewriter.load(str(tiny_adept.folder), epsilon=100, beams=2)
    for text in TEXTS:
        rewriter.rewrite([text])
    assert given == [((1, 1, ENTRIES), 12)] * len(TEXTS)


def test_every_entry_that_the_decoder_sees_is_noised(tiny_adept: Bundle, monkeypatch: pytest.MonkeyPatch) -> None:
    """The decoder sees nothing else: each search step gets the latent and what was written so far."""
    seen: list[torch.Tensor] = []
    real = AdeptForGeneration.forward

    def watch(self: AdeptForGeneration, **given: Any) -> object:
        assert set(given) == {"decoder_input_ids", "encoder_outputs", "return_dict"}
        seen.append(given["encoder_outputs"].last_hidden_state)
        return real(self, **given)

    monkeypatch.setattr(AdeptForGeneration, "forward", watch)
    rewriter = Rewriter.load(str(tiny_adept.folder), epsilon=10, beams=1)
    draws = []
    for _ in range(4):  # noise lies on a grid: two draws of an entry may be equal by chance, four are not
        rewriter.rewrite(["an apple"])
        draws.append(seen[-1].clone())
    assert draws[0].shape == (1, 1, ENTRIES)
    assert bool(torch.stack(draws).std(dim=0).gt(0).all())


def test_unknown_words_of_a_private_text_are_never_written(tiny_adept: Bundle) -> None:
    """Tested without noise, the hardest case: the model can only write words of its public vocabulary."""
    rewriter = Rewriter.load(str(tiny_adept.folder), mechanism="none", beams=3)
    texts = ["Zebediah found an apple .", "my password is hunter2hunter2", "Zebediah", "<unk> <s> xyzzy"]
    public = set(model_of(rewriter).tokens.tokenizer.get_vocab()) - {"<s>", "<pad>", "</s>", "<unk>"}
    for text in rewriter.rewrite(texts).texts:
        assert set(text.replace(".", " . ").split()) <= public
    swapped = [text.replace("Zebediah", "Ottoline") for text in texts]
    assert rewriter.rewrite(swapped).texts == rewriter.rewrite(texts).texts  # all unknown words look the same


def test_the_unknown_token_is_dropped_from_the_output(tiny_adept: Bundle) -> None:
    rewriter = Rewriter.load(str(tiny_adept.folder), mechanism="none", beams=2)
    with torch.no_grad():
        model_of(rewriter).halves.model.decoder.generator.bias[3] = 1e9
    assert rewriter.rewrite(["Zebediah found an apple ."]).texts == ("",)


def test_words_after_the_maximum_length_have_no_effect(tiny_adept: Bundle) -> None:
    rewriter = Rewriter.load(str(tiny_adept.folder), mechanism="none", beams=2)
    begin = "the nurse found an apple . a child sold nine"  # ten words: twelve ids
    latents = model_of(rewriter).halves.encode(
        model_of(rewriter).tokens.encode([begin, begin + " keys", begin + " keys" * 999])
    )
    np.testing.assert_array_equal(latents[1:], latents[:1].repeat(2, axis=0))


def test_a_shorter_length_does_not_change_the_number_of_entries(tiny_adept: Bundle) -> None:
    rewriter = Rewriter.load(str(tiny_adept.folder), epsilon=100, beams=1, length=5)
    assert entries_of(rewriter) == ENTRIES
    assert len(rewriter.rewrite(["an apple"]).texts) == 1


@pytest.mark.parametrize("variant", ["clv", "pr-plus"])
def test_an_adept_with_another_variant_is_refused(tiny_adept: Bundle, tmp_path: Path, variant: str) -> None:
    """Otherwise its latent would be clipped by value, with a bound meant for its norm."""
    copy = shutil.copytree(tiny_adept.folder, tmp_path / "copy")
    replace(tiny_adept.facts, variant=variant).write(copy)
    with pytest.raises(NotPrepared, match=f"its variant is '{variant}' .*, but its model_type 'adept'"):
        Bundle.at(copy)
    (copy / "dpbart.json").unlink()
    with pytest.raises(NotPrepared, match="its dpbart.json, with the facts of its training, is missing"):
        Bundle.at(copy)


def test_a_bart_with_the_adept_variant_is_refused(tiny: Bundle, tiny_copy: Path) -> None:
    replace(tiny.facts, variant="adept").write(tiny_copy)
    with pytest.raises(NotPrepared, match="its variant is 'adept' .*, but its model_type 'bart'"):
        Bundle.at(tiny_copy)
