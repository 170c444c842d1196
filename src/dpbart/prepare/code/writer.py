"""Train the writer: a small language model that learns to write public lines.

A new writer begins with two token tables that say how often which token follows which. All pairs of neighbours in
public text are counted once, and a product of two tables is fitted to the counts. That takes two minutes whatever the
number of texts, and saves the writer its first 100,000 texts.

In training, each row holds several texts, so that little of a step is padding.
"""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dpbart.files import write_whole
from dpbart.models.code.writer import BEGIN, CUT, END, PAD, WriterSizes
from dpbart.options.recipes import CodeRecipe
from dpbart.prepare.code.networks import WriterTraining
from dpbart.prepare.code.texts import Ids, TokenRows
from dpbart.prepare.training import Muon

_CONTEXTS = 400  # tokens in one step of the pair fit
_RATES = (0.02, 0.01)  # learning rates of the first table, and of the second with its bias
_GATE = float(np.log(0.18))  # initial bias of the gate of rare tokens
_TOKENS = 14  # in a typical text
_TIMED = 10  # steps that measure the speed


def fresh_writer(sizes: WriterSizes, *, seed: int) -> WriterTraining:
    """A writer whose blocks begin as identities."""
    torch.manual_seed(seed)
    writer = WriterTraining(sizes)
    nn.init.normal_(writer.place.weight, std=0.02)
    nn.init.zeros_(writer.unembed.bias)
    for name, weight in writer.blocks.named_parameters():
        if name.endswith(("qkv.weight", "up.weight")):
            nn.init.normal_(weight, std=0.7 * sizes.width**-0.5)
        elif name.endswith(("out.weight", "down.weight")):
            nn.init.zeros_(weight)
    return writer


def count_pairs(lines: TokenRows, vocabulary: int) -> Tensor:
    """How often the second of two tokens follows the first, (vocabulary, vocabulary), begin and end included."""
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


@dataclass(frozen=True)
class PairTables:
    """What follows a token: softmax of norm(before[token]) @ after.T + bias."""

    before: Tensor  # (vocabulary, width)
    after: Tensor  # (vocabulary, width), in the order of `order`
    bias: Tensor  # (vocabulary,), in the order of `order`
    order: Tensor  # (vocabulary,): ids, the most frequent first


class PairFit:
    """A learner of pair tables: Adam, beginning with the largest singular vectors."""

    def __init__(self, counts: Tensor, width: int, *, seed: int) -> None:
        self.counts, self.width, self.seed = counts, width, seed
        self._row, self._column = counts.sum(1), counts.sum(0)
        single = (self._column + 1) / (self._row.sum() + len(counts))
        self._before, self._after = (table.requires_grad_() for table in self._singular(single))
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
        weight = (self._row[chosen] / self._row.sum() / among).float()  # a context counts as often as it occurs
        loss = (nats * weight).sum()
        self._adam.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self._adam.step()
        return f"{loss.item() / float(weight.sum()) / np.log(2):.2f} bits per token"

    def state(self) -> dict[str, Any]:
        tables = [table.detach() for table in (self._before, self._after, self._bias)]
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
        """Two tables whose product is near the log of how much likelier a pair is than chance."""
        smooth = (self.counts + 5 * single) / (self._row[:, None] + 5)
        surprise = torch.log(smooth / single).clamp_(-3, 8) * (self._row / (self._row + 20))[:, None]
        weight = (single / single.mean()).clamp(max=400).pow(0.25)
        surprise *= weight * weight[:, None]
        more = min(len(single), self.width + 32)  # spare directions: the last ones are only roughly right
        basis = torch.randn(len(single), more, generator=torch.Generator().manual_seed(self.seed))
        for _ in range(3):
            basis = torch.linalg.qr(surprise @ (surprise.T @ basis))[0]
        left, values, right = torch.linalg.svd(basis.T @ surprise, full_matrices=False)
        roots = values[: self.width].sqrt()
        before = (basis @ left)[:, : self.width] * roots / weight[:, None]
        after = right[: self.width].T * roots / weight[:, None]
        size = before.square().mean().sqrt()
        return before / size, after * size * 0.7


def start_writer(writer: WriterTraining, tables: PairTables) -> None:
    """Put the tables into a fresh writer."""
    with torch.no_grad():
        writer.order.copy_(tables.order)
        writer.rank[tables.order] = torch.arange(len(tables.order))
        writer.embed.weight.copy_(F.rms_norm(tables.before, (tables.before.shape[1],)))
        writer.unembed.weight.copy_(tables.after)
        writer.unembed.bias.copy_(tables.bias)
        writer.gate.weight.zero_()
        writer.gate.bias.fill_(_GATE)


def with_end(row: Ids, longest: int) -> Ids:
    """A text with its end, or cut to `longest` tokens with the mark of a cut."""
    return np.append(row, END) if len(row) <= longest else np.append(row[:longest], CUT)


@dataclass(frozen=True)
class Packed:
    """Several texts in each row. All arrays are (rows, width)."""

    ids: Ids
    targets: Ids  # -1 in a gap
    places: Ids
    text: Ids  # number of the text that a token belongs to; -1 in a gap
    left: tuple[int, ...]  # texts that did not fit


def pack(texts: Sequence[Ids], rows: int, width: int) -> Packed:
    """Best fit, in the order given. Put the longest texts first for full rows."""
    ids = np.full((rows, width), PAD, np.int64)
    targets, text = np.full_like(ids, -1), np.full_like(ids, -1)
    places, used = np.zeros_like(ids), np.zeros(rows, np.int64)
    left = []
    for number, tokens in enumerate(texts):
        size = len(tokens)
        fitting = np.flatnonzero(width - used >= size)
        if not len(fitting):
            left.append(number)
            continue
        row = int(fitting[np.argmax(used[fitting])])
        span = slice(int(used[row]), int(used[row]) + size)
        ids[row, span] = np.concatenate([[BEGIN], tokens[:-1]])
        targets[row, span], places[row, span], text[row, span] = tokens, np.arange(size), number
        used[row] += size
    return Packed(ids, targets, places, text, tuple(left))


def packed_loss(writer: WriterTraining, packed: Packed) -> tuple[Tensor, int]:
    """The loss of all tokens in nats, and the number of tokens. Texts of one row do not see each other."""
    text = torch.from_numpy(packed.text)
    width = text.shape[1]
    mask = (text[:, None, :, None] == text[:, None, None, :]) & torch.ones(width, width, dtype=torch.bool).tril()
    ids, places, targets = (torch.from_numpy(array) for array in (packed.ids, packed.places, packed.targets))
    hidden = writer.hidden(ids, places, mask)
    there = targets >= 0
    return writer.loss(hidden[there], targets[there]), int(there.sum())


class Author:
    """A learner: the writer, with Muon for its matrices and Adam for the rest."""

    def __init__(self, writer: WriterTraining, lines: TokenRows, recipe: CodeRecipe) -> None:
        self.writer, self.lines, self.recipe = writer.train(), lines, recipe
        matrices: list[Tensor] = [
            weight for block in writer.blocks for weight in block.parameters() if weight.ndim == 2
        ]
        taken = {id(weight) for weight in matrices}
        others = [weight for weight in writer.parameters() if id(weight) not in taken]
        self.muon = Muon(matrices, rate=recipe.matrix_rate)
        self.adam = torch.optim.AdamW(others, lr=recipe.other_rate, betas=(0.85, 0.97), weight_decay=0.0, fused=True)
        self.longest = writer.sizes.places - 2  # begin and end take a place each
        self.taken = 0  # lines read so far
        self.seen = 0  # lines learned from so far
        self._waiting: list[Ids] = []  # read but not yet in a step
        self._epoch, self._order = -1, np.zeros(0, np.int64)

    def take_step(self, step: int, steps: int) -> str:
        recipe = self.recipe
        rate = recipe.rate_at(step, steps)
        for optimizer, base in ((self.muon, recipe.matrix_rate), (self.adam, recipe.other_rate)):
            for group in optimizer.param_groups:
                group["lr"] = base * rate
        wanted = max(1, recipe.rows * recipe.row_tokens // _TOKENS)
        self._waiting += [self._next_line() for _ in range(wanted - len(self._waiting))]
        self._waiting.sort(key=len, reverse=True)  # the longest first: full rows
        packed = pack(self._waiting, recipe.rows, recipe.row_tokens)
        nats, tokens = packed_loss(self.writer, packed)
        self.muon.zero_grad()
        self.adam.zero_grad()
        (nats / tokens).backward()  # type: ignore[no-untyped-call]
        self.muon.step()
        self.adam.step()
        self.seen += len(self._waiting) - len(packed.left)
        self._waiting = [self._waiting[number] for number in packed.left]
        return f"{nats.item() / tokens / np.log(2):.2f} bits per token, {self.seen:,} texts"

    def state(self) -> dict[str, Any]:
        return {
            "writer": self.writer.state_dict(),
            "muon": self.muon.state_dict(),
            "adam": self.adam.state_dict(),
            "taken": self.taken,
            "seen": self.seen,
            "waiting": [torch.from_numpy(tokens) for tokens in self._waiting],
        }

    def restore(self, state: dict[str, Any]) -> None:
        self.writer.load_state_dict(state["writer"])
        self.muon.load_state_dict(state["muon"])
        self.adam.load_state_dict(state["adam"])
        self.taken, self.seen = state["taken"], state["seen"]
        self._waiting = [tokens.numpy() for tokens in state["waiting"]]

    def _next_line(self) -> Ids:
        """Every line once in an epoch, in a new order each time."""
        epoch, place = divmod(self.taken, len(self.lines))
        if epoch != self._epoch:
            order = np.random.default_rng([self.recipe.seed, 6, epoch])
            self._epoch, self._order = epoch, order.permutation(len(self.lines))
        self.taken += 1
        return with_end(self.lines.row(int(self._order[place])), self.longest)


def steps_of(author: Author, folder: Path) -> int:
    """The steps of a recipe. For one in minutes they are found once, by timing a copy, and then kept."""
    recipe = author.recipe
    if recipe.minutes is None:
        return recipe.steps
    file = folder / "steps.json"
    known = json.loads(file.read_text()) if file.is_file() else {}
    if known.get("minutes") != recipe.minutes:
        trial = Author(copy.deepcopy(author.writer), author.lines, recipe)
        trial.take_step(0, _TIMED)  # the first step is slower than the others
        began = time.monotonic()
        for step in range(_TIMED):
            trial.take_step(step, _TIMED)
        seconds = (time.monotonic() - began) / _TIMED
        known = {"minutes": recipe.minutes, "steps": max(1, int(60 * recipe.minutes / seconds))}
        write_whole(file, json.dumps(known))
    return int(known["steps"])
