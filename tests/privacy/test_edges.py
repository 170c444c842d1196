"""Values at the very edge of what is allowed, and just beyond it."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest

from dpbart.errors import BadParameter
from dpbart.privacy.calibration import check_delta_for
from dpbart.privacy.clipping import ByNorm, ByValue, Sensitivity
from dpbart.privacy.mechanisms import Laplace, NonPrivate, known, make_noise
from dpbart.privacy.sampling import LaplaceLaw, Law, NormalLaw, Words, draw_rounded


def test_delta_must_be_below_one_over_the_texts() -> None:
    check_delta_for(0.1, texts=9, whose="9 texts", remedy="")
    message = "delta must be below 1 / 10 for 10 texts, got 0.1. Pass --delta 1e-02."
    with pytest.raises(BadParameter, match=f"^{message}$"):
        check_delta_for(0.1, texts=10, whose="10 texts", remedy="Pass --delta {delta}.")
    with pytest.raises(BadParameter):
        check_delta_for(0.1, texts=15, whose="15 texts", remedy="")


@pytest.mark.parametrize("clip", [ByValue, ByNorm])
def test_a_bound_lies_from_1e_minus_12_to_1e12(clip: type[ByValue | ByNorm]) -> None:
    for bound in (1e-12, 1e12):
        assert clip(bound).bound == bound
    for bound in (math.nextafter(1e-12, 0), math.nextafter(1e12, math.inf), math.nan):
        with pytest.raises(BadParameter, match="bound must be between 1e-12 and 1e12"):
            clip(bound)


def test_a_latent_has_no_mechanism_for_codes() -> None:
    with pytest.raises(BadParameter, match="real-valued latent must be one of gaussian, laplace, none, got 'response'"):
        make_noise("response", epsilon=1.0, delta=1e-5)


@pytest.mark.parametrize(
    ("l1", "l2", "nats"),
    [
        (4.0, 4.0, 1 + math.exp(-1) - 1),  # everything in one entry: f(1), which is less than 1 / 2
        (4.0, 1.0, 0.25**2 / 2),  # spread over many entries
    ],
)
def test_the_bits_through_laplace_noise_are_the_smaller_bound(l1: float, l2: float, nats: float) -> None:
    """At epsilon 2, the scale is l1 / 2 = 2: in scales, the norms of a latent are l1 / 4 and l2 / 4."""
    assert Laplace(2.0).bits(Sensitivity(l1=l1, l2=l2)) == pytest.approx(nats / math.log(2))


class Scripted:
    """Gives one word, then zeros, and counts the words."""

    private = True

    def __init__(self, first: int) -> None:
        self.first, self.drawn = first, 0

    def words(self, count: int) -> Words:
        self.drawn += count
        return np.array([self.first if self.drawn == 1 else 0] * count, dtype=np.uint64)


@pytest.mark.parametrize("law", [NormalLaw(), LaplaceLaw()], ids=["normal", "laplace"])
@pytest.mark.parametrize("away", [-1000, 1000])
def test_floats_decide_only_with_a_margin_on_both_sides_of_an_edge(law: Law, away: int) -> None:
    """1,000 of 2^63 away from an edge, a quantile is within 1e-12 of it: more bits must decide."""
    with mpmath.workprec(200):
        edge = int(mpmath.floor(law.tail(mpmath.mp.mpf(800.5) / 1024) * 2**63))
    near, far = Scripted((edge + away) << 1), Scripted((edge + (away << 40)) << 1)
    drawn = [int(draw_rounded(law, scale=1024.0, grid=1.0, count=1, entropy=each)[0]) for each in (near, far)]
    assert (near.drawn > 1, far.drawn > 1) == (True, False)
    assert drawn == [801 if away < 0 else 800] * 2


@pytest.mark.parametrize("mechanism", ["response", "laplace", "gaussian", "none"])
def test_a_delta_that_makes_no_sense_is_refused_even_where_it_is_not_used(mechanism: str) -> None:
    epsilon = None if mechanism == "none" else 1.0
    known(mechanism).check_budget(epsilon, 1e-5)
    with pytest.raises(BadParameter, match="delta must be between 0 and 1"):
        known(mechanism).check_budget(epsilon, 2.0)


def test_the_mechanism_without_noise_takes_no_budget() -> None:
    """A budget would have no effect, and its owner would not know."""
    assert NonPrivate.of(None, 1e-5) == NonPrivate.of(math.inf, 1e-5) == NonPrivate()
    with pytest.raises(BadParameter, match="epsilon must be left out with the mechanism 'none', got 10"):
        NonPrivate.of(10.0, 1e-5)
    with pytest.raises(BadParameter, match="delta"):
        NonPrivate.of(None, 2.0)
