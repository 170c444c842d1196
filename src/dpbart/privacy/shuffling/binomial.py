"""Binomial probabilities, and the expected excess of a count of coin flips, for counts of up to 10^9.

scipy has both only as functions of the incomplete beta function, whose relative error for such counts it does not
state, and the excess would be the difference of two nearly equal tails. Here every step is a sum or a quotient of
positive terms. The errors that remain are stated at each function, and the tests compare them with mpmath.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

TAIL = 1e-20  # the most probability that lies on either side of a window
_LOWER = 1 - 2e-15
_SLACK = 1e-14
_DEPTHS = (15, 63, 255)  # odd, so that the continued fraction is cut where it is too small


def window(trials: int, chance: float) -> tuple[int, int]:
    """The first and the last count of a binomial that matter: each tail outside is below TAIL.

    Bernstein's inequality: a deviation of s has a probability of at most exp(-s^2 / (2 variance + 2 s / 3)).
    """
    exponent = -math.log(TAIL)
    deviation = exponent / 3 + math.sqrt(exponent**2 / 9 + 2 * exponent * trials * chance * (1 - chance))
    mean = trials * chance
    return max(0, math.floor(mean - deviation)), min(trials, math.ceil(mean + deviation))


def log_probability(count: Floats, trials: Floats, chance: float) -> Floats:
    """The logarithm of the probability of each count, from the saddle-point form of Loader (2000).

    The error is below 1e-10, for up to 10^9 trials and counts inside the window. It comes from trials * chance, which
    is rounded; at a chance of 1/2 the error is below 1e-12. Counts and trials broadcast. Where a count is below 0 or
    above trials, the result is minus infinity.
    """
    count, trials = np.broadcast_arrays(count, trials)
    if chance == 0:
        return np.where(count == 0, 0.0, -np.inf)
    inside = (count > 0) & (count < trials)
    some, all_ = np.where(inside, count, 1.0), np.where(inside, trials, 2.0)
    rest = all_ - some
    result = _stirling(all_) - _stirling(some) - _stirling(rest) + 0.5 * np.log(all_ / (2 * math.pi * some * rest))
    result -= _deviance(some, all_ * chance) + _deviance(rest, all_ * (1 - chance))
    result = np.where(inside, result, -np.inf)
    result = np.where(count == 0, trials * math.log1p(-chance), result)
    return np.where((count == trials) & (trials > 0), trials * math.log(chance), result)


def probabilities(first: Floats, columns: int, trials: Floats, chance: float) -> Floats:
    """The probabilities of `columns` counts in a row, from the first of each window. (trials, columns)

    Each window is multiplied up from a count near its mean by the ratios of neighbours. A window of 10^9 trials has
    300,000 counts at most, and each adds less than 5e-15 to the error of the logarithm. So the error is below 2e-9.
    """
    counts = first[:, None] + np.arange(columns)
    anchor = np.clip(np.floor(trials * chance), first, trials)
    with np.errstate(divide="ignore"):  # beyond the last count
        ratios = np.log(np.maximum(trials[:, None] - counts[:, :-1], 0) / (counts[:, 1:]) * (chance / (1 - chance)))
    logs = np.concatenate([np.zeros((len(first), 1)), np.cumsum(ratios, axis=1)], axis=1)
    at_anchor = np.take_along_axis(logs, (anchor - first).astype(np.int64)[:, None], axis=1)
    return np.asarray(np.exp(logs - at_anchor + log_probability(anchor, trials, chance)[:, None]))


def expected_excess(weight: Floats, flips: Floats, above: Floats) -> float:
    """The weighted sum of E[(N - flips / 2 - above)+] for the heads N of fair coins, rounded up.

    Let a be the least count greater than flips / 2 + above. De Moivre's identity gives the mean of N - flips / 2 over
    N >= a, and Didonato and Morris (1992) give the tail itself as a continued fraction K:

        E[(N - flips / 2 - above)+] = a / 2 * Pr[N = a] * (1 - above * K),   Pr[N >= a] = a / 2 * Pr[N = a] * K.

    All elements of K are positive, so cutting it after an odd number of terms makes it too small, and the result too
    large. `above` is lowered and _SLACK is added to cover the rounding. Use `expected_shortfall` where
    1 - above * K can be as small as the slack.
    """
    above = above * _LOWER
    first = np.floor(flips / 2 + above) + 1
    reached = first <= flips
    weight, flips, first, above = weight[reached], flips[reached], first[reached], above[reached]
    weight = weight * first / 2 * np.exp(log_probability(first, flips, 0.5))
    total = 0.0
    for depth in _DEPTHS:
        least, most = (_tail_fraction(flips, first, terms) for terms in (depth, depth + 1))
        total = float(np.sum(weight * (np.maximum(1 - above * least, 0) + _SLACK)))
        if np.sum(weight * above * (most - least)) <= 1e-4 * total:
            break
    return total


def expected_shortfall(weight: Floats, flips: Floats, below: Floats) -> float:
    """The weighted sum of E[(below - J)+] for the tails J of fair coins: a sum over J = 0, 1, 2 ..., rounded up."""
    total = 0.0
    for tails in range(math.ceil(np.max(below, initial=0.0))):
        probability = np.exp(log_probability(np.full_like(flips, tails), flips, 0.5))
        total += float(np.sum(weight * probability * np.maximum(below - tails, 0)))
    return total


def _tail_fraction(flips: Floats, first: Floats, terms: int) -> Floats:
    """K of Pr[N >= first], cut after `terms` terms.

    Didonato and Morris 1992, equation 9, at x = 1/2, a = first, b = flips - first + 1.
    """
    beyond = flips - first + 1
    lead = (2 * first - flips + 1) / 2
    tail = np.zeros_like(flips)
    for n in range(terms, 0, -1):
        left = np.maximum(beyond - n, 0)  # 0 ends the fraction: it is finite
        wide = first + 2 * n
        numerator = (first + n - 1) * (flips + n) * n * left / (2 * (wide - 1)) ** 2
        denominator = n + n * left / (2 * (wide - 1)) + (first + n) * (lead + 1.5 * n) / (wide + 1)
        tail = numerator / (denominator + tail)
    return np.asarray(1 / (first * lead / (first + 1) + tail))


def _stirling(number: Floats) -> Floats:
    """log n! minus Stirling's formula, for n of at least 1."""
    small = number < 16
    n = np.where(small, 16.0, number)
    series = (1 / 12 - (1 / 360 - (1 / 1260 - (1 / 1680 - 1 / 1188 / n**2) / n**2) / n**2) / n**2) / n
    return np.where(small, _FIRST[np.where(small, number, 0).astype(np.int64)], series)


def _deviance(count: Floats, mean: Floats) -> Floats:
    """count log(count / mean) + mean - count. A series where the two are close, because the terms would cancel."""
    v = (count - mean) / (count + mean)
    close = np.abs(v) < 0.1
    small = np.where(close, v, 0.0)
    square = small * small
    series = np.zeros_like(small)
    for power in range(17, 1, -2):
        series = (series + 1 / power) * square
    near = (count - mean) * small + 2 * count * small * series
    far = count * np.log(np.where(close, 1.0, count / mean)) + mean - count
    return np.where(close, near, far)


# 0 has no such value, and nobody asks for it.
_FIRST = np.array(
    [0.0] + [math.lgamma(n + 1) - (n + 0.5) * math.log(n) + n - 0.5 * math.log(2 * math.pi) for n in range(1, 16)]
)
