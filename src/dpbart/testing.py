"""A fake model for your own tests: it has no weights and needs no torch, but uses the real channel and mechanism.

from dpbart.testing import fake_rewriter
fake_rewriter(epsilon=10).rewrite(["A text."]).texts  # ('rewritten',)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from dpbart.card.record import ModelLine
from dpbart.channels.columns import Columns, ColumnsChannel, Floats
from dpbart.privacy.clipping import ByValue
from dpbart.privacy.mechanisms import Noised, make_noise
from dpbart.rewrite.chosen import Described, entropy_of
from dpbart.rewrite.rewriter import Rewriter

Write = Callable[[Sequence[str]], Sequence[str]]
LINE = ModelLine(
    name="fake",
    fingerprint="0" * 12,
    variant="fake",
    length=20,
    decoding="none: a fake model",
    public_data=(),
    reads=20,
)


def rewritten(texts: Sequence[str]) -> list[str]:
    """Returns the word "rewritten" for every text."""
    return ["rewritten"] * len(texts)


@dataclass
class FakeModel:
    """Writes what `write` returns. It remembers the private texts, so never use it on real data."""

    write: Write = rewritten  # returns new texts for old ones
    line: ModelLine = LINE
    recipe: str = f"model:{LINE.identity}"
    _texts: list[str] = field(default_factory=list)

    def encode(self, texts: Sequence[str]) -> Floats:
        """A latent of one 0 for each text: (batch, 1, 1)."""
        self._texts = list(texts)
        return np.zeros((len(texts), 1, 1), dtype=np.float32)

    def read(self, texts: Sequence[str]) -> list[str]:
        return list(texts)

    def decode(self, private: Noised) -> list[str]:
        return list(self.write(self._texts))


def fake_rewriter(
    write: Write = rewritten,
    *,
    epsilon: float | None = 10.0,
    delta: float = 1e-5,
    mechanism: str = "gaussian",
    batch_size: int = 32,
    replay_seed: int | None = None,
) -> Rewriter:
    """A rewriter with a fake model. Guarantee, recipe, card and ledger work as with a real one."""
    channel = ColumnsChannel(Columns.all(1), ByValue(1.0), make_noise(mechanism, epsilon=epsilon, delta=delta), 1)
    return Rewriter(FakeModel(write), channel, batch_size, entropy_of(replay_seed))


def described(rewriter: Rewriter) -> Described:
    """The description of a loaded rewriter, as `dpbart.rewrite.job.plan` needs it."""
    return rewriter.described
