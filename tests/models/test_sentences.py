"""Sentence encoders: how they pool, how much they read, and which ones are refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import BertModel

from dpbart.errors import BadParameter, NotPrepared
from dpbart.evaluate.fine_tuning import load_encoder
from dpbart.models.bundle import Bundle
from dpbart.models.sentences import Floats, SentenceEncoderFiles, TransformerVectors
from dpbart.models.vectors import load_vectors
from dpbart.prepare.code.reading import load_teacher
from tests.conftest import made_up_texts
from tests.evaluate.tiny_bert import make_tiny_bert
from tests.prepare.tiny_teacher import make_teacher

TEXTS = [*made_up_texts()[:5], "boat", "", "\ud800 lone", "日本語 " * 40]


def vectors(folder: Path | str, texts: list[str] = TEXTS) -> Floats:
    return load_vectors(SentenceEncoderFiles.find(str(folder))).vectors(texts)


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
    for text, vector in zip(TEXTS[:5], encoder.vectors(TEXTS[:5]), strict=True):
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
    long, longer, other = encoder.vectors(["boat " * 50, "boat " * 60, "gate " * 50])
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
        ("modules.json", "[", "its modules.json cannot be read"),
        ("1_Pooling/config.json", '{"pooling_mode_max_tokens": true}', "got pooling_mode_max_tokens"),
        ("1_Pooling/config.json", '{"pooling_mode_mean_tokens": false}', "must be one of mean, cls, got none"),
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

    def fetch(name: str, *, repo_type: str, allow_patterns: list[str]) -> str:
        asked.append((name, allow_patterns))
        return str(bert)

    monkeypatch.setattr("huggingface_hub.snapshot_download", fetch)
    assert SentenceEncoderFiles.find("someone/encoder") == SentenceEncoderFiles.find(str(bert))
    ((name, patterns),) = asked
    assert name == "someone/encoder"
    assert not [each for each in patterns if each.endswith((".bin", ".pt", ".py", "*"))]


def test_pickled_weights_are_refused(bert: Path) -> None:
    """Loading them can run code."""
    (bert / "model.safetensors").rename(bert / "pytorch_model.bin")
    with pytest.raises(NotPrepared, match="is not a complete sentence encoder: model.safetensors missing"):
        SentenceEncoderFiles.find(str(bert))
    with pytest.raises(NotPrepared, match="is not a complete encoder: model.safetensors missing"):
        load_encoder(str(bert), labels=2, length=8)


def test_a_path_that_does_not_exist_is_never_sought_on_the_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.snapshot_download", None)
    for path in ("/nowhere", "./nowhere", "a/b/c"):
        with pytest.raises(NotPrepared, match=f"no sentence encoder at '{path}'. Give a directory or"):
            SentenceEncoderFiles.find(path)


def test_a_teacher_reads_as_few_tokens_as_asked_and_says_which_it_is(bert: Path) -> None:
    files = SentenceEncoderFiles.find(str(bert))
    teacher = load_vectors(files, longest=4)
    assert (teacher.identity, teacher.width) == (f"bert@{files.weights}", 16)
    np.testing.assert_array_equal(*teacher.vectors(["boat gate boat", "boat gate song apple"])[:, None])
    assert teacher.vectors([]).shape == (0, 16)


def test_texts_are_padded_with_the_token_that_the_config_names(tmp_path: Path) -> None:
    folder = make_teacher(tmp_path / "teacher")  # its padding is [PAD]
    short, _ = vectors(folder, ["a child", "the nurse found a song ."])
    np.testing.assert_allclose(short, vectors(folder, ["a child"])[0], atol=1e-5)


def test_the_encoder_inside_a_code_model_is_known_as_such(tiny_code: Bundle, bert: Path) -> None:
    files = SentenceEncoderFiles.find(str(tiny_code.folder))
    assert files.inside_code
    assert not SentenceEncoderFiles.find(str(bert)).inside_code
    encoder = load_vectors(files)
    assert encoder.width == 20
    found = encoder.vectors(["rope " * 300, "rope " * 300 + "gate", ""])
    assert found.shape == (3, 20)
    assert not np.array_equal(found[0], found[1])  # it reads all 512 tokens
    assert not found[2].any()


def test_without_a_name_it_is_the_one_inside_the_code_model_that_ships(
    tiny_code: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("dpbart.models.bundle", "dpbart.models.sentences"):
        monkeypatch.setattr(f"{module}.BUNDLED", tiny_code.folder.parent)
    assert SentenceEncoderFiles.inside_default().folder == tiny_code.folder
    monkeypatch.setattr("dpbart.models.sentences.bundled_names", list)
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
        load_teacher(str(bert))
