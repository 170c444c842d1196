"""Clipping: bound a latent, and state how far apart two clipped latents can be.

| clip                     | L1 sensitivity | L2 sensitivity |
|--------------------------|----------------|----------------|
| by value, [-C, C]        | 2 C n          | 2 C sqrt(n)    |
| by L2 norm, radius C     | 2 C sqrt(n)    | 2 C            |

n is the number of entries of one document. A sensitivity is never rounded down, and a clipped latent never exceeds its
bound, not even by a rounding error. A row with NaN or infinite entries is clipped like any other: the path that a text
takes must not reveal how the encoder reacted to it.
"""

import math
from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from dpbart.errors import BadParameter
from dpbart.privacy.calibration import check_positive

Floats = npt.NDArray[np.float64]

# Norms have a relative error below 1e-12 (n < 10^7, float64); the ball is shrunk by more than that.
_INSIDE = 1 - 1e-9
# Two roundings of a product have a relative error of at most 2^-52.
_ROUND_UP = 1 + 2.0**-50


@dataclass(frozen=True)
class Sensitivity:
    """The largest distance between two clipped latents, in the L1 and the L2 norm."""

    l1: float
    l2: float

    def __post_init__(self) -> None:
        check_positive("l1 sensitivity", self.l1)
        check_positive("l2 sensitivity", self.l2)


@dataclass(frozen=True)
class Bounds:
    """What a clip guarantees about one document."""

    clip: str  # its name, such as "value:0.1"
    bound: float  # the largest absolute value of an entry
    entries: int
    sensitivity: Sensitivity


@dataclass(frozen=True, eq=False)
class Clipped:
    """A bounded latent. Made by a `Clip`."""

    values: Floats  # (batch, ...)
    bounds: Bounds  # of one document

    def __post_init__(self) -> None:
        _check_shape(self.values)
        # The values are private, so the message does not show them.
        bound = self.bounds.bound
        if not bool(np.all(np.abs(self.values) <= bound)):
            raise BadParameter(f"clipped values must be within {bound:g}, got one outside. Use ByValue or ByNorm.")


@dataclass(frozen=True)
class Clip(ABC):
    """Bounds a latent."""

    kind: ClassVar[str]
    bound: float  # the largest absolute value of an entry

    def __post_init__(self) -> None:
        # Within this range no product or quotient in this room can overflow, and float32 holds the result.
        if not 1e-12 <= self.bound <= 1e12:
            raise BadParameter(f"bound must be between 1e-12 and 1e12, got {self.bound}. Rescale the latent.")

    @property
    def name(self) -> str:
        """For recipes and cards, such as "value:0.1"."""
        return f"{self.kind}:{self.bound:.12g}"

    def sensitivity(self, entries: int) -> Sensitivity:
        """The largest distance between two documents with this number of entries."""
        if not entries >= 1:
            raise BadParameter(f"entries must be at least 1, got {entries}.")
        return self._sensitivity(entries)

    def clip(self, latent: npt.NDArray[np.floating]) -> Clipped:
        """The latent (batch, ...), bounded."""
        _check_shape(latent)
        rows = latent.astype(np.float64).reshape(len(latent), math.prod(latent.shape[1:]))  # (batch, entries)
        return Clipped(self._bounded(rows).reshape(latent.shape), bounds_of(self, entries=rows.shape[1]))

    @abstractmethod
    def _sensitivity(self, entries: int) -> Sensitivity: ...

    @abstractmethod
    def _bounded(self, rows: Floats) -> Floats: ...


class ByValue(Clip):
    """Clips each entry into [-bound, bound] (DP-BART). NaN becomes 0, and an infinity the bound with its sign.

    >>> round(ByValue(0.1).sensitivity(entries=3640).l2, 6)
    12.066483
    >>> ByValue(0.1).clip(np.array([[0.05, -7.0]])).values
    array([[ 0.05, -0.1 ]])
    """

    kind = "value"

    def _sensitivity(self, entries: int) -> Sensitivity:
        return Sensitivity(2 * self.bound * entries * _ROUND_UP, 2 * self.bound * math.sqrt(entries) * _ROUND_UP)

    def _bounded(self, rows: Floats) -> Floats:
        known = np.nan_to_num(rows, nan=0.0, posinf=self.bound, neginf=-self.bound)
        return np.clip(known, -self.bound, self.bound)


class ByNorm(Clip):
    """Clips each document into the ball of radius `bound` in the L2 norm (ADePT).

    NaN counts as 0, and an infinity as the largest float.

    >>> ByNorm(5.0).clip(np.array([[30.0, 40.0]])).values.round(6)
    array([[3., 4.]])
    """

    kind = "l2"

    def _sensitivity(self, entries: int) -> Sensitivity:
        across = 2 * self.bound  # exact: a power of two times a float
        return Sensitivity(across * math.sqrt(entries) * _ROUND_UP, across)

    def _bounded(self, rows: Floats) -> Floats:
        return _into_ball(np.nan_to_num(rows, nan=0.0), radius=self.bound * _INSIDE)


def clip_named(name: str) -> Clip:
    """The clip of a name, such as "value:0.1". The bound has 12 digits, as in the name.

    >>> clip_named("l2:5")
    ByNorm(bound=5.0)
    """
    kind, _, bound = name.partition(":")
    with suppress(ValueError, KeyError):  # no clip, not a number, or out of range
        made = {each.kind: each for each in (ByValue, ByNorm)}[kind](float(bound))
        if made.name == name:
            return made
    raise BadParameter(f"clip must be value:C or l2:C with a bound C, got {name[:40]!r}.")


def bounds_of(clip: Clip, *, entries: int) -> Bounds:
    """What a clip guarantees about a document with this number of entries."""
    return Bounds(clip.name, clip.bound, entries, clip.sensitivity(entries))


def _into_ball(rows: Floats, *, radius: float) -> Floats:
    """Scale rows with an L2 norm above the radius down to it; leave the others unchanged."""
    peak = np.abs(rows).max(axis=1, keepdims=True)  # (batch, 1)
    # The largest entry is divided out first: squares of large entries would overflow.
    unit = rows / np.where(peak > 0, peak, 1.0)  # (batch, entries), within [-1, 1]
    length = np.sqrt(np.square(unit).sum(axis=1, keepdims=True))  # (batch, 1), 0 or in [1, sqrt n]
    reach = radius / np.maximum(length, 1.0)  # (batch, 1): the largest peak with which the row fits into the ball
    return np.where(peak > reach, unit * reach, rows)


def _check_shape(latent: npt.NDArray[np.floating]) -> None:
    if latent.ndim < 2 or math.prod(latent.shape[1:]) == 0:
        raise BadParameter(f"latent must have a batch dimension and at least one entry, got shape {latent.shape}.")
