"""The guarantee of several releases about one person, taken together, at a fixed delta.

Epsilon is always compared at the same delta, whatever delta each release was calibrated with. So it never falls when a
release is added. There are three bounds, and the smallest one holds:

- the sum of the epsilons, in exact decimals, if the deltas add up to no more than the fixed delta (basic composition,
  Dwork et al. 2006);
- the exact epsilon of all Gaussian releases (Dong, Roth and Su 2022, Corollary 3.3), plus the epsilons of all others;
- the exact epsilon of all releases together, from their privacy loss distributions.

For the last one, the losses of all releases are put on one grid and convolved (Meiser and Mohammadi 2018, Koskela et
al. 2020, with Google's dp-accounting). Everything is rounded up, so the result is an upper bound:

- A loss between two points of the grid is split between both so that neither of the two laws changes its mass. Merging
  the two again is post-processing, so the split pair is at least as easy to tell apart (Doroshenko et al. 2022).
- Normal losses are first composed to one, which is rounded up to the grid.
- What is cut off at the ends counts as an infinite loss, and delta is lowered by more than the convolution's error.

The step of the grid is a power of two that only grows with the releases, and a coarser grid gives a larger epsilon. So
epsilon does not fall when a release is added. It is rounded up to hundredths.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, localcontext
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from dpbart.errors import BadParameter
from dpbart.privacy.calibration import gaussian_epsilon
from dpbart.privacy.guarantee import EXACT as EXACT_DECIMALS
from dpbart.privacy.guarantee import Event, Guarantee, NormalLoss, ResponseLoss, exactly
from dpbart.privacy.mechanisms import known

if TYPE_CHECKING:
    from dp_accounting.pld.pld_pmf import DensePLDPmf

Responses = tuple[tuple[ResponseLoss, int], ...]

_HUNDREDTHS = 100
_FINEST = 2.0**-7  # the step of the grid, in units of epsilon
_POINTS = 2.0**18  # of the grid above 0, at most
_CUT = 1e-6  # the part of delta that is cut off at the ends of each distribution
_ERROR = 1e-10  # with a millionth of delta, ten times the error of delta after a million releases, as measured
_MOST_RELEASES = 1_000_000
_LEAST_MASS = 1e-100


def exact_epsilon(
    responses: Mapping[ResponseLoss, int], *, precision: float, delta: float, below: Decimal
) -> Decimal | None:
    """The least epsilon of these releases at a delta, rounded up to hundredths; None if it is not below a known bound.

    There is at least one response. The precision is the sum of those of all Gaussian releases; 0 if there are none.
    """
    most = math.ceil(below * _HUNDREDTHS) - 1  # the largest number of hundredths that would be an improvement
    if most < 1 or delta <= 2 * _ERROR or sum(responses.values()) > _MOST_RELEASES:
        return None
    if _at_least(responses, precision, delta) * _HUNDREDTHS > most:
        return None
    ordered = tuple(sorted(responses.items(), key=lambda each: (each[0].epsilon, each[0].kept)))
    found = _hundredths(ordered, precision, delta)
    return Decimal(found) / _HUNDREDTHS if found <= most else None


def _at_least(responses: Mapping[ResponseLoss, int], precision: float, delta: float) -> float:
    """A lower bound on epsilon, which shows without any convolution that nothing can be gained.

    With probability T, every response has its largest loss. The others only add to delta, so delta at epsilon is at
    least T times the delta of the Gaussian releases at epsilon minus the sum of the largest losses.
    """
    largest = math.fsum(loss.epsilon * count for loss, count in responses.items())
    log_all = math.fsum(math.log(loss.kept) * count for loss, count in responses.items())  # log T
    log_share = math.log(delta) - log_all
    if log_share >= 0:
        return 0.0
    share = min(math.exp(log_share), 1 - 2**-53)
    normal = gaussian_epsilon(sigma=1 / math.sqrt(precision), delta=share) if precision else 0.0
    return (largest + (normal or math.log1p(-share))) * (1 - 1e-9)


@lru_cache(maxsize=4096)  # a ledger asks the same question for many people
def _hundredths(responses: Responses, precision: float, delta: float) -> int:
    """The least epsilon, in hundredths, at which delta is not exceeded."""
    from scipy.special import ndtri  # slow to import, and few runs need it

    cut, allowed = delta * _CUT, delta * (1 - 1e-6) - _ERROR
    # The highest loss that is not cut off.
    highest = precision / 2 - float(ndtri(cut)) * math.sqrt(precision)
    reach = math.fsum(loss.epsilon * count for loss, count in responses) + highest
    step = max(_FINEST, 2.0 ** math.ceil(math.log2(reach / _POINTS)))
    parts = [_response(loss, step).self_compose(count, cut) for loss, count in responses]
    parts += [_normal(precision, step, cut)] if precision else []
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.compose(part, cut)
    low, high = 0, math.ceil((reach + step) * _HUNDREDTHS) + 1  # delta is exceeded below 0, and not exceeded at `high`
    while high - low > 1:
        middle = (low + high) // 2
        if whole.get_delta_for_epsilon(middle / _HUNDREDTHS) > allowed:
            low = middle
        else:
            high = middle
    return high


def _response(loss: ResponseLoss, step: float) -> DensePLDPmf:
    """The losses of one response, on a grid."""
    from dp_accounting.pld.pld_pmf import DensePLDPmf  # takes more than a second, and few runs need it

    reach = math.floor(loss.epsilon / step) + 1
    masses = np.zeros(2 * reach + 1)  # from -reach to reach
    # Masses too small for the convolution are raised, or moved to a larger loss.
    kept, swapped = max(loss.kept, _LEAST_MASS), loss.swapped if loss.swapped > _LEAST_MASS else 0.0
    masses[reach] = max(0.0, 1 - kept - swapped)
    for value, mass in ((loss.epsilon, kept), (-loss.epsilon, swapped)):
        under = math.floor(value / step)
        above = (under + 1) * step - value  # to the next point above
        # mass * (exp(above) - 1) / (exp(step) - 1) keeps the mass of both laws; written so that nothing overflows.
        lower = mass * math.exp(above - step) * math.expm1(-above) / math.expm1(-step)
        masses[reach + under] += lower
        masses[reach + under + 1] += max(0.0, mass - lower)
    return DensePLDPmf(step, -reach, masses, 0.0, True)


def _normal(precision: float, step: float, cut: float) -> DensePLDPmf:
    """The losses of all Gaussian releases, rounded up to a grid: normal, with variance m and mean m / 2."""
    from dp_accounting.pld.pld_pmf import DensePLDPmf
    from scipy.special import ndtr, ndtri

    width = -float(ndtri(cut)) * math.sqrt(precision)
    first, last = math.floor((precision / 2 - width) / step), math.ceil((precision / 2 + width) / step)
    below = ndtr((np.arange(first, last + 1) * step - precision / 2) / math.sqrt(precision))
    return DensePLDPmf(step, first, np.diff(below, prepend=0.0), float(cut), True)


ONE = "one release: nothing to compose"
SUM = "sum of the epsilons and deltas (basic composition, Dwork et al. 2006)"
EXACT = "exact for Gaussian releases (Dong, Roth and Su 2022) at a fixed delta; others are added"
LOSSES = "exact for all releases, from their privacy loss distributions at a fixed delta, rounded up to hundredths"

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

    At a delta of 0, only pure releases have a finite epsilon.

    >>> tenth = Release((Event("laplace", Decimal("0.1"), Decimal(0)),))
    >>> compose({tenth: 10}, delta=Decimal("1e-5")).epsilon == 1
    True
    """
    if not releases or min(releases.values()) < 1:
        counts = list(releases.values())
        raise BadParameter(f"there must be at least one release, each made at least once, got {counts}.")
    if not 0 <= delta < 1:
        raise BadParameter(f"the fixed delta must be at least 0 and less than 1, got {delta}.")
    added, nothing = _added(releases), Composed(Decimal("Infinity"), Decimal(0), SUM)
    if not added.epsilon.is_finite():
        return nothing
    best = added if added.delta <= delta else nothing
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
