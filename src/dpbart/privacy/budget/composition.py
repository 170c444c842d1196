"""What several releases about one person promise together.

Two bounds, both at the sum of the deltas, so that the smaller one holds too:

- the sum of the epsilons (basic composition, Dwork et al. 2006), in exact decimals: 0.1 ten times is 1.0;
- for Gaussian releases the exact answer: releases with noise multipliers s_i = sigma_i / L2_i are together one Gaussian
  with 1 / s^2 = sum of 1 / s_i^2 (Dong, Roth and Su 2022, Corollary 3.3), whose epsilon at that delta is solved for;
  releases of other kinds are added to it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Context, Decimal, Inexact, InvalidOperation, localcontext
from functools import lru_cache

from dpbart.errors import BadParameter
from dpbart.privacy.calibration import gaussian_epsilon
from dpbart.privacy.clipping import Sensitivity
from dpbart.privacy.guarantee import Guarantee
from dpbart.privacy.mechanisms import Gaussian, Mechanism

ONE = "one release: nothing to compose"
SUM = "sum of the epsilons and deltas (basic composition, Dwork et al. 2006)"
EXACT = "exact for Gaussian releases (Dong, Roth and Su 2022), at the sum of the deltas; others are added"

# A budget has at most 17 digits and a count far fewer than 30: nothing is ever rounded, and if it were, it would raise.
_ARITHMETIC = Context(prec=150, traps=[Inexact, InvalidOperation])
_ROUNDED_UP = 1 + 1e-12  # more than the error of a sum of squares
_UNIT = Sensitivity(l1=1.0, l2=1.0)


@dataclass(frozen=True)
class Release:
    """What one release spends.

    Attributes:
        epsilon: of all that is released at once: the text and its label; infinite where nothing is promised.
        delta: at least 0.
        multiplier: of normal noise, sigma over the L2 sensitivity; None for other mechanisms.
        beside: the part of epsilon that normal noise does not spend: the label's.
    """

    epsilon: Decimal
    delta: Decimal
    multiplier: float | None = None
    beside: Decimal = Decimal(0)

    @classmethod
    def of(cls, mechanism: Mechanism, *, private: bool, label: float = 0.0) -> Release:
        """One text by a mechanism, and the epsilon of a label beside it; `private` is whether its entropy is."""
        guarantee = mechanism.guarantee
        if not (private and guarantee.private):
            return cls(Decimal("Infinity"), Decimal(0))
        multiplier = mechanism.noise_scale(_UNIT) if isinstance(mechanism, Gaussian) else None
        both = plus(exactly(guarantee.epsilon), exactly(label))
        return cls(both, exactly(guarantee.delta), multiplier, exactly(label))


@dataclass(frozen=True)
class Composed:
    """What all releases promise together, and by which rule."""

    epsilon: Decimal
    delta: Decimal
    rule: str

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee(float(self.epsilon), float(self.delta))


def exactly(value: float) -> Decimal:
    """The decimal that a person wrote, and not the nearest binary fraction.

    >>> exactly(0.1) * 10 == 1
    True
    """
    return Decimal(repr(value))


def written(value: Decimal) -> str:
    """A decimal as people write it: no exponent unless it is very small, no zeros at the end.

    >>> [written(Decimal(each)) for each in ("1E+3", "0.10", "1e-05", "Infinity")]
    ['1000', '0.1', '0.00001', 'infinite']
    """
    if not value.is_finite():
        return "infinite"
    return f"{value.normalize():f}" if value == 0 or abs(value) >= Decimal("1e-6") else f"{value.normalize():e}"


def plus(first: Decimal, second: Decimal) -> Decimal:
    """Two budgets together, exactly."""
    with localcontext(_ARITHMETIC):
        return first + second


def times(value: Decimal, count: int) -> Decimal:
    """So many times a budget, exactly."""
    with localcontext(_ARITHMETIC):
        return value * count


def minus(first: Decimal, second: Decimal) -> Decimal:
    """What is left of a budget, exactly, and never below 0."""
    with localcontext(_ARITHMETIC):
        return max(first - second, Decimal(0)) if first.is_finite() else first


def compose(releases: Mapping[Release, int]) -> Composed:
    """What releases promise together, each so many times.

    >>> compose({Release(Decimal("0.1"), Decimal(0)): 10}).epsilon == 1
    True
    """
    if not releases or min(releases.values()) < 1:
        raise BadParameter(f"releases must be at least one, each at least once, got {list(releases.values())}.")
    with localcontext(_ARITHMETIC):
        epsilon = sum((each.epsilon * count for each, count in releases.items()), Decimal(0))
        delta = sum((each.delta * count for each, count in releases.items()), Decimal(0))
        if sum(releases.values()) == 1:
            return Composed(epsilon, delta, ONE)
        precision = sum(count / each.multiplier**2 for each, count in releases.items() if each.multiplier is not None)
        if not precision or not epsilon.is_finite() or not 0 < delta < 1:
            return Composed(epsilon, delta, SUM)
        others = [(each.epsilon if each.multiplier is None else each.beside, n) for each, n in releases.items()]
        exact = _gaussian(precision, float(delta)) + sum((part * n for part, n in others), Decimal(0))
        return Composed(exact, delta, EXACT) if exact < epsilon else Composed(epsilon, delta, SUM)


@lru_cache(maxsize=4096)  # a ledger asks the same for many people
def _gaussian(precision: float, delta: float) -> Decimal:
    # float(delta) is off by at most 2^-53 of it, far less than `gaussian_epsilon` rounds up.
    return exactly(gaussian_epsilon(sigma=1 / math.sqrt(precision * _ROUNDED_UP), delta=delta))
