"""A first guess of the writer's two token tables, from how often which token follows which.

All pairs of neighbours in public text are counted once; a product of two tables is fitted to the probabilities that
the counts give. That costs two minutes whatever the number of texts, and spares the writer its first 100,000 texts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from dpbart.models.code.writer import BEGIN, END, Writer
from dpbart.prepare.code.rows import Rows

_CONTEXTS = 400  # tokens in one step; what follows each of them is fitted
_RATES = (0.02, 0.01)  # of the first table, and of the second with its bias
_GATE = float(np.log(0.18))  # where the gate of rare tokens begins


@dataclass(frozen=True)
class PairTables:
    """What follows a token: softmax of norm(before[token]) @ after.T + bias."""

    before: Tensor  # (vocabulary, width)
    after: Tensor  # (vocabulary, width), in the order of `order`
    bias: Tensor  # (vocabulary,), the same
    order: Tensor  # (vocabulary,): ids by frequency, the most frequent first


def count_pairs(lines: Rows, vocabulary: int) -> Tensor:
    """How often the second of two tokens follows the first, (vocabulary, vocabulary), begin and end among them."""
    starts = np.concatenate([[0], np.cumsum(lines.lengths + 2)[:-1]])
    ends = starts + lines.lengths + 1
    ids = np.full(len(lines.flat) + 2 * len(lines), BEGIN, np.int64)
    ids[ends] = END
    inner = np.ones(len(ids), bool)
    inner[starts] = inner[ends] = False
    ids[inner] = lines.flat
    first, second = ids[:-1], ids[1:]
    within = first != END
    pairs, counts = np.unique(first[within] * vocabulary + second[within], return_counts=True)
    table = np.zeros(vocabulary * vocabulary, np.float32)
    table[pairs] = counts
    return torch.from_numpy(table.reshape(vocabulary, vocabulary))


class PairFit:
    """Tables that are fitted by Adam, beginning with the largest singular vectors. See `loop.Learner`."""

    def __init__(self, counts: Tensor, width: int, *, seed: int) -> None:
        self.counts, self.width, self.seed = counts, width, seed
        self._row, self._column = counts.sum(1), counts.sum(0)
        single = (self._column + 1) / (self._row.sum() + len(counts))
        self._before, self._after = (each.requires_grad_() for each in self._singular(single))
        self._bias = single.log().requires_grad_()
        groups: list[dict[str, Any]] = [{"params": [self._before]}, {"params": [self._after, self._bias]}]
        self._adam = torch.optim.Adam(groups, betas=(0.8, 0.95))
        chance = (self._row / self._row.sum()).sqrt().double()
        self._chance = chance / chance.sum()

    def take_step(self, step: int, steps: int) -> str:
        for group, rate in zip(self._adam.param_groups, _RATES, strict=True):
            group["lr"] = rate * (steps - step) / steps
        draw = np.random.default_rng([self.seed, 4, step])
        chosen = torch.from_numpy(np.unique(draw.choice(len(self.counts), _CONTEXTS, p=self._chance.numpy())))
        states = F.rms_norm(self._before[chosen], (self.width,))
        guess = torch.log_softmax(states @ self._after.T + self._bias, 1)  # (contexts, vocabulary)
        nats = -(self.counts[chosen] * guess).sum(1) / self._row[chosen].clamp(min=1)
        among = 1 - (1 - self._chance[chosen]) ** _CONTEXTS  # chance that a context is in this step
        weight = (self._row[chosen] / self._row.sum() / among).float()  # each counts as often as it occurs
        loss = (nats * weight).sum()
        self._adam.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self._adam.step()
        return f"{loss.item() / float(weight.sum()) / np.log(2):.2f} bits a token"

    def state(self) -> dict[str, Any]:
        tables = [each.detach() for each in (self._before, self._after, self._bias)]
        return {"tables": tables, "adam": self._adam.state_dict()}

    def restore(self, state: dict[str, Any]) -> None:
        with torch.no_grad():
            for own, saved in zip((self._before, self._after, self._bias), state["tables"], strict=True):
                own.copy_(saved)
        self._adam.load_state_dict(state["adam"])

    @property
    def tables(self) -> PairTables:
        order = torch.argsort(self._column, descending=True, stable=True)
        return PairTables(self._before.detach(), self._after.detach()[order], self._bias.detach()[order], order)

    def _singular(self, single: Tensor) -> tuple[Tensor, Tensor]:
        """Two tables with a product near the logarithm of how much likelier a pair is than chance."""
        smooth = (self.counts + 5 * single) / (self._row[:, None] + 5)
        surprise = torch.log(smooth / single).clamp_(-3, 8) * (self._row / (self._row + 20))[:, None]
        weight = (single / single.mean()).clamp(max=400).pow(0.25)
        surprise *= weight * weight[:, None]
        more = min(len(single), self.width + 32)  # directions to look for; the last ones are only roughly right
        basis = torch.randn(len(single), more, generator=torch.Generator().manual_seed(self.seed))
        for _ in range(3):
            basis = torch.linalg.qr(surprise @ (surprise.T @ basis))[0]
        left, values, right = torch.linalg.svd(basis.T @ surprise, full_matrices=False)
        roots = values[: self.width].sqrt()
        before = (basis @ left)[:, : self.width] * roots / weight[:, None]
        after = right[: self.width].T * roots / weight[:, None]
        size = before.square().mean().sqrt()
        return before / size, after * size * 0.7


def start_writer(writer: Writer, tables: PairTables) -> None:
    """Put the tables into a writer that has learned nothing yet."""
    with torch.no_grad():
        writer.order.copy_(tables.order)
        writer.rank[tables.order] = torch.arange(len(tables.order))
        writer.embed.weight.copy_(F.rms_norm(tables.before, (tables.before.shape[1],)))
        writer.unembed.weight.copy_(tables.after)
        writer.unembed.bias.copy_(tables.bias)
        writer.gate.weight.zero_()
        writer.gate.bias.fill_(_GATE)
