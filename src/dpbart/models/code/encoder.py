"""Texts to codes: gist, then wording. This side may look at the texts.

Every text takes the same path: the same windows, the same candidate sentences, the same number of steps, however long
it is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from tokenizers import Tokenizer

from dpbart.models.code.book import Book, Places
from dpbart.models.code.sentence import SentenceEncoder, to_one_window, to_windows
from dpbart.models.code.steps import Gists, Steps
from dpbart.models.code.wording import TextCoder, to_edges, to_frequencies
from dpbart.models.code.writer import END
from dpbart.models.code.writing import Rows, Writing

Floats = npt.NDArray[np.float32]

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|<br />|\n")
FEWEST = 4  # tokens of a sentence that can stand for a text


@dataclass(frozen=True)
class CodeEncoder:
    """The sending side of one model."""

    tokenizer: Tokenizer
    book: Book
    writing: Writing

    @property
    def steps(self) -> Steps:
        return self.writing.steps

    @property
    def sentence(self) -> SentenceEncoder:
        return self.writing.sentence

    def encode(self, texts: Sequence[str]) -> Places | list[tuple[int]]:
        """The nearest texts of the book; or one code: the gist, then as much wording as fits into the other bits."""
        rows, size, batch = self.tokens(texts), self.steps.size, self.steps.settings.batch
        vectors = self.vectors(rows)  # (texts, vector)
        if not size.wording_bits:
            return self.book.nearest(vectors, size.near)  # (texts, near)
        gists = self.steps.tree.nearest(vectors, size.gist_bits)  # (texts,)
        worded = self._typical_sentences(texts, rows, vectors)
        codes: list[int] = []
        for first in range(0, len(rows), batch):
            part = slice(first, first + batch)
            wordings = self._wording(worded[part], gists[part])
            strings = [
                int(gist) << self.steps.wording_bits | each for gist, each in zip(gists[part], wordings, strict=True)
            ]
            named = self.steps.may_name_a_text
            codes += self._or_of_the_book(strings, wordings, gists[part], vectors[part]) if named else strings
        return [(code,) for code in codes]

    def tokens(self, texts: Sequence[str]) -> Rows:
        """Ids without begin and end. A lone surrogate has no UTF-8 form and is replaced."""
        clean = [text.encode("utf-8", "replace").decode("utf-8") for text in texts]
        return [encoding.ids[1:-1] for encoding in self.tokenizer.encode_batch_fast(clean)]

    def vectors(self, rows: Sequence[Sequence[int]]) -> Floats:
        """Unit vectors of whole documents, (rows, vector); an empty one has zeros."""
        found, batch = [], self.steps.settings.batch
        for first in range(0, len(rows), batch):
            ids = to_windows(rows[first : first + batch], self.sentence.sizes)
            with torch.inference_mode():
                found.append(self.sentence(torch.from_numpy(ids)).numpy())
        return np.concatenate(found) if found else np.zeros((0, self.steps.tree.width), np.float32)

    def _typical_sentences(self, texts: Sequence[str], rows: Rows, vectors: Floats) -> Rows:
        """The tokens to put into words: the text's own; of a long text, those of the sentence nearest to the whole."""
        most, settings = self.steps.settings.sentences, self.steps.settings
        typical: Rows = []
        for text, row, vector in zip(texts, rows, vectors, strict=True):
            candidates = [each for each in self.tokens(split_sentences(text)[:most]) if len(each) >= FEWEST]
            near = self._window_vectors(candidates, count=most) @ vector  # (most,): always as many
            best = candidates[int(np.argmax(near[: len(candidates)]))] if candidates else row
            chosen = best if len(row) > settings.whole else row
            typical.append(chosen[: self.steps.length] if len(chosen) >= self.steps.length else [*chosen, END])
        return typical

    def _window_vectors(self, rows: Rows, *, count: int) -> Floats:
        """Unit vectors of at most `count` short texts, one window each, filled up with zeros: (count, vector)."""
        ids = to_one_window(rows, self.sentence.sizes, count=count)
        with torch.inference_mode():
            vectors: Floats = self.sentence.read_windows(torch.from_numpy(ids)).numpy()
        return vectors

    def _wording(self, rows: Rows, gists: Gists) -> list[int]:
        """The wording bits of one batch, by arithmetic coding under the writer's own probabilities."""
        coders, rank = [TextCoder() for _ in rows], self.steps.writer.rank
        batch = self.steps.begin(gists)
        for place in range(self.steps.length):
            edges = to_edges(to_frequencies(batch.probabilities().numpy()))  # (batch, vocabulary + 1)
            for number, row in enumerate(rows):
                if place < len(row):
                    coders[number].push(edges[number], int(rank[row[place]]))
                    batch.ids[number] = row[place]
        return [coder.code(self.steps.wording_bits) for coder in coders]

    def _or_of_the_book(self, strings: list[int], wordings: list[int], gists: Gists, vectors: Floats) -> list[int]:
        """The codes of one batch, but the nearest text of the book where it is nearer than what will be read."""
        places = self.book.nearest(vectors, 1)[:, 0]
        rows, _ = self.writing.read(wordings, gists, until_ended=False)  # the wordings are still private
        by_wording = self.writing.nearness(rows, vectors)
        by_book = self.writing.nearness([self.book.row(int(place)) for place in places], vectors)
        nearer = by_book > by_wording + self.steps.settings.margin
        return [
            self.steps.of_the_book(int(place)) if other else string
            for string, place, other in zip(strings, places, nearer, strict=True)
        ]


def split_sentences(text: str) -> list[str]:
    """The sentences of a text, without blank ones."""
    return [part for part in _SENTENCE_END.split(text) if part.strip()]
