"""dpbart prepare code: make a code model from public text, or adapt one to a domain."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dpbart.cli.command import Command
from dpbart.cli.options import corpus_option, json_option, out_option, seed_option
from dpbart.errors import BadParameter

if TYPE_CHECKING:
    from dpbart.models.bundle import Bundle
    from dpbart.prepare.code.recipe import CodeRecipe, WriterPlan
    from dpbart.prepare.code.texts import Source

_STEPS = 2_400
_LINES = 200_000
_TEXTS = 200
_SENTENCE_STEPS = 6_400


@click.command(cls=Command)
@click.option("-m", "--model", help="Code model to adapt to your domain: bundled name, directory, or hub id.")
@click.option(
    "--teacher",
    help="Public sentence encoder to learn from, for a new model: a sentence-transformers directory or hub id "
    "(a BERT with mean pooling).",
)
@corpus_option
@click.option(
    "--documents",
    type=click.Path(path_type=Path, exists=True),
    multiple=True,
    help="Like --corpus, for files in which neighbouring lines belong together, such as the sentences of articles. "
    "Repeatable.",
)
@out_option
@click.option(
    "--steps",
    type=int,
    help="Training steps of the writer, about 50 a minute on one core; you may raise this later. "
    f"By default {_STEPS:,} for a new model, and none with --model.",
)
@click.option(
    "--minutes",
    type=float,
    help="Instead of --steps: as many steps as fit into this time. Their number is found at the start and then kept.",
)
@click.option(
    "--sentence-steps",
    type=int,
    help="Training steps of the sentence encoder of a new model; by default 6,400 (8 minutes).",
)
@click.option("--tokenizer-of", help="Use the tokenizer of this model, for a new model. By default, train a tokenizer.")
@click.option("--lines", type=int, default=_LINES, show_default=True, help="Training lines of each file, at most.")
@click.option(
    "--texts",
    type=int,
    help=f"Held-out texts to choose the code sizes of a new model on; by default {_TEXTS}. "
    "With 0, nothing is measured, and the sizes follow from epsilon alone.",
)
@seed_option
@json_option
def code(
    model: str | None,
    teacher: str | None,
    corpus: tuple[Path, ...],
    documents: tuple[Path, ...],
    out: Path,
    steps: int | None,
    minutes: float | None,
    sentence_steps: int | None,
    tokenizer_of: str | None,
    lines: int,
    texts: int | None,
    seed: int,
    as_json: bool,
) -> None:
    """Make a code model (DP-BART-CODE), or adapt one to your domain.

    With --teacher, every part is made from scratch: sentence encoder, tree of gists, writer, book, and the table of
    code sizes. With --model, tree and book are made again over public text like yours, and with --steps or --minutes
    the writer is trained further on it. Encoder, tokenizer and table stay.

    Lines with slurs, sexual or hateful words are left out. You can stop at any time; the same command resumes from the
    last checkpoint (OUT.training).

    \b
        dpbart prepare code --corpus corpus/ --out models/code --teacher sentence-transformers/all-MiniLM-L6-v2
        dpbart prepare code --model mini-code --corpus public-like-mine.txt --out mine --minutes 30
    """
    from dpbart.models.bundle import Bundle
    from dpbart.prepare.code.recipe import CodeRecipe, WriterPlan

    if (model is None) == (teacher is None):
        raise BadParameter("give either --teacher, for a new model, or --model, to adapt one.")
    if steps is not None and minutes is not None:
        raise BadParameter("give either --steps or --minutes, not both.")
    for name in (model, tokenizer_of):
        if name is not None:
            Bundle.find(name)  # refuses an unknown model before torch is loaded

    from accelerate import Accelerator

    if not Accelerator().is_main_process:
        return  # one process is enough
    if model is not None:
        _refuse({"--sentence-steps": sentence_steps, "--tokenizer-of": tokenizer_of, "--texts": texts})
        plan = WriterPlan(steps=steps or 0, minutes=minutes, lines=lines, seed=seed)
        bundle = _adapt(model, plan, corpus, documents, out)
    elif teacher is not None:
        recipe = CodeRecipe(
            steps=_STEPS if steps is None else steps,
            minutes=minutes,
            sentence_steps=_SENTENCE_STEPS if sentence_steps is None else sentence_steps,
            lines=lines,
            seed=seed,
        )
        bundle = _make(teacher, tokenizer_of, recipe, corpus, documents, out, _TEXTS if texts is None else texts)
    _show(bundle, as_json)


def _refuse(given: dict[str, object]) -> None:
    for name, value in given.items():
        if value is not None:
            raise BadParameter(f"{name} is for a new model and has no effect with --model. Leave it out.")


def _adapt(name: str, plan: WriterPlan, corpus: tuple[Path, ...], documents: tuple[Path, ...], out: Path) -> Bundle:
    from dpbart.models.bundle import Bundle
    from dpbart.prepare.code.domain import adapt_code, require_code

    bundle = Bundle.find(name)
    require_code(bundle)
    if out.resolve() == bundle.folder.resolve():
        raise BadParameter(
            f"--out must differ from the model's own directory, got '{out}'. The model would be overwritten."
        )
    return adapt_code(bundle, _source(corpus, documents), plan, _training(out), out)


def _make(
    teacher: str,
    tokenizer_of: str | None,
    recipe: CodeRecipe,
    corpus: tuple[Path, ...],
    documents: tuple[Path, ...],
    out: Path,
    texts: int,
) -> Bundle:
    from dpbart.models.bundle import Bundle
    from dpbart.prepare.code.making import make_code
    from dpbart.prepare.code.teacher import Teacher
    from dpbart.prepare.corpus import held_out_texts

    learned_from = Teacher.load(teacher)
    tokenizer = None if tokenizer_of is None else Bundle.find(tokenizer_of)
    source = _source(corpus, documents)
    held_out = held_out_texts(source.all, texts) if texts else []
    return make_code(source, learned_from, recipe, _training(out), out, held_out=held_out, tokenizer_of=tokenizer)


def _source(corpus: tuple[Path, ...], documents: tuple[Path, ...]) -> Source:
    from dpbart.prepare.code.texts import Source
    from dpbart.prepare.corpus import find_corpus

    return Source(find_corpus(corpus), find_corpus(documents) if documents else ())


def _training(out: Path) -> Path:
    return out.with_name(out.name + ".training")


def _show(bundle: Bundle, as_json: bool) -> None:
    """What was made: how much text it learned from, and what to expect at each budget."""
    facts = bundle.facts
    made = facts.recipe["domain"] if "domain" in facts.recipe else facts.recipe["code"]
    if as_json:
        click.echo(json.dumps({"recipe": made, "figures": facts.figures}))
        return
    dropped = sum(each["dropped"] for each in made["lines_of_each_file"].values())
    click.echo(
        f"{made['lines_kept']:,} lines and {made['documents_kept']:,} documents; {dropped:,} offensive lines left out."
    )
    if made["texts_in_tree"] < 1 << made["tree_bits"]:
        click.echo(
            f"The tree has more leaves (2^{made['tree_bits']}) than the corpus has texts ({made['texts_in_tree']:,}). "
            "More public text would make its gists finer."
        )
    for row, figures in zip((facts.code or {})["table"], facts.figures.get("at_epsilon", ()), strict=False):
        click.echo(
            f"epsilon {row[0]:<5g} {row[1]:4} bits, {row[2]:2} of them gist; kept {figures['kept']:.3f}, "
            f"similarity {figures['similarity']:.3f} (unrelated texts: {figures['unrelated']:.3f})"
        )
    click.echo(f"Rewrite with it: dpbart rewrite IN OUT --epsilon 10 --model {bundle.folder}")
