"""The weights that are loaded are those of the hashed file, whatever config.json and the directory hold besides."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer

from dpbart import Rewriter, Settings
from dpbart.errors import NotPrepared
from dpbart.models.bart import SplitBart
from dpbart.models.bundle import Bundle
from dpbart.models.code.model import Networks
from dpbart.models.imported import import_checkpoint
from dpbart.rewrite.chosen import ChosenModel


def add_settings(folder: Path, **settings: object) -> None:
    file = folder / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **settings}))


def add_other_weights(folder: Path, name: str) -> None:
    state = {key: torch.zeros_like(tensor) for key, tensor in load_file(folder / "model.safetensors").items()}
    save_file(state, folder / name, metadata={"format": "pt"})


ELSEWHERE: list[tuple[str, object]] = [
    ("transformers_weights", "other.safetensors"),
    ("attn_implementation", "somebody/kernel"),
    ("_attn_implementation", "somebody/kernel"),
    ("auto_map", {"AutoModel": "somebody/code--model.Model"}),
    ("quantization_config", {"quant_method": "bitsandbytes", "load_in_8bit": True}),
    ("fusion_config", {"a": True}),
]


@pytest.mark.parametrize(("name", "value"), ELSEWHERE)
def test_a_config_that_leads_elsewhere_is_refused(name: str, value: object, tiny_copy: Path) -> None:
    add_other_weights(tiny_copy, "other.safetensors")
    add_settings(tiny_copy, **{name: value})
    with pytest.raises(
        NotPrepared, match=rf"must hold all of its weights in model.safetensors and no code, got {name}"
    ):
        Bundle.at(tiny_copy)
    (tiny_copy / "dpbart.json").unlink()
    with pytest.raises(NotPrepared, match=name):
        Bundle.at(tiny_copy)
    with pytest.raises(NotPrepared, match=name):
        SplitBart.load(tiny_copy)


def test_a_code_model_that_leads_elsewhere_is_refused(tiny_code: Bundle, tmp_path: Path) -> None:
    shutil.copytree(tiny_code.folder, tmp_path / "copy")
    add_settings(tmp_path / "copy", auto_map={})
    with pytest.raises(NotPrepared, match="auto_map"):
        Networks.load(tmp_path / "copy")


def test_an_adapter_is_refused(tiny_copy: Path) -> None:
    (tiny_copy / "adapter_config.json").write_text("{}")
    with pytest.raises(NotPrepared, match="adapter_config.json"):
        Bundle.at(tiny_copy)


def test_other_files_and_unknown_settings_change_nothing(tiny: Bundle, tiny_copy: Path) -> None:
    for name in ("pytorch_model.safetensors", "model.fp16.safetensors", "model-00001-of-00001.safetensors"):
        add_other_weights(tiny_copy, name)
    index = {"metadata": {}, "weight_map": {"model.shared.weight": "model-00001-of-00001.safetensors"}}
    (tiny_copy / "model.safetensors.index.json").write_text(json.dumps(index))
    (tiny_copy / "modeling_bart.py").write_text("raise SystemExit('code of a model must not run')")
    add_settings(
        tiny_copy, torch_dtype="float16", _name_or_path="somebody/else", weights_of_tomorrow="other", dtype="bfloat16"
    )
    expected, loaded = (SplitBart.load(folder).model for folder in (tiny.folder, tiny_copy))
    for (name, old), (_, new) in zip(expected.named_parameters(), loaded.named_parameters(), strict=True):
        assert torch.equal(old, new), name
        assert new.dtype == torch.float32
    stored = load_file(tiny_copy / "model.safetensors")
    assert all(torch.equal(loaded.state_dict()[name], tensor.float()) for name, tensor in stored.items())
    assert not hasattr(loaded.config, "weights_of_tomorrow")


def test_weights_without_the_prefix_of_the_whole_model_are_loaded(tiny: Bundle, tiny_copy: Path) -> None:
    """As facebook/bart-base has them."""
    whole = SplitBart.load(tiny.folder).model
    state = {name: tensor.clone() for name, tensor in whole.model.state_dict().items() if "embed_tokens" not in name}
    save_file(state, tiny_copy / "model.safetensors", metadata={"format": "pt"})
    loaded = SplitBart.load(tiny_copy).model
    assert torch.equal(loaded.lm_head.weight, whole.lm_head.weight)


def test_an_import_takes_no_setting_of_its_base_that_leads_elsewhere(tiny_copy: Path, tmp_path: Path) -> None:
    torch.save({"model_state_dict": {}}, tmp_path / "authors.pt")
    add_settings(tiny_copy, transformers_weights="other.safetensors")
    with pytest.raises(NotPrepared, match="transformers_weights"):
        import_checkpoint(
            tmp_path / "authors.pt", base=str(tiny_copy), pruned_file=None, clip=None, length=12, out=tmp_path / "out"
        )


def with_far_id(folder: Path, how: str) -> None:
    """Let a tokenizer give an id that no weight is for, with as many tokens as before."""
    file = folder / "tokenizer.json"
    held = json.loads(file.read_text())
    if how == "vocabulary":
        last = max(held["model"]["vocab"], key=held["model"]["vocab"].get)
        held["model"]["vocab"][last] = 70_000
    else:
        held["post_processor"] = {
            "type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
            "special_tokens": {"<s>": {"id": "<s>", "ids": [70_000], "tokens": ["<s>"]}},
        }
    file.write_text(json.dumps(held))
    Tokenizer.from_file(str(file))  # still valid


@pytest.mark.parametrize("how", ["vocabulary", "template"])
def test_a_tokenizer_with_an_id_beyond_the_embeddings_is_refused(how: str, tiny_copy: Path) -> None:
    with_far_id(tiny_copy, how)
    with pytest.raises(NotPrepared, match="must fit its weights, got ids up to 70000 for"):
        Rewriter.load(str(tiny_copy), epsilon=500)


@pytest.mark.parametrize("how", ["vocabulary", "template"])
def test_a_code_tokenizer_with_an_id_beyond_the_embeddings_is_refused(
    how: str, tiny_code: Bundle, tmp_path: Path
) -> None:
    shutil.copytree(tiny_code.folder, tmp_path / "copy")
    with_far_id(tmp_path / "copy", how)
    with pytest.raises(NotPrepared, match="must fit the weights beside it"):
        Networks.load(tmp_path / "copy")


def test_the_card_names_a_hash_of_everything_that_is_loaded(tiny: Bundle, tiny_copy: Path) -> None:
    def line(folder: Path) -> tuple[str, str | None]:
        model = ChosenModel(Settings(model=str(folder), epsilon=500)).described.model
        return model.fingerprint, model.files

    assert line(tiny_copy) == line(tiny.folder)
    add_settings(tiny_copy, activation_function="relu")
    with_config = line(tiny_copy)
    (tiny_copy / "tokenizer.json").write_text((tiny_copy / "tokenizer.json").read_text() + " ")
    with_tokenizer = line(tiny_copy)
    assert len({line(tiny.folder)[1], with_config[1], with_tokenizer[1]}) == 3
    assert line(tiny.folder)[0] == with_config[0] == with_tokenizer[0]


@pytest.mark.parametrize("part", ["model.safetensors", "tokenizer.json", "config.json"])
def test_files_that_change_after_they_were_hashed_are_refused(part: str, tiny_copy: Path) -> None:
    chosen = ChosenModel(Settings(model=str(tiny_copy), epsilon=500))
    assert chosen.described.model.fingerprint
    os.utime(tiny_copy / part, ns=(1, 1))
    with pytest.raises(NotPrepared, match="have changed since they were hashed"):
        Rewriter.of(chosen)
