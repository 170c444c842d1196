"""The guarantee of several releases about one person, taken together, at a fixed delta.

Epsilon is always compared at the same delta, whatever delta each release was calibrated with. So it never falls when a
release is added. There are three bounds, and the smallest one holds:

- the sum of the epsilons, in exact decimals, if the deltas add up to no more than the fixed delta (basic composition,
  Dwork et al. 2006);
- the exact epsilon of all Gaussian releases (Dong, Roth and Su 2022, Corollary 3.3), plus the epsilons of all others;
- the exact epsilon of all releases together, from their privacy loss distributions (see `losses`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, localcontext
from functools import lru_cache

from dpbart.errors import BadParameter
from dpbart.privacy.budget.losses import exact_epsilon
from dpbart.privacy.calibration import gaussian_epsilon
from dpbart.privacy.decimals import EXACT as EXACT_DECIMALS
from dpbart.privacy.decimals import exactly
from dpbart.privacy.event import Event
from dpbart.privacy.guarantee import Guarantee
from dpbart.privacy.loss import NormalLoss, ResponseLoss
from dpbart.privacy.mechanisms import known

ONE = "one release: nothing to compose"
SUM = "sum of the epsilons and deltas (basic composition, Dwork et al. 2006)"
EXACT = "exact for Gaussian releases (Dong, Roth and Su 2022) at a fixed delta; others are added"
LOSSES = "exact for all releases, from their privacy loss distributions at a fixed delta, rounded up to hundredths"

_INFINITE = Decimal("Infinity")
_ROUNDED_UP = 1 + 2e-8  # more than a calibration rounds towards more noise: one release keeps the epsilon it was given
_LEAST = 1e-6  # an epsilon below it is stated as this, because a guarantee states an epsilon above 0
_PRECISION_BITS = 30  # coarse enough that the error of a computed epsilon cannot reverse the order of two precisions


@dataclass(frozen=True)
class Release:
    """What is released together: the texts of a row and, if it is randomised, their label."""

    events: tuple[Event, ...]  # those of the texts first, which are all equal
    texts: int = 1

    @property
    def one_text(self) -> Release:
        """One of the texts, with the label."""
        return Release(self.events[self.texts - 1 :])

    @property
    def epsilon(self) -> Decimal:
        """The sum of the epsilons; infinite if nothing is promised."""
        with localcontext(EXACT_DECIMALS):
            return sum((each.epsilon for each in self.events), Decimal(0))

    @property
    def delta(self) -> Decimal:
        """The sum of the deltas."""
        with localcontext(EXACT_DECIMALS):
            return sum((each.delta for each in self.events), Decimal(0))


@dataclass(frozen=True)
class Composed:
    """The guarantee of all releases together, and the rule that gives it. Its delta is at most the fixed one."""

    epsilon: Decimal
    delta: Decimal
    rule: str

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee(float(self.epsilon), float(self.delta))


def compose(releases: Mapping[Release, int], *, delta: Decimal) -> Composed:
    """The guarantee of releases taken together; the mapping says how often each was made.

    Args:
        releases: at least one.
        delta: the fixed delta, at least 0 and less than 1. At 0, only pure releases have a finite epsilon.

    >>> tenth = Release((Event("laplace", Decimal("0.1"), Decimal(0)),))
    >>> compose({tenth: 10}, delta=Decimal("1e-5")).epsilon == 1
    True
    """
    if not releases or min(releases.values()) < 1:
        raise BadParameter(
            f"there must be at least one release, each made at least once, got {list(releases.values())}."
        )
    if not 0 <= delta < 1:
        raise BadParameter(f"the fixed delta must be at least 0 and less than 1, got {delta}.")
    added = _added(releases)
    if not added.epsilon.is_finite():
        return Composed(_INFINITE, Decimal(0), SUM)
    best = added if added.delta <= delta else Composed(_INFINITE, Decimal(0), SUM)
    losses = None if delta == 0 else _Losses.of(releases)
    if losses is None:
        return best
    if losses.precision:
        best = min(best, losses.normal_exact(delta), key=lambda each: each.epsilon)
    if losses.responses:
        exact = exact_epsilon(losses.responses, precision=losses.precision, delta=float(delta), below=best.epsilon)
        best = best if exact is None else Composed(exact, delta, LOSSES)
    return best


def _added(releases: Mapping[Release, int]) -> Composed:
    with localcontext(EXACT_DECIMALS):
        epsilon = sum((each.epsilon * count for each, count in releases.items()), Decimal(0))
        delta = sum((each.delta * count for each, count in releases.items()), Decimal(0))
    return Composed(epsilon, delta, ONE if sum(each.texts * count for each, count in releases.items()) == 1 else SUM)


@dataclass(frozen=True)
class _Losses:
    """The privacy losses of some releases: those of all Gaussians as one, and those of responses."""

    precision: float  # 0 without Gaussians
    responses: Mapping[ResponseLoss, int]
    epsilon: Decimal  # the sum of those of the responses

    @classmethod
    def of(cls, releases: Mapping[Release, int]) -> _Losses | None:
        """The losses, or None if those of any event are not known."""
        precisions, responses, epsilon = [], Counter[ResponseLoss](), Decimal(0)
        for release, count in releases.items():
            for event in release.events:
                loss = known(event.mechanism).loss(event)
                if loss is None:
                    return None
                if isinstance(loss, NormalLoss):
                    precisions.append(count * loss.precision)
                else:
                    responses[loss] += count
                    epsilon = EXACT_DECIMALS.add(epsilon, EXACT_DECIMALS.multiply(event.epsilon, count))
        return cls(_rounded_up(math.fsum(precisions)), responses, epsilon)

    def normal_exact(self, delta: Decimal) -> Composed:
        """The exact epsilon of the Gaussians plus the sum of the others."""
        return Composed(EXACT_DECIMALS.add(_normal_epsilon(self.precision, float(delta)), self.epsilon), delta, EXACT)


def _rounded_up(precision: float) -> float:
    """A precision rounded up to 30 bits."""
    digits, exponent = math.frexp(precision)
    return math.ldexp(math.ceil(math.ldexp(digits, _PRECISION_BITS)), exponent - _PRECISION_BITS)


@lru_cache(maxsize=4096)  # a ledger asks the same question for many people
def _normal_epsilon(precision: float, delta: float) -> Decimal:
    return exactly(max(_LEAST, gaussian_epsilon(sigma=1 / math.sqrt(precision), delta=delta) * _ROUNDED_UP))
