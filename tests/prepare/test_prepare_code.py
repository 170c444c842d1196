"""`prepare code`: a whole code model from public text, a teacher and a book."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tokenizers import Tokenizer

from dpbart import Rewriter
from dpbart.cli import cli
from dpbart.errors import BadParameter, BadTable, NotPrepared
from dpbart.models.bundle import Bundle
from dpbart.models.code.book import read_book, write_book
from dpbart.models.code.model import WRITER_TOKENIZER, Networks
from dpbart.options.recipes import CodeRecipe
from dpbart.prepare import training
from dpbart.prepare.code import making
from dpbart.prepare.code import writer as writing
from dpbart.prepare.code.making import make_code
from dpbart.prepare.code.reading import Student, load_teacher
from dpbart.prepare.code.sentences import read_sentences
from dpbart.prepare.code.writer import Author
from dpbart.prepare.corpus import CorpusFile, held_out_texts
from tests.conftest import made_up_texts
from tests.models.tiny_code import book_lines
from tests.prepare.tiny_teacher import make_teacher

SMALL: dict[str, Any] = {
    "rows": 4,
    "row_tokens": 32,
    "warmup": 2,
    "pair_steps": 2,
    "vocabulary": 400,
    "length": 12,
    "writer_width": 16,
    "writer_layers": 1,
    "batch": 16,
    "reader_width": 16,
    "reader_layers": 1,
    "heads": 1,
    "head": 8,
    "inner": 12,
    "windows": 8,
    "window": 12,
    "meaning": 10,
    "words": 6,
}
TINY = CodeRecipe(steps=3, reader_steps=3, taught=100, **SMALL)
pytestmark = pytest.mark.usefixtures("no_wait_for_the_disk", "small_steps")


@pytest.fixture(scope="module")
def small_steps() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writing, "_TOKENS", 4)  # so that more texts are read than a step has room for
        yield


@pytest.fixture(scope="module")
def teacher(tmp_path_factory: pytest.TempPathFactory) -> Path:
    texts = [*made_up_texts(), *(line.sentence for line in book_lines())]
    return make_teacher(tmp_path_factory.mktemp("teacher") / "tiny-teacher", texts=texts)


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("book") / "book.tsv"
    file.write_text(write_book(book_lines()))
    return file


@pytest.fixture(scope="module")
def made(
    tmp_path_factory: pytest.TempPathFactory,
    corpus: tuple[CorpusFile, ...],
    teacher: Path,
    book: Path,
    small_steps: None,
) -> Bundle:
    """A tiny code model, made from scratch without interruption."""
    return make(corpus, teacher, book, tmp_path_factory.mktemp("made"))


def make(
    corpus: tuple[CorpusFile, ...], teacher: Path, book: Path, folder: Path, recipe: CodeRecipe = TINY, **more: Any
) -> Bundle:
    given = {"held_out": held_out_texts(corpus, 3), **more}
    sentences = read_sentences(book)
    return make_code(
        corpus, load_teacher(str(teacher)), sentences, recipe, folder / "m.training", folder / "m", **given
    )


def same_model(first: Path, second: Path) -> bool:
    """Equal in every file, apart from the minutes that it took."""
    facts = [json.loads((each / "dpbart.json").read_text()) for each in (first, second)]
    for each in facts:
        each["recipe"]["code"].pop("minutes_spent")
    names = sorted(file.name for file in first.iterdir() if file.name != "dpbart.json")
    files = [[(each / name).read_bytes() for name in names] for each in (first, second)]
    return files[0] == files[1] and facts[0] == facts[1]


@contextmanager
def stopped(learner: type[Any], at: int) -> Iterator[None]:
    """Interrupt one part at a step, counted from 0. The state is saved after every step."""
    real = learner.take_step

    def take_step(self: Any, step: int, steps: int) -> str:
        if step == at:
            raise KeyboardInterrupt
        return str(real(self, step, steps))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "STEPS_BETWEEN_SAVES", 1)
        patch.setattr(learner, "take_step", take_step)
        with pytest.raises(KeyboardInterrupt):
            yield


def test_a_model_from_scratch_rewrites_and_knows_what_it_was_made_from(made: Bundle) -> None:
    facts = made.facts
    assert (facts.variant, facts.length, facts.width) == ("code", 12, 16)
    assert [each["name"] for each in facts.corpora] == ["made_up.txt", "book.tsv"]
    done = facts.recipe["code"]
    assert done["teacher"].startswith("tiny-teacher@")
    assert (done["steps"], done["reader_steps"], done["lines_kept"], done["sentences"]) == (3, 3, 340, 480)
    assert done["lines_of_each_file"] == {"made_up.txt": {"looked_at": 340, "dropped": 0}}
    assert done["texts_taught"] == 100 + 10 + 480
    assert done["texts"] > 0
    assert {"text", "teacher", "reader", "pairs", "writer", "book"} == set(done["minutes_spent"])
    assert facts.figures["held_out_texts"] == 3
    assert -1 <= facts.figures["correlation_with_teacher"] <= 1
    for epsilon in (1, 10, 20, 100):
        assert len(Rewriter.load(str(made.folder), epsilon=epsilon).rewrite(made_up_texts()[:3]).texts) == 3
    with pytest.raises(BadParameter, match="epsilon must be at most 200"):
        Rewriter.load(str(made.folder), epsilon=201)


def test_the_book_is_kept_whole_and_readable_with_the_vectors_of_the_reader(made: Bundle) -> None:
    assert set(read_book(made.folder)) == set(book_lines())
    parts = Networks.load(made.folder)
    texts = [line.sentence for line in parts.book.lines]
    near = (parts.book.vectors * parts.reader.sentences(texts)).sum(1)
    assert near.min() > 0.98
    assert parts.pen is not None
    assert {"nurse", "the", "keys"} <= parts.pen.common


@pytest.mark.parametrize(("learner", "at"), [(Student, 1), (Author, 0), (Author, 2)])
def test_an_interrupted_run_makes_the_same_model(
    corpus: tuple[CorpusFile, ...], teacher: Path, book: Path, made: Bundle, tmp_path: Path, learner: type[Any], at: int
) -> None:
    with stopped(learner, at):
        make(corpus, teacher, book, tmp_path)
    assert not (tmp_path / "m").exists()
    make(corpus, teacher, book, tmp_path)
    assert same_model(tmp_path / "m", made.folder)


def test_a_run_with_other_settings_does_not_resume_but_may_have_more_steps(
    corpus: tuple[CorpusFile, ...], teacher: Path, book: Path, tmp_path: Path
) -> None:
    with stopped(Author, 2):
        make(corpus, teacher, book, tmp_path)
    with pytest.raises(BadParameter, match="started with seed 0, not 1. Use the same again"):
        make(corpus, teacher, book, tmp_path, TINY.changed(seed=1))
    with pytest.raises(BadParameter, match="started with another corpus"):
        make((replace(corpus[0], sha256="x"),), teacher, book, tmp_path)
    with pytest.raises(BadParameter, match="steps must be at least the 2 already trained"):
        make(corpus, teacher, book, tmp_path, TINY.changed(steps=1))
    more = make(corpus, teacher, book, tmp_path, TINY.changed(steps=4))
    assert more.facts.recipe["code"]["steps"] == 4


def test_a_time_becomes_steps_once(corpus: tuple[CorpusFile, ...], teacher: Path, book: Path, tmp_path: Path) -> None:
    timed = TINY.changed(minutes=0.002)
    steps = make(corpus, teacher, book, tmp_path, timed).facts.recipe["code"]["steps"]
    assert json.loads((tmp_path / "m.training" / "steps.json").read_text()) == {"minutes": 0.002, "steps": steps}
    assert make(corpus, teacher, book, tmp_path, timed).facts.recipe["code"]["steps"] == steps


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"length": 3}, "length must be from 6 to 31, got 3"),
        ({"steps": 0}, "steps must be at least 1"),
        ({"minutes": 0.0}, "minutes must be greater than 0"),
        ({"lines": 0}, "lines must be at least 1"),
    ],
)
def test_an_impossible_recipe_is_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(BadParameter, match=message):
        TINY.changed(**wrong)


def test_too_small_a_book_and_a_tokenizer_of_another_kind_are_refused(
    corpus: tuple[CorpusFile, ...], teacher: Path, book: Path, tiny_adept: Bundle, tmp_path: Path
) -> None:
    with pytest.raises(NotPrepared, match="the tokenizer must begin with <s> <pad> </s> <unk> <mask>"):
        make(corpus, teacher, book, tmp_path, tokenizer_of=tiny_adept)
    (tmp_path / "small.txt").write_text("One sentence.\nAnother sentence.\n")
    with pytest.raises(BadTable, match="a book needs at least 64 different sentences, got 2"):
        make(corpus, teacher, tmp_path / "small.txt", tmp_path / "other")


# -- commands ---------------------------------------------------------------------------------------------------------


def run(*args: object, fails: bool = False) -> str:
    done = CliRunner().invoke(cli, [str(arg) for arg in args])
    assert done.exit_code == (1 if fails else 0), done.output
    return done.stderr if fails else done.stdout


def test_a_model_is_made_and_used_by_the_commands_alone(
    tiny_code: Bundle, teacher: Path, book: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def small(files: Any, teacher: Any, book: Any, recipe: CodeRecipe, *others: Any, **more: Any) -> Bundle:
        return make_code(files, teacher, book, recipe.changed(**SMALL), *others, **more)

    monkeypatch.setattr(making, "make_code", small)  # what the command line has no options for
    public, model = tmp_path / "public.txt", tmp_path / "model"
    public.write_text("\n".join(made_up_texts()))
    source = ("prepare", "code", "--corpus", public, "--teacher", teacher, "--book", book)
    new = ("--out", model, "--steps", 1, "--reader-steps", 1, "--texts", 3, "--lines", 60, "--language", "English")
    shown = run(*source, *new, "--tokenizer-of", tiny_code.folder)
    assert "60 lines, 0 offensive ones left out; a book of 480 sentences." in shown
    both = [Tokenizer.from_file(str(each / WRITER_TOKENIZER)).get_vocab() for each in (model, tiny_code.folder)]
    assert both[0] == both[1]
    (tmp_path / "in.txt").write_text("a child sold nine keys .\n")
    use = ("--model", model, "--areas", "farm,harbour")
    run("rewrite", tmp_path / "in.txt", tmp_path / "out.txt", "--epsilon", 20, *use)
    card = json.loads((tmp_path / "out.txt.card.json").read_text())
    assert card["guarantee"] == {"epsilon": 20.0, "delta": 0.0}
    assert (card["model"]["language"], card["model"]["areas"]) == ("English", ["farm", "harbour"])


def test_what_does_not_go_together_is_refused(teacher: Path, book: Path, tmp_path: Path) -> None:
    (tmp_path / "public.txt").write_text("\n".join(made_up_texts()))
    source = ("prepare", "code", "--corpus", tmp_path / "public.txt", "--out", tmp_path / "out", "--book", book)
    assert "not both" in run(*source, "--teacher", teacher, "--steps", 1, "--minutes", 1, fails=True)
    assert "no sentence encoder at './nowhere'" in run(*source, "--teacher", "./nowhere", fails=True)
    assert "no model named 'maxi'" in run(*source, "--teacher", teacher, "--tokenizer-of", "maxi", fails=True)
    assert not (tmp_path / "out").exists()
