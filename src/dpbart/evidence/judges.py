"""The best distinguisher for each channel: the likelihood ratio of two texts, given the private value.

Randomised response: a value in the set of a text is e^epsilon times as likely as any other, so all that counts is in
which of the two sets it lies. Normal noise: the projection on the difference of the two latents. Laplace noise: the
difference of the L1 distances to the two (Neyman and Pearson 1933).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from dpbart.channels.code import CodeChannel
from dpbart.channels.columns import ColumnsChannel
from dpbart.errors import BadParameter
from dpbart.evidence.distinguish import Scores, laplace_scale_high, normal_scale_high
from dpbart.privacy.calibration import gaussian_epsilon
from dpbart.privacy.clipping import Sensitivity
from dpbart.privacy.mechanisms import Gaussian, Geometric, Laplace, Response
from dpbart.privacy.mechanisms.mechanism import NoiseMechanism


class Judge(Protocol):
    """Scores private values: the larger, the likelier is the first text."""

    def distance(self, first: Any, second: Any) -> float:
        """How far apart two encoded texts lie; an attacker tells those apart best that lie farthest."""

    def judge(self, first: Any, second: Any) -> None:
        """Choose the pair."""

    def beside(self, other: Any) -> None:
        """Choose the text of everybody else in a file."""

    def scores(self, values: Any, world: int) -> Scores:
        """Scores of the private values of single texts; `world` is for the noise that is seen, not for the scores."""

    def file_score(self, values: Sequence[Any]) -> float:
        """The score of all private values of a shuffled file."""

    @property
    def exact(self) -> float | None:
        """The epsilon of the sampler's thresholds."""

    def seen(self, error: float) -> float | None:
        """At least this epsilon, by the noise that was seen, with this chance of an error."""


def judge_of(channel: Any) -> Judge:
    """The judge of a channel. Raises BadParameter if nothing is randomised."""
    if isinstance(channel, CodeChannel) and isinstance(channel.mechanism, Response):
        return CodeJudge(channel.mechanism)
    if isinstance(channel, ColumnsChannel) and isinstance(channel.mechanism, Gaussian | Laplace):
        return LatentJudge(channel)
    raise BadParameter("only a private mechanism can be audited: nothing is claimed without one.")


Digits = tuple[frozenset[int], ...]  # of each place: the values that mean the same


class CodeJudge:
    """Sets of values, through randomised response."""

    def __init__(self, response: Response) -> None:
        self._response = response
        self._first: Digits = ()
        self._second: Digits = ()
        self._other: Digits = ()

    def distance(self, first: Any, second: Any) -> float:
        """The share of values in neither set at once. One place without a common value makes the tuples disjoint."""
        pairs = zip(self._digits(first), self._digits(second), strict=True)
        return 1 - math.prod(len(one & two) / self._response.near for one, two in pairs)

    def judge(self, first: Any, second: Any) -> None:
        self._first, self._second = self._digits(first), self._digits(second)

    def beside(self, other: Any) -> None:
        self._other = self._digits(other)

    def scores(self, values: Sequence[int], world: int) -> Scores:
        return np.array([self._in(value, self._first) - self._in(value, self._second) for value in values], np.float64)

    def file_score(self, values: Sequence[int]) -> float:
        """Which of the rows is the one of the pair is unknown, so the likelihood is a sum over all rows.

        Up to a common factor, each row adds its likelihood under the text of the pair by that under the others' text.
        """
        sums = [0.0, 0.0]
        for value in values:
            beside = math.exp(-self._response.epsilon * self._in(value, self._other))
            for world, digits in enumerate((self._first, self._second)):
                sums[world] += math.exp(self._response.epsilon * self._in(value, digits)) * beside
        return math.log(sums[0] / sums[1])

    @property
    def exact(self) -> float:
        """ln(1 + g k / (1 - g)): the true value has probability g + (1 - g) / k, any other (1 - g) / k."""
        import mpmath

        bits = 1024 + self._response.options.bit_length()
        context = mpmath.MPContext()
        context.prec = 2 * bits
        kept = self._response.keep_interval(bits)[1]
        ratio = kept * self._response.options / (1 - kept)
        return float(context.log1p(context.mpf(ratio.numerator) / ratio.denominator))

    def seen(self, error: float) -> None:
        """Its thresholds say more."""

    def _digits(self, encoded: Any) -> Digits:
        values, near = [int(value) for value in encoded[0]], self._response.near
        return tuple(frozenset(values[start : start + near]) for start in range(0, len(values), near))

    def _in(self, value: int, digits: Digits) -> bool:
        """Whether a tuple, which is one whole number, has a member of the set at each place."""
        if len(digits) == 1:
            return value in digits[0]
        for meant in reversed(digits):
            value, digit = divmod(value, self._response.values)
            if digit not in meant:
                return False
        return True


class LatentJudge:
    """Clipped latents, through noise."""

    def __init__(self, channel: ColumnsChannel) -> None:
        self._channel = channel
        self._means: tuple[npt.NDArray[np.float64], ...] = ()
        self._squares, self._absolute, self._entries = 0.0, 0.0, 0

    def distance(self, first: Any, second: Any) -> float:
        """By the norm that bounds the noise."""
        apart = self._clipped(first) - self._clipped(second)
        return float(np.abs(apart).sum() if isinstance(self._channel.mechanism, Laplace) else np.square(apart).sum())

    def judge(self, first: Any, second: Any) -> None:
        self._means = (self._clipped(first), self._clipped(second))

    def beside(self, other: Any) -> None:
        """A shuffled file of latents is not audited."""

    def scores(self, values: npt.NDArray[np.float32], world: int) -> Scores:
        loudness = 1.0 if self._channel.public is None else self._channel.public.loudness
        kept = self._channel.columns.keep(values).astype(np.float64).reshape(len(values), -1) / loudness
        noise, (first, second) = kept - self._means[world], self._means
        self._squares += float(np.square(noise).sum())
        self._absolute += float(np.abs(noise).sum())
        self._entries += noise.size
        if isinstance(self._channel.mechanism, Laplace):
            scores: Scores = np.abs(kept - second).sum(1) - np.abs(kept - first).sum(1)
        else:
            scores = (kept - (first + second) / 2) @ (first - second)
        return scores

    def file_score(self, values: Sequence[Any]) -> float:
        raise BadParameter("a shuffled file of latents is not audited.")

    @property
    def exact(self) -> None:
        """Noise has no thresholds to compute with."""

    def seen(self, error: float) -> float:
        bounds, mechanism = self._channel.bounds.sensitivity, self._channel.mechanism
        if isinstance(mechanism, Laplace):
            return laplace_epsilon(self._absolute, self._entries, l1=bounds.l1, error=error)
        sigma = normal_scale_high(self._squares, self._entries, error=error)
        return gaussian_epsilon(sigma=sigma / bounds.l2, delta=mechanism.guarantee.delta)

    def _clipped(self, encoded: Any) -> npt.NDArray[np.float64]:
        clipped = self._channel.clip.clip(self._channel.columns.keep(encoded))
        return np.asarray(clipped.values, np.float64).reshape(-1)


def laplace_epsilon(absolute: float, entries: int, *, l1: float, error: float) -> float:
    """At least this epsilon, from the sum of Laplace or geometric noise on so many entries."""
    return l1 / laplace_scale_high(absolute, entries, error=error)


class HalfGaussian(Gaussian):
    """A broken promise: half of the noise."""

    def noise_scale(self, sensitivity: Sensitivity) -> float:
        return super().noise_scale(sensitivity) / 2


def broken_channel(channel: Any) -> Any:
    """The same channel with a promise that is broken on purpose: half of the noise, or as if for twice the epsilon."""
    mechanism = channel.mechanism
    broken: NoiseMechanism | Response
    if isinstance(mechanism, Gaussian):
        broken = HalfGaussian(mechanism.epsilon, mechanism.delta)
    elif isinstance(mechanism, Response | Laplace):
        broken = replace(mechanism, epsilon=2 * mechanism.epsilon)
    else:
        raise BadParameter("only a private mechanism can be audited: nothing is claimed without one.")
    return replace(channel, mechanism=broken)


def broken_counts(mechanism: Geometric) -> Geometric:
    """Counts with half of the noise."""
    return replace(mechanism, epsilon=2 * mechanism.epsilon)
