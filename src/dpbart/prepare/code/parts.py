"""What both ways of making a code model share: vectors for the tree, the writer, and the facts of the text."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dpbart.models.code.sentence import SentenceEncoder
from dpbart.models.code.tree import Floats, GistTree
from dpbart.models.code.writer import Writer
from dpbart.prepare.code.loop import round_to_half, run
from dpbart.prepare.code.minutes import Minutes
from dpbart.prepare.code.pieces import in_pieces
from dpbart.prepare.code.recipe import WriterPlan
from dpbart.prepare.code.texts import PublicText
from dpbart.prepare.code.vectors import vectors_of
from dpbart.prepare.code.writing import Author, steps_of


@dataclass(frozen=True)
class Made:
    """A writer, and what its training took."""

    writer: Writer
    steps: int
    texts: int

    def facts(self) -> dict[str, object]:
        return {"steps": self.steps, "texts": self.texts}


def tree_vectors(sentence: SentenceEncoder, text: PublicText, plan: WriterPlan, folder: Path) -> Floats:
    """Vectors of a sample of lines and of all documents, (texts, vector)."""
    draw = np.random.default_rng([plan.seed, 8])
    lines = draw.permutation(len(text.lines))[: plan.tree_texts].tolist()

    def compute(part: range) -> npt.NDArray[np.float16]:
        inside = [text.lines.row(lines[n]) if n < len(lines) else text.document(n - len(lines)) for n in part]
        return vectors_of(sentence, inside).astype(np.float16)

    found = in_pieces(len(lines) + len(text.sizes), compute, folder / "vectors", title="Vectors for the tree")
    return found.astype(np.float32)


def train_writer(
    writer: Writer,
    sentence: SentenceEncoder,
    tree: GistTree,
    text: PublicText,
    plan: WriterPlan,
    folder: Path,
    minutes: Minutes,
) -> Made:
    """Train to the last step of the plan, or resume; the weights come out in the precision of a model file."""
    author = Author(writer, sentence, tree, text, plan)
    with minutes.of("writer"):
        steps = steps_of(author, plan, folder)
        run(author, steps=steps, file=folder / "writer.pt", title="Writer")
    round_to_half(writer)
    return Made(writer.eval(), steps, author.seen)


def text_facts(text: PublicText, tree: GistTree, in_tree: int) -> dict[str, object]:
    """How much text a model learned from, and how many lines were dropped as offensive."""
    return {
        "lines_of_each_file": text.counts,
        "lines_kept": len(text.lines),
        "documents_kept": len(text.sizes),
        "texts_in_tree": in_tree,
        "tree_bits": tree.depth,
    }
