"""The outputs of a private file, looked up in the book that they come from, and counted.

Outputs are private already, and public for whoever reads them here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dpbart.card.card import Card
from dpbart.errors import BadParameter, BadTable
from dpbart.models.code.book import Book
from dpbart.options.rewriting import Dialect, normal_form
from dpbart.tables.batch import Batch
from dpbart.tables.formats.format import TEXT
from dpbart.tables.formats.registry import format_of
from dpbart.tables.table import open_table

MOST_GROUPS = 12
NO_VALUE = "(no value)"
Counts = npt.NDArray[np.int64]
_REMEMBERED = 1 << 16  # outputs whose sentences are known


@dataclass(frozen=True)
class Parts:
    """The topics or the areas of a book.

    Attributes:
        of_sentence: (sentences,), the number of the part that each sentence belongs to.
        names: of each part.
        areas: the area of each part.
    """

    of_sentence: Counts
    names: tuple[str, ...]
    areas: tuple[str, ...]

    @classmethod
    def of(cls, book: Book, *, areas: bool) -> Parts:
        """The parts of a book, in its order. Refuses a book that names none."""
        keys = [(line.area, line.area if areas else line.topic) for line in book.lines]
        different = dict.fromkeys(keys)
        if not any(name for _, name in different):
            raise BadParameter(f"the book names no {'areas' if areas else 'topics'}, so there is nothing to count by.")
        place = {key: number for number, key in enumerate(different)}
        names = tuple(name or "(no name)" for _, name in different)
        return cls(np.array([place[key] for key in keys], np.int64), names, tuple(area for area, _ in different))

    @property
    def sizes(self) -> Counts:
        """The sentences of each part, (parts,)."""
        return np.bincount(self.of_sentence, minlength=len(self.names))


@dataclass
class Counted:
    """How many texts touch each part of the book, by group.

    Attributes:
        texts: of each group.
        touching: of each group, (parts,).
        sentences: how often each sentence came out, (sentences,).
    """

    texts: dict[str, int] = field(default_factory=dict)
    touching: dict[str, Counts] = field(default_factory=dict)
    sentences: Counts = field(default_factory=lambda: np.zeros(0, np.int64))


def count_outputs(private: Path, card: Card, book: Book, parts: Parts, *, places: int, by: str | None) -> Counted:
    """Read a private file once.

    Args:
        private: the file.
        card: its card.
        book: the sentences that can come out.
        parts: what to count.
        places: how many sentences an output has, at most.
        by: a column of groups; all texts are one group without it.

    Raises:
        BadTable: It is not the file of the card, or an output is not in the book.
        BadParameter: The column cannot be compared.
    """
    columns = tuple(card.row.columns[:1] if card.row.joined else card.row.columns)
    dialect = Dialect(document=card.rows == 1)
    if format_of(private, dialect).texts_alone:
        columns = (TEXT,)
    table = open_table(private, text_column=columns, named=() if by is None else (by,), dialect=dialect)
    if by is not None:
        table.require(by, option="--by")
    place = {line.sentence: number for number, line in enumerate(book.lines)}
    found = Counted(sentences=np.zeros(len(book.lines), np.int64))

    @lru_cache(_REMEMBERED)
    def read(text: str) -> tuple[int, ...] | None:
        return sentences_in(text, place, places)

    def see(batch: Batch) -> None:
        texts = batch.texts()
        values = [None] * len(batch) if by is None else batch.column(by)
        for number, text in enumerate(texts):
            row = number // len(columns)
            said = read(text)
            if said is None:
                raise BadTable(
                    f"row {batch.first + row} of {table.name} has a text that cannot come out of the model on the "
                    f"card, '{card.model.name}'. The file was changed, or the card is that of another."
                )
            _count(found, parts, _group(values[row], by), said)

    rows = table.visit(see)
    if rows != card.rows:
        raise BadTable(f"{table.name} has {rows:,} rows, but its card says {card.rows:,}. Give the card of this file.")
    return found


def _group(value: object, by: str | None) -> str:
    return "" if by is None else normal_form(value) or NO_VALUE


def _count(found: Counted, parts: Parts, group: str, said: Sequence[int]) -> None:
    if group not in found.texts:
        if len(found.texts) == MOST_GROUPS:
            raise BadParameter(f"--by must name a column with at most {MOST_GROUPS} different values, got more.")
        found.texts[group], found.touching[group] = 0, np.zeros(len(parts.names), np.int64)
    found.texts[group] += 1
    found.touching[group][list({parts.of_sentence[number] for number in said})] += 1
    for number in said:
        found.sentences[number] += 1


def sentences_in(text: str, place: dict[str, int], most: int) -> tuple[int, ...] | None:
    """The places of the sentences that an output consists of; None if it does not. An empty one has none.

    >>> book = {"I agree.": 0, "Thank you.": 1, "I agree. Why?": 2}
    >>> sentences_in("I agree. Thank you.", book, 2), sentences_in("I agree. Why?", book, 2), sentences_in("I", book, 2)
    ((0, 1), (2,), None)
    """
    if text in place:
        return (place[text],)
    if not text:
        return () if most > 1 else None
    if most == 1:
        return None
    end = text.rfind(" ")
    while end > 0:  # the longest first
        if text[:end] in place:
            rest = sentences_in(text[end + 1 :], place, most - 1)
            if rest:
                return (place[text[:end]], *rest)
        end = text.rfind(" ", 0, end)
    return None
