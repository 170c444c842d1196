"""Writing texts token by token: by the bits of a code, by chance, or by whatever rule chooses each token."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from dpbart.models.code.sentence import SentenceEncoder, to_one_window
from dpbart.models.code.steps import Gists, Steps
from dpbart.models.code.wording import TextReader, to_edges, to_frequencies
from dpbart.models.code.writer import END
from dpbart.privacy.sampling import Entropy

Floats = npt.NDArray[np.float32]
Rows = list[list[int]]
Choose = Callable[[torch.Tensor, list[int]], list[int]]  # probabilities, and rows still to write, to places of tokens


@dataclass(frozen=True)
class Writing:
    """A writer at work, and the sentence encoder that compares what it writes."""

    steps: Steps
    sentence: SentenceEncoder

    def write(self, gists: Gists, choose: Choose, *, length: int, times: int = 1, until_ended: bool = True) -> Rows:
        """Write until every text has ended, or has all its tokens. There are `times` texts of each gist in turn.

        Without `until_ended` the writer always takes `length` steps, so that their number does not depend on the texts.
        """
        batch, order = self.steps.begin(gists, times=times), self.steps.writer.order
        rows: Rows = [[] for _ in range(len(gists) * times)]
        unfinished = list(range(len(rows)))
        for _ in range(length):
            for number, place in zip(unfinished, choose(batch.probabilities(), unfinished), strict=True):
                token = int(order[place])
                batch.ids[number] = token
                rows[number].append(token)
            unfinished = [number for number in unfinished if rows[number][-1] != END]
            if until_ended and not unfinished:
                break
        return [row[:-1] if row[-1] == END else row for row in rows]

    def read(self, codes: Sequence[int], gists: Gists, *, until_ended: bool = True) -> tuple[Rows, list[int]]:
        """What the bits of a wording say, then what is likeliest; and how many tokens the bits have a part in."""
        readers, said = [TextReader(code, self.steps.wording_bits) for code in codes], [0] * len(codes)

        def choose(probabilities: torch.Tensor, unfinished: list[int]) -> list[int]:
            chosen = dict(zip(unfinished, probabilities[unfinished].argmax(1).tolist(), strict=True))
            decided = [number for number in unfinished if not readers[number].free]
            if decided:
                frequencies = to_frequencies(probabilities[decided].numpy())
                for number, counts, edges in zip(decided, frequencies, to_edges(frequencies), strict=True):
                    chosen[number] = readers[number].read(counts, edges)
                    said[number] += 1
            return [chosen[number] for number in unfinished]

        return self.write(gists, choose, length=self.steps.length, until_ended=until_ended), said

    def sampler(self, temperature: float, entropy: Entropy) -> Choose:
        """Sample among the likeliest tokens. No guarantee rests on this entropy."""
        top_k = self.steps.settings.top_k

        def choose(probabilities: torch.Tensor, unfinished: list[int]) -> list[int]:
            best, places = probabilities[unfinished].topk(top_k, dim=1)  # (unfinished, top k)
            shares = (best ** (1 / temperature)).double().cumsum(1)
            uniform = (entropy.words(len(unfinished)) >> np.uint64(11)).astype(np.float64) / 2.0**53  # from 0 to 1
            drawn = torch.from_numpy(uniform)[:, None] * shares[:, -1:]
            picked = torch.searchsorted(shares, drawn).clamp(max=top_k - 1)
            chosen: list[int] = places.gather(1, picked)[:, 0].tolist()
            return chosen

        return choose

    def nearness(self, rows: Rows, vectors: Floats) -> Floats:
        """How near each text is to its vector: a cosine, (rows,), for vectors (rows, vector)."""
        ids = to_one_window(rows, self.sentence.sizes, count=len(rows))
        with torch.inference_mode():
            found: Floats = self.sentence.read_windows(torch.from_numpy(ids)).numpy()
        near: Floats = (found * vectors).sum(1)
        return near
