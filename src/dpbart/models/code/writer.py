"""The writer: a small causal language model of sentences, on numpy.

Sender and receiver must compute the same probabilities to the last bit, or the wording is lost. And a text must be
written from its own code alone, whatever stands beside it. So every sum is one of two kinds: a product of whole
numbers, which is exact (`WholeProduct`), or a sum over the last axis of an array whose last axis always has the same
length. The same text gives the same numbers in any batch, read at once or a token at a time.

The tokens have two levels: the frequent ones, and one entry for all others, which have a softmax of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dpbart.models.code.weights import EXACT, Arrays, Floats, Table, WholeProduct, below, floats_of

Rows = list[list[int]]
Ids = npt.NDArray[np.int64]
Counts = npt.NDArray[np.int32]

BEGIN, PAD, END, UNKNOWN, CUT = 0, 1, 2, 3, 4  # CUT (the id of <mask>): here a text was cut in training
UNWRITTEN = (BEGIN, PAD, UNKNOWN, CUT)
SCALE = 1 << 24  # the sum of the counts of one level
_NEVER = np.float32(-1e9)  # the logit of a token that is not written
_STEP = np.float32(256)  # for 1 in queries and keys; their lengths are at most the root of a head's width
_VALUES = np.float32(255)  # for the largest entry of a value
_SHARPNESS = np.float32(0.25)  # of attention
_ROWS = 96  # states that become probabilities at once: so many fit into a cache
_TINY = np.float32(np.finfo(np.float32).eps)


@dataclass(frozen=True)
class WriterSizes:
    """All sizes of a writer."""

    vocabulary: int = 12_000
    width: int = 256
    layers: int = 3
    heads: int = 4
    inner: int = 1024
    places: int = 40
    frequent: int = 2_500  # tokens of the first softmax; the others share one entry of it and have their own softmax


@dataclass(frozen=True)
class Spelling:
    """The shares of the tokens of some texts, on both levels: where a share begins, and how wide it is.

    Attributes:
        shares: (texts, 2 x tokens, 2). A share as wide as SCALE says nothing.
        fits: (texts,): whether a text has as few rare tokens as was asked for; otherwise its shares are wrong.
    """

    shares: npt.NDArray[np.int64]
    fits: npt.NDArray[np.bool_]

    @property
    def bits(self) -> npt.NDArray[np.float64]:
        """What each text costs, (texts,)."""
        found: npt.NDArray[np.float64] = -np.log2(self.shares[:, :, 1] / SCALE).sum(1)
        return np.where(self.fits, found, np.inf)


class Cache:
    """Keys and values of the tokens that some texts have so far."""

    def __init__(self, sizes: WriterSizes, texts: int) -> None:
        shape = (sizes.layers, texts, sizes.heads, sizes.places, sizes.width // sizes.heads)
        self.length = 0  # tokens read
        self.keys = np.zeros(shape, np.float32)
        self.values = np.zeros(shape, np.float32)  # whole numbers
        self.steps = np.zeros(shape[:-1], np.float32)  # what 1 stands for in them

    def keep(self, texts: Ids) -> None:
        """Go on with these texts only."""
        self.keys, self.values, self.steps = self.keys[:, texts], self.values[:, texts], self.steps[:, texts]


class _Block:
    """One layer."""

    def __init__(self, weights: Arrays, heads: int) -> None:
        self.heads = heads
        self.qkv, self.out, self.up, self.down = (
            WholeProduct(Table.stored(weights, f"{name}.weight")) for name in ("qkv", "out", "up", "down")
        )
        self.mix = floats_of(weights, "mix")  # shares of the states and of the first ones

    def __call__(self, states: Floats, first: Floats, cache: Cache, layer: int, seen: Floats) -> Floats:
        """New states, (texts x tokens, width).

        Args:
            states: likewise.
            first: the states before the first layer.
            cache: gets the keys and values of the tokens.
            layer: the number of this layer.
            seen: (tokens, places): 1 for what each token attends to.
        """
        texts, tokens = cache.keys.shape[1], len(seen)
        states = self.mix[0] * states + self.mix[1] * first
        parts = self.qkv(_normed(states)).reshape(texts, tokens, 3, self.heads, -1)
        both = _normed(parts[:, :, :2])
        both *= _STEP
        queries, keys = np.rint(both, out=both).transpose(2, 0, 3, 1, 4)  # each (texts, heads, tokens, width of a head)
        values = parts[:, :, 2]
        steps = np.maximum(np.abs(values).max(-1), _TINY) / _VALUES
        here = slice(cache.length, cache.length + tokens)
        cache.keys[layer, :, :, here] = keys
        cache.values[layer, :, :, here] = np.rint(values / steps[..., None]).transpose(0, 2, 1, 3)
        cache.steps[layer, :, :, here] = steps.transpose(0, 2, 1)
        looked = _attended(queries, cache.keys[layer], cache.values[layer], cache.steps[layer], seen)
        states += self.out(looked.transpose(0, 2, 1, 3).reshape(states.shape))
        inner = self.up(_normed(states))
        np.maximum(inner, 0, out=inner)
        states += self.down(np.square(inner, out=inner))
        return states


def _attended(queries: Floats, keys: Floats, values: Floats, steps: Floats, seen: Floats) -> Floats:
    """What each token sees, (texts, heads, tokens, width of a head); all matrices hold whole numbers."""
    shares = queries @ keys.swapaxes(-1, -2)  # (texts, heads, tokens, places)
    shares *= _SHARPNESS / (_STEP * _STEP)
    np.exp(shares, out=shares)
    shares *= seen
    total = shares.sum(-1, keepdims=True)
    shares *= steps[:, :, None, :]
    most = np.float32(min(1023, (EXACT - 1) // (int(_VALUES) * shares.shape[-1])))
    unit = np.maximum(shares.max(-1, keepdims=True), np.float32(1e-30)) / most
    found: Floats = np.rint(shares / unit) @ values
    found *= unit / total
    return found


def _normed(rows: Floats) -> Floats:
    """Rows whose mean square is one."""
    found: Floats = rows * rows
    size = np.sqrt(found.mean(axis=-1, keepdims=True) + _TINY)
    np.divide(rows, size, out=found)
    return found


class Writer:
    """Tokens so far to how likely each token is next, the most frequent tokens first."""

    def __init__(self, sizes: WriterSizes, weights: Arrays) -> None:
        """Load.

        Args:
            sizes: all sizes.
            weights: as they are stored.
        """
        self.sizes, self.weights, frequent = sizes, weights, sizes.frequent
        self.order: Ids = weights["order"].astype(np.int64)  # (vocabulary,): the id at each place of that order
        self.rank: Ids = np.argsort(self.order)  # (vocabulary,): the place of each id
        self._embed = Table.stored(weights, "embed.weight")
        self._place, self._last = floats_of(weights, "place.weight"), floats_of(weights, "last")
        self._blocks = [_Block(below(weights, f"blocks.{layer}."), sizes.heads) for layer in range(sizes.layers)]
        table, gate = Table.stored(weights, "unembed.weight"), Table.of(floats_of(weights, "gate.weight"))
        bias = floats_of(weights, "unembed.bias")
        bias[self.rank[list(UNWRITTEN)]] = _NEVER
        near = Table(
            np.concatenate([table.whole[:frequent], gate.whole]), np.concatenate([table.scale[:frequent], gate.scale])
        )
        self._near, self._far = WholeProduct(near), WholeProduct(Table(table.whole[frequent:], table.scale[frequent:]))
        self._near_bias = np.concatenate([bias[:frequent], floats_of(weights, "gate.bias")])
        self._far_bias = bias[frequent:]

    def read(self, ids: Ids, cache: Cache) -> Floats:
        """Read more tokens of each text, (texts, tokens): the states that predict the next, (texts, tokens, width)."""
        texts, tokens = ids.shape
        places = np.arange(cache.length, cache.length + tokens)
        first = _normed(self._embed.rows(ids.reshape(-1)) + np.tile(self._place[places], (texts, 1)))
        seen = (np.arange(self.sizes.places) <= places[:, None]).astype(np.float32)
        states = first
        for layer, block in enumerate(self._blocks):
            states = block(states, first, cache, layer, seen)
        cache.length += tokens
        return _normed(states + self._last).reshape(texts, tokens, -1)

    def near(self, states: Floats) -> Counts:
        """Whole numbers for the frequent tokens and, last, all others, from states (n, width): (n, frequent + 1)."""
        return _counts(self._near_logits(states))

    def far(self, states: Floats) -> Counts:
        """Whole numbers for the other tokens, from states (n, width): (n, vocabulary - frequent)."""
        return _counts(self._far_logits(states))

    def _near_logits(self, states: Floats) -> Floats:
        logits = self._near(states)
        logits += self._near_bias
        return logits

    def _far_logits(self, states: Floats) -> Floats:
        logits = self._far(states)
        logits += self._far_bias
        return logits

    def bits(self, ids: Ids, wanted: Ids) -> Floats:
        """What some tokens cost after each token of a text: (texts, tokens, wanted).

        Args:
            ids: (texts, tokens), BEGIN first.
            wanted: (texts, wanted), ids.
        """
        texts, tokens = ids.shape
        states = self.read(ids, Cache(self.sizes, texts)).reshape(texts * tokens, -1)
        ranks, frequent = np.repeat(self.rank[wanted], tokens, axis=0), self.sizes.frequent
        found = np.empty(ranks.shape, np.float32)
        for first in range(0, len(states), _ROWS):
            rows, sought = states[first : first + _ROWS], ranks[first : first + _ROWS]
            near, far = self._near_logits(rows), self._far_logits(rows)
            rare = sought >= frequent
            nats = np.take_along_axis(near, np.minimum(sought, frequent), 1) - _log_sum(near)
            within = np.take_along_axis(far, np.maximum(sought - frequent, 0), 1) - _log_sum(far)
            found[first : first + len(rows)] = nats + np.where(rare, within, 0)
        found *= np.float32(-1 / np.log(2))
        return found.reshape(texts, tokens, -1)

    def spell(self, ids: Ids, *, rare: int) -> Spelling:
        """How to spell whole texts, (texts, tokens), each with its END, then PAD. At most `rare` tokens are rare.

        The work is the same for all texts: as many states and rare tokens, whether a text has them or not.
        """
        texts, tokens = ids.shape
        before = np.concatenate([np.full((texts, 1), BEGIN), ids[:, :-1]], 1)
        states = self.read(before, Cache(self.sizes, texts)).reshape(texts * tokens, -1)
        ranks, there = self.rank[ids], ids != PAD
        is_rare = (ranks >= self.sizes.frequent) & there
        shares = np.empty((texts, tokens, 2, 2), np.int64)  # the last axes: level, begin and width
        shares[...] = (0, SCALE)
        near = self._shares(self.near, states, np.minimum(ranks, self.sizes.frequent).reshape(-1))
        shares[there, 0] = near.reshape(texts, tokens, 2)[there]
        # The rare tokens of each text come first, then others, so that every text has as many.
        places = np.argsort(~is_rare, axis=1, kind="stable")[:, :rare]
        chosen = (places + tokens * np.arange(texts)[:, None]).reshape(-1)
        far = self._shares(self.far, states[chosen], np.maximum(ranks.reshape(-1)[chosen] - self.sizes.frequent, 0))
        kept = is_rare.reshape(-1)[chosen]
        shares.reshape(-1, 2, 2)[chosen[kept], 1] = far[kept]
        return Spelling(shares.reshape(texts, 2 * tokens, 2), is_rare.sum(1) <= rare)

    @staticmethod
    def _shares(counts_of: Callable[[Floats], Counts], states: Floats, tokens: Ids) -> npt.NDArray[np.int64]:
        """Where the share of one token begins and how wide it is, for each state: (n, 2)."""
        found = np.empty((len(states), 2), np.int64)
        for first in range(0, len(states), _ROWS):
            part, rows = tokens[first : first + _ROWS], np.arange(len(tokens[first : first + _ROWS]))
            counts = counts_of(states[first : first + _ROWS])
            widths = counts[rows, part]
            found[first : first + len(part), 0] = np.cumsum(counts, axis=1, dtype=np.int32)[rows, part] - widths
            found[first : first + len(part), 1] = widths
        return found


def _counts(logits: Floats) -> Counts:
    """Whole numbers of at least 1 that add up to SCALE in every row, as the softmax of logits (n, tokens)."""
    tokens = logits.shape[1]
    logits -= logits.max(1, keepdims=True)
    np.exp(logits, out=logits)
    logits *= np.float32(SCALE - tokens) / logits.sum(1, keepdims=True)
    counts: Counts = logits.astype(np.int32)
    counts += 1
    likeliest = np.argmax(counts, axis=1)
    counts[np.arange(len(counts)), likeliest] += (SCALE - counts.sum(1, dtype=np.int64)).astype(np.int32)
    return counts


def _log_sum(logits: Floats) -> Floats:
    """The logarithm of the sum of exponentials of each row, (n, 1)."""
    most = logits.max(1, keepdims=True)
    shares = logits - most
    np.exp(shares, out=shares)
    found: Floats = most + np.log(shares.sum(1, keepdims=True))
    return found
