"""Clipping: bound a latent, and state how far apart two clipped latents can be.

| clip                     | L1 sensitivity | L2 sensitivity |
|--------------------------|----------------|----------------|
| by value, [-C, C]        | 2 C n          | 2 C sqrt(n)    |
| by L2 norm, radius C     | 2 C sqrt(n)    | 2 C            |
| by L1 norm, radius C     | 2 C            | 2 C            |

n is the number of entries of one document. A sensitivity is never rounded down, and a clipped latent never exceeds its
bound, not even by a rounding error. A row with NaN or infinite entries is clipped like any other: the path that a text
takes must not reveal how the encoder reacted to it.
"""

import math
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

from dpbart.errors import BadParameter

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
        for name, value in (("l1", self.l1), ("l2", self.l2)):
            if not 0 < value < math.inf:
                raise BadParameter(f"{name} sensitivity must be greater than 0 and finite, got {value}.")


@dataclass(frozen=True)
class Bounds:
    """What a clip guarantees about one document.

    Attributes:
        clip: the name of the clip, such as "value:0.1".
        bound: the largest absolute value of an entry.
        entries: the number of entries of one document.
        sensitivity: the largest distance between two documents.
    """

    clip: str
    bound: float
    entries: int
    sensitivity: Sensitivity


@dataclass(frozen=True, eq=False)
class Clipped:
    """A bounded latent with its sensitivity. Made by a `Clip`.

    Attributes:
        values: the latent; the first dimension is the batch, the rest is one document.
        l1: L1 sensitivity of one document.
        l2: L2 sensitivity of one document.
        bound: the largest absolute value of an entry.
        clip: the name of the clip for the recipe, such as "value:0.1".
    """

    values: Floats  # (batch, ...)
    l1: float
    l2: float
    bound: float
    clip: str

    def __post_init__(self) -> None:
        _check_shape(self.values)
        _ = self.sensitivity
        # The values are private, so the message does not show them.
        if not bool(np.all(np.abs(self.values) <= self.bound)):
            raise BadParameter(f"clipped values must be within {self.bound:g}, got one outside. Use ByValue or ByNorm.")

    @property
    def sensitivity(self) -> Sensitivity:
        """The sensitivity, without the data."""
        return Sensitivity(self.l1, self.l2)

    @property
    def bounds(self) -> Bounds:
        """What the clip guarantees, without the data."""
        return Bounds(self.clip, self.bound, math.prod(self.values.shape[1:]), self.sensitivity)


class Clip(Protocol):
    """Bounds a latent."""

    @property
    def name(self) -> str:
        """For recipes and cards, such as "value:0.1"."""

    @property
    def bound(self) -> float:
        """The largest absolute value of an entry."""

    def sensitivity(self, entries: int) -> Sensitivity:
        """The largest distance between two documents with this number of entries."""

    def clip(self, latent: npt.NDArray[np.floating]) -> Clipped:
        """The latent (batch, ...), bounded."""


@dataclass(frozen=True)
class ByValue:
    """Clips each entry into [-bound, bound] (DP-BART).

    >>> round(ByValue(0.1).sensitivity(entries=3640).l2, 6)
    12.066483
    >>> ByValue(0.1).clip(np.array([[0.05, -7.0]])).values
    array([[ 0.05, -0.1 ]])
    """

    bound: float

    def __post_init__(self) -> None:
        _check_bound(self.bound)

    @property
    def name(self) -> str:
        """Such as "value:0.1"."""
        return f"value:{self.bound:.12g}"

    def sensitivity(self, entries: int) -> Sensitivity:
        """The largest distance between two documents with this number of entries."""
        _check_entries(entries)
        return Sensitivity(
            l1=2 * self.bound * entries * _ROUND_UP,
            l2=2 * self.bound * math.sqrt(entries) * _ROUND_UP,
        )

    def clip(self, latent: npt.NDArray[np.floating]) -> Clipped:
        """The latent (batch, ...), clipped; NaN becomes 0, and an infinity becomes the bound with its sign."""
        _check_shape(latent)
        known = np.nan_to_num(latent.astype(np.float64), nan=0.0, posinf=self.bound, neginf=-self.bound)
        values = np.clip(known, -self.bound, self.bound)  # (batch, ...)
        far = self.sensitivity(math.prod(latent.shape[1:]))
        return Clipped(values, l1=far.l1, l2=far.l2, bound=self.bound, clip=self.name)


@dataclass(frozen=True)
class ByNorm:
    """Clips each document into the ball of radius `bound` in the L2 (order 2, ADePT) or the L1 norm (order 1).

    >>> ByNorm(5.0).clip(np.array([[30.0, 40.0]])).values.round(6)
    array([[3., 4.]])
    >>> ByNorm(5.0, order=1).sensitivity(entries=1024)
    Sensitivity(l1=10.0, l2=10.0)
    """

    bound: float
    order: Literal[1, 2] = 2

    def __post_init__(self) -> None:
        _check_bound(self.bound)
        if self.order not in (1, 2):
            raise BadParameter(f"order must be 1 or 2, got {self.order}.")

    @property
    def name(self) -> str:
        """Such as "l2:5"."""
        return f"l{self.order}:{self.bound:.12g}"

    def sensitivity(self, entries: int) -> Sensitivity:
        """The largest distance between two documents with this number of entries."""
        _check_entries(entries)
        across = 2 * self.bound  # exact: a power of two times a float
        return Sensitivity(l1=across if self.order == 1 else across * math.sqrt(entries) * _ROUND_UP, l2=across)

    def clip(self, latent: npt.NDArray[np.floating]) -> Clipped:
        """The latent (batch, ...), scaled into the ball; NaN counts as 0, an infinity as the largest float."""
        _check_shape(latent)
        entries = math.prod(latent.shape[1:])
        rows = np.nan_to_num(latent.astype(np.float64), nan=0.0).reshape(len(latent), entries)  # (batch, entries)
        values = _into_ball(rows, radius=self.bound * _INSIDE, order=self.order).reshape(latent.shape)
        far = self.sensitivity(entries)
        return Clipped(values, l1=far.l1, l2=far.l2, bound=self.bound, clip=self.name)


def clip_named(name: str) -> Clip:
    """The clip of a name, such as "value:0.1". The bound has 12 digits, as in the name.

    >>> clip_named("l2:5")
    ByNorm(bound=5.0, order=2)

    Raises:
        BadParameter: No clip has this name.
    """
    kind, _, bound = name.partition(":")
    made: Clip | None = None
    with suppress(ValueError):  # not a number, or out of range
        if kind == "value":
            made = ByValue(float(bound))
        elif kind in ("l1", "l2"):
            made = ByNorm(float(bound), order=1 if kind == "l1" else 2)
    if made is None or made.name != name:
        raise BadParameter(f"clip must be value:C, l2:C or l1:C with a bound C, got {name[:40]!r}.")
    return made


def bounds_of(clip: Clip, *, entries: int) -> Bounds:
    """What a clip guarantees about a document with this number of entries."""
    return Bounds(clip.name, clip.bound, entries, clip.sensitivity(entries))


def _into_ball(rows: Floats, *, radius: float, order: int) -> Floats:
    """Scale rows with a norm above the radius down to it; leave the others unchanged."""
    peak = np.abs(rows).max(axis=1, keepdims=True)  # (batch, 1)
    # The largest entry is divided out first: squares of large entries would overflow.
    unit = rows / np.where(peak > 0, peak, 1.0)  # (batch, entries), within [-1, 1]
    if order == 2:
        length = np.sqrt(np.square(unit).sum(axis=1, keepdims=True))  # (batch, 1), 0 or in [1, sqrt n]
    else:
        length = np.abs(unit).sum(axis=1, keepdims=True)
    reach = radius / np.maximum(length, 1.0)  # (batch, 1): the largest peak with which the row fits into the ball
    return np.where(peak > reach, unit * reach, rows)


def _check_bound(bound: float) -> None:
    # Within this range no product or quotient in this room can overflow, and float32 holds the result.
    if not 1e-12 <= bound <= 1e12:
        raise BadParameter(f"bound must be between 1e-12 and 1e12, got {bound}. Rescale the latent.")


def _check_entries(entries: int) -> None:
    if not entries >= 1:
        raise BadParameter(f"entries must be at least 1, got {entries}.")


def _check_shape(latent: npt.NDArray[np.floating]) -> None:
    if latent.ndim < 2 or math.prod(latent.shape[1:]) == 0:
        raise BadParameter(f"latent must have a batch dimension and at least one entry, got shape {latent.shape}.")
