"""`prepare code`: a code model from public text and a teacher, and one adapted to a domain."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from safetensors.torch import load_file
from tokenizers import Tokenizer

from dpbart import Rewriter
from dpbart.cli import cli
from dpbart.errors import BadParameter, BadTable, NotPrepared
from dpbart.models.bundle import Bundle
from dpbart.models.code import CODE
from dpbart.models.code.model import Networks
from dpbart.prepare.code import loop, recipe, table, writing
from dpbart.prepare.code.domain import adapt_code
from dpbart.prepare.code.making import make_code
from dpbart.prepare.code.recipe import CodeRecipe, WriterPlan
from dpbart.prepare.code.teacher import Teacher
from dpbart.prepare.code.teaching import Student
from dpbart.prepare.code.texts import Source
from dpbart.prepare.code.writing import Author
from dpbart.prepare.corpus import CorpusFile, find_corpus, held_out_texts
from tests.conftest import made_up_texts
from tests.prepare.tiny_teacher import make_teacher

PLAN = WriterPlan(steps=3, rows=4, row_tokens=32, warmup=2)
TINY = CodeRecipe(
    steps=3,
    rows=4,
    row_tokens=32,
    warmup=2,
    sentence_steps=3,
    pair_steps=2,
    vocabulary=400,
    length=12,
    vector=8,
    sentence_width=8,
    writer_width=16,
    writer_layers=1,
    depth=5,
)
pytestmark = pytest.mark.usefixtures("no_wait_for_the_disk", "small_steps")


@pytest.fixture(scope="module")
def small_steps() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table, "EPSILONS", (1.0, 20.0))
        patch.setattr(writing, "_TOKENS", 4)  # so that more texts are read than a step has room for
        yield


@pytest.fixture(scope="module")
def teacher(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_teacher(tmp_path_factory.mktemp("teacher") / "tiny-teacher")


@pytest.fixture(scope="module")
def made(
    tmp_path_factory: pytest.TempPathFactory, corpus: tuple[CorpusFile, ...], teacher: Path, small_steps: None
) -> Bundle:
    """A tiny code model, made from scratch without interruption."""
    return make(corpus, teacher, tmp_path_factory.mktemp("made"))


def make(corpus: tuple[CorpusFile, ...], teacher: Path, folder: Path, settings: CodeRecipe = TINY) -> Bundle:
    source, held_out = Source(corpus, running=corpus), held_out_texts(corpus, 3)
    learned_from = Teacher.load(str(teacher))
    return make_code(source, learned_from, settings, folder / "m.training", folder / "m", held_out=held_out)


def same_model(first: Path, second: Path) -> bool:
    """Equal in every file, apart from the minutes that it took."""
    facts = [json.loads((each / "dpbart.json").read_text()) for each in (first, second)]
    for each in facts:
        for part in each["recipe"].values():
            part.pop("minutes_spent", None)
    files = [
        [(each / name).read_bytes() for name in ("model.safetensors", "config.json", "tokenizer.json")]
        for each in (first, second)
    ]
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
        patch.setattr(loop, "STEPS_BETWEEN_SAVES", 1)
        patch.setattr(learner, "take_step", take_step)
        with pytest.raises(KeyboardInterrupt):
            yield


# -- from scratch -----------------------------------------------------------------------------------------------------


def test_a_model_from_scratch_rewrites_and_knows_what_it_was_made_from(made: Bundle) -> None:
    facts = made.facts
    assert (facts.variant, facts.length, facts.width) == ("code", 12, 16)
    assert facts.corpora[0]["name"] == "made_up.txt"
    done = facts.recipe["code"]
    assert done["teacher"].startswith("tiny-teacher@")
    assert (done["steps"], done["sentence_steps"], done["lines_kept"]) == (3, 3, 340)
    assert done["lines_of_each_file"] == {"made_up.txt": {"looked_at": 340, "dropped": 0}}
    assert done["documents_kept"] == 340 // 6
    assert done["texts_in_tree"] == 340 + 340 // 6
    assert done["texts"] > 0
    assert {"text", "teacher", "sentence", "tree", "pairs", "writer", "book", "table"} == set(done["minutes_spent"])
    assert facts.figures["held_out_texts"] == 3
    assert -1 <= facts.figures["cosine_to_teacher"] <= 1
    assert [each["epsilon"] for each in facts.figures["at_epsilon"]] == [1.0, 20.0]
    for epsilon in (1, 20):
        assert len(Rewriter.load(str(made.folder), epsilon=epsilon).rewrite(made_up_texts()[:3]).texts) == 3


@pytest.mark.parametrize(("learner", "at"), [(Student, 1), (Author, 0), (Author, 2)])
def test_an_interrupted_run_makes_the_same_model(
    corpus: tuple[CorpusFile, ...], teacher: Path, made: Bundle, tmp_path: Path, learner: type[Any], at: int
) -> None:
    with stopped(learner, at):
        make(corpus, teacher, tmp_path)
    assert not (tmp_path / "m").exists()
    make(corpus, teacher, tmp_path)
    assert same_model(tmp_path / "m", made.folder)


def test_a_run_with_other_settings_does_not_resume_but_may_have_more_steps(
    corpus: tuple[CorpusFile, ...], teacher: Path, tmp_path: Path
) -> None:
    with stopped(Author, 2):
        make(corpus, teacher, tmp_path)
    with pytest.raises(BadParameter, match="started with seed 0, not 1. Use the same again"):
        make(corpus, teacher, tmp_path, replace(TINY, seed=1))
    with pytest.raises(BadParameter, match="steps must be at least the 2 already trained"):
        make(corpus, teacher, tmp_path, replace(TINY, steps=1))
    more = make(corpus, teacher, tmp_path, replace(TINY, steps=4))
    assert more.facts.recipe["code"]["steps"] == 4


def test_a_time_becomes_steps_once(corpus: tuple[CorpusFile, ...], teacher: Path, tmp_path: Path) -> None:
    timed = replace(TINY, minutes=0.002)
    steps = make(corpus, teacher, tmp_path, timed).facts.recipe["code"]["steps"]
    assert json.loads((tmp_path / "m.training" / "steps.json").read_text()) == {"minutes": 0.002, "steps": steps}
    assert make(corpus, teacher, tmp_path, timed).facts.recipe["code"]["steps"] == steps


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
        replace(TINY, **wrong)


def test_too_little_text_is_refused(teacher: Path, tmp_path: Path) -> None:
    (tmp_path / "public.txt").write_text("one line\n")
    source = Source(find_corpus([tmp_path / "public.txt"]))
    with pytest.raises(BadTable, match="at least 2 lines of public text are needed, got 1"):
        make_code(source, Teacher.load(str(teacher)), TINY, tmp_path / "t", tmp_path / "m", held_out=[])


def test_a_tokenizer_of_another_kind_is_refused(
    corpus: tuple[CorpusFile, ...], teacher: Path, tiny_adept: Bundle, tmp_path: Path
) -> None:
    with pytest.raises(NotPrepared, match="the tokenizer must begin with <s> <pad> </s> <unk> <mask>"):
        make_code(
            Source(corpus),
            Teacher.load(str(teacher)),
            TINY,
            tmp_path / "t",
            tmp_path / "m",
            held_out=[],
            tokenizer_of=tiny_adept,
        )


# -- a domain ---------------------------------------------------------------------------------------------------------


def test_a_domain_changes_the_tree_and_the_book_alone(
    tiny_code: Bundle, corpus: tuple[CorpusFile, ...], tmp_path: Path
) -> None:
    adapted = adapt_code(tiny_code, Source(corpus), replace(PLAN, steps=0), tmp_path / "t", tmp_path / "mine")
    before, after = (load_file(each.folder / "model.safetensors") for each in (tiny_code, adapted))
    changed = {name for name in before if not before[name].equal(after[name])}
    assert changed == {"tree.leaves", "tree.refined", "book.tokens", "book.ends", "book.coarse"}
    assert all(before[name].shape == after[name].shape for name in ("tree.leaves", "book.ends", "book.coarse"))
    assert CODE.table(adapted) == CODE.table(tiny_code)
    made_from = adapted.facts.recipe["domain"]
    assert made_from["model"] == f"tiny-code@{tiny_code.fingerprint}"
    assert [each["name"] for each in adapted.facts.corpora] == ["made up", "made_up.txt"]
    assert len(Rewriter.load(str(adapted.folder), epsilon=10).rewrite(["a child sold nine keys ."]).texts) == 1


def test_a_tree_of_the_domain_lies_nearer_to_its_texts(
    tiny_code: Bundle, corpus: tuple[CorpusFile, ...], tmp_path: Path
) -> None:
    from dpbart.prepare.code.rows import to_rows
    from dpbart.prepare.code.vectors import vectors_of

    adapted = adapt_code(tiny_code, Source(corpus), replace(PLAN, steps=0), tmp_path / "t", tmp_path / "mine")
    parts = Networks.load(tiny_code.folder)
    rows = to_rows(made_up_texts(), parts.tokenizer)
    vectors = vectors_of(parts.sentence, rows.picked(range(len(rows))))
    for bits in (2, 5, 8):
        near = [
            (tree.vectors(tree.nearest(vectors, bits), bits) * vectors).sum(1).mean()
            for tree in (parts.tree, Networks.load(adapted.folder).tree)
        ]
        assert near[1] > near[0]


def test_a_writer_trained_further_learns_the_domain_and_resumes(
    tiny_code: Bundle, corpus: tuple[CorpusFile, ...], tmp_path: Path
) -> None:
    plan = replace(PLAN, steps=4)
    whole = adapt_code(tiny_code, Source(corpus), plan, tmp_path / "t1", tmp_path / "mine")
    with stopped(Author, 2):
        adapt_code(tiny_code, Source(corpus), plan, tmp_path / "t2", tmp_path / "again")
    resumed = adapt_code(tiny_code, Source(corpus), plan, tmp_path / "t2", tmp_path / "again")
    assert same_model(whole.folder, resumed.folder)
    before, after = (load_file(each.folder / "model.safetensors") for each in (tiny_code, whole))
    assert not before["writer.embed.weight"].equal(after["writer.embed.weight"])
    assert before["sentence.embed.weight"].equal(after["sentence.embed.weight"])
    with pytest.raises(BadParameter, match="started with another corpus"):
        adapt_code(tiny_code, Source((replace(corpus[0], sha256="x"),)), plan, tmp_path / "t2", tmp_path / "again")


def test_only_a_code_model_can_be_adapted(tiny: Bundle, corpus: tuple[CorpusFile, ...], tmp_path: Path) -> None:
    with pytest.raises(NotPrepared, match="'tiny' must be a code model, got model_type 'bart'"):
        adapt_code(tiny, Source(corpus), PLAN, tmp_path / "t", tmp_path / "mine")


# -- commands ---------------------------------------------------------------------------------------------------------


def run(*args: object, fails: bool = False) -> str:
    done = CliRunner().invoke(cli, [str(arg) for arg in args])
    assert done.exit_code == (1 if fails else 0), done.output
    return done.stderr if fails else done.stdout


def test_a_model_is_made_adapted_and_used_by_the_commands_alone(
    tiny: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recipe, "CodeRecipe", partial(CodeRecipe, pair_steps=2, rows=4, writer_width=64))
    public, model, mine = tmp_path / "public.txt", tmp_path / "model", tmp_path / "mine"
    public.write_text("\n".join(made_up_texts()))
    teacher = make_teacher(tmp_path / "teacher", width=128)
    source = ("prepare", "code", "--corpus", public)
    new = ("--teacher", teacher, "--out", model, "--steps", 1, "--sentence-steps", 1, "--texts", 2, "--lines", 60)
    shown = run(*source, *new, "--tokenizer-of", tiny.folder, "--documents", public)
    assert "60 lines and 10 documents; 0 offensive lines left out." in shown
    assert "epsilon 20 " in shown
    both = [Tokenizer.from_file(str(each / "tokenizer.json")).get_vocab() for each in (model, tiny.folder)]
    assert both[0] == both[1]
    (tmp_path / "in.txt").write_text("a child sold nine keys .\n")
    run("rewrite", tmp_path / "in.txt", tmp_path / "out.txt", "--epsilon", 20, "--model", model)
    assert json.loads((tmp_path / "out.txt.card.json").read_text())["guarantee"] == {"epsilon": 20.0, "delta": 0.0}
    shown_json = json.loads(run(*source, "--model", model, "--out", mine, "--steps", 1, "--json"))
    assert shown_json["recipe"]["model"].startswith("model@")
    assert shown_json["figures"] == {}
    run("rewrite", tmp_path / "in.txt", tmp_path / "out2.txt", "--epsilon", 20, "--model", mine)


def test_what_does_not_go_together_is_refused(tiny_code: Bundle, tmp_path: Path) -> None:
    (tmp_path / "public.txt").write_text("\n".join(made_up_texts()))
    source = ("prepare", "code", "--corpus", tmp_path / "public.txt", "--out", tmp_path / "out")
    assert "give either --teacher, for a new model, or --model" in run(*source, fails=True)
    model = ("--model", tiny_code.folder)
    assert "not both" in run(*source, *model, "--steps", 1, "--minutes", 1, fails=True)
    assert "--texts is for a new model" in run(*source, *model, "--texts", 5, fails=True)
    assert "no teacher at 'nowhere'" in run(*source, "--teacher", "nowhere", fails=True)
    own = ("prepare", "code", "--corpus", tmp_path / "public.txt", *model, "--out", tiny_code.folder)
    assert "must differ from the model's own directory" in run(*own, fails=True)
    assert not (tmp_path / "out").exists()
