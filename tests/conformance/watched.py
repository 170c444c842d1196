"""Rewriters for both channels with a model that encodes what it reads and remembers what reaches its decoder."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from dpbart import Rewriter
from dpbart.channels.code import CodeChannel, CodeSize
from dpbart.channels.columns import Columns, ColumnsChannel
from dpbart.privacy.clipping import ByValue
from dpbart.privacy.facts import Private
from dpbart.privacy.mechanisms import NonPrivate, Response, make_noise
from dpbart.privacy.sampling import Entropy, ReplaySeed, SystemEntropy
from dpbart.testing import LINE, Write, rewritten

BOTH = ("columns", "code")
POSITIONS, WIDTH, KEPT, BOUND = 6, 8, (0, 2, 3, 7), 0.3  # of the latent
BITS = 12  # of the code


@dataclass
class Watched:
    """A model whose encoder follows the text. Its decoder writes the same texts whatever it receives."""

    code: bool
    write: Write = rewritten
    received: list[Private[Any]] = field(default_factory=list)
    read_texts: list[str] = field(default_factory=list)
    line = LINE
    recipe = f"model:{LINE.identity}"

    def encode(self, texts: Sequence[str]) -> npt.NDArray[np.float32] | list[list[int]]:
        """Codes, or latents (batch, positions, width) beyond the clip's bound: another text, another value."""
        self.read_texts += texts
        digests = [hashlib.shake_256(text.encode("utf-8", "replace")).digest(POSITIONS * WIDTH) for text in texts]
        if self.code:
            return [[int.from_bytes(digest, "big") % (1 << BITS)] for digest in digests]
        rows = np.frombuffer(b"".join(digests), np.uint8).reshape(len(texts), POSITIONS, WIDTH)
        return ((rows / 128 - 1) * 2 * BOUND).astype(np.float32)

    def read(self, texts: Sequence[str]) -> list[str]:
        return list(texts)

    def decode(self, private: Private[Any]) -> list[str]:
        self.received.append(private)
        return list(self.write([""] * len(private.values)))


def watched_rewriter(
    kind: str,
    write: Write = rewritten,
    *,
    epsilon: float | None = 10.0,
    delta: float = 1e-5,
    mechanism: str | None = None,
    replay_seed: int | None = None,
) -> Rewriter:
    """A rewriter with a watched model and the real channel of that kind."""
    entropy: Entropy = SystemEntropy() if replay_seed is None else ReplaySeed(replay_seed)
    channel: CodeChannel | ColumnsChannel
    if kind == "code":
        private = epsilon is not None and mechanism != "none"
        channel = CodeChannel(CodeSize(BITS, 1, BITS), Response(epsilon or 0, 1 << BITS) if private else NonPrivate())
    else:
        noise = make_noise(mechanism or "gaussian", epsilon=epsilon, delta=delta)
        channel = ColumnsChannel(Columns(WIDTH, KEPT), ByValue(BOUND), noise, POSITIONS)
    return Rewriter(Watched(kind == "code", write), channel, 32, entropy)


def received(rewriter: Rewriter) -> list[Private[Any]]:
    """What has reached the decoder, one private value per batch."""
    assert isinstance(rewriter.model, Watched)
    return rewriter.model.received
