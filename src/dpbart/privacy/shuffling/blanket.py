"""The central delta of shuffled releases, as an upper bound: the sum behind the clones and the blanket.

Each of the other people sends, with probability g, a value that does not depend on their data: the blanket. Let the
attacker know who did, and the values of all who did not. What remains is the target's value among b ~ Bin(n - 1, g)
blanket values, in random order. For k-ary response the blanket is uniform, and g = k / (e^local + k - 1) (Balle, Bell,
Gascon and Nissim 2019, https://arxiv.org/abs/1903.02837, section 5). For m = b + 1 values of which N are x and N' are
y, the likelihoods of "the target has x" and of "the target has y" differ so that (their Lemma 5.3, for this blanket)

    delta(m) = g / m * E[((e^local - 1) (N - e^epsilon N') - (e^epsilon - 1) m)+],  (N, N') uniform multinomial.

Given t = N + N', N counts fair coins. With r = 1 / (e^local - 1) and T = tanh(epsilon / 2) that is

    delta(m) = 2 (1 - g) (1 + e^epsilon) * E[excess(t, T (t / 2 + m r)) / t],  t - 1 ~ Bin(m - 1, 2 / k),

where excess(t, h) = E[(N - t/2 - h)+]. This is symmetric in x and y, so both directions are covered. An input outside
the k values is sent as a uniform one, the mean of all inputs, and a divergence is convex: it does no better than x, y.

The clones (Feldman, McMillan and Talwar 2021, https://arxiv.org/abs/2012.12803, Theorem 3.2) hold for every pure local
mechanism. Their pair of distributions is the one above for k = 2, with b ~ Bin(n - 1, e^-local).

Everything is rounded up:
- Tails outside the windows are added to delta.
- delta(m) never rises with m, because adding a uniform value is post-processing. So a block of values of m counts as
  its least, and g is rounded down.
- N - t/2 is a martingale in t, so its excess over a fixed h never falls with t, and h never falls with t. So a block of
  values of t counts as its greatest in the flips, and as its least in h and in 1/t.
- A probability has a relative rounding error below 2e-9 (see `binomial`). _MARGIN covers a product of three.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpbart.privacy.shuffling.binomial import TAIL, Floats, expected_excess, expected_shortfall, probabilities, window

_MARGIN = 1 + 1e-8
_LESS = 1 - 1e-11  # exceeds the relative error of a computed share
MOST_EPSILON = 500.0  # of a curve: e^epsilon must not overflow
_STEEP = 2.0  # from this epsilon on, more than _FEW flips contribute less than a tail:
_FEW = 300  # Pr[J <= t / (1 + e^2)] <= exp(-0.327 t) for t fair coins
_TERMS = 32_768  # of the sum over blocks
_SIZES = 1_024  # blocks of m
_PROBABILITIES = 400_000  # that the blocks are made of
_FLIPS = 256  # blocks of t


@dataclass(frozen=True)
class Blanket:
    """How the other people hide the target."""

    local: float  # epsilon of each release
    share: float  # g, the probability that another person sends a blanket value, rounded down
    options: int  # k, the number of values of the uniform blanket

    @property
    def kept(self) -> float:
        """The probability that the target does not send a blanket value: (e^local - 1) / (e^local + k - 1)."""
        odds = _odds(self.local, self.options)
        return odds / (1 + odds) if math.isfinite(odds) else 1.0

    def curve(self, people: int) -> Curve:
        """The central delta of `people` shuffled releases, as a function of epsilon."""
        if self.options == 2:  # every blanket value is x or y
            least, _, weight = _blocks(np.array([people - 1.0]), self.share, _SIZES)
            size = 1 + least[0]
            return _curve(self, size=size, least=size, greatest=size, weight=weight[0])
        chance = 2 / self.options
        first, last = window(people, chance)
        width = last - first + 1  # of the window of t; fewer trials have a narrower one
        most = min(_SIZES, _TERMS // min(width, _FLIPS), 1 + _PROBABILITIES // width)
        blanket, _, weight = _blocks(np.array([people - 1.0]), self.share, most)
        least, greatest, flips = _blocks(blanket[0], chance, _FLIPS)
        return _curve(self, size=1 + blanket.T, least=1 + least, greatest=1 + greatest, weight=weight.T * flips)


def uniform_blanket(local: float, options: int) -> Blanket:
    """The blanket of k-ary response."""
    return Blanket(local, _LESS / (1 + _odds(local, options)), options)


def clones(local: float) -> Blanket:
    """The blanket that every pure local mechanism has."""
    return Blanket(local, _LESS * math.exp(-local), options=2)


@dataclass(frozen=True)
class Curve:
    """The central delta at each epsilon: a sum over blocks of m and t."""

    blanket: Blanket
    size: Floats  # the least m of each block
    least: Floats  # the least t of each block
    greatest: Floats  # the greatest t of each block
    weight: Floats  # the probability of each block
    lost: float  # the probability of everything outside the blocks, which counts as delta

    def delta(self, epsilon: float) -> float:
        """An upper bound on the central delta at an epsilon from 0 to MOST_EPSILON."""
        weight = 2 * self.blanket.kept * (1 + math.exp(epsilon)) * self.weight / self.least
        local = self.blanket.local
        sway = math.tanh(epsilon / 2)  # T
        others = self.size * math.exp(-local) / -math.expm1(-local)  # m r
        if epsilon < _STEEP:
            total = expected_excess(weight, self.greatest, sway * (self.least / 2 + others))
        else:
            # The same threshold, measured from t downwards: t - t/2 - T t/2 = t / (1 + e^epsilon), and T is close to 1.
            few = self.least <= _FEW
            flat = self.greatest / (1 + math.exp(epsilon)) + sway * (self.greatest - self.least) / 2
            below = flat * (1 + 1e-14) - sway * others
            total = expected_shortfall(weight[few], self.greatest[few], below[few])
        return min(1.0, total * _MARGIN + self.lost)


def _odds(local: float, options: int) -> float:
    """(e^local - 1) / k: the odds that a response is not a blanket value."""
    exponent = local - math.log(options)
    return -math.exp(exponent) * math.expm1(-local) if exponent < 700 else math.inf


def _curve(blanket: Blanket, *, size: Floats, least: Floats, greatest: Floats, weight: Floats) -> Curve:
    """The curve without the blocks that hardly ever occur."""
    counts = weight > TAIL / _TERMS
    size, least, greatest = (np.broadcast_to(each, weight.shape)[counts] for each in (size, least, greatest))
    # Two tails of m, two of t, and what more than _FEW flips contribute, each at most TAIL.
    return Curve(blanket, size, least, greatest, weight[counts], lost=5 * TAIL + float(np.sum(weight[~counts])))


def _blocks(trials: Floats, chance: float, most: int) -> tuple[Floats, Floats, Floats]:
    """The least and the greatest count of each block of a binomial, and its probability. (trials, at most `most`)"""
    windows = [window(int(number), chance) for number in trials]
    width = max(last - first + 1 for first, last in windows)
    step = -(-width // most)
    columns = step * -(-width // step)
    first = np.array([float(first) for first, _ in windows])
    least = first[:, None] + np.arange(0, columns, step)
    weight = probabilities(first, columns, trials, chance).reshape(len(trials), -1, step).sum(axis=2)
    return np.minimum(least, trials[:, None]), np.minimum(least + step - 1, trials[:, None]), weight
