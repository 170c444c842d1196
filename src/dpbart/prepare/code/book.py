"""Write the book of a code model: texts of the writer's own, spread over public text by the leaves of a tree."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

from dpbart.channels.code import CodeSize
from dpbart.models.code.book import Book
from dpbart.models.code.offensive import is_offensive
from dpbart.models.code.sentence import SentenceEncoder
from dpbart.models.code.settings import CodeSettings
from dpbart.models.code.steps import Steps
from dpbart.models.code.tree import GistTree
from dpbart.models.code.writer import Writer
from dpbart.models.code.writing import Rows, Writing
from dpbart.prepare.code.pieces import in_pieces
from dpbart.prepare.code.vectors import vectors_of
from dpbart.privacy.sampling import ReplaySeed

KEPT = 2  # texts of each leaf
_TRIES = 8  # texts sampled from each leaf; the nearest to it are kept
_TEMPERATURE = 0.7
_TOKENS = 24  # of a text, at most
_FEWEST = 4  # tokens of a text that says anything
_LEAVES_AT_ONCE = 32

Ids = npt.NDArray[np.int16]


@dataclass(frozen=True)
class Scribe:
    """The parts that write a book."""

    tokenizer: Tokenizer
    sentence: SentenceEncoder
    tree: GistTree
    writer: Writer

    def write(self, folder: Path, *, seed: int) -> Book:
        """Sample texts from every leaf, and keep the nearest to it. What the folder has is not written again."""
        ids = in_pieces(1 << self.tree.depth, lambda part: self._of_leaves(part, seed), folder, title="Book")
        rows = [[int(token) for token in row if token >= 0] for row in ids.reshape(-1, ids.shape[2])]
        vectors = vectors_of(self.sentence, [np.array(row, np.int64) for row in rows])
        unfit = np.array([is_offensive(text) for text in self._texts(rows)])
        for place in np.flatnonzero(unfit).tolist():  # where every text of a leaf was: its nearest neighbour instead
            other = int(np.where(unfit, -2.0, vectors @ vectors[place]).argmax())
            rows[place], vectors[place] = rows[other], vectors[other]
        return Book.of(rows, vectors)

    def _of_leaves(self, leaves: range, seed: int) -> Ids:
        """The kept texts of some leaves, (leaves, kept, tokens), filled up with -1."""
        depth, found = self.tree.depth, np.full((len(leaves), KEPT, self._length), -1, np.int16)
        settings = CodeSettings(batch=_LEAVES_AT_ONCE)
        steps = Steps(self.writer, self.tree, CodeSize(depth, depth), self._length, settings, book_bits=0)
        writing, entropy = Writing(steps, self.sentence), ReplaySeed(seed * (1 << 32) + leaves.start)  # public text
        for first in range(0, len(leaves), _LEAVES_AT_ONCE):
            gists = np.array(leaves[first : first + _LEAVES_AT_ONCE], np.int64)
            rows = writing.write(gists, writing.sampler(_TEMPERATURE, entropy), length=self._length, times=_TRIES)
            near = writing.nearness(rows, np.repeat(steps.vectors(gists), _TRIES, 0))
            near -= np.array([len(row) < _FEWEST for row in rows], np.float32)
            near -= 2 * np.array([is_offensive(text) for text in self._texts(rows)], np.float32)
            best = np.argsort(-near.reshape(-1, _TRIES), axis=1, kind="stable")[:, :KEPT]
            for leaf, kept in enumerate(best):
                for place, each in enumerate(kept):
                    row = rows[leaf * _TRIES + int(each)]
                    found[first + leaf, place, : len(row)] = row
        return found

    @property
    def _length(self) -> int:
        return min(_TOKENS, self.writer.sizes.places - 2)  # begin and end take a place each

    def _texts(self, rows: Rows) -> list[str]:
        return list(self.tokenizer.decode_batch(rows, skip_special_tokens=True))
