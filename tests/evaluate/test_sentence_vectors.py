"""Sentence encoders: how they pool, how much they read, and which ones are refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import BertModel

from dpbart.errors import BadParameter, NotPrepared
from dpbart.evaluate.classifiers.encoder_model import load_encoder
from dpbart.evaluate.sentences.files import SentenceEncoderFiles
from dpbart.evaluate.sentences.vectors import Floats, TransformerVectors, load_vectors
from dpbart.models.bundle import Bundle
from dpbart.prepare.code.teacher import Teacher
from tests.conftest import made_up_texts
from tests.evaluate.tiny_bert import make_tiny_bert

TEXTS = [*made_up_texts()[:5], "boat", "", "\ud800 lone", "日本語 " * 40]


def vectors(folder: Path | str, texts: list[str] = TEXTS) -> Floats:
    return load_vectors(SentenceEncoderFiles.find(str(folder))).of(texts)


@pytest.fixture
def bert(tiny: Bundle, tmp_path: Path) -> Path:
    return make_tiny_bert(tiny.folder / "tokenizer.json", tmp_path / "bert")


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_vectors_are_pooled_as_the_directory_says(tiny: Bundle, tmp_path: Path, pooling: str) -> None:
    mode = {"mean": "mean_tokens", "cls": "cls_token"}[pooling]
    folder = make_tiny_bert(tiny.folder / "tokenizer.json", tmp_path / pooling, pooling=mode)
    assert SentenceEncoderFiles.find(str(folder)).pooling == pooling
    encoder = load_vectors(SentenceEncoderFiles.find(str(folder)))
    assert isinstance(encoder, TransformerVectors)
    model = BertModel.from_pretrained(folder).eval()
    for text, vector in zip(TEXTS[:5], encoder.of(TEXTS[:5]), strict=True):
        with torch.inference_mode():
            hidden = model(input_ids=torch.tensor(encoder.reader.read([text]))).last_hidden_state[0]
        due = hidden.mean(0) if pooling == "mean" else hidden[0]
        np.testing.assert_allclose(vector, due / due.norm(), atol=1e-5)


def test_every_vector_has_length_1_whatever_the_text_and_its_neighbours(bert: Path) -> None:
    together = vectors(bert)
    np.testing.assert_allclose(np.linalg.norm(together, axis=1), 1, atol=1e-5)
    for text, vector in zip(TEXTS, together, strict=True):
        np.testing.assert_allclose(vectors(bert, [text])[0], vector, atol=1e-5)


@pytest.mark.parametrize(("longest", "tokens"), [(10, 10), (None, 16), (99, 16)])
def test_a_text_is_cut_at_the_encoders_own_length(tiny: Bundle, tmp_path: Path, longest: int, tokens: int) -> None:
    folder = make_tiny_bert(tiny.folder / "tokenizer.json", tmp_path / "bert", longest=longest)
    encoder = load_vectors(SentenceEncoderFiles.find(str(folder)))
    assert isinstance(encoder, TransformerVectors)
    assert len(encoder.reader.read(["boat " * 50])[0]) == tokens
    long, longer, other = encoder.of(["boat " * 50, "boat " * 60, "gate " * 50])
    np.testing.assert_array_equal(long, longer)
    assert float(long @ other) < 0.999


def test_without_a_pooling_file_it_is_the_mean(bert: Path) -> None:
    before = vectors(bert)
    (bert / "modules.json").unlink()
    (bert / "1_Pooling" / "config.json").unlink()
    np.testing.assert_array_equal(vectors(bert), before)


def test_the_newer_form_of_a_pooling_file_is_read(bert: Path) -> None:
    (bert / "1_Pooling" / "config.json").write_text('{"pooling_mode": "cls"}')
    assert SentenceEncoderFiles.find(str(bert)).pooling == "cls"


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("modules.json", '[{"path": "2_Dense", "type": "some.Dense"}]', "not known here: Dense"),
        ("modules.json", '["Dense"]', "modules.json' cannot be read"),
        ("modules.json", "[", "is not JSON"),
        ("1_Pooling/config.json", '{"pooling_mode_max_tokens": true}', "got pooling_mode_max_tokens"),
        ("1_Pooling/config.json", '{"pooling_mode": "lasttoken"}', "must be one of mean, cls, got lasttoken"),
        ("1_Pooling/config.json", '{"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": true}', "must be one"),
    ],
)
def test_what_cannot_be_computed_is_refused(bert: Path, file: str, content: str, message: str) -> None:
    (bert / file).write_text(content)
    with pytest.raises(NotPrepared, match=message):
        SentenceEncoderFiles.find(str(bert))


def test_missing_and_damaged_encoders_are_one_line(bert: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NotPrepared, match="could not be fetched from the hub"):
        SentenceEncoderFiles.find("no such encoder")
    files = SentenceEncoderFiles.find(str(bert))
    (bert / "model.safetensors").write_bytes(b"junk")
    with pytest.raises(NotPrepared, match="could not be loaded"):
        load_vectors(files)
    (bert / "model.safetensors").unlink()
    with pytest.raises(NotPrepared, match="model.safetensors missing"):
        SentenceEncoderFiles.find(str(bert))


def test_a_hub_id_is_fetched_without_pickled_weights(bert: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, list[str]]] = []

    def fetch(name: str, allow_patterns: list[str]) -> str:
        asked.append((name, allow_patterns))
        return str(bert)

    monkeypatch.setattr("huggingface_hub.snapshot_download", fetch)
    assert SentenceEncoderFiles.find("someone/encoder") == SentenceEncoderFiles.find(str(bert))
    ((name, patterns),) = asked
    assert name == "someone/encoder"
    assert not [each for each in patterns if each.endswith((".bin", ".pt", ".py", "*"))]


def test_the_encoder_inside_a_code_model_is_known_as_such(tiny_code: Bundle, bert: Path) -> None:
    files = SentenceEncoderFiles.find(str(tiny_code.folder))
    assert files.inside_code
    assert not SentenceEncoderFiles.find(str(bert)).inside_code
    found = load_vectors(files).of(["boat " * 300, "boat " * 300 + "gate", ""])
    assert found.shape == (3, 8)
    assert not np.array_equal(found[0], found[1])  # it reads all 512 tokens
    assert not found[2].any()


def test_without_a_name_it_is_the_one_inside_the_code_model_that_ships(
    tiny_code: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("dpbart.models.bundle", "dpbart.evaluate.sentences.files"):
        monkeypatch.setattr(f"{module}.BUNDLED", tiny_code.folder.parent)
    assert SentenceEncoderFiles.inside_default().folder == tiny_code.folder
    monkeypatch.setattr("dpbart.evaluate.sentences.files.bundled_names", list)
    with pytest.raises(BadParameter, match="Pass --encoder DIR or a hub id such as"):
        SentenceEncoderFiles.inside_default()


def test_other_weights_or_pooling_are_another_recipe(bert: Path) -> None:
    recipes = [SentenceEncoderFiles.find(str(bert)).recipe]
    (bert / "1_Pooling" / "config.json").write_text('{"pooling_mode": "cls"}')
    recipes.append(SentenceEncoderFiles.find(str(bert)).recipe)
    with (bert / "model.safetensors").open("ab") as weights:
        weights.write(b"more")
    recipes.append(SentenceEncoderFiles.find(str(bert)).recipe)
    for name in ("config.json", "tokenizer.json"):
        with (bert / name).open("a") as file:
            file.write(" ")
        recipes.append(SentenceEncoderFiles.find(str(bert)).recipe)
    assert len({json.dumps(each) for each in recipes}) == 5


def test_an_encoder_whose_config_leads_to_other_weights_is_refused(bert: Path) -> None:
    config = json.loads((bert / "config.json").read_text())
    (bert / "config.json").write_text(json.dumps({**config, "transformers_weights": "other.safetensors"}))
    with pytest.raises(NotPrepared, match="got transformers_weights"):
        SentenceEncoderFiles.find(str(bert))
    with pytest.raises(NotPrepared, match="got transformers_weights"):
        load_encoder(str(bert), labels=2, length=8)
    with pytest.raises(NotPrepared, match="got transformers_weights"):
        Teacher.load(str(bert))
