"""The book: public sentences by area and topic, each with a vector. A code names places in it.

The sentences stand in a plain file, book.tsv, that anybody can open and search. So wherever a code is a place in the
book, everything that can come out is on a public list.

The book has an order of its own: its first sentences cover public text best, and so do the first ones of any area. A
code of few bits chooses among the first sentences only.

No sentence of a book, and no line that a writer learns from, may have an offensive term: random codes are read as
random texts, so strangers may be shown any of them. The list is broad, because dropping some harmless lines of millions
costs nothing.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from hashlib import blake2b
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dpbart.errors import BadParameter, NotPrepared
from dpbart.models.code.weights import ONE, Floats, Table, WholeProduct, mapped, twice
from dpbart.models.hub import foreign_errors

BOOK_FILE = "book.tsv"
Places = npt.NDArray[np.int64]

_ROWS_AT_ONCE = 256  # vectors compared with the whole book in one product
_BLOCKS = 16  # into which cosines are divided to find the largest
_STRIDE = 4  # one in so many of the nearest sentences counts as a neighbour
_REACH = 4_096  # and no sentence beyond so many, if there are fewer neighbours
_FINE = np.float32(1 << 22)  # steps of a cosine of 1, compared as whole numbers
_NAMED = 12  # areas or topics that an error names


class Line(NamedTuple):
    """One sentence of a book. Area and topic may be empty."""

    area: str
    topic: str
    sentence: str


class BookUse(NamedTuple):
    """Which sentences of a book may come out. Public, and chosen by the operator; never computed from the texts.

    Attributes:
        areas: sentences of these areas; together with `topics`, of either. The whole book if both are empty.
        topics: sentences of these topics.
        only: only sentences of the book come out, at every budget.
    """

    areas: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    only: bool = False

    @property
    def whole(self) -> bool:
        """Whether every sentence may come out."""
        return not self.areas and not self.topics

    def chosen(self, lines: Sequence[Line], *, model: str) -> list[int]:
        """The numbers of the lines that may come out.

        Raises:
            BadParameter: The book has no such area or topic.
        """
        for kind, names, known in (
            ("area", self.areas, dict.fromkeys(line.area for line in lines)),
            ("topic", self.topics, dict.fromkeys(line.topic for line in lines)),
        ):
            unknown = [name for name in names if name not in known]
            if unknown:
                some = ", ".join([each for each in known if each][:_NAMED])
                more = f" and {len(known) - _NAMED:,} more" if len(known) > _NAMED else ""
                raise BadParameter(
                    f"'{model}' has no {kind} {unknown[0]!r}. It has: {some or 'none'}{more}. "
                    f"See all with: dpbart models show {model} {'--areas' if kind == 'area' else '--book'}"
                )
        return [
            number
            for number, line in enumerate(lines)
            if self.whole or line.area in self.areas or line.topic in self.topics
        ]


@lru_cache(maxsize=4)
def read_book(folder: Path) -> tuple[Line, ...]:
    """The lines of a model's book.

    Raises:
        NotPrepared: It is missing, or is not three columns with different sentences.
    """
    try:
        with (folder / BOOK_FILE).open(encoding="utf-8") as rows:
            lines = tuple(_line(row.rstrip("\n")) for row in rows)
    except (OSError, UnicodeDecodeError) as error:
        raise NotPrepared(f"the book of '{folder.name}' ({BOOK_FILE}) cannot be read. Make the model again.") from error
    if not lines or None in lines or len({line.sentence for line in lines if line}) < len(lines):
        raise NotPrepared(
            f"the book of '{folder.name}' ({BOOK_FILE}) must have lines of area, topic and sentence, separated by "
            "tabs, each sentence once. Make the model again."
        )
    return tuple(line for line in lines if line)


def _line(row: str) -> Line | None:
    """A row of a book. Areas and topics are few, and each is kept once in memory."""
    cells = row.split("\t")
    return Line(sys.intern(cells[0]), sys.intern(cells[1]), cells[2]) if len(cells) == 3 and cells[2] else None


def write_book(lines: Iterable[Line]) -> str:
    """The content of a book file."""
    return "".join("\t".join(line) + "\n" for line in lines)


@dataclass(frozen=True)
class Book:
    """Sentences in the book's own order, with unit vectors.

    Attributes:
        lines: in that order.
        coarse: (lines, width), unit vectors in whole numbers from -127 to 127.
    """

    lines: tuple[Line, ...]
    coarse: npt.NDArray[np.int8]

    def __post_init__(self) -> None:
        if not self.lines or len(self.coarse) != len(self.lines):
            raise ValueError(f"a book must have sentences with a vector each, got {len(self.lines)} sentences.")
        if len({line.sentence for line in self.lines}) < len(self.lines):
            raise ValueError("a book must have each sentence once.")

    @classmethod
    def of(cls, lines: Sequence[Line], vectors: Floats) -> Book:
        """A book of lines with their unit vectors, (lines, width)."""
        return cls(tuple(lines), to_coarse(vectors))

    def part(self, use: BookUse, *, model: str) -> Book:
        """The sentences that may come out, in the same order."""
        if use.whole:
            return self
        chosen = use.chosen(self.lines, model=model)
        return Book(tuple(self.lines[number] for number in chosen), self.coarse[chosen])

    def first(self, count: int) -> Book:
        """The first sentences, which cover public text best."""
        return self if count == len(self.lines) else Book(self.lines[:count], self.coarse[:count])

    def nearest(self, vectors: Floats, count: int) -> Places:
        """The places of the `count` sentences nearest to each vector, nearest first: (n, count), vectors (n, width)."""
        found = np.empty((len(vectors), count), np.int64)
        for first in range(0, len(vectors), _ROWS_AT_ONCE):
            rows = vectors[first : first + _ROWS_AT_ONCE]
            found[first : first + len(rows)] = nearest_of(self.cosines(rows), count)
        return found

    def neighbours(self, places: Places, most: int) -> tuple[Places, Floats]:
        """Other sentences near each of some, nearest first, at most so many, and their cosines: (n, others) each.

        Both sides of a channel must find the same: cosines come from exact sums, and places decide among equal ones.
        """
        lines = len(self.lines)
        count = min(most, lines - 1)
        stride = max(1, min(_STRIDE, min(lines - 1, _REACH) // count))
        reach = stride * (count - 1) + 2  # with the sentence itself
        near = self.cosines(self.rows(places))  # (n, lines)
        far = np.rint((1 - near) * _FINE).astype(np.int64)
        far[np.arange(len(places)), places] = far.min(1) - 1
        ranked = far * lines + np.arange(lines)
        nearest = np.sort(np.partition(ranked, reach - 1, axis=1)[:, :reach], axis=1) % lines
        found: Places = nearest[:, 1::stride]
        return found, np.take_along_axis(near, found, 1)

    def cosines(self, vectors: Floats) -> Floats:
        """The cosines of vectors (n, width) with all sentences, (n, lines)."""
        return twice(self.product, vectors)

    @cached_property
    def product(self) -> WholeProduct:
        """With all sentences. It is made before workers are forked, so that they share its copy of the vectors."""
        return WholeProduct(Table(self.coarse, np.full((len(self.coarse), 1), 1 / ONE, np.float32)))

    def rows(self, places: Places) -> Floats:
        """The unit vectors of some sentences, (..., width)."""
        found: Floats = self.coarse[places].astype(np.float32)
        found *= np.float32(1 / ONE)
        return found

    @cached_property
    def vectors(self) -> Floats:
        """All unit vectors, (lines, width)."""
        return self.rows(np.arange(len(self.coarse)))


def load_book(folder: Path) -> Book:
    """The book of a model directory, in its own order, without any network.

    Raises:
        NotPrepared: It is missing, or cannot be read.
    """
    lines = read_book(folder)
    with foreign_errors(f"the book in '{folder}' cannot be loaded", remedy="Download or make it again."):
        tensors = mapped(folder / "model.safetensors")
        order, coarse = tensors["book.order"], tensors["book.coarse"]
        return Book(tuple(lines[number] for number in order.tolist()), coarse)


def to_coarse(vectors: Floats) -> npt.NDArray[np.int8]:
    """Unit vectors as a book stores them."""
    return np.rint(vectors * ONE).astype(np.int8)


def nearest_of(near: Floats, count: int) -> Places:
    """The places of the `count` largest of each row, the largest first: (rows, count)."""
    if count == 1:
        first: Places = np.argmax(near, axis=1)[:, None]
        return first
    places = _largest(near, count)
    order = np.argsort(-np.take_along_axis(near, places, 1), axis=1, kind="stable")
    found: Places = np.take_along_axis(places, order, 1)
    return found


def _largest(near: Floats, count: int) -> Places:
    """The places of the `count` largest of each row, in any order.

    A row is cut into blocks of `width`, and one column of all blocks has one of the largest only if its own largest is
    one of the `count` largest of all columns. So these columns and the rest of the row are all that is searched.
    """
    rows, length = near.shape
    width = length // _BLOCKS
    if count >= width:
        return np.argpartition(near, length - count, axis=1)[:, length - count :]
    tops = near[:, : width * _BLOCKS].reshape(rows, _BLOCKS, width).max(1)
    columns = np.argpartition(tops, width - count, axis=1)[:, width - count :]
    some = (columns[:, None] + width * np.arange(_BLOCKS)[:, None]).reshape(rows, -1)
    rest = np.arange(width * _BLOCKS, length)
    some = np.concatenate([some, np.tile(rest, (rows, 1))], 1)
    picked = np.argpartition(np.take_along_axis(near, some, 1), some.shape[1] - count, axis=1)[:, -count:]
    found: Places = np.take_along_axis(some, picked, 1)
    return found


_MASKED = re.compile(r"f\*+k|f\*ck|sh\*t")
_WORD = re.compile(r"[a-z*-]+")
_STEM_LETTERS = range(3, 12)
_PART_LETTERS = (4, 5, 6)


def is_offensive(text: str) -> bool:
    """Whether a line has an offensive term."""
    return any(_is_offensive_word(word) for word in _WORD.findall(text.lower()))


@lru_cache(maxsize=1 << 20)
def _is_offensive_word(word: str) -> bool:
    if _MASKED.search(word):
        return True
    terms = _offensive_terms()
    for part in (each for each in re.split(r"[^a-z]", word) if each):
        if _hash(part) in terms["word"] or any(_hash(part[:end]) in terms["stem"] for end in _STEM_LETTERS):
            return True
        starts = ((at, size) for size in _PART_LETTERS for at in range(len(part) - size + 1))
        if any(_hash(part[at : at + size]) in terms["part"] for at, size in starts):
            return True
    return any(_hash(f"{first}-{second}") in terms["word"] for first, second in pairwise(word.split("-")))


@lru_cache
def _offensive_terms() -> dict[str, frozenset[str]]:
    """Hashes of words, stems and parts of words."""
    lines = Path(__file__).with_name("offensive.txt").read_text(encoding="utf-8").splitlines()
    terms = [line.split() for line in lines if not line.startswith("#")]
    return {kind: frozenset(each for name, each in terms if name == kind) for kind in ("word", "stem", "part")}


def _hash(word: str) -> str:
    return blake2b(word.encode(), digest_size=4).hexdigest()
