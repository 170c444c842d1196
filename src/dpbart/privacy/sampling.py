"""Random noise on a grid, drawn exactly.

Floating-point noise leaks through its low bits (Mironov 2012). So noise here is a whole number of grid steps:
continuous noise, rounded to the nearest step. It is sampled by inversion, with bits drawn as needed:

1. A fair coin is the sign. A uniform U in [0, 1) stands for the tail probability Pr[|X| >= x] of the unit noise X.
   With tail(x) that probability, the noise is j steps long if and only if
   tail((j + 1/2) grid / scale) <= U < tail((j - 1/2) grid / scale).
2. The first b bits m of U place U in [m, m + 1) / 2^b. If that whole interval lies in one such cell, the remaining
   bits do not matter, and the draw is decided. Floats suffice for nearly every draw: both ends of the interval are
   inverted, with a margin far wider than any float error, and fall into the same cell.
3. Otherwise 64 more bits are drawn, and the interval is compared with the edges in exact arithmetic, until it lies in
   one cell.

So the noise has exactly the distribution of round(scale X / grid). For a value on the grid, value + rounded noise =
the rounding of (value + noise): post-processing of the continuous mechanism, with exactly its guarantee and no slack
in epsilon or delta.
"""

from __future__ import annotations

import hashlib
import math
import os
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt

from dpbart.errors import BadParameter
from dpbart.privacy.calibration import check_positive

if TYPE_CHECKING:
    import mpmath

Floats = npt.NDArray[np.float64]
Words = npt.NDArray[np.uint64]

# Relative and absolute margin on a quantile before a float may decide. The error of a quantile is below 1e-15 in the
# same sense: scipy's own error (tested against mpmath from tail 2^-63 to 1) plus the rounding of m / 2^63 to a float.
_MARGIN = 1e-12
# Bits of precision beyond those drawn. Half of them count as uncertain, far more than the error of a tail.
_GUARD = 64
_WORD = 1 << 64


class Entropy(Protocol):
    """Where random bits come from."""

    @property
    def private(self) -> bool:
        """Whether the bits are unknown to everybody else."""

    def words(self, count: int) -> Words:
        """`count` fresh, independent, uniform 64-bit words."""


class SystemEntropy:
    """Random bits from the operating system. It has no state, so nothing can be forked, pickled, seeded or saved."""

    @property
    def private(self) -> bool:
        return True  # only the kernel knows the bits

    def words(self, count: int) -> Words:
        return np.frombuffer(os.urandom(8 * count), dtype=np.uint64)


class ReplaySeed:
    """NOT PRIVATE: the same bits for the same seed, for tests and replays.

    Anybody who knows or guesses the seed can subtract the noise and recover the latent. Every latent made with it is
    marked NOT PRIVATE, whatever the mechanism.
    """

    def __init__(self, seed: int) -> None:
        self.number = int(seed)
        self._place = ""
        self._calls = 0

    @property
    def private(self) -> bool:
        return False

    def go_to(self, row: int) -> None:
        """Begin the words for this row of a table. They are the same in every process, whatever it drew before."""
        self._place, self._calls = f" row {row}", 0

    def words(self, count: int) -> Words:
        """The next words for this seed; they depend on the row and on the earlier calls."""
        stream = hashlib.shake_256(f"dpbart replay {self.number}{self._place} {self._calls}".encode())
        self._calls += 1
        return np.frombuffer(stream.digest(8 * count), dtype="<u8").astype(np.uint64)


class Law(Protocol):
    """A symmetric noise X of unit scale."""

    def quantile(self, tail: Floats) -> Floats:
        """The x with Pr[|X| >= x] = tail, in floats; infinite at 0."""

    def tail(self, x: mpmath.mpf) -> mpmath.mpf:
        """Pr[|X| >= x] for x >= 0, at the precision of x's own context."""


class NormalLaw:
    """The normal distribution of variance 1."""

    def quantile(self, tail: Floats) -> Floats:
        from scipy.special import erfcinv  # slow to import, and codes do without it

        return np.asarray(erfcinv(tail) * math.sqrt(2), dtype=np.float64)

    def tail(self, x: mpmath.mpf) -> mpmath.mpf:
        return x.context.erfc(x / x.context.sqrt(2))


class LaplaceLaw:
    """The Laplace distribution of density exp(-|x|) / 2."""

    def quantile(self, tail: Floats) -> Floats:
        with np.errstate(divide="ignore"):  # log 0: the tail is infinite
            return -np.log(tail)

    def tail(self, x: mpmath.mpf) -> mpmath.mpf:
        return x.context.exp(-x)


def grid_for(*, scale: float, typical: float) -> float:
    """The grid for noise and latent: a power of two.

    It is at most scale / 1024, so that rounding the noise costs nothing (its variance grows by 10^-7). It is at most
    typical / 256, so that strong noise does not round the latent to 0. But it is no finer than scale / 2^32: there, the
    latent is far too small for any sum over entries to recover. This limit keeps 50 scales of noise below 2^39 steps,
    which fits int64 and exact float64, and keeps the float path of `draw_rounded` precise enough to decide.

    `typical` is the mean absolute entry of the most spread-out latent that the clip allows.

    >>> 1 / grid_for(scale=1.0, typical=1.0), 1 / grid_for(scale=1000.0, typical=1.0)
    (1024.0, 256.0)
    """
    check_positive("scale", scale)
    check_positive("typical", typical)
    finest = min(scale / 1024, max(typical / 256, scale / 2**32))
    return math.ldexp(0.5, math.frexp(finest)[1])  # the largest power of two that is not above it


def draw_rounded(
    law: Law, *, scale: float, grid: float, count: int, entropy: Entropy, _bits: int = 63
) -> npt.NDArray[np.int64]:
    """Independent, exact draws of round(scale X / grid), where X follows the law (see the module's docstring).

    The grid is a power of two, at least scale * 50 / 2^53, and the draws are in its units. A draw takes one word,
    rarely more. Floats decide on `_bits` bits of it; tests lower them, so that more draws are decided exactly.
    """
    check_positive("scale", scale)
    if not 0 < grid < math.inf or math.frexp(grid)[0] != 0.5:
        raise BadParameter(f"grid must be a power of two, got {grid}. Use grid_for.")
    if not scale / grid * 50 < 2**53:
        raise BadParameter(f"grid must be at least scale * 50 / 2^53, got {grid} at scale {scale}. Use grid_for.")
    words = entropy.words(count)  # (count,)
    negative = (words & np.uint64(1)).astype(np.bool_)
    start = words >> np.uint64(64 - _bits)  # (count,): U lies in [start, start + 1) / 2^_bits
    # The farther end of the interval has the smaller tail.
    near = law.quantile((start + np.uint64(1)).astype(np.float64) / 2.0**_bits)
    far = law.quantile(start.astype(np.float64) / 2.0**_bits)
    least = np.floor((near * (1 - _MARGIN) - _MARGIN).clip(min=0) * (scale / grid) + 0.5)
    most = np.floor((far * (1 + _MARGIN) + _MARGIN) * (scale / grid) + 0.5)
    decided = least == most
    steps = np.where(decided, least, 0.0).astype(np.int64)
    for index in np.flatnonzero(~decided):
        steps[index] = _decide(law, int(start[index]), _bits, scale=scale, grid=grid, entropy=entropy)
    return np.where(negative, -steps, steps)


def draw_below(bounds: Words, entropy: Entropy) -> Words:
    """A uniform whole number below each of the bounds, which are at least 1, exactly: (count,)."""
    # 2^64 is not a multiple of every number. Words in the last, incomplete multiple are drawn again.
    complete = np.array([_WORD - _WORD % bound - 1 for bound in bounds.tolist()], np.uint64)
    words = entropy.words(len(bounds)).copy()
    while (again := np.flatnonzero(words > complete)).size:
        words[again] = entropy.words(again.size)
    drawn: Words = words % bounds
    return drawn


def _decide(law: Law, start: int, bits: int, *, scale: float, grid: float, entropy: Entropy) -> int:
    """Draw more bits of U until it lies in one cell, in exact arithmetic, and return that cell."""
    import mpmath  # slow to import, and rarely needed

    context = mpmath.MPContext()  # not the shared one: another thread may change its precision
    while True:
        start = start << 64 | int(entropy.words(1)[0])
        bits += 64
        context.prec = bits + _GUARD
        middle = np.array([(2 * start + 1) / (1 << (bits + 1))])  # a float is enough to know where to look
        guess = math.floor(float(law.quantile(middle)[0]) * (scale / grid) + 0.5)
        steps = _find_cell(law, start, bits, guess=guess, step=context.mpf(grid) / context.mpf(scale))
        if steps is not None:
            return steps


def _find_cell(law: Law, start: int, bits: int, *, guess: int, step: mpmath.mpf) -> int | None:
    """The cell that contains all of [start, start + 1) / 2^bits, or None if an edge may cut the interval."""
    context = step.context
    low, high = context.ldexp(start, -bits), context.ldexp(start + 1, -bits)
    # Relative errors: 2^-prec each for the argument and the tail, the first times at most x^2 < 2 bits.
    doubt = context.ldexp(1, _GUARD // 2 - context.prec)
    steps = guess
    farthest = 2 + (guess + float(1 / step)) * _MARGIN  # the largest error of a float guess
    while abs(steps - guess) <= farthest:
        outer = law.tail((2 * steps + 1) * step / 2)
        inner = law.tail((2 * steps - 1) * step / 2) if steps > 0 else context.mpf(2)  # U < 1: never cut
        if high <= outer * (1 - doubt):
            steps += 1
        elif low >= inner * (1 + doubt):
            steps -= 1
        elif low >= outer * (1 + doubt) and high <= inner * (1 - doubt):
            return steps
        else:
            return None
    raise ArithmeticError(f"quantile and tail of {type(law).__name__} must agree, got {steps} steps for {guess}.")
