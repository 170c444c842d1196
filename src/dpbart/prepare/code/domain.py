"""Adapt a code model to a domain: a new tree over public text of that kind and, if wanted, a writer trained further."""

from __future__ import annotations

from pathlib import Path

from accelerate import Accelerator

from dpbart.errors import NotPrepared
from dpbart.models.bundle import Bundle
from dpbart.models.code import CODE
from dpbart.models.code.model import Networks, save_code
from dpbart.prepare.code.book import KEPT, Scribe
from dpbart.prepare.code.growing import TreeShape, make_tree
from dpbart.prepare.code.minutes import Minutes
from dpbart.prepare.code.parts import text_facts, train_writer, tree_vectors
from dpbart.prepare.code.recipe import WriterPlan
from dpbart.prepare.code.texts import Source, gather
from dpbart.prepare.training import hold_to_recipe, trained_further


def require_code(bundle: Bundle) -> None:
    """Refuse a model of another family."""
    if bundle.family is not CODE:
        raise NotPrepared(
            f"'{bundle.name}' must be a code model, got model_type {bundle.family.name!r}. "
            "Make one with: dpbart prepare code --teacher"
        )


def adapt_code(bundle: Bundle, source: Source, plan: WriterPlan, folder: Path, out: Path) -> Bundle:
    """The same encoder, tokenizer and table; tree and book of the domain; the writer trained for the plan's steps."""
    require_code(bundle)
    settings = {**plan.held(), **source.provenance(), "model": bundle.fingerprint}
    hold_to_recipe(Accelerator(), folder, settings, source.all)
    minutes, parts = Minutes(folder), Networks.load(bundle.folder)
    with minutes.of("text"):
        text = gather(source, parts.tokenizer, plan, folder)
    with minutes.of("tree"):
        vectors = tree_vectors(parts.sentence, text, plan, folder)
        shape = TreeShape.of_depth(parts.book.bits + 1 - KEPT.bit_length())  # as many texts in the book: the table fits
        tree = make_tree(vectors, shape, folder / "tree.npz", seed=plan.seed)
    done = {**settings, **text_facts(text, tree, len(vectors)), "model": f"{bundle.name}@{bundle.fingerprint}"}
    if plan.steps or plan.minutes is not None:
        made = train_writer(parts.writer, parts.sentence, tree, text, plan, folder, minutes)
        done |= made.facts()
    with minutes.of("book"):
        scribe = Scribe(parts.tokenizer, parts.sentence, tree, parts.writer)
        book = scribe.write(folder / "book", seed=plan.seed)
    facts = trained_further(bundle.facts, source.all, {"domain": {**done, **minutes.facts()}})
    gists = tree.cut(parts.tree.depth)
    return save_code(Networks(parts.tokenizer, parts.sentence, gists, parts.writer, book), facts, out)
