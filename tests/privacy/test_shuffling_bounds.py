"""The bounds behind a shuffled release: never below the exact value, and hardly above it."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dpbart.privacy.shuffling import blanket
from dpbart.privacy.shuffling.binomial import (
    TAIL,
    _stirling,
    expected_excess,
    expected_shortfall,
    log_probability,
    probabilities,
    window,
)
from dpbart.privacy.shuffling.blanket import Blanket, clones, uniform_blanket

Law = Mapping[tuple[int, ...], Fraction]
Rows = Sequence[Sequence[Fraction]]  # of a local mechanism: the probabilities of its outputs, for each input

ODDS = (Fraction(3, 2), Fraction(3), Fraction(20), Fraction(10**20))  # e^local
RATIOS = tuple(Fraction(tenths, 10) for tenths in (10, 11, 20, 73, 75, 300, 10**10, 10**18))  # e^epsilon; e^2 is 7.39
K = [2, 3, 4, 64, pytest.param(1 << 1024, id="2^1024")]


def response(odds: Fraction, k: int) -> Rows:
    return [[(odds if output == given else 1) / (odds + k - 1) for output in range(k)] for given in range(k)]


def histogram(senders: Rows) -> Law:
    """How often each output comes up, if each sender draws one from a row: all that shuffled rows show."""
    law: Law = {(0,) * len(senders[0]): Fraction(1)}
    for row in senders:
        after: dict[tuple[int, ...], Fraction] = defaultdict(Fraction)
        for counts, chance in law.items():
            for output, probability in enumerate(row):
                more = (*counts[:output], counts[output] + 1, *counts[output + 1 :])
                after[more] += chance * probability
        law = after
    return law


def divergences(first: Law, second: Law) -> list[Fraction]:
    """The hockey-stick divergence, the least delta in this direction, for each of RATIOS."""
    pairs = [(chance, second.get(seen, Fraction(0))) for seen, chance in first.items()]
    return [sum((max(x - ratio * y, Fraction(0)) for x, y in pairs), Fraction(0)) for ratio in RATIOS]


def true_deltas(mechanism: Rows, people: int) -> list[Fraction]:
    """The central delta of shuffled releases: the worst over the inputs of the target and of everybody else."""
    found = []
    for others in itertools.combinations_with_replacement(mechanism, people - 1):
        laws = [histogram([*others, target]) for target in mechanism]
        found += [divergences(x, y) for x, y in itertools.permutations(laws, 2)]
    return [max(each) for each in zip(*found, strict=True)]


def binomial(trials: int, chance: Fraction) -> list[Fraction]:
    return [math.comb(trials, b) * chance**b * (1 - chance) ** (trials - b) for b in range(trials + 1)]


def exact_clones(odds: Fraction, people: int) -> list[Fraction]:
    """C ~ Bin(n - 1, e^-local), A ~ Bin(C, 1/2): (A + D, C - A + 1 - D) against its mirror image, both directions."""
    laws: list[dict[tuple[int, ...], Fraction]] = [defaultdict(Fraction), defaultdict(Fraction)]
    for c, chance in enumerate(binomial(people - 1, 1 / odds)):
        for a, heads in enumerate(binomial(c, Fraction(1, 2))):
            for d, probability in ((1, odds / (odds + 1)), (0, 1 / (odds + 1))):
                laws[0][a + d, c - a + 1 - d] += chance * heads * probability
                laws[1][a + 1 - d, c - a + d] += chance * heads * probability
    return [max(both) for both in zip(divergences(laws[0], laws[1]), divergences(laws[1], laws[0]), strict=True)]


def exact_blanket(odds: Fraction, k: int, people: int) -> list[Fraction]:
    """The target's value among uniform ones, of which the attacker knows how many there are. Outputs: x, y, another."""
    uniform = [Fraction(1, k), Fraction(1, k), Fraction(k - 2, k)]
    x, y = ([each / (odds + k - 1) for each in (*pair, k - 2)] for pair in ((odds, 1), (1, odds)))
    total = [Fraction(0)] * len(RATIOS)
    for b, chance in enumerate(binomial(people - 1, k / (odds + k - 1))):
        found = divergences(*(histogram([*[uniform] * b, target]) for target in (x, y)))
        total = [so_far + chance * each for so_far, each in zip(total, found, strict=True)]
    return total


def bounds(others: Blanket, people: int) -> list[float]:
    curve = others.curve(people)
    return [curve.delta(math.log(ratio)) for ratio in RATIOS]


def assert_never_below(bounds: list[float], exact: list[Fraction]) -> None:
    # e^local and e^epsilon are floats in one and exact in the other: hence 1e-13
    assert all(float(each) * (1 - 1e-13) <= bound for bound, each in zip(bounds, exact, strict=True))


def assert_just_above(bounds: list[float], exact: list[Fraction]) -> None:
    assert_never_below(bounds, exact)
    assert all(bound <= float(each) * (1 + 1e-4) + 1e-13 for bound, each in zip(bounds, exact, strict=True))


@pytest.mark.parametrize("people", [1, 2, 3, 9])
@pytest.mark.parametrize("odds", ODDS)
def test_the_clones_bound_is_its_own_sum(odds: Fraction, people: int) -> None:
    assert_just_above(bounds(clones(math.log(odds)), people), exact_clones(odds, people))


@pytest.mark.parametrize("people", [1, 2, 6])
@pytest.mark.parametrize("k", K)
@pytest.mark.parametrize("odds", ODDS)
def test_the_blanket_bound_is_its_own_sum(odds: Fraction, k: int, people: int) -> None:
    assert_just_above(bounds(uniform_blanket(math.log(odds), k), people), exact_blanket(odds, k, people))


@pytest.mark.parametrize(("k", "people"), [(2, 1), (2, 7), (3, 2), (3, 4), (4, 3)])
@pytest.mark.parametrize("odds", [Fraction(3, 2), Fraction(3), Fraction(20)])
def test_no_shuffled_response_exceeds_either_bound(odds: Fraction, k: int, people: int) -> None:
    exact = true_deltas(response(odds, k), people)
    assert_never_below(bounds(uniform_blanket(math.log(odds), k), people), exact)
    assert_never_below(bounds(clones(math.log(odds)), people), exact)


@pytest.mark.parametrize("k", [2, 3])
def test_wider_blocks_only_make_the_bound_larger(k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blanket, "_TERMS", 10**6)
    monkeypatch.setattr(blanket, "_FLIPS", 1_000)  # one count each
    exact = uniform_blanket(2.0, k).curve(2_000).delta(math.log(1.3))
    for flips, sizes in ((10, 1_000), (1_000, 10)):
        monkeypatch.setattr(blanket, "_FLIPS", flips)
        monkeypatch.setattr(blanket, "_SIZES", sizes)
        wider = uniform_blanket(2.0, k).curve(2_000).delta(math.log(1.3))
        assert wider > 1.1 * exact or (wider == exact and (k, flips) == (2, 10))  # with k = 2, t is m


def test_an_input_outside_the_set_changes_nothing() -> None:
    """It is sent as a uniform value."""
    exact = true_deltas([*response(Fraction(3), 3), [Fraction(1, 3)] * 3], 3)
    assert_never_below(bounds(uniform_blanket(math.log(3), 3), 3), exact)


def test_a_bound_for_two_more_people_would_be_too_small() -> None:
    """The comparison with the exact value has power."""
    exact = true_deltas(response(Fraction(3), 2), 2)
    assert bounds(uniform_blanket(math.log(3), 2), 4)[1] < float(exact[1])


@settings(max_examples=30, deadline=None)
@given(
    levels=st.lists(st.lists(st.integers(1, 3), min_size=3, max_size=3), min_size=2, max_size=3),
    people=st.integers(1, 4),
)
def test_no_other_pure_mechanism_exceeds_the_clones_bound(levels: list[list[int]], people: int) -> None:
    rows = [[Fraction(level, sum(row)) for level in row] for row in levels]
    odds = max(a / b for x, y in itertools.permutations(rows, 2) for a, b in zip(x, y, strict=True))
    if odds > 1:
        assert_never_below(bounds(clones(math.log(odds)), people), true_deltas(rows, people))


@pytest.mark.parametrize(("people", "local", "epsilon"), [(10_000, 4.0, 0.6), (100_000, 2.0, 0.045), (10**6, 8.0, 0.4)])
def test_the_clones_bound_agrees_with_the_two_tails_for_many_people(people: int, local: float, epsilon: float) -> None:
    """Pr[T | x] - e^epsilon Pr[T | y] for the most telling set T, with scipy's tails."""
    weight = math.exp(local)
    c = np.arange(*stats.binom.interval(1 - 1e-14, people - 1, 1 / weight))
    cut = np.floor((c + 1) / 2 + math.tanh(epsilon / 2) * (c + 1) * (0.5 + 1 / (weight - 1)))  # T: more than `cut`
    one, none = stats.binom.sf(cut - 1, c, 0.5), stats.binom.sf(cut, c, 0.5)
    x, y = (weight * one + none) / (weight + 1), (one + weight * none) / (weight + 1)
    exact = float(np.sum(stats.binom.pmf(c, people - 1, 1 / weight) * (x - math.exp(epsilon) * y)))
    assert 1 - 1e-6 <= clones(local).curve(people).delta(epsilon) / exact <= 1.01


@pytest.mark.parametrize(
    ("people", "local", "k", "epsilon"),
    [(1_000, 2.0, 8, 0.295), (10_000, 6.0, 64, 1.27), (100_000, 8.0, 256, 1.1), (10**6, 10.0, 1024, 0.93)],
)
def test_the_blanket_bound_agrees_with_a_sum_over_all_people(people: int, local: float, k: int, epsilon: float) -> None:
    """(1/n) E[((e^local - 1) (N - e^epsilon N') - (e^epsilon - 1) m)+] over n people, and not block by block."""
    q = 1 / (math.exp(local) + k - 1)
    first, last = (int(edge) for edge in stats.binom.interval(1 - 1e-15, people, q))
    x, y = np.meshgrid(np.arange(first, last + 1), np.arange(first, last + 1), indexing="ij")
    chance = stats.binom.pmf(x, people, q) * stats.binom.pmf(y, people - x, q / (1 - q))
    gain, loss = math.expm1(local), math.expm1(epsilon)
    room = (gain * (x - math.exp(epsilon) * y) / loss - x - y)[x > y]  # how many others the sum allows
    left = (people - x - y)[x > y]
    share = q * (k - 2) / (1 - 2 * q)
    below = np.ceil(room) - 1
    mean = left * share * stats.binom.cdf(below - 1, left - 1, share)  # E[others; others < room]
    exact = float(np.sum(chance[x > y] * loss * (room * stats.binom.cdf(below, left, share) - mean)) / people)
    assert 1 - 1e-6 <= uniform_blanket(local, k).curve(people).delta(epsilon) / exact <= 1.15


@pytest.mark.parametrize("number", [1, 2, 15, 16, 17, 40, 1000, 10**9])
def test_what_stirling_leaves_out_is_exact_to_the_last_digits(number: int) -> None:
    """Each term of the series counts: without the last one, it is off by 1e-14 at 16."""
    with mpmath.workdps(40):
        n = mpmath.mpf(number)
        formula = (n + 0.5) * mpmath.log(n) - n + mpmath.log(2 * mpmath.pi) / 2
        exact = float(mpmath.loggamma(n + 1) - formula)
    assert _stirling(np.array([float(number)]))[0] == pytest.approx(exact, rel=1e-13, abs=0 if number > 15 else 1e-14)


def exact_log_probability(count: int, trials: int, chance: float) -> mpmath.mpf:
    with mpmath.workdps(40):
        coefficient = mpmath.loggamma(trials + 1) - mpmath.loggamma(count + 1) - mpmath.loggamma(trials - count + 1)
        return coefficient + count * mpmath.log(chance) + (trials - count) * mpmath.log1p(-mpmath.mpf(chance))


sizes = st.floats(0, 9).map(lambda x: round(10**x))
chances = st.one_of(st.just(0.5), st.floats(-300, -1e-6).map(lambda x: 10**x), st.floats(1e-9, 1 - 1e-9))


@given(sizes, chances, st.floats(0, 1))
def test_probabilities_are_as_exact_as_stated(trials: int, chance: float, where: float) -> None:
    first, last = window(trials, chance)
    count = first + round(where * (last - first))
    exact = exact_log_probability(count, trials, chance)
    found = log_probability(np.array([float(count)]), np.array([float(trials)]), chance)[0]
    assert abs(found - exact) <= (1e-12 if chance == 0.5 else 1e-10) * max(1, abs(exact) / 50)


@settings(max_examples=10, deadline=None)
@given(sizes, chances, st.floats(0, 1))
def test_probabilities_in_a_row_are_as_exact_as_stated(trials: int, chance: float, where: float) -> None:
    first, last = window(trials, chance)
    row = probabilities(np.array([float(first)]), last - first + 1, np.array([float(trials)]), chance)[0]
    count = round(where * (last - first))
    exact = mpmath.exp(exact_log_probability(first + count, trials, chance))
    assert abs(row[count] - exact) <= 1e-9 * exact + 1e-300


@given(sizes, chances)
def test_tails_outside_the_window_are_as_small_as_stated(trials: int, chance: float) -> None:
    first, last = window(trials, chance)
    assert stats.binom.cdf(first - 1, trials, chance) <= TAIL
    assert stats.binom.sf(last, trials, chance) <= TAIL


@settings(deadline=None)
@given(st.floats(0, 5).map(lambda x: round(10**x)), st.floats(0.1, 30))
def test_the_excess_is_rounded_up_and_hardly(flips: int, deviations: float) -> None:
    above = deviations * math.sqrt(flips) / 2
    if above < flips / 2:
        with mpmath.workdps(40):
            edge = mpmath.mpf(flips) / 2 + mpmath.mpf(above)
            first = int(mpmath.floor(edge)) + 1
            chance, exact = mpmath.exp(exact_log_probability(first, flips, 0.5)), mpmath.mpf(0)
            for count in range(first, min(flips, first + 20_000) + 1):
                exact += (count - edge) * chance
                chance *= mpmath.mpf(flips - count) / (count + 1)
                if chance * flips < exact * mpmath.mpf(10) ** -25:
                    break
        for found in (
            expected_excess(np.ones(1), np.array([float(flips)]), np.array([above])),
            expected_shortfall(np.ones(1), np.array([float(flips)]), np.array([flips / 2 - above]))
            if flips < 99
            else exact,
        ):
            assert exact * (1 - 1e-11) <= found + 1e-300
            assert found <= exact * (1 + 2e-4) + flips * 1e-14
