"""Checkpoints in the authors' format: `model_state_dict`, the prefix `model.`, an untied output layer."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import BartConfig, BartForConditionalGeneration

from dpbart.errors import BadParameter, NotPrepared
from dpbart.models.bart import SplitBart
from dpbart.models.bundle import Bundle
from dpbart.models.imported import import_checkpoint
from dpbart.rewrite.rewriter import Rewriter
from tests.latents import channel_of, entries_of


@pytest.fixture
def checkpoint(tiny: Bundle, tmp_path: Path) -> Path:
    config = BartConfig.from_pretrained(tiny.folder, tie_word_embeddings=False)
    torch.manual_seed(5)
    state = BartForConditionalGeneration(config).state_dict()
    state["lm_head.weight"] = torch.randn_like(state["lm_head.weight"])
    file = tmp_path / "checkpoint.pt"
    torch.save({"epoch": 3, "model_state_dict": {f"model.{name}": each for name, each in state.items()}}, file)
    return file


def bring_in(source: Path, tiny: Bundle, out: Path, pruned: Path | None = None) -> Bundle:
    return import_checkpoint(source, base=str(tiny.folder), pruned_file=pruned, clip=0.1, length=12, out=out)


def test_the_untied_output_layer_is_kept(checkpoint: Path, tiny: Bundle, tmp_path: Path) -> None:
    bundle = bring_in(checkpoint, tiny, tmp_path / "out")
    model = SplitBart.load(bundle.folder).model
    original = torch.load(checkpoint, weights_only=True)["model_state_dict"]
    torch.testing.assert_close(model.lm_head.weight, original["model.lm_head.weight"])
    assert not torch.equal(model.lm_head.weight, model.model.shared.weight)
    for name, tensor in model.state_dict().items():
        torch.testing.assert_close(tensor, original[f"model.{name}"])
    assert "lm_head.weight" in load_file(bundle.folder / "model.safetensors")


def test_pruned_columns_are_imported_and_the_model_rewrites(checkpoint: Path, tiny: Bundle, tmp_path: Path) -> None:
    columns = tmp_path / "k_prune_neurons_0_1.pt"
    torch.save(torch.arange(0, 20), columns)
    bundle = bring_in(checkpoint, tiny, tmp_path / "out", columns)
    assert bundle.facts.kept == tuple(range(20, 32))
    rewriter = Rewriter.load(str(bundle.folder), epsilon=100, beams=2)
    assert entries_of(rewriter) == 12 * 12
    assert channel_of(rewriter).bounds.sensitivity.l2 == pytest.approx(2 * 0.1 * 12)
    assert len(rewriter.rewrite(["the nurse found an apple"]).texts) == 1


def test_differing_keys_and_shapes_are_named(checkpoint: Path, tiny: Bundle, tmp_path: Path) -> None:
    held = torch.load(checkpoint, weights_only=True)
    state = held["model_state_dict"]
    del state["model.lm_head.weight"]
    state["model.surprise"] = torch.zeros(1)
    state["model.model.shared.weight"] = torch.zeros(3, 32)
    torch.save(held, checkpoint)
    with pytest.raises(NotPrepared) as refused:
        bring_in(checkpoint, tiny, tmp_path / "out")
    message = str(refused.value)
    assert "lm_head.weight is missing" in message
    assert "surprise is unknown" in message
    assert "model.shared.weight has shape (3, 32), not (" in message
    assert not (tmp_path / "out").exists()


def test_columns_of_a_wider_model_are_refused(checkpoint: Path, tiny: Bundle, tmp_path: Path) -> None:
    columns = tmp_path / "k_prune_neurons_0.pt"
    torch.save(torch.tensor([1, 700]), columns)
    with pytest.raises(BadParameter, match="below the model's width 32, got column 700"):
        bring_in(checkpoint, tiny, tmp_path / "out", columns)
    assert not (tmp_path / "out").exists()


def test_a_file_that_would_run_code_is_refused(tiny: Bundle, tmp_path: Path) -> None:
    file = tmp_path / "evil.pt"
    torch.save({"model_state_dict": Path("not a tensor")}, file)
    with pytest.raises(NotPrepared, match="torch cannot read it safely"):
        bring_in(file, tiny, tmp_path / "out")


def test_a_dictionary_without_the_model_is_refused(tiny: Bundle, tmp_path: Path) -> None:
    file = tmp_path / "other.pt"
    torch.save({"weights": torch.zeros(1)}, file)
    with pytest.raises(NotPrepared, match="must hold 'model_state_dict'"):
        bring_in(file, tiny, tmp_path / "out")


def test_a_missing_file_gives_a_one_line_error(tiny: Bundle, tmp_path: Path) -> None:
    with pytest.raises(NotPrepared, match="does not exist"):
        bring_in(tmp_path / "none.pt", tiny, tmp_path / "out")


@pytest.mark.parametrize("state", [torch.zeros(1), {"model.x": 3}])
def test_a_state_that_does_not_map_names_to_tensors_is_refused(tiny: Bundle, tmp_path: Path, state: object) -> None:
    torch.save({"model_state_dict": state}, tmp_path / "odd.pt")
    with pytest.raises(NotPrepared, match="must map names to tensors"):
        bring_in(tmp_path / "odd.pt", tiny, tmp_path / "out")


def test_a_missing_file_of_columns_gives_a_one_line_error(checkpoint: Path, tiny: Bundle, tmp_path: Path) -> None:
    with pytest.raises(NotPrepared, match="none.pt' does not exist"):
        bring_in(checkpoint, tiny, tmp_path / "out", tmp_path / "none.pt")


def test_a_length_above_the_base_models_maximum_is_refused(checkpoint: Path, tiny: Bundle, tmp_path: Path) -> None:
    with pytest.raises(BadParameter, match="length must be from 3 to 12, got 20"):
        import_checkpoint(checkpoint, base=str(tiny.folder), pruned_file=None, clip=0.1, length=20, out=tmp_path / "o")
