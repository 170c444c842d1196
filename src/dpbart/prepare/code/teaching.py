"""The sentence encoder learns the teacher's vectors, of single lines and of windows of several sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from dpbart.models.code.sentence import SentenceEncoder
from dpbart.models.code.tree import Floats
from dpbart.prepare.code.rows import Ids
from dpbart.prepare.code.vectors import padded

_POOL = 4_096  # lessons that are sorted by length together, so that a batch needs little padding
_BATCH = 128
_RATE = 0.002  # falls from the first step to the last
_WARMUP = 100  # steps


@dataclass(frozen=True)
class Lesson:
    """One window: its ids, and the texts from `first` up to `last` that it is made of."""

    ids: Ids
    first: int
    last: int


def make_lessons(rows: Sequence[Ids], documents: Sequence[range], *, window: int, seed: int) -> list[Lesson]:
    """Every text; and of each document of at least three sentences two windows of several.

    Args:
        rows: ids of lines and of sentences of documents.
        documents: which of the rows are the sentences of each document.
        window: tokens of a window.
        seed: of the choice of windows.
    """
    draw = np.random.default_rng([seed, 1])
    made = [Lesson(row[:window], n, n + 1) for n, row in enumerate(rows)]
    for inside in documents:
        for _ in range(2 if len(inside) >= 3 else 0):
            start = int(draw.integers(inside.start, inside.stop - 1))
            end = min(inside.stop, start + int(draw.integers(2, 5)))
            made.append(Lesson(np.concatenate(list(rows[start:end]))[:window], start, end))
    return made


class Student:
    """A sentence encoder that learns. See `loop.Learner`."""

    def __init__(self, encoder: SentenceEncoder, lessons: Sequence[Lesson], wanted: Floats, *, seed: int) -> None:
        """Begin.

        Args:
            encoder: that learns; see `bag.start_bag` for a good beginning.
            lessons: what it learns from.
            wanted: (texts, vector), the teacher's vectors in the space of the gists.
            seed: of the order of lessons.
        """
        self.encoder, self.lessons, self.wanted, self.seed = encoder, lessons, wanted, seed
        self.adam = torch.optim.AdamW(encoder.parameters(), betas=(0.9, 0.98), weight_decay=0.0, fused=True)
        self._lengths = np.array([len(lesson.ids) for lesson in lessons])
        self._near = float("nan")  # smoothed cosine

    def take_step(self, step: int, steps: int) -> str:
        for group in self.adam.param_groups:
            group["lr"] = _RATE * min(1.0, (step + 1) / _WARMUP) * max(0.01, 1 - step / steps)
        batch = self._batch(step)
        means = np.stack([self.wanted[each.first : each.last].mean(0) for each in batch])
        target = F.normalize(torch.from_numpy(means), dim=-1)  # (batch, vector)
        vectors = self.encoder.read_windows(padded([each.ids for each in batch]))
        near = (vectors * target).sum(1).mean()
        angles = (vectors @ vectors.T - target @ target.T).square().mean()  # among the texts of the batch
        self.adam.zero_grad()
        (1 - near + 2 * angles).backward()  # type: ignore[no-untyped-call]
        self.adam.step()
        self._near = near.item() if np.isnan(self._near) else 0.98 * self._near + 0.02 * near.item()
        return f"cosine {self._near:.3f}"

    def state(self) -> dict[str, Any]:
        return {"encoder": self.encoder.state_dict(), "adam": self.adam.state_dict(), "near": self._near}

    def restore(self, state: dict[str, Any]) -> None:
        self.encoder.load_state_dict(state["encoder"])
        self.adam.load_state_dict(state["adam"])
        self._near = state["near"]

    def _batch(self, step: int) -> list[Lesson]:
        """The lessons of a step: one part of a pool, sorted by length."""
        size = min(_POOL, len(self.lessons))
        number, place = divmod(step, -(-size // _BATCH))
        draw = np.random.default_rng([self.seed, 2, number])
        pool = draw.choice(len(self.lessons), size, replace=False)
        pool = pool[np.argsort(self._lengths[pool], kind="stable")]
        first = int(draw.permutation(np.arange(0, size, _BATCH))[place])
        return [self.lessons[n] for n in pool[first : first + _BATCH].tolist()]
