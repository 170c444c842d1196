"""Shares behind a channel whose noise is known: unbiased estimates, and intervals that all hold at once.

**Randomised response** (files rewritten one by one, also shuffled: an order changes no count). A text is kept with
probability g, and otherwise its output is uniform. Let f be the chance that a kept text touches a part of the book, and
m the same for a uniform output. Then the count of a part has the mean N (g t + b), where b = (1 - g) m, and t is the
mean of f over the texts. (count / N - b) / g is unbiased for t.

Its variance is N (b (1 - b) + g (1 - 2b) t - g^2 mean(f^2)): it depends on how f varies among the texts. If a text has
one sentence at each place, f is 0 or 1, and mean(f^2) = t. If its set spans parts of the book, f lies between, and
mean(f^2) = t r with r = t + s (1 - t), for some s from 0 to 1: how alike the sentences of a set are. The law used is
that of t N / r texts with f = r, and others with f = 0. It has this mean and this variance, and it is the law itself
for s = 1. For s = 0 it is a binomial law, the widest of all (Hoeffding 1956).

An interval holds the shares whose law does not make the count improbable. Half of the count's own probability is added
to that of the counts beyond it (mid-p), so that intervals miss as often as they may, and not less. A share so small
that no count is improbably low has all of its chance to miss on the other side.

**Two-sided geometric noise** on each count of votes (synthesised files). A geometric number is an exponential one
rounded down. So a sum of n such noises is less than n units away from a sum of n Laplace noises. That has the law of a
gamma variable of random shape and sign: P(S > x) is the sum over k < n of C(n - 1 + k, k) / 2^(n + k) Q(n - k, x).
Noises of different weights, as in a share of a group whose size has noise too, have no such sum. Their tails come from
the saddlepoint approximation of Lugannani and Rice (1980), which is off by at most 4% of a tail here.

**All at once.** Each interval misses with the probability at which independent ones hold together in 95% of files.
Noises of votes are independent. Counts of texts are nearly so, but many parts of a book may have the same law of few
values. If their laws at the estimates miss more often than that, the probability is lowered until they do not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy.special import bdtr, gammaincc, gammaln, ndtr, xlog1py, xlogy

LEVEL = 0.95  # of all intervals of one answer together
Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]
_STEPS = 50  # bisections
_MANY = 20  # texts
_WIDE = 7.0  # standard deviations of a binomial that are looked at, and as many values


@dataclass(frozen=True)
class Bounds:
    """Estimates, and an interval around each: (parts,). An unbiased estimate may lie outside its interval."""

    estimate: Floats
    low: Floats
    high: Floats

    def minus(self, other: Bounds) -> Bounds:
        """The differences to independent estimates, with as wide intervals (Zou and Donner 2008)."""
        first, second = (np.clip(each.estimate, each.low, each.high) for each in (self, other))
        down = np.hypot(first - self.low, other.high - second)
        up = np.hypot(self.high - first, second - other.low)
        return Bounds(self.estimate - other.estimate, first - second - down, first - second + up)


@dataclass(frozen=True)
class Responses:
    """Counts of texts that touch each part of a book, after a response.

    Attributes:
        texts: N, at least 1.
        counts: (parts,).
        kept: g.
        noise: b, (parts,).
        alike: s.
    """

    texts: int
    counts: Counts
    kept: float
    noise: Floats
    alike: float

    @property
    def estimate(self) -> Floats:
        """Of the shares, (parts,). Unbiased, so it may be below 0 or above 1."""
        shares: Floats = (self.counts / self.texts - self.noise) / self.kept
        return shares

    def bounds(self, miss: float) -> Bounds:
        """Intervals that each miss with about this probability."""
        once, parts = self.different()
        low = _largest(lambda share: once.above(share) < miss / 2, len(once.counts))
        low_alone = _largest(lambda share: once.above(share) < miss, len(once.counts))
        never_low = _largest(lambda share: once.nothing(share) > miss, len(once.counts))
        high = _largest(lambda share: once.above(share) < 1 - miss / 2, len(once.counts))
        low = np.minimum(low_alone, np.maximum(low, never_low))
        return Bounds(self.estimate, low[parts], high[parts])

    def holds(self, share: Floats, miss: float) -> npt.NDArray[np.bool_]:
        """Whether such intervals hold these shares, (parts,)."""
        return _accepts(self.above(share), self.nothing(share), miss)

    def above(self, share: Floats) -> Floats:
        """The chance of larger counts, and half the chance of these, if these are the shares: (parts,)."""
        some, chance, last = self._kinds(share)
        law, here = _binomial(some, chance)  # (parts, window)
        others, left = self._others(some, last)[:, None], self.counts[:, None] - here
        at_most = [_at_most(left - step, others, self.noise[:, None]) for step in range(3)]
        beyond, beyond_next = (1 - (at_most[step] + at_most[step + 1]) / 2 for step in range(2))
        tail: Floats = (law * (beyond + last[:, None] * (beyond_next - beyond))).sum(1)
        return tail

    def nothing(self, share: Floats) -> Floats:
        """The chance that no text is counted, (parts,)."""
        some, chance, last = self._kinds(share)
        log = xlog1py(some, -chance) + np.log1p(-last) + xlog1py(self._others(some, last), -self.noise)
        return np.asarray(np.exp(log))

    def law(self, part: int) -> tuple[Counts, Floats]:
        """The counts of a part that are likely if its estimate is the share, and their probabilities."""
        one = Responses(self.texts, self.counts[[part]], self.kept, self.noise[[part]], self.alike)
        some, chance, last = one._kinds(np.clip(one.estimate, 0, 1))
        (law, here), (rest, there) = _binomial(some, chance), _binomial(one._others(some, last), one.noise)
        joined = np.convolve(np.convolve(law[0], rest[0]), [1 - last[0], last[0]])
        return (here[0, 0] + there[0, 0] + np.arange(len(joined))).astype(np.int64), joined

    def different(self) -> tuple[Responses, Counts]:
        """Each pair of count and noise once, and which of them each part has."""
        pairs, parts = np.unique(np.stack([self.counts, self.noise], 1), axis=0, return_inverse=True)
        once = Responses(self.texts, pairs[:, 0].astype(np.int64), self.kept, pairs[:, 1], self.alike)
        return once, parts.reshape(-1)

    def _kinds(self, share: Floats) -> tuple[Floats, Floats, Floats]:
        """How many texts have f = r, how likely each of them is counted, and the same for one with a rest of r."""
        each = share + self.alike * (1 - share)
        texts = np.divide(self.texts * share, each, out=np.zeros_like(each), where=each > 0)
        some = np.minimum(np.floor(texts + 1e-9), self.texts)
        rest = np.where(some < self.texts, np.maximum(texts - some, 0), 0)
        last = np.where(rest > 0, self.noise + self.kept * each * rest, 0)
        return some, np.minimum(self.noise + self.kept * each, 1), np.minimum(last, 1 - 1e-15)

    def _others(self, some: Floats, last: Floats) -> Floats:
        return np.asarray(self.texts - some - (last > 0))


def miss_for_all(families: Sequence[Responses], level: float = LEVEL) -> float:
    """How often each interval may miss, so that all intervals of all families hold together as often as `level`."""
    intervals = sum(len(family.counts) for family in families)
    alone, looked_at = miss_alone(intervals, level), [_Few.of_family(family) for family in families]
    others = intervals - sum(each.times.sum() for each in looked_at)

    def too_often(miss: float) -> bool:
        held = sum(each.hold_together(miss) for each in looked_at) + others * np.log1p(-miss)
        return bool(held < np.log(level) - 1e-9)

    low, high = 0.0, alone
    while too_often(high) and high - low > 0.01 * alone:
        middle = (low + high) / 2
        low, high = (low, middle) if too_often(middle) else (middle, high)
    return low if too_often(high) else high


@dataclass(frozen=True)
class _Few:
    """The laws of small counts at their estimates. Of larger ones, each single value is improbable.

    Attributes:
        times: how many parts have each law, (laws,).
        of: the law that each of the values belongs to, (values,).
        chance: of each value, (values,).
        above: see `Responses.above`, (values,).
        nothing: see `Responses.nothing`, (values,).
    """

    times: Counts
    of: Counts
    chance: Floats
    above: Floats
    nothing: Floats

    @classmethod
    def of_family(cls, family: Responses) -> _Few:
        once, parts = family.different()
        times, few = np.bincount(parts), np.flatnonzero(once.counts <= _MANY)
        if not few.size:
            return cls(times[few], few, *np.zeros((3, 0)))
        laws = [once.law(part) for part in few.tolist()]
        of = np.repeat(np.arange(len(few)), [len(law) for _, law in laws])
        counts, chance = (np.concatenate(each) for each in zip(*laws, strict=True))
        values = Responses(once.texts, counts, once.kept, once.noise[few][of], once.alike)
        share = np.clip(once.estimate, 0, 1)[few][of]
        return cls(times[few], of, chance, values.above(share), values.nothing(share))

    def hold_together(self, miss: float) -> float:
        """The logarithm of the chance that all of their intervals hold."""
        missing = np.bincount(self.of, weights=self.chance * ~_accepts(self.above, self.nothing, miss))
        return float((self.times * np.log1p(-missing)).sum())


def miss_alone(intervals: int, level: float = LEVEL) -> float:
    """How often each of so many independent intervals may miss."""
    return float(-np.expm1(np.log(level) / intervals))


def _accepts(above: Floats, nothing: Floats, miss: float) -> npt.NDArray[np.bool_]:
    low = np.where(nothing > miss, miss, miss / 2)  # where no count is too low
    accepted: npt.NDArray[np.bool_] = (above >= low) & (above <= 1 - miss / 2)
    return accepted


def _largest(is_below: Callable[[Floats], npt.NDArray[np.bool_]], parts: int) -> Floats:
    """Where from 0 to 1 each of several falling conditions ends, (parts,)."""
    low, high = np.zeros(parts), np.ones(parts)
    for _ in range(_STEPS):
        middle = (low + high) / 2
        below = is_below(middle)
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.where(low > 0, high, 0.0)


def _binomial(texts: Floats, chance: Floats) -> tuple[Floats, Floats]:
    """The probabilities of a binomial where it is likely, and the values: (parts, window) each."""
    wide = _WIDE * np.sqrt(texts * chance * (1 - chance)) + _WIDE
    first = np.maximum(0, np.floor(texts * chance - wide))
    last = np.minimum(texts, np.ceil(texts * chance + wide))
    here = first[:, None] + np.arange(int((last - first).max()) + 1, dtype=np.float64)
    n, p = texts[:, None], chance[:, None]
    k = np.minimum(here, n)
    log = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1) + xlogy(k, p) + xlog1py(n - k, -p)
    law: Floats = np.where(here <= n, np.exp(log), 0.0)
    return law, here


def _at_most(value: Floats, texts: Floats, chance: Floats) -> Floats:
    """P(X <= value) for a binomial X, also for values that it cannot have."""
    inside = bdtr(np.clip(value, 0, texts), texts.astype(np.int64), chance)
    return np.where(value < 0, 0.0, np.where(value >= texts, 1.0, inside))


@dataclass(frozen=True)
class Votes:
    """Sums of noised counts of votes.

    Attributes:
        votes: of each part, (parts,).
        cells: how many counts each of them adds up, (parts,).
        total: the votes that shares are of: the number of people, or the noised votes of a group.
        total_cells: how many counts `total` adds up, those of every part among them; 0 if it has no noise.
        scale: of the noise on one count, in votes.
        unit: the parts of one vote.
    """

    votes: Floats
    cells: Counts
    total: float
    total_cells: int
    scale: float
    unit: int

    @property
    def estimate(self) -> Floats:
        """Of the shares, (parts,). Unbiased if the total has no noise."""
        return self.votes / self.total

    def bounds(self, miss: float) -> Bounds:
        """Intervals that each miss with this probability. They say nothing if the total may be noise alone."""
        if self._is_noise(miss):
            return Bounds(self.estimate, np.zeros(len(self.votes)), np.ones(len(self.votes)))
        if self.total_cells:
            wide = _weighted_quantile(*self._noises(), miss / 2)
        else:
            wide = self.scale / self.total * _laplace_quantile(self.cells, miss / 2)
        wide = wide + self._rounding
        low, high = (np.clip(self.estimate + side * wide, 0, 1) for side in (-1, 1))
        # A share of 0 is not improbably low, so all of its chance to miss is above. The next share is one unit.
        there = self.votes > self.scale * _laplace_quantile(self.cells, miss) + self.cells / self.unit
        low = np.where(there, np.maximum(low, 1 / self.unit / self.total), 0.0)
        return Bounds(self.estimate, low, np.maximum(high, low))

    def minus(self, other: Votes, miss: float) -> Bounds:
        """The differences of shares to those of another group, with intervals."""
        estimate, ones = self.estimate - other.estimate, np.ones(len(self.votes))
        if self._is_noise(miss) or other._is_noise(miss):
            return Bounds(estimate, -ones, ones)
        both = zip(self._noises(), other._noises(), strict=True)
        weights, times = (np.concatenate(each, axis=1) for each in both)
        wide = _weighted_quantile(weights, times, miss / 2) + self._rounding + other._rounding
        return Bounds(estimate, np.maximum(estimate - wide, -1), np.minimum(estimate + wide, 1))

    def _noises(self) -> tuple[Floats, Floats]:
        """The weights of the noises in votes - share x total, as shares, and how many have each: (parts, 2) both."""
        share = np.clip(self.estimate, 0, 1)
        weights = np.stack([1 - share, share], 1) * self.scale / self.total
        return weights, np.stack([self.cells, self.total_cells - self.cells], 1).astype(np.float64)

    def _is_noise(self, miss: float) -> bool:
        if not self.total_cells:
            return False
        alone = self.scale * _laplace_quantile(np.array([self.total_cells]), miss / 2)[0]
        return bool(self.total <= alone)

    @property
    def _rounding(self) -> float:
        return max(int(self.cells.max()), self.total_cells) / self.unit / self.total


def _laplace_quantile(sizes: Counts, tail: float) -> Floats:
    """What a sum of so many Laplace noises of scale 1 exceeds with this probability, (sizes,)."""
    return np.array([_one_laplace_quantile(size, tail) for size in sizes.tolist()])


@lru_cache
def _one_laplace_quantile(size: int, tail: float) -> float:
    k = np.arange(size)
    weights = np.exp(gammaln(size + k) - gammaln(k + 1) - gammaln(size) - (size + k) * np.log(2))
    low, high = 0.0, 40.0 * np.sqrt(size) + 40.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        beyond = float((weights * gammaincc(size - k, middle)).sum())
        low, high = (middle, high) if beyond > tail else (low, middle)
    return float(high)


def _weighted_quantile(weights: Floats, times: Floats, tail: float) -> Floats:
    """What a sum of Laplace noises exceeds with this probability, (parts,).

    Args:
        weights: the scales, (parts, kinds).
        times: how many noises have each, (parts, kinds).
        tail: the probability.
    """
    squares = weights**2
    most = 1 / np.sqrt(np.where(times > 0, squares, 0).max(1))  # where the cumulants end
    low, high = np.zeros(len(weights)), np.ones(len(weights))
    for _ in range(_STEPS):
        middle = (low + high) / 2
        point, (cumulant, mean, variance) = middle * most, _cumulants(squares, times, middle * most)
        w = np.sqrt(2 * np.maximum(point * mean - cumulant, 1e-18))
        density = np.exp(-w * w / 2) / np.sqrt(2 * np.pi)
        beyond = ndtr(-w) + density * (1 / (point * np.sqrt(variance)) - 1 / w)
        low, high = np.where(beyond > tail, middle, low), np.where(beyond > tail, high, middle)
    return _cumulants(squares, times, high * most)[1]


def _cumulants(squares: Floats, times: Floats, point: Floats) -> tuple[Floats, Floats, Floats]:
    """The logarithm of the moments' generating function of such a sum, and its first two derivatives: (parts,) each."""
    point = point[:, None]
    left = np.where(times > 0, 1 - squares * point**2, 1.0)
    cumulant = -(times * np.log(left)).sum(1)
    mean = (2 * times * squares * point / left).sum(1)
    return cumulant, mean, (2 * times * squares * (2 - left) / left**2).sum(1)
