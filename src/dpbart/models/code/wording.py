"""Exact arithmetic coding of token ids: all edges of intervals are whole numbers, however long.

A text is an interval of [0, 1). Each token takes a share of the interval of the tokens before it, as large as its
probability. A code of `bits` bits is one of `2**bits` equal pieces of [0, 1): the one around the text's interval, or
one inside it. The reader has only the piece. At each token it follows the interval that overlaps most with the piece:
the text's own token while the bits decide, and the likeliest one after that. So every piece is read as some text.

Nothing here is private or random. Both sides must be given the same shares.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dpbart.models.code.writer import BEGIN, END, SCALE, Cache, Counts, Rows, Writer

SCALE_BITS = SCALE.bit_length() - 1


def code_of(shares: npt.NDArray[np.int64], bits: int) -> int:
    """The piece of [0, 1) that contains the middle of a text's interval.

    Args:
        shares: (shares, 2), where each begins and how wide it is, of SCALE.
        bits: of the code.
    """
    low, width, scale = 0, 1, 0  # the interval is [low, low + width) / 2**scale
    for begin, share in shares.tolist():
        if share < SCALE:
            low = (low << SCALE_BITS) + width * begin
            width *= share
            scale += SCALE_BITS
    middle = 2 * low + width  # of 2**(scale + 1)
    return (middle << bits) >> (scale + 1)


class TextReader:
    """One piece of [0, 1), and the interval of the shares read so far."""

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

    def read(self, counts: Counts) -> int:
        """The token whose share of the interval overlaps most with the piece; narrows the interval to it.

        Args:
            counts: (tokens,), the widths of the shares; they add up to SCALE.
        """
        edges = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
        low = self._low << SCALE_BITS  # the interval's edges, at the next scale
        scale = self._scale + SCALE_BITS
        unit = self._width << self._bits  # one of SCALE shares of the interval, in units of 2**-(scale + bits)
        begin = (self._code << scale) - (low << self._bits)  # the piece, from the interval's lower edge
        end = ((self._code + 1) << scale) - (low << self._bits)
        first = min(max(begin // unit, 0), SCALE - 1)
        last = min(max(-(-end // unit) - 1, 0), SCALE - 1)
        from_token = int(np.searchsorted(edges, first, side="right")) - 1
        to_token = int(np.searchsorted(edges, last, side="right")) - 1
        token = _widest(counts, edges, from_token, to_token, begin, end, unit)
        self._low = low + self._width * int(edges[token])
        self._width *= int(counts[token])
        self._scale = scale
        return token


def _widest(
    counts: Counts, edges: npt.NDArray[np.int64], first: int, last: int, begin: int, end: int, unit: int
) -> int:
    """The token from first to last that overlaps most with [begin, end). The two outer ones may be cut."""
    best, most = first, min(end, int(edges[first + 1]) * unit) - max(begin, int(edges[first]) * unit)
    if last - first > 1:
        inner = first + 1 + int(np.argmax(counts[first + 1 : last]))
        if int(counts[inner]) * unit > most:
            best, most = inner, int(counts[inner]) * unit
    if last > first:
        shared = min(end, int(edges[last + 1]) * unit) - max(begin, int(edges[last]) * unit)
        if shared > most:
            best = last
    return best


@dataclass(frozen=True)
class WordingReader:
    """Reads wordings of one size: strings of bits to rows of tokens."""

    writer: Writer
    bits: int
    length: int  # most tokens of a text

    def read(self, codes: Sequence[int], *, at_once: int = 32) -> Rows:
        """Tokens from the bits of each code, then the likeliest ones, until a text ends or has `length` tokens.

        A row depends on its own code and on nothing else. Codes are private values already, so the work may depend on
        them: texts that have ended are not computed further.
        """
        rows: Rows = []
        for first in range(0, len(codes), at_once):
            rows += self._read(codes[first : first + at_once])
        return rows

    def _read(self, codes: Sequence[int]) -> Rows:
        writer, frequent = self.writer, self.writer.sizes.frequent
        readers, rows = [TextReader(code, self.bits) for code in codes], [list[int]() for _ in codes]
        cache, unfinished = Cache(writer.sizes, len(codes)), list(range(len(codes)))
        ids = np.full(len(codes), BEGIN, np.int64)
        for _ in range(self.length):
            states = writer.read(ids[:, None], cache)[:, 0]
            counts = writer.near(states)
            ranks = np.argmax(counts[:, :frequent], axis=1)  # where no bits are left
            for place, number in enumerate(unfinished):
                if not readers[number].free:
                    ranks[place] = readers[number].read(counts[place])
            rare = np.flatnonzero(ranks == frequent)
            if len(rare):
                for place, far in zip(rare.tolist(), writer.far(states[rare]), strict=True):
                    ranks[place] += readers[unfinished[place]].read(far)
            ids = writer.order[ranks]
            for place, number in enumerate(unfinished):
                rows[number].append(int(ids[place]))
            going = np.flatnonzero(ids != END)
            if not len(going):
                break
            if len(going) < len(ids):
                cache.keep(going)
                ids, unfinished = ids[going], [unfinished[place] for place in going.tolist()]
        return [row[:-1] if row[-1] == END else row for row in rows]
