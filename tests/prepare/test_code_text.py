"""What a code model learns from: public text without offensive lines, and a teacher."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer

from dpbart.errors import NotPrepared
from dpbart.models.bundle import Bundle
from dpbart.models.code import offensive
from dpbart.models.code.tree import Floats
from dpbart.prepare.code import pieces
from dpbart.prepare.code.making import make_code
from dpbart.prepare.code.praise import praise_direction, projection
from dpbart.prepare.code.recipe import CodeRecipe, WriterPlan
from dpbart.prepare.code.rows import Rows
from dpbart.prepare.code.teacher import Teacher
from dpbart.prepare.code.texts import PublicText, Source, gather
from dpbart.prepare.corpus import find_corpus
from tests.conftest import made_up_texts
from tests.prepare.tiny_teacher import make_teacher

pytestmark = pytest.mark.usefixtures("no_wait_for_the_disk")


@pytest.fixture
def tokenizer(tiny: Bundle) -> Tokenizer:
    made = Tokenizer.from_file(str(tiny.folder / "tokenizer.json"))
    made.no_padding()
    made.no_truncation()
    return made


@pytest.fixture(scope="module")
def teacher(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_teacher(tmp_path_factory.mktemp("teacher") / "tiny-teacher")


def source_of(lines: list[str], folder: Path, *, running: bool = False) -> Source:
    (folder / "public.txt").write_text("\n".join(lines))
    files = find_corpus([folder / "public.txt"])
    return Source(files, files if running else ())


def texts_of(rows: Rows, tokenizer: Tokenizer) -> list[str]:
    return [tokenizer.decode(rows.row(n).tolist()).strip() for n in range(len(rows))]


@pytest.fixture
def forbidden(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A made-up word on the list."""
    word = "zorgle"
    digest = blake2b(word.encode(), digest_size=4).hexdigest()
    monkeypatch.setattr(offensive, "_WORDS", frozenset({digest}))
    offensive._is_offensive_word.cache_clear()
    yield word
    offensive._is_offensive_word.cache_clear()


# -- lines and documents ----------------------------------------------------------------------------------------------


def test_offensive_lines_are_not_learned_from(tokenizer: Tokenizer, tmp_path: Path, forbidden: str) -> None:
    lines = [f"line {n} {forbidden if n % 10 == 0 else 'fine'} ." for n in range(60)]
    text = gather(source_of(lines, tmp_path, running=True), tokenizer, WriterPlan(), tmp_path)
    assert text.counts == {"public.txt": {"looked_at": 60, "dropped": 6}}
    assert sorted(texts_of(text.lines, tokenizer)) == sorted(line for line in lines if forbidden not in line)
    inside = texts_of(text.sentences, tokenizer)
    assert len(text.sizes) == 4  # of ten runs of six lines, those without the word
    assert not [line for line in inside if forbidden in line]


def test_a_model_counts_the_lines_left_out(tmp_path: Path, teacher: Path, forbidden: str) -> None:
    tiny = CodeRecipe(steps=1, rows=2, row_tokens=32, sentence_steps=1, pair_steps=1, vocabulary=300, length=12)
    narrow = CodeRecipe(**{**vars(tiny), "vector": 8, "sentence_width": 8, "writer_width": 16, "writer_layers": 1})
    source = source_of([*made_up_texts(), f"a {forbidden} ."] * 2, tmp_path)
    made = make_code(source, Teacher.load(str(teacher)), narrow, tmp_path / "t", tmp_path / "m", held_out=[])
    assert made.facts.recipe["code"]["lines_of_each_file"]["public.txt"]["dropped"] == 1  # the other is held out
    assert made.facts.figures == {}


def test_a_long_line_is_a_document_of_sentences(tokenizer: Tokenizer, tmp_path: Path) -> None:
    long = [f"{text.removesuffix(' .')}." for text in made_up_texts()[:20]]
    text = gather(source_of([" ".join(long), "a song ."], tmp_path), tokenizer, WriterPlan(), tmp_path)
    assert text.sizes.tolist() == [20]
    assert texts_of(text.sentences, tokenizer) == long
    assert tokenizer.decode(text.document(0).tolist()).split() == " ".join(long).split()


def test_a_sample_is_kept_and_has_at_most_the_lines_asked_for(tokenizer: Tokenizer, tmp_path: Path) -> None:
    source = source_of(made_up_texts(), tmp_path)
    first = gather(source, tokenizer, WriterPlan(lines=50), tmp_path)
    again = gather(source, tokenizer, WriterPlan(lines=50), tmp_path)
    assert len(first.lines) == 50
    np.testing.assert_array_equal(first.lines.flat, again.lines.flat)
    held_out = set(made_up_texts()[-3:])
    assert not held_out & set(texts_of(gather(source, tokenizer, WriterPlan(), tmp_path / "all").lines, tokenizer))


def test_a_file_given_twice_is_read_once(tmp_path: Path) -> None:
    assert len(source_of(made_up_texts(), tmp_path, running=True).all) == 1


def test_rows_of_documents_are_found() -> None:
    sentences = Rows.of([[1, 2], [3], [4, 5, 6]])
    text = PublicText(Rows.of([[7]]), sentences, np.array([1, 2]), {})
    assert text.document(1).tolist() == [3, 4, 5, 6]
    assert list(text.sentence_numbers(0)) == [0]


# -- the teacher ------------------------------------------------------------------------------------------------------


def test_a_teachers_vectors_are_the_means_of_its_states(teacher: Path) -> None:
    from transformers import BertModel

    texts = ["the nurse found a song .", "a child", "", "an apple " * 100]
    found = Teacher.load(str(teacher)).vectors(texts)
    model = BertModel.from_pretrained(teacher).eval()
    tokenizer = Tokenizer.from_file(str(teacher / "tokenizer.json"))
    for text, vector in zip(texts[:3], found, strict=False):
        with torch.no_grad():
            mean = model(input_ids=torch.tensor([tokenizer.encode(text).ids])).last_hidden_state[0].mean(0)
        np.testing.assert_allclose(vector, mean / mean.norm(), atol=1e-5)
    assert np.isfinite(found).all()  # the last one is longer than the teacher reads


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda at: (at / "tokenizer.json").unlink(), "lacks tokenizer.json"),
        (lambda at: (at / "model.safetensors").unlink(), "lacks model.safetensors or pytorch_model.bin"),
        (lambda at: (at / "model.safetensors").write_bytes(b"x"), "cannot be loaded"),
        (lambda at: (at / "config.json").write_text('{"model_type": "t5"}'), "must be a BERT, got model_type 't5'"),
        (lambda at: (at / "config.json").write_text("x"), "settings that cannot be read"),
        (
            lambda at: (at / "1_Pooling/config.json").write_text('{"pooling_mode_mean_tokens": false}'),
            "must use mean pooling",
        ),
    ],
)
def test_an_unfit_teacher_is_refused_with_a_remedy(teacher: Path, tmp_path: Path, spoil: object, message: str) -> None:
    copied = shutil.copytree(teacher, tmp_path / "copy")
    spoil(copied)  # type: ignore[operator]
    with pytest.raises(NotPrepared, match=message) as refused:
        Teacher.load(str(copied))
    assert "Give a directory or hub id such as" in str(refused.value)


def test_a_missing_or_too_narrow_teacher_is_refused(teacher: Path, tmp_path: Path) -> None:
    with pytest.raises(NotPrepared, match="no teacher at '/nowhere'"):
        Teacher.load("/nowhere")
    source = source_of(made_up_texts(), tmp_path)
    with pytest.raises(NotPrepared, match="at least 128 entries, got 16 from 'tiny-teacher@"):
        make_code(source, Teacher.load(str(teacher)), CodeRecipe(), tmp_path / "t", tmp_path / "m", held_out=[])


def test_praise_lies_further_from_blame_after_the_projection(teacher: Path) -> None:
    learned_from = Teacher.load(str(teacher))
    random = np.random.default_rng(0).normal(size=(200, 16)).astype(np.float32)
    vectors = random / np.linalg.norm(random, axis=1, keepdims=True)
    direction = praise_direction(learned_from)
    assert np.linalg.norm(direction) == pytest.approx(1, abs=1e-5)
    changed = projection(vectors, direction, stretch=2.0, width=16)
    assert np.linalg.norm(direction @ changed) == pytest.approx(3, abs=1e-3)  # 1 + stretch
    across = vectors[0] - (vectors[0] @ direction) * direction
    assert np.linalg.norm(across @ changed) == pytest.approx(np.linalg.norm(across), abs=1e-3)


def test_only_missing_pieces_are_computed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "PIECE", 4)
    asked: list[range] = []

    def compute(part: range) -> Floats:
        asked.append(part)
        if len(asked) == 2:
            raise KeyboardInterrupt
        return np.array([[n] for n in part], np.float32)

    with pytest.raises(KeyboardInterrupt):
        pieces.in_pieces(10, compute, tmp_path, title="Vectors")
    found = pieces.in_pieces(10, compute, tmp_path, title="Vectors")
    assert found[:, 0].tolist() == list(range(10))
    assert asked == [range(4), range(4, 8), range(4, 8), range(8, 10)]
    assert json.dumps(sorted(file.name for file in tmp_path.iterdir())) == '["0000.npy", "0001.npy", "0002.npy"]'
