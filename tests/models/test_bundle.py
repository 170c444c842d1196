from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from dpbart.errors import NotPrepared
from dpbart.models.bart import SplitBart
from dpbart.models.bundle import BUNDLED, PARTS, VARIANTS, Bundle, ModelFacts, bundled_names, save_bundle
from dpbart.models.families import FAMILIES, clip_of, family_of


def test_a_model_ships_with_the_package() -> None:
    assert "mini" in bundled_names()
    assert Bundle.find("mini").facts.variant == "clv"


@pytest.mark.parametrize("name", bundled_names())
def test_a_bundled_model_is_complete_small_and_names_its_sources(name: str) -> None:
    bundle = Bundle.find(name)
    assert sum(file.stat().st_size for file in bundle.folder.iterdir()) <= 50e6
    assert (bundle.facts.clip is None) == (bundle.facts.code is not None)  # a latent has a clip, a code has a table
    assert family_of(bundle).summary(bundle)
    assert all(set(each) == {"name", "sha256", "texts"} for each in bundle.facts.corpora)
    assert bundle.facts.corpora
    assert bundle.facts.recipe
    assert (bundle.folder / "README.md").is_file()


def test_every_kind_of_model_has_a_family() -> None:
    assert list(FAMILIES) == list(VARIANTS)


def test_an_unknown_name_gets_a_list_of_the_bundled_models() -> None:
    with pytest.raises(NotPrepared, match=r"no model named 'maxi'\. Models that ship with dpbart: .*mini"):
        Bundle.find("maxi")


def test_a_hub_model_that_cannot_be_fetched_gives_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub

    def unreachable(*_: object, **__: object) -> str:
        raise ConnectionError

    monkeypatch.setattr(huggingface_hub, "snapshot_download", unreachable)
    with pytest.raises(NotPrepared, match=r"could not be fetched from the hub \(ConnectionError\)"):
        Bundle.find("facebook/bart-base")


def test_a_hub_model_is_found_like_any_other(monkeypatch: pytest.MonkeyPatch, tiny: Bundle, tmp_path: Path) -> None:
    import huggingface_hub

    for part in PARTS:
        shutil.copyfile(tiny.folder / part, tmp_path / part)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda *_, **__: str(tmp_path))
    bundle = Bundle.find("facebook/bart-base")
    assert (bundle.name, clip_of(bundle).bound, bundle.facts.width) == ("facebook/bart-base", 0.1, 32)


@pytest.mark.parametrize("part", PARTS)
def test_an_incomplete_directory_is_refused_with_the_missing_part(tiny_copy: Path, part: str) -> None:
    (tiny_copy / part).unlink()
    with pytest.raises(NotPrepared, match=f"not a complete model: {part} missing"):
        Bundle.find(str(tiny_copy))


def test_a_plain_bart_directory_needs_its_own_clip(tiny_copy: Path) -> None:
    (tiny_copy / "dpbart.json").unlink()
    with pytest.raises(NotPrepared, match="has no clip yet.*dpbart prepare clip --model"):
        clip_of(Bundle.find(str(tiny_copy)))


def test_another_kind_of_model_is_refused(tiny_copy: Path) -> None:
    (tiny_copy / "dpbart.json").unlink()
    (tiny_copy / "config.json").write_text(json.dumps({"model_type": "bert"}))
    with pytest.raises(NotPrepared, match="of type bart, adept or dpbart-code; its config.json has model_type 'bert'"):
        Bundle.find(str(tiny_copy))


@pytest.mark.parametrize(
    "held",
    [
        "{",
        "[]",
        '{"variant": "clv"}',
        '{"surprise": 1}',
        '{"variant": "clv", "length": "20", "width": 8}',
        '{"variant": "clv", "length": 20, "width": 8, "kept": ["a"]}',
        '{"variant": "clv", "length": 20, "width": 8, "clip": "1"}',
        '{"variant": "clv", "length": 20, "width": 8, "clip": -1}',
        '{"variant": "clv", "length": 20, "width": 8, "corpora": [{"file": "a"}]}',
        '{"variant": "clv", "length": 20, "width": 8, "format": 2}',
    ],
)
def test_a_damaged_facts_file_is_refused(tmp_path: Path, held: str) -> None:
    (tmp_path / "dpbart.json").write_text(held)
    with pytest.raises(NotPrepared, match=r"dpbart\.json"):
        ModelFacts.read(tmp_path / "dpbart.json")


def test_facts_survive_writing_and_reading(tmp_path: Path) -> None:
    facts = ModelFacts(variant="pr", length=20, width=8, clip=0.25, kept=(0, 3), corpora=({"name": "x"},))
    facts.write(tmp_path)
    assert ModelFacts.read(tmp_path / "dpbart.json") == facts


def test_the_fingerprint_depends_on_the_weights(tiny: Bundle, tiny_copy: Path) -> None:
    assert Bundle.at(tiny_copy).fingerprint == tiny.fingerprint
    weights = bytearray((tiny_copy / "model.safetensors").read_bytes())
    weights[-1] ^= 1
    (tiny_copy / "model.safetensors").write_bytes(weights)
    assert Bundle.at(tiny_copy).fingerprint != tiny.fingerprint


def test_an_interrupted_save_over_another_model_leaves_no_model(
    tiny: Bundle, tiny_copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise new weights could be used with the old columns and the old clip."""

    def stopped(self: ModelFacts, folder: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(ModelFacts, "write", stopped)
    with pytest.raises(KeyboardInterrupt):
        save_bundle(SplitBart.load(tiny.folder).model, tiny.folder / "tokenizer.json", tiny.facts, tiny_copy)
    with pytest.raises(NotPrepared, match="not a complete model: tokenizer.json missing"):
        Bundle.at(tiny_copy)


def test_the_bundled_folder_holds_only_models() -> None:
    assert all((folder / "dpbart.json").is_file() for folder in BUNDLED.iterdir() if folder.is_dir())
