"""The sentence encoder: a whole document as one unit vector, in a shape that does not depend on its length.

A document is read as a fixed number of windows of ids, padded; every window is always computed. What it is about, and
whether it praises or blames, is learned from a larger public encoder (see training.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

PAD = 1  # the id of <pad>

Ids = npt.NDArray[np.int64]


@dataclass(frozen=True)
class SentenceSizes:
    """All sizes of a sentence encoder."""

    vocabulary: int = 12_000
    width: int = 128
    layers: int = 1
    heads: int = 4
    inner: int = 256
    windows: int = 8
    window: int = 64  # ids in one window
    vector: int = 128  # entries of what comes out


class SentenceEncoder(nn.Module):
    """Ids (batch, windows, window) to unit vectors (batch, vector)."""

    def __init__(self, sizes: SentenceSizes) -> None:
        super().__init__()
        self.sizes, width = sizes, sizes.width
        self.embed = nn.Embedding(sizes.vocabulary, width)
        self.place = nn.Embedding(sizes.window, width)
        self.before = nn.Linear(width, width, bias=False)  # what the token to the left adds
        self.after = nn.Linear(width, width, bias=False)  # and the one to the right
        self.layers = nn.ModuleList([_Layer(width, sizes.heads, sizes.inner) for _ in range(sizes.layers)])
        self.score = nn.Linear(width, sizes.heads)
        self.up = nn.Linear(2 * width, 4 * width)
        self.down = nn.Linear(4 * width, sizes.vector)
        self.skip = nn.Linear(2 * width, sizes.vector)
        self.bag = nn.Linear(width, sizes.vector, bias=False)  # of the tokens alone, whatever their order

    def forward(self, ids: Tensor) -> Tensor:
        """Documents: the mean of their windows, by the number of tokens in each."""
        batch, windows, window = ids.shape
        each = self.read_windows(ids.reshape(batch * windows, window)).view(batch, windows, -1)
        tokens = (ids != PAD).sum(2, keepdim=True)  # (batch, windows, 1)
        return F.normalize((each * tokens).sum(1), dim=-1)

    def read_windows(self, ids: Tensor) -> Tensor:
        """Windows (n, at most window) to unit vectors (n, vector); one of nothing but padding gives zeros."""
        there = ids != PAD
        some = there.any(1)
        seen = there | ~some[:, None]  # an empty window looks at its padding: no row without anything to look at
        tokens = self.embed(ids) * there[..., None]
        states = tokens + self.place.weight[: ids.shape[1]]
        states = (
            states + F.pad(self.before(tokens), (0, 0, 1, 0))[:, :-1] + F.pad(self.after(tokens), (0, 0, 0, 1))[:, 1:]
        )
        for layer in self.layers:
            states = layer(states, seen[:, None, None, :])
        states = F.rms_norm(states, (self.sizes.width,))
        pooled = self._pool(states, there, seen)
        bag = self.bag(tokens.sum(1) / there.sum(1, keepdim=True).clamp(min=1).sqrt())
        vector = bag + self.down(F.relu(self.up(pooled))) + self.skip(pooled)
        return F.normalize(vector, dim=-1) * some[:, None]

    def _pool(self, states: Tensor, there: Tensor, seen: Tensor) -> Tensor:
        """A weighted mean of each head's entries, and a sum scaled by the root of the length: (n, 2 width)."""
        n, window, width = states.shape
        weights = self.score(states).masked_fill(~seen[..., None], -1e9).softmax(1)  # (n, window, heads)
        split = states.view(n, window, self.sizes.heads, -1)
        weighted = (weights[..., None] * split).sum(1).reshape(n, width)
        summed = (states * there[..., None]).sum(1) / there.sum(1, keepdim=True).clamp(min=1).sqrt()
        return torch.cat([weighted, summed * 0.25], 1)


class _Layer(nn.Module):
    def __init__(self, width: int, heads: int, inner: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.up = nn.Linear(width, inner)
        self.down = nn.Linear(inner, width)

    def forward(self, states: Tensor, mask: Tensor) -> Tensor:
        n, window, width = states.shape
        heads = self.qkv(F.rms_norm(states, (width,))).view(n, window, 3, self.heads, -1)
        queries, keys, values = heads.permute(2, 0, 3, 1, 4)  # each (n, heads, window, width of a head)
        looked = F.scaled_dot_product_attention(queries, keys, values, attn_mask=mask)
        states = states + self.out(looked.transpose(1, 2).reshape(n, window, width))
        inner = F.relu(self.up(F.rms_norm(states, (width,))))
        return states + self.down(inner)  # type: ignore[no-any-return]


def to_windows(rows: Sequence[Sequence[int]], sizes: SentenceSizes) -> Ids:
    """Rows of ids of any length, without begin and end, as (rows, windows, window), cut and padded."""
    ids = np.full((len(rows), sizes.windows * sizes.window), PAD, np.int64)
    for place, row in enumerate(rows):
        kept = row[: ids.shape[1]]
        ids[place, : len(kept)] = kept
    return ids.reshape(len(rows), sizes.windows, sizes.window)


def to_one_window(rows: Sequence[Sequence[int]], sizes: SentenceSizes, *, count: int) -> Ids:
    """At most `count` short rows of ids as (count, window), one window each, filled up with padding."""
    ids = np.full((count, sizes.window), PAD, np.int64)
    for place, row in enumerate(rows):
        kept = row[: sizes.window]
        ids[place, : len(kept)] = kept
    return ids
