"""What a code model learns from: public text without offensive lines, and a teacher."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from hashlib import blake2b
from pathlib import Path

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer

from dpbart.errors import BadTable, NotPrepared
from dpbart.models.code import book as offensive
from dpbart.models.code.weights import Floats
from dpbart.prepare.code import texts as pieces
from dpbart.prepare.code.reading import lessons, load_teacher, reader_tokenizer
from dpbart.prepare.code.texts import PublicText, common_words, gather
from dpbart.prepare.corpus import find_corpus
from tests.conftest import made_up_texts
from tests.prepare.tiny_teacher import make_static, make_teacher

pytestmark = pytest.mark.usefixtures("no_wait_for_the_disk")


@pytest.fixture(scope="module")
def teacher(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_teacher(tmp_path_factory.mktemp("teacher") / "tiny-teacher")


def gathered(lines: list[str], folder: Path, *, most: int = 1000) -> PublicText:
    (folder / "public.txt").write_text("\n".join(lines))
    return gather(find_corpus([folder / "public.txt"]), folder, most=most, seed=0)


@pytest.fixture
def forbidden(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A made-up word on the list."""
    word = "zorgle"
    digest = blake2b(word.encode(), digest_size=4).hexdigest()
    terms = {"word": frozenset({digest}), "stem": frozenset[str](), "part": frozenset[str]()}
    monkeypatch.setattr(offensive, "_offensive_terms", lambda: terms)
    offensive._is_offensive_word.cache_clear()
    yield word
    offensive._is_offensive_word.cache_clear()


# -- lines ------------------------------------------------------------------------------------------------------------


def test_offensive_lines_are_not_learned_from(tmp_path: Path, forbidden: str) -> None:
    lines = [f"line {n} {forbidden if n % 10 == 0 else 'fine'} ." for n in range(60)]
    text = gathered(lines, tmp_path)
    assert text.counts == {"public.txt": {"looked_at": 60, "dropped": 6}}
    assert text.lines == [line for line in lines if forbidden not in line]


def test_a_sample_is_kept_and_has_at_most_the_lines_asked_for(tmp_path: Path) -> None:
    first = gathered(made_up_texts(), tmp_path, most=50)
    assert len(first.lines) == 50
    assert gathered(made_up_texts(), tmp_path, most=50) == first
    (tmp_path / "all").mkdir()
    held_out = set(made_up_texts()[-3:])
    assert not held_out & set(gathered(made_up_texts(), tmp_path / "all").lines)


def test_too_little_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadTable, match="at least 2 lines of public text are needed, got 1"):
        gathered(["one line"], tmp_path)


def test_common_words_are_frequent_and_mostly_in_lower_case() -> None:
    lines = ["Today Leeds was warm", "we met Mary in Leeds", "mary was kind", "the knee isn’t well-known", "die Straße"]
    found = common_words(lines * 5, least=5)
    assert {"was", "warm", "kind", "knee", "isn't", "well-known", "straße"} - found == {"straße"}  # always a capital
    assert found.isdisjoint({"leeds", "today"})
    assert "mary" in found  # as often without a capital
    assert "was" not in common_words(lines * 5, least=11)
    assert common_words(["東京 へ"] * 500, least=5) == {"東京", "へ"}  # no capitals; a frequent letter is a word
    assert "x" not in common_words(["x and y"] * 50, least=5)


def test_the_teacher_reads_lines_neighbours_and_the_book() -> None:
    lines = [f"line {n}." for n in range(100)]
    texts = lessons(lines, ["one.", "two."], most=60, seed=0)
    assert len(texts) == 60 + 6 + 2
    assert set(texts[:60]) <= set(lines)
    for joined in texts[60:66]:
        numbers = [int(each.removeprefix("line ")) for each in joined.rstrip(".").split(". ")]
        assert len(numbers) in (2, 3)
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    assert texts[66:] == ["one.", "two."]


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


# -- the teacher ------------------------------------------------------------------------------------------------------


def test_a_teachers_vectors_are_the_means_of_its_states(teacher: Path) -> None:
    from transformers import BertModel

    texts = ["the nurse found a song .", "a child", "", "an apple " * 100]
    found = load_teacher(str(teacher)).vectors(texts)
    model = BertModel.from_pretrained(teacher).eval()
    tokenizer = Tokenizer.from_file(str(teacher / "tokenizer.json"))
    for text, vector in zip(texts[:3], found, strict=False):
        with torch.no_grad():
            mean = model(input_ids=torch.tensor([tokenizer.encode(text).ids])).last_hidden_state[0].mean(0)
        np.testing.assert_allclose(vector, mean / mean.norm(), atol=1e-5)
    assert np.isfinite(found).all()  # the last one is longer than the teacher reads


def pickled(at: Path) -> None:
    (at / "model.safetensors").rename(at / "pytorch_model.bin")


@pytest.mark.parametrize(
    ("spoil", "message", "remedy"),
    [
        (lambda at: (at / "tokenizer.json").write_text("x"), "could not be loaded", "Give a directory"),
        (lambda at: (at / "model.safetensors").unlink(), "model.safetensors missing", "Give a directory"),
        (lambda at: (at / "model.safetensors").write_bytes(b"x"), "could not be loaded", "Give a directory"),
        (pickled, "model.safetensors missing", "Give a directory"),  # loading a pickle can run code
        (lambda at: (at / "config.json").write_text("x"), "config.json cannot be read", "Download"),
        (
            lambda at: (at / "1_Pooling/config.json").write_text('{"pooling_mode_max_tokens": true}'),
            "must be one of mean, cls, got pooling_mode_max_tokens",
            "Try 'sentence-transformers/",
        ),
    ],
)
def test_an_unfit_teacher_is_refused_with_a_remedy(
    teacher: Path, tmp_path: Path, spoil: Callable[[Path], object], message: str, remedy: str
) -> None:
    copied = shutil.copytree(teacher, tmp_path / "copy")
    spoil(copied)
    with pytest.raises(NotPrepared, match=message) as refused:
        load_teacher(str(copied))
    assert remedy in str(refused.value)


def test_a_missing_teacher_is_refused() -> None:
    with pytest.raises(NotPrepared, match="no sentence encoder at '/nowhere'"):
        load_teacher("/nowhere")


def test_a_reader_has_the_tokens_of_a_bert_and_own_ones_with_another_teacher(teacher: Path, tmp_path: Path) -> None:
    lines, file = made_up_texts(), tmp_path / "tokenizer.json"
    taken = reader_tokenizer(load_teacher(str(teacher)), lines, file, pieces=200)
    assert taken.vocabulary == Tokenizer.from_file(str(teacher / "tokenizer.json")).get_vocab()
    static = make_static(tmp_path / "static")
    own = reader_tokenizer(load_teacher(str(static)), lines, tmp_path / "own.json", pieces=200)
    assert own.id_of("[PAD]") == 0
    assert own.id_of("[UNK]") not in own.ids(lines[:1])[0]
    again = reader_tokenizer(load_teacher(str(static)), ["other"], tmp_path / "own.json", pieces=200)  # read, not made
    assert again.vocabulary == own.vocabulary


def test_a_static_encoder_is_the_mean_of_its_words(tmp_path: Path) -> None:
    from safetensors.numpy import load_file

    folder = make_static(tmp_path / "static")
    encoder = load_teacher(str(folder))
    table = load_file(folder / "model.safetensors")["embeddings"].astype(np.float32)
    ids = Tokenizer.from_file(str(folder / "tokenizer.json")).get_vocab()
    mean = (table[ids["nurse"]] + table[ids["found"]]) / 2
    (found, blank) = encoder.vectors(["nurse zzz found", ""])  # an unknown word counts for nothing
    np.testing.assert_allclose(found, mean / np.linalg.norm(mean), atol=1e-5)
    assert not blank.any()
