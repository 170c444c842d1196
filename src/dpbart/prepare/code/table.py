"""The table of code sizes: how many bits a code has at each epsilon, and how many of them are its gist.

More bits say more about a text but are kept less often. A reader gains p(bits) [U(bits, gist) - U(unrelated)], where p
is the probability that a code is kept and U the similarity of what is written to the original. The size with the
largest gain wins. U is measured on held-out public text, through the model's own encoder and decoder.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dpbart.channels.code import CodeChannel, CodeSize, CodeTable
from dpbart.files import write_whole
from dpbart.models.code.decoder import CodeDecoder
from dpbart.models.code.encoder import CodeEncoder
from dpbart.models.code.model import Networks
from dpbart.models.code.settings import CodeSettings
from dpbart.models.code.steps import Steps
from dpbart.models.code.tree import Floats
from dpbart.models.code.writing import Writing
from dpbart.privacy.mechanisms import NonPrivate, Response
from dpbart.privacy.sampling import ReplaySeed
from dpbart.progress import progress

EPSILONS = (0.5, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 15, 20, 25, 30, 35, 40, 50, 60, 70, 85, 100, 120, 150, 200)
_ODDS = (3.0, 10.0, 30.0)  # of a kept code against all others together, near the best size: epsilon - 1
_WORDED = (0, 4, 6, 8, 11)  # bits of a gist that wording may follow

ToVectors = Callable[[Sequence[str]], Floats]


@dataclass(frozen=True)
class Measured:
    """Similarity of what is written from a code to the original, and to the other texts."""

    near: float
    unrelated: float


@dataclass(frozen=True)
class Row:
    """One row of a table, and what a reader can expect of it."""

    epsilon: float
    size: CodeSize
    similarity: float  # response included
    unrelated: float

    def figures(self) -> dict[str, float]:
        kept = Response(self.epsilon, 1 << self.size.bits).kept
        return {
            "epsilon": self.epsilon,
            "kept": round(kept, 3),
            "similarity": round(self.similarity, 3),
            "unrelated": round(self.unrelated, 3),
        }


def candidates(epsilon: float, *, book_bits: int, gist_bits: int) -> list[CodeSize]:
    """Sizes worth trying at a budget: the book as far as it goes, and wording after gists of several sizes.

    Args:
        epsilon: the budget.
        book_bits: of the whole book.
        gist_bits: of the tree's leaves.

    >>> [(size.bits, size.gist_bits, size.near) for size in candidates(10, book_bits=15, gist_bits=11)]
    [(9, 9, 64), (11, 11, 16), (12, 12, 8)]
    """
    sizes = []
    for bits in sorted({_bits_at(epsilon, odds) for odds in _ODDS}):
        if bits <= book_bits:
            sizes.append(CodeSize(bits, bits, 1 << book_bits - bits))
        else:
            sizes += [CodeSize(bits, gist) for gist in sorted({min(gist, gist_bits) for gist in _WORDED})]
    return sizes


def _bits_at(epsilon: float, odds: float) -> int:
    """The most bits of a code, at least 1, that is kept with such odds."""
    return max(1, int((epsilon - math.log(odds)) / math.log(2)))


def choose(epsilon: float, sizes: Sequence[CodeSize], measure: Callable[[CodeSize], Measured]) -> Row:
    """The size with the largest gain."""
    rows = []
    for size in sizes:
        kept, found = Response(epsilon, 1 << size.bits).kept, measure(size)
        similarity = kept * found.near + (1 - kept) * found.unrelated
        rows.append(Row(epsilon, size, similarity, found.unrelated))
    return max(rows, key=lambda row: row.similarity - row.unrelated)


def unmeasured(book_bits: int, *, gist_bits: int) -> CodeTable:
    """A table from epsilon alone: codes that are kept 10 times in 11, and wording after a gist of at most 8 bits."""
    sizes = ((float(epsilon), _bits_at(epsilon, 10.0)) for epsilon in EPSILONS)
    rows = ((epsilon, bits, bits if bits <= book_bits else min(8, gist_bits)) for epsilon, bits in sizes)
    return CodeTable(tuple(rows), book_bits)


class Gauge:
    """Measures sizes of one model on held-out texts. What was measured is kept in a file."""

    def __init__(
        self, parts: Networks, texts: Sequence[str], to_vectors: ToVectors, file: Path, *, length: int, model: str
    ) -> None:
        self.parts, self.texts, self.to_vectors, self.file, self.length = parts, texts, to_vectors, file, length
        self._originals = to_vectors(texts)
        self._made_from = {"model": model, "texts": len(texts)}
        held = json.loads(file.read_text()) if file.is_file() else {}
        self._known: dict[str, list[float]] = held["sizes"] if held.get("made_from") == self._made_from else {}

    def measure(self, size: CodeSize) -> Measured:
        """Similarities without the response: every code is kept."""
        name = f"{size.bits}/{size.gist_bits}"
        if name not in self._known:
            written = self.to_vectors(self._written(size))
            every = self._originals @ written.T  # (texts, texts)
            count, related = len(every), float(np.trace(every))
            others = (float(every.sum()) - related) / max(1, count * (count - 1))
            self._known[name] = [related / count, others]
            write_whole(self.file, json.dumps({"made_from": self._made_from, "sizes": self._known}))
        return Measured(*self._known[name])

    def _written(self, size: CodeSize) -> list[str]:
        parts, entropy = self.parts, ReplaySeed(0)  # public text: nothing to protect
        steps = Steps(parts.writer, parts.tree, size, self.length, CodeSettings(), parts.book.bits)
        writing = Writing(steps, parts.sentence)
        codes = CodeEncoder(parts.tokenizer, parts.book, writing).encode(self.texts)
        draw = np.random.default_rng(0)
        meant = [(draw.choice(np.array(each, object)),) for each in codes]  # any of the codes that mean the same
        sent = CodeChannel(size, NonPrivate()).send(meant, entropy)
        return CodeDecoder(parts.tokenizer, parts.book, writing, entropy).decode(sent)


def measured_rows(gauge: Gauge) -> list[Row]:
    """A row for every budget, chosen on held-out text."""
    parts, rows = gauge.parts, []
    with progress("Choosing code sizes", total=len(EPSILONS), unit="budgets") as bar:
        for epsilon in EPSILONS:
            sizes = candidates(epsilon, book_bits=parts.book.bits, gist_bits=parts.tree.depth)
            rows.append(choose(float(epsilon), sizes, gauge.measure))
            bar.advance(1, note=f"epsilon {epsilon:g}: {rows[-1].size.bits} bits")
    return rows
