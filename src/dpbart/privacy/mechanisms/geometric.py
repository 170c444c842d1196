"""Counts of a whole collection under two-sided geometric noise. Pure epsilon, delta = 0, for each person.

Two collections are neighbours if one person's record, all their texts and labels, is replaced by any other record. The
number of people is public. Every person has one vote of `unit` parts, and gives each part to at most one count. So a
person adds whole numbers, none of them negative, that are at most `unit` in sum. Replacing a person takes away at most
`unit` and adds at most `unit`: the counts c and c' of neighbours differ by at most 2 unit in the L1 norm.

Every count gets its own noise X with Pr[X = k] = (1 - a) / (1 + a) a^|k|, for all whole k, where a = e^(-1 / scale) and
scale is at least 2 unit / epsilon (Ghosh, Roughgarden and Sundararajan 2009). The probabilities of one output y under
c and c' have the ratio a^(|y - c|_1 - |y - c'|_1), which is at most a^-|c - c'|_1 <= a^(-2 unit) <= e^epsilon.

The noise is drawn by inversion with lazily drawn bits, as in `sampling`. |X| is at least j with probability
2 a^j / (1 + a) for j >= 1. With x = (j - 1/2) / scale, that is e^-x / cosh(1 / (2 scale)): the tail of a law whose
rounding is X, exactly. Every count takes the same work.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import numpy.typing as npt

from dpbart.errors import BadParameter
from dpbart.privacy.calibration import check_epsilon, check_slack, given, laplace_scale
from dpbart.privacy.facts import SYSTEM_ENTROPY, Facts, Private, best_guess, seal
from dpbart.privacy.guarantee import Event, Guarantee, Loss, ResponseLoss, exactly
from dpbart.privacy.mechanisms.mechanism import Stated
from dpbart.privacy.sampling import Entropy, Floats, draw_rounded

if TYPE_CHECKING:
    import mpmath

UNIT = 720_720  # parts of a vote: divisible by every number up to 16, so that as many texts share it evenly
PROOF = "two-sided geometric mechanism, Ghosh, Roughgarden and Sundararajan 2009; pure epsilon for each person"
SAMPLER = "whole numbers, drawn exactly by inversion with lazily drawn bits"
MOST_COUNTS = 1 << 20
Counts = tuple[tuple[int, ...], ...]  # (labels, cells); one row without labels


@dataclass(frozen=True)
class Tally:
    """The votes of a collection, before any noise.

    Attributes:
        counts: (labels, cells), in parts of a vote.
        people: how many have voted, at most.
        unit: the parts of one vote. No person has given more.
    """

    counts: npt.NDArray[np.int64]
    people: int
    unit: int = UNIT

    def __post_init__(self) -> None:
        if self.counts.ndim != 2 or not self.counts.size or self.counts.dtype != np.int64:
            raise BadParameter("a tally must have whole numbers in rows, one for each label.")
        if int(self.counts.min()) < 0 or int(self.counts.sum()) > self.people * self.unit:
            raise BadParameter("a tally must have at most one vote of each person.")


@dataclass(frozen=True)
class GeometricLaw:
    """The law whose rounding to whole numbers is two-sided geometric, in units of the scale."""

    scale: float

    def quantile(self, tail: Floats) -> Floats:
        step = 1 / self.scale
        log_cosh = step / 2 + math.log1p(math.exp(-step)) - math.log(2)
        with np.errstate(divide="ignore"):  # log 0: the tail is infinite
            return -np.log(tail) - log_cosh

    def tail(self, x: mpmath.mpf) -> mpmath.mpf:
        context = x.context
        return context.exp(-x) / context.cosh(1 / (2 * context.mpf(self.scale)))


@dataclass(frozen=True)
class Geometric:
    """Two-sided geometric noise on the counts of a collection.

    Attributes:
        epsilon: from 0.01 to 100,000; of one person, whatever they wrote and however much.
        entries: how many counts there are; public, and never taken from private data.
        unit: the parts of one person's vote.
    """

    name: ClassVar[str] = "geometric"

    epsilon: float
    entries: int
    unit: int = UNIT

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        if not 1 <= self.entries <= MOST_COUNTS:
            raise BadParameter(f"counts must be from 1 to {MOST_COUNTS:,}, got {self.entries:,}.")
        if not 1 <= self.unit <= UNIT:
            raise BadParameter(f"a vote must have from 1 to {UNIT:,} parts, got {self.unit:,}.")

    @property
    def guarantee(self) -> Guarantee:
        """(epsilon, 0)."""
        return Guarantee(self.epsilon, 0.0)

    @cached_property
    def scale(self) -> float:
        """1 / log(1 / a), in parts of a vote: 2 unit / epsilon, rounded up. The noise on each count has this scale."""
        scale = laplace_scale(epsilon=self.epsilon, sensitivity=2 * self.unit)
        while Fraction(scale) * Fraction(exactly(self.epsilon)) < 2 * self.unit:
            scale = math.nextafter(scale, math.inf)
        return scale

    @property
    def bits(self) -> float:
        """A bound on the bits about one person that get through; less than epsilon log2(e).

        The mutual information is at most the divergence of the counts with a person's vote from those without it. Of
        one count that grows by m parts, it is m h - h / sinh(h) (1 - e^(-m h)) with h = 1 / scale. That is convex in m
        and 0 at 0, so it is largest if the whole vote is in one count.
        """
        step = 1 / self.scale
        moved = self.unit * step
        return (moved + step / math.sinh(step) * math.expm1(-moved)) / math.log(2)

    @property
    def facts(self) -> Facts:
        """The facts of a release of these counts."""
        votes = self.scale / self.unit
        return Facts(
            guarantee=self.guarantee,
            mechanism=self.name,
            proof=PROOF,
            figures={"entries": self.entries, "sensitivity_l1": float(2 * self.unit), "scale": self.scale},
            lines=(
                (
                    "Votes",
                    f"one for each person, in {self.unit:,} parts, shared over their texts, for {self.entries:,} "
                    "public counts",
                ),
                ("Sensitivity", f"L1 {2 * self.unit:,} parts: replacing a person moves one vote"),
                ("Noise scale", f"{self.scale:.10g} parts on every count, {votes:.3g} votes"),
            ),
            sampler=SAMPLER,
            entropy=SYSTEM_ENTROPY,
            bits=self.bits,
            right_of_two=best_guess(self.guarantee, candidates=2),
            event=Event(self.name, exactly(self.epsilon), Decimal(0)),
            recipe=f"mech:{self.name}|eps:{self.epsilon:.10g}|delta:0|counts:{self.entries}|unit:{self.unit}",
            whole=True,
        )

    def share_error(self, people: int) -> float:
        """How far, in 19 of 20 releases, the share of a topic that is one count lies from the true share, at most.

        Pr[|X| > t] <= e^(-t / scale), which is one in twenty at t = scale log 20.
        """
        return self.scale * math.log(20) / (self.unit * people)

    def privatize(self, tally: Tally, entropy: Entropy) -> Private[Counts]:
        """The counts with noise, sealed."""
        if tally.counts.size != self.entries or tally.unit != self.unit:
            raise BadParameter(
                f"the tally must have {self.entries:,} counts of {self.unit:,} parts, got {tally.counts.size:,} of "
                f"{tally.unit:,}."
            )
        law, size = GeometricLaw(self.scale), self.entries
        noise = draw_rounded(law, scale=self.scale, grid=1.0, count=size, entropy=entropy)
        noised = tally.counts + noise.reshape(tally.counts.shape)
        return self._sealed(noised.tolist(), private=entropy.private)

    def again(self, counts: Sequence[Sequence[int]]) -> Private[Counts]:
        """Counts that this mechanism has made before and that were saved: sealed again, and not drawn again."""
        if sum(map(len, counts)) != self.entries or len(set(map(len, counts))) != 1:
            raise BadParameter(f"there must be {self.entries:,} saved counts in rows of one length.")
        return self._sealed(counts, private=True)

    def _sealed(self, counts: Sequence[Sequence[int]], *, private: bool) -> Private[Counts]:
        return seal(tuple(map(tuple, counts)), self.facts if private else self.facts.replayed())

    @staticmethod
    def check_budget(epsilon: float | None, delta: float) -> None:
        check_epsilon(given(epsilon))
        check_slack(delta)  # not used, but a typing mistake should be noticed

    @staticmethod
    def recomputed(stated: Stated, promised: Guarantee) -> Facts:
        unit, rest = divmod(stated["sensitivity_l1"], 2)
        if rest:
            raise BadParameter(f"a vote must have a whole number of parts, got {stated['sensitivity_l1'] / 2}.")
        return Geometric(promised.epsilon, stated["entries"], int(unit)).facts

    @staticmethod
    def loss(event: Event) -> Loss | None:
        """That of binary response, which dominates every mechanism of pure epsilon, in any number of dimensions."""
        return ResponseLoss.of(epsilon=float(event.epsilon))
