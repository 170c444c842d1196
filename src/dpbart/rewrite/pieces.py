"""How a row becomes texts, and how new texts become a row.

A row may have several text columns. Each cell is a text of its own, or all cells are joined into one. Each text may be
split into pieces, for a model that reads little. The number of texts of a row is public: it depends on the settings
and never on the row. A short text is padded with empty pieces, which are rewritten like any other.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from dpbart.tables.batch import Batch

SENTENCES = "sentences"  # the only way to split
MOST_PIECES = 1000
READ_BY_DEFAULT = 160  # tokens of a document, if all of its sentences are as long as the model reads
READS_ENOUGH = 256  # tokens; a model that reads as many is better without splitting

# The end of a sentence: a line end, or a mark that blanks follow. Chinese and Japanese have no blanks.
_END = re.compile(r"""[.!?…]["'”’)\]]?(?=\s)|[。！？][」』”’）]?|[\r\n]""")
# A full stop after one of these, or after a single letter, does not end a sentence.
_SHORTENED = re.compile(r"(?:^|[\s(])(?:[^\W\d_]|Mr|Mrs|Ms|Dr|Prof|St|Jr|Sr|vs|e\.g|i\.e|approx|Fig)\.$")
_LONGEST_SHORTENED = 8  # characters, with what is around it


@dataclass(frozen=True)
class Pieces:
    """How many texts a row has.

    Attributes:
        columns: the text columns.
        joined: whether they become one text, in the first of them.
        split: the number of pieces of each text; None if texts are not split.
    """

    columns: tuple[str, ...]
    joined: bool = False
    split: int | None = None

    @property
    def cells(self) -> int:
        """Cells of a row that get a new text."""
        return 1 if self.joined else len(self.columns)

    @property
    def per_row(self) -> int:
        """Texts of a row. Each of them is a release."""
        return self.cells * (self.split or 1)

    def texts(self, cells: Sequence[str], *, width: int) -> list[str]:
        """The texts to rewrite, for the cells of some rows: `width` of the first row, then of the next."""
        documents = [join_cells(row) for row in in_rows(cells, width)] if self.joined else list(cells)
        if self.split is None:
            return documents
        return [piece for document in documents for piece in split_sentences(document, self.split)]

    def rows(self, new: Sequence[str]) -> list[list[str]]:
        """The new cells of each row, from the new texts."""
        cells = [join_cells(pieces) for pieces in in_rows(new, self.split)] if self.split else new
        return in_rows(cells, self.cells)

    def written(self, batch: Batch, rows: Sequence[Sequence[str]]) -> Batch:
        """The batch with its new cells. A column that was joined into another is empty."""
        empty = [""] * (len(batch.text_columns) - self.cells)
        return batch.with_texts([cell for row in rows for cell in (*row, *empty)])


@dataclass(frozen=True)
class Work:
    """A batch on its way through an engine, and the texts that are rewritten for it."""

    batch: Batch
    pieces: Pieces

    @property
    def first(self) -> int:
        return self.batch.first

    def texts(self) -> list[str]:
        return self.pieces.texts(self.batch.texts(), width=len(self.batch.text_columns))


def default_pieces(reads: int) -> int:
    """The number of pieces, from the number of tokens that the model reads of each.

    >>> [default_pieces(reads) for reads in (20, 64, 512)]
    [8, 3, 2]
    """
    return max(2, -(-READ_BY_DEFAULT // reads))


def split_sentences(text: str, number: int) -> list[str]:
    """The first sentences of a text, and empty texts up to this number.

    >>> split_sentences("Dr. May came. She slept!  Then?", 4)
    ['Dr. May came.', 'She slept!', 'Then?', '']
    """
    found: list[str] = []
    start = 0
    for end in _END.finditer(text):
        if len(found) == number:
            return found
        if _SHORTENED.search(text[max(start, end.end() - _LONGEST_SHORTENED) : end.end()]):
            continue
        if sentence := text[start : end.end()].strip():
            found.append(sentence)
        start = end.end()
    return [*found, text[start:].strip(), *[""] * number][:number]


def join_cells(cells: Sequence[str]) -> str:
    """Texts as one, separated by a space. Empty ones leave no space."""
    return " ".join(filter(None, cells))


def in_rows(values: Sequence[str], size: int) -> list[list[str]]:
    """Values in rows of the same size.

    >>> in_rows(["a", "b", "c", "d"], 2)
    [['a', 'b'], ['c', 'd']]
    """
    return [list(values[start : start + size]) for start in range(0, len(values), size)]
