"""The authors' ADePT checkpoints: the keys match ours, the ids are kept, and nothing is unpickled."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner

from dpbart.cli import cli
from dpbart.errors import BadParameter, NotPrepared
from dpbart.models.adept import SplitAdept
from dpbart.models.bundle import Bundle
from dpbart.models.families import clip_of
from dpbart.models.imported import import_checkpoint
from dpbart.models.text import Tokens
from dpbart.rewrite.rewriter import Rewriter
from tests.latents import channel_of, entries_of

WORDS = ("<PAD>", "<UNK>", "<SOS>", "<EOS>", "the", "nurse", "found", "an", "apple", ".")
EMBEDDING, HIDDEN = 3, 4


def weights() -> dict[str, torch.Tensor]:
    """Random weights with the names in the authors' files."""
    rnn = {
        "weight_ih_l0": (4 * HIDDEN, EMBEDDING),
        "weight_hh_l0": (4 * HIDDEN, HIDDEN),
        "bias_ih_l0": (4 * HIDDEN,),
        "bias_hh_l0": (4 * HIDDEN,),
    }
    shapes: dict[str, tuple[int, ...]] = {}
    for half in ("encoder", "decoder"):
        shapes[f"{half}.embeds.weight"] = (len(WORDS), EMBEDDING)
        shapes |= {f"{half}.rnn.{name}": shape for name, shape in rnn.items()}
    shapes |= {"decoder.generator.weight": (len(WORDS), HIDDEN), "decoder.generator.bias": (len(WORDS),)}
    draw = torch.Generator().manual_seed(1)
    return {name: torch.randn(shape, generator=draw) for name, shape in shapes.items()}


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    folder = tmp_path / "authors"
    folder.mkdir()
    torch.save({"epoch": 3, "model_state_dict": weights()}, folder / "checkpoint.pt")
    (folder / "word2idx.json").write_text(json.dumps({word: number for number, word in enumerate(WORDS)}))
    np.save(
        folder / "vocab.npy", np.array(WORDS, dtype=object), allow_pickle=True
    )  # a pickle, as in the authors' files
    np.save(folder / "embeds.npy", np.zeros((len(WORDS), EMBEDDING)))
    return folder / "checkpoint.pt"


def bring_in(source: Path, out: Path, base: str | None = None) -> Bundle:
    return import_checkpoint(source, base=base, pruned_file=None, clip=None, length=8, out=out)


def test_weights_and_ids_are_those_of_the_authors(checkpoint: Path, tmp_path: Path) -> None:
    bundle = bring_in(checkpoint, tmp_path / "out")
    halves = SplitAdept.load(bundle.folder)
    for name, tensor in weights().items():
        torch.testing.assert_close(halves.model.state_dict()[name], tensor, rtol=0, atol=0)
    assert not halves.model.config.reversed
    tokens = Tokens.load(bundle.folder / "tokenizer.json", length=8)
    assert [tokens.id_of(token) for token in ("<pad>", "<unk>", "<s>", "</s>")] == [0, 1, 2, 3]
    ids = tokens.encode(["The nurse found Zanzibar."])
    assert ids.tolist() == [[2, 4, 5, 6, 1, 9, 3, 0]]
    assert tokens.decode(ids) == ["the nurse found."]
    assert halves.model.config.decoder_start_token_id == 2


def test_an_imported_adept_is_clipped_by_norm_and_can_rewrite(checkpoint: Path, tmp_path: Path) -> None:
    bundle = bring_in(checkpoint, tmp_path / "out")
    assert clip_of(bundle).name == "l2:5"
    rewriter = Rewriter.load(str(bundle.folder), epsilon=100, beams=2)
    assert entries_of(rewriter) == 2 * HIDDEN
    assert channel_of(rewriter).bounds.sensitivity.l2 == 10
    assert len(rewriter.rewrite(["the nurse found an apple"]).texts) == 1


def test_without_json_an_array_of_strings_is_enough(checkpoint: Path, tmp_path: Path) -> None:
    (checkpoint.parent / "word2idx.json").unlink()
    np.save(checkpoint.parent / "vocab.npy", np.array(WORDS))
    bundle = bring_in(checkpoint, tmp_path / "out")
    assert Tokens.load(bundle.folder / "tokenizer.json", length=8).id_of("apple") == 8


def test_a_pickled_array_is_refused(checkpoint: Path, tmp_path: Path) -> None:
    (checkpoint.parent / "word2idx.json").unlink()
    with pytest.raises(NotPrepared, match="cannot be read without unpickling. Put word2idx.json next to it"):
        bring_in(checkpoint, tmp_path / "out")
    (checkpoint.parent / "vocab.npy").unlink()
    with pytest.raises(NotPrepared, match="it has neither"):
        bring_in(checkpoint, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_checkpoint_that_would_run_code_is_refused(checkpoint: Path, tmp_path: Path) -> None:
    torch.save({"model_state_dict": weights(), "args": Path("not a tensor")}, checkpoint)
    with pytest.raises(NotPrepared, match="torch cannot read it safely"):
        bring_in(checkpoint, tmp_path / "out")


@pytest.mark.parametrize(
    ("held", "message"),
    [
        ("{", "is not JSON"),
        ('["the"]', "must map words to ids"),
        ('{"the": "4"}', "must map words to ids"),
        ('{"the": 4}', "each id from 4 to 9 one word.*it gives 1 words"),
        (json.dumps({**{word: number for number, word in enumerate(WORDS)}, "more": 10}), "it gives 7 words"),
        (json.dumps({word.replace("apple", "<s>"): number for number, word in enumerate(WORDS)}), "each id from 4"),
    ],
)
def test_a_vocabulary_that_does_not_fit_the_weights_is_refused(
    checkpoint: Path, tmp_path: Path, held: str, message: str
) -> None:
    (checkpoint.parent / "word2idx.json").write_text(held)
    with pytest.raises(NotPrepared, match=message):
        bring_in(checkpoint, tmp_path / "out")


def test_differing_keys_and_shapes_are_named(checkpoint: Path, tmp_path: Path) -> None:
    state = weights()
    del state["decoder.generator.bias"]
    state["encoder.rnn.weight_ih_l0_reverse"] = torch.zeros(1)
    state["decoder.rnn.weight_ih_l0"] = torch.zeros(2, 2)
    torch.save({"model_state_dict": state}, checkpoint)
    with pytest.raises(NotPrepared) as refused:
        bring_in(checkpoint, tmp_path / "out")
    message = str(refused.value)
    assert "does not fit an ADePT of 10 words, embedding 3, hidden 4" in message
    assert "decoder.generator.bias is missing" in message
    assert "encoder.rnn.weight_ih_l0_reverse is unknown" in message
    assert "decoder.rnn.weight_ih_l0 has shape (2, 2), not (16, 3)" in message
    del state["encoder.embeds.weight"]
    torch.save({"model_state_dict": state}, checkpoint)
    with pytest.raises(NotPrepared, match="must have encoder.embeds.weight with two dimensions"):
        bring_in(checkpoint, tmp_path / "out")


def test_a_bart_checkpoint_needs_a_base_and_an_adept_has_none(checkpoint: Path, tiny: Bundle, tmp_path: Path) -> None:
    with pytest.raises(BadParameter, match="holds an ADePT, which has no base"):
        bring_in(checkpoint, tmp_path / "out", base=str(tiny.folder))
    torch.save({"model_state_dict": {"model.lm_head.weight": torch.zeros(1)}}, checkpoint)
    with pytest.raises(BadParameter, match="holds a BART, which needs its base"):
        bring_in(checkpoint, tmp_path / "out")


def test_the_base_of_a_bart_cannot_be_an_adept(checkpoint: Path, tiny_adept: Bundle, tmp_path: Path) -> None:
    torch.save({"model_state_dict": {"model.lm_head.weight": torch.zeros(1)}}, checkpoint)
    with pytest.raises(NotPrepared, match="is not a BART .* but the base of a BART must be a BART"):
        bring_in(checkpoint, tmp_path / "out", base=str(tiny_adept.folder))


def test_a_length_too_short_is_refused(checkpoint: Path, tmp_path: Path) -> None:
    with pytest.raises(BadParameter, match="length must be at least 3, got 2"):
        import_checkpoint(checkpoint, base=None, pruned_file=None, clip=5.0, length=2, out=tmp_path / "out")


def test_it_is_imported_by_command(checkpoint: Path, tmp_path: Path) -> None:
    args = ["models", "import", str(checkpoint), "--out", str(tmp_path / "out"), "--clip", "2"]
    done = CliRunner().invoke(cli, args)
    assert done.exit_code == 0, done.stderr
    assert clip_of(Bundle.at(tmp_path / "out")).name == "l2:2"
