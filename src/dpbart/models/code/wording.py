"""Exact arithmetic coding of token ids: all edges of intervals are whole numbers, however long.

A text is an interval of [0, 1). Each token takes a share of the interval of the tokens before it, as large as its
probability. A code of `bits` bits is one of `2**bits` equal pieces of [0, 1): the one around the text's interval, or
one inside it. The reader has only the piece. At each token it follows the interval that overlaps most with the piece:
the text's own token while the bits decide, and the likeliest one after that. So every piece is read as some text.

Nothing here is private or random. Both sides must be given the same frequencies.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Counts = npt.NDArray[np.int64]

SCALE_BITS = 24
SCALE = 1 << SCALE_BITS  # the sum of the frequencies of all tokens


def to_frequencies(probabilities: npt.NDArray[np.float32]) -> Counts:
    """Whole numbers of at least 1 that add up to SCALE in every row, (batch, tokens)."""
    rows, tokens = probabilities.shape
    spare = SCALE - tokens
    counts: Counts = (probabilities.astype(np.float64) * spare).astype(np.int64) + 1
    likeliest = np.argmax(counts, axis=1)
    counts[np.arange(rows), likeliest] += SCALE - counts.sum(axis=1)  # corrects for rounding
    return counts


def to_edges(frequencies: Counts) -> Counts:
    """The start of each token's share, then SCALE: (batch, tokens + 1)."""
    edges = np.zeros((frequencies.shape[0], frequencies.shape[1] + 1), np.int64)
    np.cumsum(frequencies, axis=1, out=edges[:, 1:])
    return edges


class TextCoder:
    """The interval of one text, narrowed a token at a time: [low, low + width) / 2**scale."""

    def __init__(self) -> None:
        self._low, self._width, self._scale = 0, 1, 0

    def push(self, edges: Counts, token: int) -> None:
        """Narrow to a token's share.

        Args:
            edges: (tokens + 1,), of the row that belongs to this text.
            token: the place of the token among them.
        """
        begin, end = int(edges[token]), int(edges[token + 1])
        self._low = (self._low << SCALE_BITS) + self._width * begin
        self._width *= end - begin
        self._scale += SCALE_BITS

    @property
    def spent(self) -> float:
        """Bits of information in the tokens so far."""
        return self._scale - _log2(self._width)

    def code(self, bits: int) -> int:
        """The piece of [0, 1) that contains the middle of the text's interval."""
        middle = 2 * self._low + self._width  # of 2**(scale + 1)
        return (middle << bits) >> (self._scale + 1)


class TextReader:
    """One piece of [0, 1), and the interval of the tokens read so far."""

    def __init__(self, code: int, bits: int) -> None:
        if not 0 <= code < 1 << bits:
            raise ValueError(f"a code of {bits} bits is at least 0 and less than 2**{bits}.")
        self._code, self._bits = code, bits
        self._low, self._width, self._scale = 0, 1, 0

    @property
    def free(self) -> bool:
        """Whether the piece covers the whole interval, so that no bits are left to read."""
        low, width = self._low << self._bits, self._width << self._bits
        return self._code << self._scale <= low and low + width <= (self._code + 1) << self._scale

    def read(self, frequencies: Counts, edges: Counts) -> int:
        """The token whose share of the interval overlaps most with the piece; narrows the interval to it.

        Args:
            frequencies: (tokens,), of the row that belongs to this text.
            edges: (tokens + 1,), the cumulative frequencies.
        """
        low = self._low << SCALE_BITS  # the interval's edges, at the next scale
        scale = self._scale + SCALE_BITS
        unit = self._width << self._bits  # one of SCALE shares of the interval, in units of 2**-(scale + bits)
        begin = (self._code << scale) - (low << self._bits)  # the piece, from the interval's lower edge
        end = ((self._code + 1) << scale) - (low << self._bits)
        first = min(max(begin // unit, 0), SCALE - 1)
        last = min(max(-(-end // unit) - 1, 0), SCALE - 1)
        from_token = int(np.searchsorted(edges, first, side="right")) - 1
        to_token = int(np.searchsorted(edges, last, side="right")) - 1
        token = _widest(frequencies, edges, from_token, to_token, begin, end, unit)
        self._low = low + self._width * int(edges[token])
        self._width *= int(frequencies[token])
        self._scale = scale
        return token


def _widest(frequencies: Counts, edges: Counts, first: int, last: int, begin: int, end: int, unit: int) -> int:
    """The token from first to last that overlaps most with [begin, end). The two outer ones may be cut."""
    best, most = first, min(end, int(edges[first + 1]) * unit) - max(begin, int(edges[first]) * unit)
    if last - first > 1:
        inner = first + 1 + int(np.argmax(frequencies[first + 1 : last]))
        if int(frequencies[inner]) * unit > most:
            best, most = inner, int(frequencies[inner]) * unit
    if last > first:
        shared = min(end, int(edges[last + 1]) * unit) - max(begin, int(edges[last]) * unit)
        if shared > most:
            best = last
    return best


def _log2(number: int) -> float:
    """The logarithm of a whole number that may be too large for a float."""
    shift = max(number.bit_length() - 53, 0)
    return float(np.log2(number >> shift)) + shift
