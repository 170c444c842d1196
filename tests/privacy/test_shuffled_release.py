"""What a shuffled file promises: group privacy and codes that are sets, against exact values; and the way back."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import pytest

from dpbart.errors import BadParameter
from dpbart.privacy.guarantee import Guarantee
from dpbart.privacy.shuffling.amplification import central_guarantee
from dpbart.privacy.shuffling.blanket import uniform_blanket
from dpbart.privacy.shuffling.release import local_for, shuffled_release
from tests.privacy.test_shuffling_bounds import (
    Rows,
    assert_never_below,
    bounds,
    histogram,
    response,
    true_deltas,
)

LOCAL = Guarantee(4.0, 0.0)


def responses_over_sets(odds: Fraction, k: int, near: int) -> Rows:
    """The mechanism for every set of `near` of the `near * k` values."""
    whole = near * k
    likely, other = odds / (near * odds + whole - near), 1 / (near * odds + whole - near)
    return [
        [likely if value in each else other for value in range(whole)]
        for each in itertools.combinations(range(whole), near)
    ]


@pytest.mark.parametrize("odds", [Fraction(20)])
def test_codes_that_are_overlapping_sets_hide_at_least_as_well_as_single_codes(odds: Fraction) -> None:
    exact = true_deltas(responses_over_sets(odds, k=2, near=2), people=3)
    assert_never_below(bounds(uniform_blanket(math.log(odds), options=2), people=3), exact)


def test_without_the_factor_for_sets_the_bound_would_be_too_small() -> None:
    """A control: 4 values are not k = 4 if two of them mean the same."""
    exact = true_deltas(responses_over_sets(Fraction(20), k=2, near=2), people=3)
    with pytest.raises(AssertionError):
        assert_never_below(bounds(uniform_blanket(math.log(20), options=4), people=3), exact)


def test_a_person_with_two_rows_gets_no_less_than_the_exact_value() -> None:
    odds, k, rows = Fraction(3), 2, 6
    mechanism = response(odds, k)
    found = shuffled_release(Guarantee(math.log(3), 0.0), rows=rows, most_rows=2, delta=0.2, options=k)
    assert found.rule == "blanket"
    assert found.guarantee.delta == 0.2
    worst = Fraction(0)
    ratio = Fraction(math.exp(found.guarantee.epsilon))
    for others in itertools.combinations_with_replacement(mechanism, rows - 2):
        x, y = (histogram([*others, target, target]) for target in mechanism)
        for one, two in ((x, y), (y, x)):
            worst = max(
                worst, sum((max(chance - ratio * two[seen], Fraction(0)) for seen, chance in one.items()), Fraction(0))
            )
    assert 0 < worst <= Fraction(found.guarantee.delta)


@pytest.mark.parametrize("most", [1, 2, 5])
def test_the_group_of_a_person_follows_from_one_row(most: int) -> None:
    found = shuffled_release(LOCAL, rows=5_000, most_rows=most, delta=1e-6, options=16)
    epsilon = found.guarantee.epsilon / most
    grown = sum(math.exp(step * epsilon) for step in range(most))
    row = central_guarantee(LOCAL, people=5_000, delta=1e-6 / grown, options=16).central
    assert row.epsilon <= epsilon * (1 + 1e-9)  # so (epsilon, delta / grown) holds for a row
    assert epsilon <= row.epsilon * 1.02  # and not much is given away
    assert found.row_guarantee.epsilon <= epsilon


def test_where_shuffling_gains_nothing_a_person_has_the_sum_of_the_rows() -> None:
    found = shuffled_release(LOCAL, rows=12, most_rows=3, delta=1e-6, options=None)
    assert (found.guarantee, found.rule) == (Guarantee(12.0, 0.0), "local")


def test_a_tenth_of_the_rows_is_known_to_the_second_attacker() -> None:
    found = shuffled_release(LOCAL, rows=10_001, most_rows=1, delta=1e-6, options=16)
    assert found.known == 1_001
    assert found.known_guarantee == central_guarantee(LOCAL, people=9_000, delta=1e-6, options=16).central
    assert found.known_guarantee.epsilon > found.guarantee.epsilon
    assert shuffled_release(LOCAL, rows=1, most_rows=1, delta=0.1, options=16).known == 0


STEPS = [(0.5, 1 << 2), (4.0, 1 << 5), (6.0, 1 << 7), (8.0, 1 << 9)]


@pytest.mark.parametrize(
    ("central", "rows", "most", "label"), [(1.0, 10_000, 1, 0.0), (0.5, 1000, 3, 0.0), (2.0, 20_000, 2, 1.0)]
)
def test_the_local_epsilon_for_a_central_one_keeps_what_was_asked(
    central: float, rows: int, most: int, label: float
) -> None:
    epsilon = local_for(Guarantee(central, 1e-5), rows=rows, most_rows=most, options=STEPS, label=label)

    def found(epsilon: float) -> float:
        k = None if label else [k for first, k in STEPS if first <= epsilon or first == 0.5][-1]
        local = Guarantee(epsilon + label, 0.0)
        return shuffled_release(local, rows=rows, most_rows=most, delta=1e-5, options=k).guarantee.epsilon

    assert 0.9 * central < found(epsilon) <= central
    assert found(epsilon + 0.05) > central  # so it is the largest, about


def test_more_rows_allow_a_larger_local_epsilon() -> None:
    few, many = (local_for(Guarantee(1.0, 1e-5), rows=rows, most_rows=1, options=STEPS) for rows in (500, 5000))
    assert 1 < few < many
    assert few == round(few, 3)


def test_a_central_epsilon_that_leaves_nothing_for_a_text_is_refused() -> None:
    with pytest.raises(BadParameter, match="leaves less than 0.01 for a text"):
        local_for(Guarantee(0.5, 1e-6), rows=10, most_rows=1, options=STEPS, label=2.0)
    with pytest.raises(BadParameter, match="Join them with --join-documents"):
        local_for(Guarantee(50.0, 1e-6), rows=10, most_rows=2, options=STEPS)


def test_gaussian_noise_is_refused() -> None:
    with pytest.raises(BadParameter, match="local delta of 0"):
        shuffled_release(Guarantee(4.0, 1e-6), rows=100, most_rows=1, delta=1e-6, options=None)


@pytest.mark.parametrize("most", [1, 2])
def test_a_person_alone_in_a_file_gets_all_of_the_central_epsilon(most: int) -> None:
    """Not a thousandth less: nobody hides them, so the local epsilons of their rows add up to it."""
    assert local_for(Guarantee(1.0 * most, 1e-6), rows=most, most_rows=most, options=None) == 1.0
