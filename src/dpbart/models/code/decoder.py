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
from dpbart.models.code.wording import TextReader, to_edges, to_frequencies
from dpbart.models.code.writer import END
from dpbart.models.code.writing import Rows, Writing
from dpbart.privacy.private import Private


@dataclass(frozen=True)
class CodeDecoder:
    """The receiving side of one model."""

    tokenizer: Tokenizer
    book: Book
    writing: Writing

    @property
    def steps(self) -> Steps:
        return self.writing.steps

    def decode(self, private: Private[Codes]) -> list[str]:
        """A text for every code. Every code has one."""
        if not self.steps.size.wording_bits:
            return self._texts([self.book.row(code)[: self.steps.length] for code in private.values])
        texts: list[str] = []
        for first in range(0, len(private.values), self.steps.settings.batch):
            texts += self._decode_batch(private.values[first : first + self.steps.settings.batch])
        return texts

    def _decode_batch(self, codes: Sequence[int]) -> list[str]:
        wording = self.steps.size.wording_bits
        gists = np.array([code >> wording for code in codes], np.int64)
        return self._texts(self._from_wording([code & ((1 << wording) - 1) for code in codes], gists))

    def _from_wording(self, codes: Sequence[int], gists: Gists) -> Rows:
        """What the bits say, then what is likeliest, or what is nearest to the gist."""
        size, settings = self.steps.size, self.steps.settings
        readers, said = [TextReader(code, size.wording_bits) for code in codes], [0] * len(codes)

        def choose(probabilities: torch.Tensor, unfinished: list[int]) -> list[int]:
            chosen = dict(zip(unfinished, probabilities[unfinished].argmax(1).tolist(), strict=True))
            decided = [number for number in unfinished if not readers[number].free]
            if decided:
                frequencies = to_frequencies(probabilities[decided].numpy())
                for number, counts, edges in zip(decided, frequencies, to_edges(frequencies), strict=True):
                    chosen[number] = readers[number].read(counts, edges)
                    said[number] += 1  # tokens that the bits have a part in
            return [chosen[number] for number in unfinished]

        rows = self.writing.write(gists, choose, length=self.steps.length)
        enough = size.wording_bits > settings.ended_wording
        return rows if enough or not size.gist_bits or not settings.endings else self._end_nearest(rows, said, gists)

    def _end_nearest(self, rows: Rows, said: list[int], gists: Gists) -> Rows:
        """Where the bits ran out before the text did: sample other endings too, and keep the nearest to the gist."""
        endings, rank, place = self.steps.settings.endings, self.steps.writer.rank, -1
        sample = self.writing.sampler(self.steps.settings.ending_temperature)

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
        near = self.writing.nearness(others, np.repeat(gists, endings)).reshape(-1, endings)  # (texts, endings)
        best, first = near.argmax(1), self.writing.nearness(rows, gists)
        better = near[np.arange(len(rows)), best] > first
        return [others[n * endings + int(best[n])] if better[n] else row for n, row in enumerate(rows)]

    def _texts(self, rows: Rows) -> list[str]:
        """Rows of ids as texts, without special tokens and outer blanks."""
        return [text.strip() for text in self.tokenizer.decode_batch(rows, skip_special_tokens=True)]
