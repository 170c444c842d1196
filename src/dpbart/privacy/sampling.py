"""Random noise on a grid, drawn exactly.

Floating-point noise leaks through its low bits (Mironov 2012), so noise here is a whole number of grid steps:
continuous noise, rounded to the nearest step. It is drawn by inversion with lazily drawn bits:

1. A fair coin is the sign. A uniform U in [0, 1) stands for the tail probability Pr[|X| >= x] of the unit noise X.
   With tail(x) that probability, the noise is j steps long if and only if
   tail((j + 1/2) grid / scale) <= U < tail((j - 1/2) grid / scale).
2. The first b bits m of U say that U lies in [m, m + 1) / 2^b. If that whole interval lies in one such cell, the
   further bits do not matter, and the draw is decided. Floats see this at once for nearly every draw: both ends
   of the interval are inverted, with a margin far wider than any float error, and fall into the same cell.
3. If not, 64 more bits are drawn and the interval is compared with the edges in exact arithmetic, until it lies in
   one cell.

So the noise has exactly the distribution of round(scale X / grid). For a value on the grid, value + rounded noise =
the rounding of (value + noise): post-processing of the continuous mechanism, with exactly its guarantee and no slack
in epsilon or delta.
"""

import hashlib
import math
import os
from typing import Protocol

import mpmath
import numpy as np
import numpy.typing as npt
from scipy.special import erfcinv

from dpbart.errors import BadParameter

Floats = npt.NDArray[np.float64]
Words = npt.NDArray[np.uint64]

# Added to a quantile, relatively and absolutely, before a float may decide. The error of a quantile is below 1e-15
# in the same sense: scipy's own (tested against mpmath from tail 2^-63 to 1), and the rounding of m / 2^63 to a float.
_MARGIN = 1e-12
# Bits of precision beyond those drawn. Half of them are counted as doubt, far more than the error of a tail.
_GUARD = 64


class Entropy(Protocol):
    """Where random bits come from."""

    @property
    def private(self) -> bool:
        """Whether nobody else can know the bits."""

    def words(self, count: int) -> Words:
        """So many fresh, independent, uniform 64-bit words."""


class SystemEntropy:
    """Random bits of the operating system. It has no state: nothing to fork, pickle, seed or save."""

    @property
    def private(self) -> bool:
        """True: only the kernel knows the bits."""
        return True

    def words(self, count: int) -> Words:
        """So many fresh words."""
        return np.frombuffer(os.urandom(8 * count), dtype=np.uint64)


class ReplaySeed:
    """NOT PRIVATE: the same bits for the same seed, to test and to replay.

    Whoever knows or guesses the seed subtracts the noise and has the latent. Every latent made with it says
    NOT PRIVATE, whatever the mechanism.
    """

    def __init__(self, seed: int) -> None:
        self.number = int(seed)
        self._calls = 0

    @property
    def private(self) -> bool:
        """False, always."""
        return False

    def words(self, count: int) -> Words:
        """The next words of this seed; they depend on the calls made before."""
        stream = hashlib.shake_256(f"dpbart replay {self.number} {self._calls}".encode())
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
        """The x with Pr[|X| >= x] = tail."""
        return np.asarray(erfcinv(tail) * math.sqrt(2), dtype=np.float64)

    def tail(self, x: mpmath.mpf) -> mpmath.mpf:
        """Pr[|X| >= x] = erfc(x / sqrt 2)."""
        return x.context.erfc(x / x.context.sqrt(2))


class LaplaceLaw:
    """The Laplace distribution of density exp(-|x|) / 2."""

    def quantile(self, tail: Floats) -> Floats:
        """The x with Pr[|X| >= x] = tail."""
        with np.errstate(divide="ignore"):  # log 0: the tail goes on for ever
            return -np.log(tail)

    def tail(self, x: mpmath.mpf) -> mpmath.mpf:
        """Pr[|X| >= x] = exp(-x)."""
        return x.context.exp(-x)


def grid_for(*, scale: float, typical: float) -> float:
    """The grid that noise and latent are put on: a power of two.

    At most scale / 1024, so that rounding the noise loses nothing (its variance grows by 10^-7). At most typical /
    256, so that under strong noise the latent is not flattened to 0. But no finer than scale / 2^32 asks for, where
    the latent is far below what any sum over entries could recover: this keeps the noise below 2^39 steps for 50
    scales, in the range of int64 and of exact float64, and the float path of `draw_rounded` sharp enough to decide.

    Args:
        scale: of the noise.
        typical: mean absolute entry of the most spread-out latent that the clip lets through.

    >>> grid_for(scale=1.0, typical=1.0) == 1 / 1024
    True
    >>> grid_for(scale=1000.0, typical=1.0) == 1 / 256
    True
    """
    for name, value in (("scale", scale), ("typical", typical)):
        if not 0 < value < math.inf:
            raise BadParameter(f"{name} must be greater than 0 and finite, got {value}.")
    finest = min(scale / 1024, max(typical / 256, scale / 2**32))
    return math.ldexp(0.5, math.frexp(finest)[1])  # the largest power of two that is not above it


def draw_rounded(
    law: Law, *, scale: float, grid: float, count: int, entropy: Entropy, _bits: int = 63
) -> npt.NDArray[np.int64]:
    """Independent draws of round(scale X / grid), X following the law: exactly, see the module.

    Args:
        law: of the noise, at unit scale.
        scale: of the noise; greater than 0.
        grid: a power of two, at least scale * 50 / 2^53.
        count: how many.
        entropy: where the bits come from; a word a draw, rarely more.
        _bits: of a word that floats may decide on; tests lower it to have more draws decided exactly.

    Returns:
        The draws in units of the grid.
    """
    _check_grid(scale, grid)
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


def _decide(law: Law, start: int, bits: int, *, scale: float, grid: float, entropy: Entropy) -> int:
    """Draw further bits of U until it lies in one cell, and return that cell, in exact arithmetic."""
    context = mpmath.MPContext()  # its own: another thread may set the precision of the shared one
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
    """The cell that holds the whole of [start, start + 1) / 2^bits, or None where an edge may cut it."""
    context = step.context
    low, high = context.ldexp(start, -bits), context.ldexp(start + 1, -bits)
    # Relative errors: 2^-prec each for the argument and the tail, the first times at most x^2 < 2 bits.
    doubt = context.ldexp(1, _GUARD // 2 - context.prec)
    steps = guess
    farthest = 2 + (guess + float(1 / step)) * _MARGIN  # a float guess is no farther off
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


def _check_grid(scale: float, grid: float) -> None:
    if not 0 < scale < math.inf:
        raise BadParameter(f"scale must be greater than 0 and finite, got {scale}.")
    if not 0 < grid < math.inf or math.frexp(grid)[0] != 0.5:
        raise BadParameter(f"grid must be a power of two, got {grid}. Use grid_for.")
    if not scale / grid * 50 < 2**53:
        raise BadParameter(f"grid must be at least scale * 50 / 2^53, got {grid} at scale {scale}. Use grid_for.")
