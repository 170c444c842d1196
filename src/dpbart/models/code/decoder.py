"""Codes to texts. This side sees whole numbers and public things, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from tokenizers import Tokenizer

from dpbart.channels.code import Codes
from dpbart.models.code.book import Book
from dpbart.models.code.steps import Gists, Steps
from dpbart.models.code.writer import END
from dpbart.models.code.writing import Rows, Writing
from dpbart.privacy.private import Private
from dpbart.privacy.sampling import Entropy


@dataclass(frozen=True)
class CodeDecoder:
    """The receiving side of one model. Its entropy picks among texts of one code; no guarantee rests on it."""

    tokenizer: Tokenizer
    book: Book
    writing: Writing
    entropy: Entropy

    @property
    def steps(self) -> Steps:
        return self.writing.steps

    def decode(self, private: Private[Codes]) -> list[str]:
        """A text for every code. Every code has one."""
        if not self.steps.size.wording_bits:
            return self._texts([self._from_book(code) for code in private.values])
        texts: list[str] = []
        for first in range(0, len(private.values), self.steps.settings.batch):
            texts += self._texts(self._decode_batch(private.values[first : first + self.steps.settings.batch]))
        return texts

    def _decode_batch(self, codes: Sequence[int]) -> Rows:
        """Every code is read as a wording, so that all take the same work. Some then name a text of the book."""
        wording, strings = self.steps.wording_bits, [code & ((1 << self.steps.string_bits) - 1) for code in codes]
        gists = np.array([string >> wording for string in strings], np.int64)
        rows, said = self.writing.read([string & ((1 << wording) - 1) for string in strings], gists)
        if self.steps.samples_endings:
            rows = self._end_nearest(rows, said, gists)
        places = [self.steps.place_in_book(code) for code in codes]
        return [row if place is None else self._from_book(place) for row, place in zip(rows, places, strict=True)]

    def _end_nearest(self, rows: Rows, said: list[int], gists: Gists) -> Rows:
        """Where the bits ran out before the text did: sample other endings too, and keep the nearest to the gist."""
        endings, rank, place = self.steps.settings.endings, self.steps.writer.rank, -1
        sample = self.writing.sampler(self.steps.settings.ending_temperature, self.entropy)

        def choose(probabilities: torch.Tensor, unfinished: list[int]) -> list[int]:
            nonlocal place
            place += 1
            chosen = sample(probabilities, unfinished)
            for number, each in enumerate(unfinished):
                row = rows[each // endings]
                if place < said[each // endings]:
                    chosen[number] = int(rank[row[place] if place < len(row) else END])
            return chosen

        others = self.writing.write(gists, choose, length=self.steps.length, times=endings)
        vectors = self.steps.vectors(gists)  # (texts, vector)
        near = self.writing.nearness(others, np.repeat(vectors, endings, 0)).reshape(-1, endings)  # (texts, endings)
        best, first = near.argmax(1), self.writing.nearness(rows, vectors)
        better = near[np.arange(len(rows)), best] > first
        return [others[n * endings + int(best[n])] if better[n] else row for n, row in enumerate(rows)]

    def _from_book(self, place: int) -> list[int]:
        return self.book.row(place)[: self.steps.length]

    def _texts(self, rows: Rows) -> list[str]:
        """Rows of ids as texts, without special tokens and outer blanks."""
        return [text.strip() for text in self.tokenizer.decode_batch(rows, skip_special_tokens=True)]
