"""The corruptions that BART is trained on: token masking, token deletion, text infilling.

Lewis et al. 2020, section 2.2, https://arxiv.org/abs/1910.13461. The model sees the corrupted text and
learns to write the original. Every row has the same length: begin, tokens, end, padding.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int64]
SPAN_MEAN = 3.0  # Poisson mean of an infilled span (Lewis et al., "Text Infilling")


@dataclass(frozen=True)
class Corruption:
    """Corrupts a share of the texts in a batch, each in one of the three ways."""

    share: float  # of the texts; the others stay unchanged, to be copied
    tokens: float  # share of the tokens of a corrupted text that are hidden
    end_id: int
    pad_id: int
    mask_id: int

    def corrupt(self, ids: Ids, random: np.random.Generator) -> Ids:
        """A corrupted copy of the ids, (batch, length)."""
        rows = ids.copy()
        for number in np.flatnonzero(random.random(len(ids)) < self.share):
            row = ids[number]
            body = row[1 : int(np.flatnonzero(row == self.end_id)[0])]  # between begin and end
            changed = (self._mask, self._delete, self._infill)[random.integers(3)](body, random)
            rows[number] = self._whole(row, changed)
        return rows

    def _mask(self, body: Ids, random: np.random.Generator) -> Ids:
        return np.where(random.random(len(body)) < self.tokens, self.mask_id, body)

    def _delete(self, body: Ids, random: np.random.Generator) -> Ids:
        return body[random.random(len(body)) >= self.tokens]

    def _infill(self, body: Ids, random: np.random.Generator) -> Ids:
        """Replace each span by one mask. A span of length 0 inserts a mask."""
        pieces: list[Ids] = []
        at, budget = 0, round(self.tokens * len(body))
        while at < len(body):
            if budget > 0 and random.random() < self.tokens / SPAN_MEAN:
                span = min(int(random.poisson(SPAN_MEAN)), budget)
                pieces.append(np.array([self.mask_id]))
                at, budget = at + span, budget - max(span, 1)
            pieces.append(body[at : at + 1])
            at += 1
        return np.concatenate(pieces) if pieces else body

    def _whole(self, row: Ids, body: Ids) -> Ids:
        """Begin, body, end and padding, at the length of the row. An insertion may push out the last token."""
        body = body[: len(row) - 2]
        padding = np.full(len(row) - 2 - len(body), self.pad_id)
        return np.concatenate([row[:1], body, [self.end_id], padding])
