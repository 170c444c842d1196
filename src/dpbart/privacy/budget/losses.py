"""The exact epsilon of responses and Gaussian releases together, by their privacy loss distributions.

The losses of all releases are put on one grid and convolved (Meiser and Mohammadi 2018, Koskela et al. 2020, with
Google's dp-accounting). Everything is rounded against us, so the result is an upper bound:

- A loss between two points of the grid is split between both so that neither of the two laws changes its mass. Merging
  the two again is post-processing, so the split pair is at least as easy to tell apart (Doroshenko et al. 2022).
- Normal losses, which are composed to one before, are rounded up to the grid.
- What is cut off at the ends counts as an infinite loss, and delta is lowered by more than the convolution's error.

The step of the grid is a power of two that only grows with the releases, and a coarser grid gives a larger epsilon. So
epsilon does not fall when a release is added. It is rounded up to hundredths.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from dpbart.privacy.calibration import gaussian_epsilon
from dpbart.privacy.loss import ResponseLoss

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

    Args:
        responses: the losses of responses, and how often each was made; at least one.
        precision: the sum of the precisions of all Gaussian releases; 0 if there are none.
        delta: between 0 and 1, both excluded.
        below: an epsilon that is known to hold.
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
    cut, allowed = delta * _CUT, delta * (1 - 1e-6) - _ERROR
    reach = math.fsum(loss.epsilon * count for loss, count in responses) + _highest(precision, cut)
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


def _highest(precision: float, cut: float) -> float:
    """The highest loss of the Gaussian releases that is not cut off."""
    from scipy.special import ndtri  # slow to import, and few runs need it

    return precision / 2 - float(ndtri(cut)) * math.sqrt(precision)
