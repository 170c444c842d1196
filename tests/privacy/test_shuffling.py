"""The central guarantee of shuffled releases: published values, laws, and an audit by sampling."""

from __future__ import annotations

import math
import time
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta

from dpbart.errors import BadParameter
from dpbart.privacy.guarantee import Guarantee
from dpbart.privacy.mechanisms import Response
from dpbart.privacy.sampling import SystemEntropy
from dpbart.privacy.shuffling.amplification import Shuffled, central_guarantee, largest_local

Values = npt.NDArray[np.int64]


def shuffled(local: float, *, people: int, delta: float = 1e-6, options: int | None = None, known: int = 0) -> Shuffled:
    return central_guarantee(Guarantee(local, 0.0), people=people, delta=delta, options=options, known=known)


def epsilon(local: float, *, people: int, delta: float = 1e-6, options: int | None = None, known: int = 0) -> float:
    return shuffled(local, people=people, delta=delta, options=options, known=known).central.epsilon


def test_the_clones_bound_lies_between_the_published_bounds() -> None:
    """The README of the authors' code, apple/ml-shuffling-amplification, states both for this case."""
    assert 0.1675385583317841 < epsilon(4.0, people=100_000) < 0.172790550755978


@pytest.mark.parametrize(("people", "local"), [(10_000, 2.0), (100_000, 4.0), (10**6, 6.0), (10**8, 10.0)])
def test_the_clones_bound_is_below_the_published_formula(people: int, local: float) -> None:
    """Feldman, McMillan and Talwar 2021, Theorem 3.1, valid for local <= log(n / (16 log(2 / delta)))."""
    delta = 1e-6
    assert local <= math.log(people / (16 * math.log(2 / delta)))
    grown = 8 * math.sqrt(math.exp(local) * math.log(4 / delta) / people) + 8 * math.exp(local) / people
    formula = math.log1p(math.expm1(local) / (math.exp(local) + 1) * grown)
    assert formula / 20 < epsilon(local, people=people) < formula


# A separate trial of the clones bound at delta 1e-6, printed with two digits.
@pytest.mark.parametrize(
    ("people", "centrals"), [(10_000, (0.16, 0.60, 5.7, 8, 10)), (100_000, (0.05, 0.17, 0.52, 2.2, 10))]
)
def test_the_clones_bound_agrees_with_a_separate_trial(people: int, centrals: tuple[float, ...]) -> None:
    for local, central in zip((2.0, 4.0, 6.0, 8.0, 10.0), centrals, strict=True):
        assert epsilon(local, people=people) == pytest.approx(central, abs=0.05 if central > 1 else 0.006)


def test_a_response_does_better_than_the_clones_and_says_so() -> None:
    found = shuffled(8.0, people=100_000, options=256)
    assert (found.rule, shuffled(8.0, people=100_000).rule) == ("blanket", "clones")
    assert found.central.epsilon < 0.6 * epsilon(8.0, people=100_000)
    assert found.central.delta == 1e-6


@pytest.mark.parametrize(("local", "people", "options"), [(4.0, 1, None), (10.0, 10_000, None), (10.0, 1, 1024)])
def test_where_shuffling_gains_nothing_the_local_guarantee_holds(
    local: float, people: int, options: int | None
) -> None:
    found = shuffled(local, people=people, options=options)
    assert (found.central, found.rule) == (Guarantee(local, 0.0), "local")


def test_people_whom_the_attacker_knows_hide_nobody() -> None:
    assert epsilon(4.0, people=1000, known=100, options=16) == epsilon(4.0, people=900, options=16)
    assert shuffled(4.0, people=1000, known=999).rule == "local"
    assert shuffled(4.0, people=1000, known=100).people == 900


locals_ = st.floats(0.05, 12)
peoples = st.floats(0, 6).map(lambda x: round(10**x))
deltas = st.floats(-12, -2).map(lambda x: 10**x)
many_options = st.one_of(st.none(), st.integers(2, 20), st.integers(1, 1024).map(lambda bits: 1 << bits))
HARDLY = 1.01  # blocks may cost this much, and they change with the arguments


@settings(max_examples=10, deadline=None)
@given(locals_, peoples, deltas, many_options, st.floats(1.05, 10))
def test_more_people_more_delta_and_less_local_epsilon_are_more_private(
    local: float, people: int, delta: float, options: int | None, factor: float
) -> None:
    before = epsilon(local, people=people, delta=delta, options=options)
    assert before <= local
    assert epsilon(local, people=math.ceil(people * factor), delta=delta, options=options) <= before * HARDLY
    assert epsilon(local, people=people, delta=min(0.5, delta * factor), options=options) <= before * HARDLY
    assert epsilon(max(0.01, local / factor), people=people, delta=delta, options=options) <= before * HARDLY


@settings(max_examples=10, deadline=None)
@given(st.floats(0.05, 3), peoples, deltas, many_options)
def test_the_largest_local_epsilon_is_enough_and_no_larger_one_is(
    central: float, people: int, delta: float, options: int | None
) -> None:
    found = largest_local(Guarantee(central, delta), people=people, options=options)
    local = found.local.epsilon
    assert local >= central
    assert epsilon(local, people=people, delta=delta, options=options) <= central * (1 + 1e-4)
    assert epsilon(local * 1.001, people=people, delta=delta, options=options) > central


def test_a_code_model_gets_the_largest_local_epsilon_of_all_its_code_sizes() -> None:
    steps = [(0.5, 1 << 2), (4.0, 1 << 4), (7.0, 1 << 5), (8.0, 1 << 8), (10.0, 1 << 10)]
    found = {}
    for people in (50, 5_000, 60_000, 100_000):
        local = found[people] = largest_local(Guarantee(1.0, 1e-6), people=people, options=steps).local.epsilon
        # In each step epsilon rises, so the first point of each is its best.
        for at in (local, local * 1.001, *(first for first, _ in steps if first > local)):
            k = [k for first, k in [(0.0, 4), *steps] if first <= at][-1]
            assert (epsilon(at, people=people, options=k) <= 1.0001) == (at == local)
    assert found[50] < 4 < found[5_000] < 7 < found[60_000] < found[100_000] < 8


def test_a_huge_local_epsilon_over_many_more_options_is_hardly_ever_true() -> None:
    """500.5 over 2^728 codes keeps a text with probability 0.016: less than a delta of 0.02."""
    assert epsilon(500.5, people=1, delta=0.02, options=1 << 728) < 0.01
    assert largest_local(Guarantee(1.0, 0.02), people=1, options=1 << 728).local.epsilon > 500.5


def test_a_huge_central_epsilon_is_refused() -> None:
    with pytest.raises(BadParameter, match="central epsilon must be at most 500, got 501"):
        largest_local(Guarantee(501.0, 1e-6), people=10)


def test_steps_that_do_not_ascend_are_refused() -> None:
    with pytest.raises(BadParameter, match="ascending epsilons"):
        largest_local(Guarantee(1.0, 1e-6), people=10, options=[(4.0, 8), (2.0, 4)])


def test_a_hundred_million_people_take_less_than_a_second() -> None:
    start = time.process_time()
    central_guarantee(Guarantee(10.0, 0.0), people=10**8, delta=1e-9, options=1024)
    largest_local(Guarantee(1.0, 1e-9), people=10**8, options=1024)
    assert time.process_time() - start < 1


@pytest.mark.parametrize("people", [10**9, 10**15])
def test_even_more_people_are_counted_as_a_thousand_million(people: int) -> None:
    assert epsilon(10.0, people=people) == epsilon(10.0, people=10**9)


def test_a_gaussian_release_is_refused_with_its_reason() -> None:
    with pytest.raises(BadParameter, match="local delta of 0, got 1e-05. The delta of every row would add"):
        central_guarantee(Guarantee(8.0, 1e-5), people=1000, delta=1e-6)


@pytest.mark.parametrize(
    ("local", "people", "delta", "options", "known", "message"),
    [
        (math.inf, 10, 1e-6, None, 0, "epsilon must be at most"),
        (1.0, 0, 1e-6, None, 0, "people must be at least 1, got 0"),
        (1.0, 10, 1e-6, None, 10, "known must be at least 0 and below the number of people, 10, got 10"),
        (1.0, 10, 1e-6, None, -1, "known must be"),
        (1.0, 10, 0.0, None, 0, "central delta must be from 1e-15 to 0.5, got 0"),
        (1.0, 10, math.nan, None, 0, "central delta must be"),
        (1.0, 10, 1e-6, 1, 0, "options must be from 2"),
        (1.0, 10, 1e-6, (1 << 1024) + 1, 0, "options must be from 2"),
    ],
)
def test_bad_parameters_are_refused(
    local: float, people: int, delta: float, options: int | None, known: int, message: str
) -> None:
    with pytest.raises(BadParameter, match=message):
        central_guarantee(Guarantee(local, 0.0), people=people, delta=delta, options=options, known=known)


RUNS, PEOPLE = 10_000, 20
DOUBT = 1e-8  # probability that a correct release fails
LOCAL, OPTIONS, DELTA = 2.0, 4, 0.01


def released(target: int) -> Values:
    """Many releases of the same people, in the order of the people. The first one is the target. (runs, people)"""
    texts = ([(target,)] + [(2,)] * (PEOPLE - 1)) * RUNS
    private = Response(LOCAL, OPTIONS).privatize(texts, SystemEntropy()).values
    return np.array(private, dtype=np.int64).reshape(RUNS, PEOPLE)


def in_random_order(rows: Values) -> Values:
    return np.random.default_rng().permuted(rows, axis=1)


def provable_delta(hits: Values, others: Values, epsilon: float) -> float:
    """A lower bound on delta from how often an attacker says "x" to x and to y (Clopper and Pearson)."""
    said, wrongly = int(hits.sum()), int(others.sum())
    low = float(beta.ppf(DOUBT / 2, said, RUNS - said + 1)) if said else 0.0
    return low - math.exp(epsilon) * float(beta.ppf(1 - DOUBT / 2, wrongly + 1, RUNS - wrongly))


def audited_delta(x: Values, y: Values, epsilon: float) -> float:
    """The best of two attackers: one looks at the first row, one counts the rows that say x or y."""
    first = provable_delta(x[:, 0] == 0, y[:, 0] == 0, epsilon)
    leads = [(rows == 0).sum(axis=1) - (rows == 1).sum(axis=1) for rows in (x, y)]
    return max(first, *(provable_delta(leads[0] >= lead, leads[1] >= lead, epsilon) for lead in range(-2, 8)))


def test_an_audit_finds_no_more_than_the_bound_and_catches_rows_in_order() -> None:
    central = epsilon(LOCAL, people=PEOPLE, delta=DELTA, options=OPTIONS)
    assert central < 0.7 * LOCAL
    x, y = released(0), released(1)
    assert audited_delta(in_random_order(x), in_random_order(y), central) <= DELTA
    assert audited_delta(x, y, central) > 10 * DELTA  # the control


def test_an_audit_catches_a_bound_for_ten_times_as_many_people() -> None:
    too_small = epsilon(LOCAL, people=10 * PEOPLE, delta=DELTA, options=OPTIONS)
    assert audited_delta(in_random_order(released(0)), in_random_order(released(1)), too_small) > DELTA


def two_digits_up(value: float) -> str:
    step = 10.0 ** (math.floor(math.log10(value)) - 1)
    return f"{math.ceil(value / step - 1e-9) * step:.2g}"


@pytest.mark.parametrize("people", [1_000, 10_000, 100_000, 1_000_000])
def test_the_table_of_the_page_is_what_the_bounds_give(people: int) -> None:
    page, readme = ((Path(__file__).parents[2] / name).read_text() for name in ("docs/shuffling.md", "README.md"))
    for mechanism, bits in (("response", (3, 5, 7, 9, 11)), ("any other", (None,) * 5)):
        cells = [
            two_digits_up(epsilon(local, people=people, options=None if b is None else 1 << b))
            for local, b in zip((2.0, 4.0, 6.0, 8.0, 10.0), bits, strict=True)
        ]
        assert f"| {people:,} | {mechanism} | {' | '.join(cells)} |" in page
        assert mechanism != "response" or f"| {people:,} | {' | '.join(cells)} |" in readme
