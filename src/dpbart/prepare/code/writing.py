"""The writer learns to write public lines, each from its gist of a random number of bits."""

from __future__ import annotations

import copy
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dpbart.files import write_whole
from dpbart.models.code.sentence import SentenceEncoder
from dpbart.models.code.tree import Floats, GistTree
from dpbart.models.code.writer import Writer
from dpbart.prepare.code.muon import Muon
from dpbart.prepare.code.packing import cut, pack, packed_loss, with_end
from dpbart.prepare.code.recipe import WriterPlan
from dpbart.prepare.code.rows import Ids
from dpbart.prepare.code.texts import PublicText
from dpbart.prepare.code.vectors import vectors_of

# How many bits a gist has in training, and how often; 0 for no gist. Depths that a tree lacks are left out.
_DEPTHS = {0: 5, 2: 1.5, 4: 2, 6: 2.5, 7: 3, 8: 7, 9: 9, 10: 14, 11: 15, 12: 12, 13: 8, 14: 12}
_TOKENS = 14  # of a text, typically
_TIMED = 10  # steps from which the speed is known


class Author:
    """A writer that learns. See `loop.Learner`."""

    def __init__(
        self, writer: Writer, encoder: SentenceEncoder, tree: GistTree, text: PublicText, plan: WriterPlan
    ) -> None:
        self.writer, self.encoder, self.tree, self.text, self.plan = writer.train(), encoder.eval(), tree, text, plan
        matrices: list[Tensor] = [each for block in writer.blocks for each in block.parameters() if each.ndim == 2]
        matrices += [writer.gist2.weight, writer.to_all.weight, writer.to_out.weight]
        taken = {id(weight) for weight in matrices}
        others = [weight for weight in writer.parameters() if id(weight) not in taken]
        self.muon = Muon(matrices, rate=plan.matrix_rate)
        self.adam = torch.optim.AdamW(others, lr=plan.other_rate, betas=(0.85, 0.97), weight_decay=0.0, fused=True)
        self.depths = {bits: share for bits, share in _DEPTHS.items() if bits <= tree.depth}
        self.longest = writer.sizes.places - 2  # begin and end take a place each
        self.taken = 0  # lines so far
        self.seen = 0  # texts so far
        self._waiting: list[tuple[Ids, Floats]] = []  # texts with their vectors, not yet in a step
        self._epoch, self._order = -1, np.zeros(0, np.int64)

    def take_step(self, step: int, steps: int) -> str:
        plan, draw = self.plan, np.random.default_rng([self.plan.seed, 5, step])
        rate = plan.rate_at(step, steps)
        for optimizer, base in ((self.muon, plan.matrix_rate), (self.adam, plan.other_rate)):
            for group in optimizer.param_groups:
                group["lr"] = base * rate
        self._fill(max(1, plan.rows * plan.row_tokens // _TOKENS), draw)
        packed = pack([tokens for tokens, _ in self._waiting], plan.rows, plan.row_tokens)
        shares = np.array(list(self.depths.values()))
        depths = draw.choice(list(self.depths), len(self._waiting), p=shares / shares.sum())
        gists = self._gists(np.stack([vector for _, vector in self._waiting]), depths)
        nats, tokens = packed_loss(self.writer, packed, gists, depths)
        self.muon.zero_grad()
        self.adam.zero_grad()
        (nats / tokens).backward()  # type: ignore[no-untyped-call]
        self.muon.step()
        self.adam.step()
        self.seen += len(self._waiting) - len(packed.left)
        self._waiting = [self._waiting[n] for n in packed.left]
        return f"{nats.item() / tokens / np.log(2):.2f} bits a token, {self.seen:,} texts"

    def state(self) -> dict[str, Any]:
        waiting = [(torch.from_numpy(tokens), torch.from_numpy(vector.copy())) for tokens, vector in self._waiting]
        return {
            "writer": self.writer.state_dict(),
            "muon": self.muon.state_dict(),
            "adam": self.adam.state_dict(),
            "taken": self.taken,
            "seen": self.seen,
            "waiting": waiting,
        }

    def restore(self, state: dict[str, Any]) -> None:
        self.writer.load_state_dict(state["writer"])
        self.muon.load_state_dict(state["muon"])
        self.adam.load_state_dict(state["adam"])
        self.taken, self.seen = state["taken"], state["seen"]
        self._waiting = [(tokens.numpy(), vector.numpy()) for tokens, vector in state["waiting"]]

    def _fill(self, texts: int, draw: np.random.Generator) -> None:
        """More texts with their vectors, the longest first."""
        missing = max(0, texts - len(self._waiting))
        documents = len(self.text.sizes)
        from_documents = int(draw.binomial(missing, self.plan.documents_share)) if documents else 0
        rows = [self._next_line() for _ in range(missing - from_documents)]
        ended = [with_end(row, self.longest, draw) for row in rows]
        for number in draw.integers(max(1, documents), size=from_documents).tolist():
            rows.append(self.text.document(number))
            sentence = int(draw.choice(self.text.sentence_numbers(number)))
            ended.append(cut(self.text.sentences.row(sentence), self.longest))
        self._waiting += zip(ended, vectors_of(self.encoder, rows), strict=True)
        self._waiting.sort(key=lambda each: -len(each[0]))

    def _next_line(self) -> Ids:
        """Every line once in an epoch, in an order of its own."""
        epoch, place = divmod(self.taken, len(self.text.lines))
        if epoch != self._epoch:
            order = np.random.default_rng([self.plan.seed, 6, epoch])
            self._epoch, self._order = epoch, order.permutation(len(self.text.lines))
        self.taken += 1
        return self.text.lines.row(int(self._order[place]))

    def _gists(self, vectors: Floats, depths: Ids) -> Floats:
        """What a gist of so many bits says of each vector, (texts, gist); zeros without any."""
        said = np.zeros_like(vectors)
        for bits in np.unique(depths[depths > 0]).tolist():
            at = depths == bits
            said[at] = self.tree.vectors(self.tree.nearest(vectors[at], bits), bits)
        return said


def steps_of(author: Author, plan: WriterPlan, folder: Path) -> int:
    """The steps of a plan. Those of one in minutes are found once, by the speed of a copy, and then kept."""
    if plan.minutes is None:
        return plan.steps
    file = folder / "steps.json"
    known = json.loads(file.read_text()) if file.is_file() else {}
    if known.get("minutes") != plan.minutes:
        trial = Author(copy.deepcopy(author.writer), author.encoder, author.tree, author.text, plan)
        trial.take_step(0, _TIMED)  # the first one is slower than the others
        began = time.monotonic()
        for step in range(_TIMED):
            trial.take_step(step, _TIMED)
        seconds = (time.monotonic() - began) / _TIMED
        known = {"minutes": plan.minutes, "steps": max(1, int(60 * plan.minutes / seconds))}
        write_whole(file, json.dumps(known))
    return int(known["steps"])
