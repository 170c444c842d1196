"""Two-sided geometric noise on counts: its exact law, its guarantee, and an audit that can fail."""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from functools import partial

import mpmath
import numpy as np
import numpy.typing as npt
import opendp.prelude as dp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta, chi2

from dpbart.errors import BadParameter
from dpbart.privacy.composition import Release, compose
from dpbart.privacy.guarantee import exactly
from dpbart.privacy.mechanisms import MECHANISMS, Response
from dpbart.privacy.mechanisms.geometric import UNIT, Geometric, GeometricLaw, Tally
from dpbart.privacy.sampling import ReplaySeed, SystemEntropy, Words, draw_rounded

EVEN, ODD = 0, 1  # the low bit of a word: plus, minus
DOUBT = 1e-6  # chance that a sound sampler fails a test of its distribution
PARAMETERS = [(1.0, 1), (0.5, 3), (3.0, 7), (0.01, 1), (1.0, UNIT), (100_000.0, 1)]


class Scripted:
    """Returns the given words in order, then fails."""

    private = True

    def __init__(self, *words: int) -> None:
        self._words: Iterator[int] = iter(words)

    def words(self, count: int) -> Words:
        return np.array([next(self._words) for _ in range(count)], dtype=np.uint64)


def tail(scale: float, steps: int) -> mpmath.mpf:
    """Pr[|X| >= steps] = 2 a^steps / (1 + a), summed from the probabilities and not from the code under test."""
    a = mpmath.exp(-1 / mpmath.mpf(scale))
    return mpmath.mpf(1) if steps == 0 else 2 * a**steps / (1 + a)


def mass(scale: float, value: int) -> mpmath.mpf:
    """Pr[X = value]."""
    a = mpmath.exp(-1 / mpmath.mpf(scale))
    return (1 - a) / (1 + a) * a ** abs(value)


@pytest.mark.parametrize("scale", [0.3, 2.0, 17.0])
def test_the_closed_forms_of_these_tests_agree(scale: float) -> None:
    for steps in (1, 2, 5):
        beyond = mpmath.nsum(partial(mass, scale), [steps, mpmath.inf])
        assert mpmath.almosteq(2 * beyond, tail(scale, steps), rel_eps=1e-12)
    assert mpmath.almosteq(mass(scale, 0) + tail(scale, 1), 1)


@pytest.mark.parametrize(("epsilon", "unit"), PARAMETERS)
@pytest.mark.parametrize("steps", [0, 1, 2, 40])
def test_each_value_begins_and_ends_exactly_where_its_probability_says(epsilon: float, unit: int, steps: int) -> None:
    """At the edge between |X| = steps and steps + 1, the bits after the first word decide, to the last one."""
    scale = Geometric(epsilon, 1, unit).scale
    with mpmath.workprec(600):
        edge = tail(scale, steps + 1)
        start, second, third = (int(mpmath.floor(edge * 2**bits)) for bits in (63, 127, 191))
    if third < 1 << 64:
        return  # no word of these lies beside an edge so close to 0
    word, second, third = start << 1 | EVEN, second & (2**64 - 1), third & (2**64 - 1)

    def draw(*further: int) -> int:
        law, entropy = GeometricLaw(scale), Scripted(word, *further, 1 << 63)
        return int(draw_rounded(law, scale=scale, grid=1.0, count=1, entropy=entropy)[0])

    assert draw(second, third + 1) == steps  # U above the edge: nearer
    assert draw(second, third - 1) == steps + 1  # U below the edge: farther


@settings(max_examples=300)
@given(word=st.integers(0, 2**64 - 1), epsilon=st.floats(0.01, 100), unit=st.sampled_from([1, 12, UNIT]))
def test_every_draw_is_the_value_that_its_bits_select(word: int, epsilon: float, unit: int) -> None:
    further = 0x9E3779B97F4A7C15  # only used if the first word does not decide
    geometric = Geometric(epsilon, 1, unit)
    tally = Tally(np.zeros((1, 1), np.int64), people=1, unit=unit)
    drawn = geometric.privatize(tally, Scripted(word, further, further)).values[0][0]
    assert drawn == 0 or (drawn < 0) == (word & 1 == ODD)
    with mpmath.workprec(600):
        u = mpmath.mpf(((word >> 1) << 128) | (further << 64) | further) / 2**191
        assert tail(geometric.scale, abs(drawn) + 1) <= u < tail(geometric.scale, abs(drawn)) or u == 0


def misfit(drawn: npt.NDArray[np.int64], scale: float) -> float:
    """p-value of the draws against the closed form (chi-square, cells of at least 10, the rest in two tails)."""
    last = 0
    while float(mass(scale, last + 1)) * drawn.size >= 10:
        last += 1
    chances = [float(mass(scale, value)) for value in range(-last, last + 1)]
    beyond = float(tail(scale, last + 1)) / 2
    expected = np.array([beyond, *chances, beyond]) * drawn.size
    seen = np.bincount(np.clip(drawn, -last - 1, last + 1) + last + 1, minlength=expected.size)
    return float(chi2.sf(((seen - expected) ** 2 / expected).sum(), df=expected.size - 1))


def noise(scale: float, count: int, *, seed: int, bits: int = 63) -> npt.NDArray[np.int64]:
    law = GeometricLaw(scale)
    return draw_rounded(law, scale=scale, grid=1.0, count=count, entropy=ReplaySeed(seed), _bits=bits)


@pytest.mark.parametrize(("scale", "count", "bits"), [(0.5, 100_000, 63), (4.0, 100_000, 63), (30.0, 4000, 6)])
def test_draws_follow_the_closed_form(scale: float, count: int, bits: int) -> None:
    drawn = noise(scale, count, seed=1, bits=bits)  # with 6 bits, exact arithmetic decides most of them
    assert misfit(drawn, scale) > DOUBT


def test_the_test_of_the_law_can_fail() -> None:
    drawn = noise(4.0, 100_000, seed=3)
    assert misfit(drawn, 4.0 * 1.05) < DOUBT
    assert misfit(np.abs(drawn), 4.0) < DOUBT
    laplace = np.rint(np.random.default_rng(0).laplace(scale=1.0, size=100_000)).astype(np.int64)
    assert misfit(laplace, 1.0) < DOUBT  # rounded Laplace noise is another law


@given(st.decimals("0.01", "100000", places=6), st.integers(1, UNIT))
def test_the_scale_never_promises_more_than_it_gives(epsilon: Decimal, unit: int) -> None:
    geometric = Geometric(float(epsilon), 1, unit)
    assert Fraction(geometric.scale) * Fraction(exactly(float(epsilon))) >= 2 * unit
    assert geometric.scale * float(epsilon) <= 2 * unit * (1 + 1e-15)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_another_library_finds_the_same_guarantee(epsilon: float) -> None:
    dp.enable_features("contrib")
    scale = Geometric(epsilon, 1).scale
    made = dp.m.make_geometric(dp.vector_domain(dp.atom_domain(T=int)), dp.l1_distance(T=int), scale=scale)
    found = float(made.map(d_in=2 * UNIT))  # type: ignore[no-untyped-call]
    assert found == pytest.approx(epsilon, rel=1e-12)


RUNS = 200_000


class Halved(Geometric):
    """A broken mechanism: half of the noise."""

    @property
    def scale(self) -> float:
        return super().scale / 2


def audited(mechanism: type[Geometric], epsilon: float) -> float:
    """A lower bound on epsilon from samples: one person whose vote is for the first of two counts, or the second.

    Both counts come out at least as their own vote for the one, and at most as the other's: the likeliest event.
    """
    found, unit = [], 6
    for votes in ((unit, 0), (0, unit)):
        counts = np.tile(np.array(votes, np.int64), (RUNS, 1))
        tally = Tally(counts, people=RUNS, unit=unit)
        drawn = np.array(mechanism(epsilon, 2 * RUNS, unit).privatize(tally, SystemEntropy()).values)
        found.append(int(((drawn[:, 0] >= unit) & (drawn[:, 1] <= 0)).sum()))
    low = beta.ppf(DOUBT / 2, found[0], RUNS - found[0] + 1)  # Clopper and Pearson
    high = beta.ppf(1 - DOUBT / 2, found[1] + 1, RUNS - found[1])
    return math.log(low / high)


def test_the_audit_finds_no_more_than_epsilon_and_half_the_noise_fails_it() -> None:
    epsilon = 1.0
    assert 0.9 * epsilon < audited(Geometric, epsilon) <= epsilon
    assert audited(Halved, epsilon) > 1.5 * epsilon


@pytest.mark.parametrize("counts", [[[-1, 3]], [[UNIT, 1]], [[3 * UNIT, 0], [0, 1]]])
def test_a_tally_with_more_than_one_vote_a_person_is_refused(counts: list[list[int]]) -> None:
    with pytest.raises(BadParameter, match="at most one vote of each person"):
        Tally(np.array(counts, np.int64), people=len(counts))


def test_the_tally_must_fit_the_mechanism() -> None:
    tally = Tally(np.zeros((2, 3), np.int64), people=1, unit=4)
    for wrong in (Geometric(1.0, 5, 4), Geometric(1.0, 6, 3)):
        with pytest.raises(BadParameter, match="the tally must have"):
            wrong.privatize(tally, SystemEntropy())
    assert [len(row) for row in Geometric(1.0, 6, 4).privatize(tally, SystemEntropy()).values] == [3, 3]


def test_bad_sizes_are_refused() -> None:
    with pytest.raises(BadParameter, match="counts must be from 1"):
        Geometric(1.0, 0)
    with pytest.raises(BadParameter, match="a vote must have from 1"):
        Geometric(1.0, 5, UNIT + 1)
    with pytest.raises(BadParameter, match="epsilon must be greater than 0"):
        Geometric(float("nan"), 5)


def test_the_facts_can_be_computed_again_from_the_figures_and_the_guarantee() -> None:
    facts = Geometric(1.5, 512, 60).facts
    assert MECHANISMS["geometric"].recomputed(facts.figures, facts.guarantee) == facts
    assert facts.recipe == "mech:geometric|eps:1.5|delta:0|counts:512|unit:60"
    with pytest.raises(BadParameter, match="whole number of parts"):
        Geometric.recomputed({**facts.figures, "sensitivity_l1": 121.0}, facts.guarantee)


def test_saved_counts_are_sealed_again_as_they_were() -> None:
    geometric = Geometric(1.0, 4, 2)
    drawn = geometric.privatize(Tally(np.ones((2, 2), np.int64), people=3, unit=2), SystemEntropy())
    again = geometric.again([list(row) for row in drawn.values])
    assert (again.values, again.facts) == (drawn.values, drawn.facts)
    for wrong in ([[1, 2, 3]], [[1], [2, 3, 4]]):
        with pytest.raises(BadParameter, match="saved counts"):
            geometric.again(wrong)


def test_counts_from_a_seed_are_never_called_private() -> None:
    drawn = Geometric(1.0, 1).privatize(Tally(np.zeros((1, 1), np.int64), people=1), ReplaySeed(1))
    assert not drawn.guarantee.private


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
def test_the_bits_bound_what_a_vote_can_say(epsilon: float) -> None:
    """Against the exact divergence of one count with and without a vote, summed; and against the guarantee."""
    geometric = Geometric(epsilon, 1, unit=4)
    a = math.exp(-1 / geometric.scale)
    values = np.arange(-4000, 4000)
    alone = (1 - a) / (1 + a) * a ** np.abs(values - 0.0)
    divergence = float(np.sum(alone * (np.abs(values + 4) - np.abs(values)))) / geometric.scale / math.log(2)
    assert geometric.bits == pytest.approx(divergence, rel=1e-9)
    assert geometric.bits < epsilon * math.log2(math.e)


def test_local_and_central_releases_add_up() -> None:
    central, local = Release((Geometric(1.0, 9).facts.event,)), Release((Response(3.0, 1 << 10).facts.event,))
    assert compose({central: 2}, delta=Decimal(0)).epsilon == 2
    assert compose({central: 1, local: 2}, delta=Decimal(0)).epsilon == 7
    many = compose({central: 200, local: 1}, delta=Decimal("1e-6")).epsilon
    assert many < 203  # composed exactly, from the losses of pure mechanisms
