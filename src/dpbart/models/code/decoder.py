"""Codes to texts. This side sees whole numbers and public things, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from tokenizers import Tokenizer

from dpbart.channels.code import Codes
from dpbart.models.code.offensive import is_offensive
from dpbart.models.code.sentence import SentenceEncoder, to_one_window
from dpbart.models.code.steps import Gists, Steps
from dpbart.models.code.wording import TextReader, to_edges, to_frequencies
from dpbart.models.code.writer import END
from dpbart.privacy.private import Private
from dpbart.privacy.sampling import Entropy

Floats = npt.NDArray[np.float32]
Rows = list[list[int]]
Choose = Callable[[torch.Tensor, list[int]], list[int]]  # probabilities, and rows still to write, to places of tokens


@dataclass(frozen=True)
class CodeDecoder:
    """The receiving side of one model. Its entropy picks among texts of one code; no guarantee rests on it."""

    tokenizer: Tokenizer
    sentence: SentenceEncoder
    steps: Steps
    entropy: Entropy

    def decode(self, private: Private[Codes]) -> list[str]:
        """A text for every code. Every one of the 2^bits codes has one."""
        texts: list[str] = []
        for first in range(0, len(private.values), self.steps.settings.batch):
            texts += self._decode_batch(private.values[first : first + self.steps.settings.batch])
        return texts

    def _decode_batch(self, codes: Sequence[int]) -> list[str]:
        wording = self.steps.size.wording_bits
        gists = np.array([code >> wording for code in codes], np.int64)
        if not wording:
            return self._from_gists(gists)
        return self._texts(self._from_wording([code & ((1 << wording) - 1) for code in codes], gists))

    def _from_gists(self, gists: Gists) -> list[str]:
        """Several texts of each gist, of which the nearest to it are kept."""
        settings = self.steps.settings
        length = min(settings.drawn, self.steps.length)
        rows = self._write(gists, self._sampler(settings.temperature), length=length, times=settings.tries)
        texts = self._texts(rows)
        near = self._nearness(rows, np.repeat(gists, settings.tries))
        near -= np.array([2.0 * is_offensive(text) for text in texts], np.float32)  # not for strangers: comes last
        best = np.argsort(-near.reshape(-1, settings.tries), axis=1, kind="stable")[:, : settings.kept]
        return [" ".join(texts[n * settings.tries + int(each)] for each in row) for n, row in enumerate(best)]

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

        rows = self._write(gists, choose, length=self.steps.length)
        enough = size.wording_bits > settings.ended_wording
        return rows if enough or not size.gist_bits or not settings.endings else self._end_nearest(rows, said, gists)

    def _end_nearest(self, rows: Rows, said: list[int], gists: Gists) -> Rows:
        """Where the bits ran out before the text did: sample other endings too, and keep the nearest to the gist."""
        endings, rank, place = self.steps.settings.endings, self.steps.writer.rank, -1
        sample = self._sampler(self.steps.settings.ending_temperature)

        def choose(probabilities: torch.Tensor, unfinished: list[int]) -> list[int]:
            nonlocal place
            place += 1
            chosen = sample(probabilities, unfinished)
            for number, each in enumerate(unfinished):
                row = rows[each // endings]
                if place < said[each // endings]:
                    chosen[number] = int(rank[row[place] if place < len(row) else END])
            return chosen

        others = self._write(gists, choose, length=self.steps.length, times=endings)
        near = self._nearness(others, np.repeat(gists, endings)).reshape(-1, endings)  # (texts, endings)
        best, first = near.argmax(1), self._nearness(rows, gists)
        better = near[np.arange(len(rows)), best] > first
        return [others[n * endings + int(best[n])] if better[n] else row for n, row in enumerate(rows)]

    def _sampler(self, temperature: float) -> Choose:
        """Sample among the likeliest tokens."""
        top_k = self.steps.settings.top_k

        def choose(probabilities: torch.Tensor, unfinished: list[int]) -> list[int]:
            best, places = probabilities[unfinished].topk(top_k, dim=1)  # (unfinished, top k)
            shares = (best ** (1 / temperature)).double().cumsum(1)
            drawn = torch.from_numpy(self._uniform(len(unfinished)))[:, None] * shares[:, -1:]
            picked = torch.searchsorted(shares, drawn).clamp(max=top_k - 1)
            chosen: list[int] = places.gather(1, picked)[:, 0].tolist()
            return chosen

        return choose

    def _write(self, gists: Gists, choose: Choose, *, length: int, times: int = 1) -> Rows:
        """Write until every text has ended, or has all its tokens."""
        batch, order = self.steps.begin(gists, times=times), self.steps.writer.order
        rows: Rows = [[] for _ in range(len(gists) * times)]
        unfinished = list(range(len(rows)))
        for _ in range(length):
            for number, place in zip(unfinished, choose(batch.probabilities(), unfinished), strict=True):
                token = int(order[place])
                batch.ids[number] = token
                rows[number].append(token)
            unfinished = [number for number in unfinished if rows[number][-1] != END]
            if not unfinished:
                break
        return [row[:-1] if row[-1] == END else row for row in rows]

    def _nearness(self, rows: Rows, gists: Gists) -> Floats:
        """How near each text is to its gist: a cosine, (rows,)."""
        ids = to_one_window(rows, self.sentence.sizes, count=len(rows))
        with torch.inference_mode():
            vectors: Floats = self.sentence.read_windows(torch.from_numpy(ids)).numpy()
        near: Floats = (vectors * self.steps.tree.vectors(gists, self.steps.size.gist_bits)).sum(1)
        return near

    def _uniform(self, count: int) -> npt.NDArray[np.float64]:
        """Numbers from 0 to 1, (count,)."""
        return (self.entropy.words(count) >> np.uint64(11)).astype(np.float64) / 2.0**53

    def _texts(self, rows: Rows) -> list[str]:
        """Rows of ids as texts, without special tokens and outer blanks."""
        return [text.strip() for text in self.tokenizer.decode_batch(rows, skip_special_tokens=True)]
