"""Make a code model from scratch: public text and a teacher in, all parts of a model out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from accelerate import Accelerator
from tokenizers import Tokenizer

from dpbart.channels.code import CodeTable
from dpbart.errors import NotPrepared
from dpbart.files import digest_of, write_whole
from dpbart.models.bundle import Bundle, ModelFacts
from dpbart.models.code.model import Networks, save_code
from dpbart.models.code.sentence import SentenceEncoder
from dpbart.models.code.settings import CodeSettings
from dpbart.models.code.writer import Writer, WriterSizes
from dpbart.models.text import SPECIAL_TOKENS
from dpbart.prepare.code.book import Scribe
from dpbart.prepare.code.growing import TreeShape, make_tree
from dpbart.prepare.code.loop import run
from dpbart.prepare.code.minutes import Minutes
from dpbart.prepare.code.pairs import PairFit, count_pairs, start_writer
from dpbart.prepare.code.parts import Made, text_facts, train_writer, tree_vectors
from dpbart.prepare.code.recipe import CodeRecipe
from dpbart.prepare.code.sentence import School
from dpbart.prepare.code.table import Gauge, measured_rows, unmeasured
from dpbart.prepare.code.teacher import Teacher
from dpbart.prepare.code.texts import PublicText, Source, gather
from dpbart.prepare.fresh import fresh_writer
from dpbart.prepare.pretrain import PretrainRecipe, train_tokenizer
from dpbart.prepare.training import hold_to_recipe

_MOST_TOKENS = 20_000  # tables of pairs of tokens then fit into 2 GB
_FREQUENT = 2_500  # tokens of the writer's first softmax, at most


def make_code(
    source: Source,
    teacher: Teacher,
    recipe: CodeRecipe,
    folder: Path,
    out: Path,
    *,
    held_out: Sequence[str],
    tokenizer_of: Bundle | None = None,
) -> Bundle:
    """Make every part that the training folder does not have yet, and write the model directory.

    Args:
        source: public text.
        teacher: a public sentence encoder.
        recipe: all settings.
        folder: where parts are kept on the way.
        out: the model directory.
        held_out: public texts that the table of sizes is chosen on; none for a table from epsilon alone.
        tokenizer_of: the model to take the tokenizer from; none to train a new one.
    """
    teacher.require_width(recipe.vector)
    taken = None if tokenizer_of is None else digest_of(tokenizer_of.folder / "tokenizer.json")
    settings = {**recipe.held(), **source.provenance(), "teacher": teacher.identity, "tokenizer": taken}
    hold_to_recipe(Accelerator(), folder, settings, source.all)
    minutes = Minutes(folder)
    with minutes.of("text"):
        tokenizer = _tokenizer(source, recipe, folder, tokenizer_of)
        text = gather(source, tokenizer, recipe, folder)
    school = School(teacher, tokenizer, recipe, folder)
    sentence = school.teach(text, minutes)
    with minutes.of("tree"):
        vectors = tree_vectors(sentence, text, recipe, folder)
        shape = TreeShape.fitting(len(vectors), most=recipe.depth)
        tree = make_tree(vectors, shape, folder / "tree.npz", seed=recipe.seed)
    writer = _new_writer(text, recipe, sentence, folder, minutes)
    made = train_writer(writer, sentence, tree, text, recipe, folder, minutes)
    with minutes.of("book"):
        book = Scribe(tokenizer, sentence, tree, made.writer).write(folder / "book", seed=recipe.seed)
    parts = Networks(tokenizer, sentence, tree.cut(recipe.gist_bits), made.writer, book)
    with minutes.of("table"):
        table, figures = _table(parts, made, school, held_out, folder)
    facts = ModelFacts(
        variant="code",
        length=recipe.length,
        width=recipe.writer_width,
        code={
            "table": [list(row) for row in table.rows],
            "book_bits": table.book_bits,
            "settings": asdict(CodeSettings()),
        },
        corpora=tuple(file.provenance() for file in source.all),
        recipe={"code": {**settings, **text_facts(text, tree, len(vectors)), **made.facts(), **minutes.facts()}},
        figures=figures,
    )
    return save_code(parts, facts, out)


def _table(
    parts: Networks, made: Made, school: School, held_out: Sequence[str], folder: Path
) -> tuple[CodeTable, dict[str, Any]]:
    """The table of sizes, and what was measured for it."""
    if not held_out:
        return unmeasured(parts.book.bits, gist_bits=parts.tree.depth), {}
    gauge = Gauge(
        parts,
        held_out,
        school.teacher.vectors,
        folder / "measured.json",
        length=school.recipe.length,
        model=f"writer of {made.steps} steps",
    )
    rows = measured_rows(gauge)
    table = CodeTable(tuple((row.epsilon, row.size.bits, row.size.gist_bits) for row in rows), parts.book.bits)
    return table, {
        "held_out_texts": len(held_out),
        "cosine_to_teacher": round(school.cosine(parts.sentence, list(held_out)), 3),
        "at_epsilon": [row.figures() for row in rows],
    }


def _new_writer(
    text: PublicText, recipe: CodeRecipe, sentence: SentenceEncoder, folder: Path, minutes: Minutes
) -> Writer:
    """A writer that knows which token follows which, and no more."""
    vocabulary = sentence.sizes.vocabulary
    sizes = WriterSizes(
        vocabulary=vocabulary,
        width=recipe.writer_width,
        layers=recipe.writer_layers,
        inner=4 * recipe.writer_width,
        places=recipe.length + 2,
        gist=recipe.vector,
        frequent=min(_FREQUENT, vocabulary // 4),
    )
    writer = fresh_writer(sizes, seed=recipe.seed)
    if not (folder / "writer.pt").is_file():  # else the saved state has all weights
        with minutes.of("pairs"):
            fit = PairFit(count_pairs(text.lines, vocabulary), recipe.writer_width, seed=recipe.seed)
            run(fit, steps=recipe.pair_steps, file=folder / "pairs.pt", title="Pairs of tokens")
        start_writer(writer, fit.tables)
    return writer


def _tokenizer(source: Source, recipe: CodeRecipe, folder: Path, tokenizer_of: Bundle | None) -> Tokenizer:
    """The tokenizer of another model, or one trained on this text."""
    file = folder / "tokenizer.json"
    if not file.is_file():
        if tokenizer_of is not None:
            made = Tokenizer.from_file(str(tokenizer_of.folder / "tokenizer.json"))
        else:
            made = train_tokenizer(source.all, PretrainRecipe(vocabulary=recipe.vocabulary))
        made.no_truncation()
        made.no_padding()
        write_whole(file, made.to_str())
    tokenizer = Tokenizer.from_file(str(file))
    first = tuple(tokenizer.id_to_token(number) for number in range(len(SPECIAL_TOKENS)))
    if first != SPECIAL_TOKENS or tokenizer.get_vocab_size() > _MOST_TOKENS:
        raise NotPrepared(
            f"the tokenizer must begin with {' '.join(SPECIAL_TOKENS)} and have at most {_MOST_TOKENS:,} tokens, "
            f"got {' '.join(str(token) for token in first)} and {tokenizer.get_vocab_size():,} tokens. "
            "Choose another --tokenizer-of, or leave it out."
        )
    return tokenizer
