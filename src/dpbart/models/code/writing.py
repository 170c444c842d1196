"""Writing texts token by token, from gists and a rule that chooses each token."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from dpbart.models.code.sentence import SentenceEncoder, to_one_window
from dpbart.models.code.steps import Gists, Steps
from dpbart.models.code.writer import END
from dpbart.privacy.sampling import Entropy

Floats = npt.NDArray[np.float32]
Rows = list[list[int]]
Choose = Callable[[torch.Tensor, list[int]], list[int]]  # probabilities, and rows still to write, to places of tokens


@dataclass(frozen=True)
class Writing:
    """A writer at work. Its entropy picks among texts of one gist; no guarantee rests on it."""

    steps: Steps
    sentence: SentenceEncoder
    entropy: Entropy

    def write(self, gists: Gists, choose: Choose, *, length: int, times: int = 1) -> Rows:
        """Write until every text has ended, or has all its tokens. There are `times` texts of each gist in turn."""
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

    def sampler(self, temperature: float) -> Choose:
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

    def nearness(self, rows: Rows, gists: Gists) -> Floats:
        """How near each text is to its gist: a cosine, (rows,)."""
        ids = to_one_window(rows, self.sentence.sizes, count=len(rows))
        with torch.inference_mode():
            vectors: Floats = self.sentence.read_windows(torch.from_numpy(ids)).numpy()
        near: Floats = (vectors * self.steps.tree.vectors(gists, self.steps.size.gist_bits)).sum(1)
        return near

    def _uniform(self, count: int) -> npt.NDArray[np.float64]:
        """Numbers from 0 to 1, (count,)."""
        return (self.entropy.words(count) >> np.uint64(11)).astype(np.float64) / 2.0**53
