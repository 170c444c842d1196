"""A budget in words: the scale from strong to none, and what a guesser can still do."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpbart.privacy.facts import guess_of_two
from dpbart.privacy.guarantee import NOTHING_PROMISED, Guarantee
from dpbart.privacy.scale import LEVELS, WEAK_ABOVE, level_of, odds

epsilons = st.floats(0.01, 100_000)


@given(epsilons, epsilons)
def test_a_larger_epsilon_is_never_a_stronger_promise(one: float, other: float) -> None:
    smaller, larger = (LEVELS.index(level_of(Guarantee(each, 0.0))) for each in sorted((one, other)))
    assert smaller <= larger


def test_only_an_infinite_epsilon_promises_nothing() -> None:
    assert level_of(NOTHING_PROMISED).name == "none"
    assert level_of(Guarantee(100_000, 0.0)).name == "almost none"


def test_every_level_has_its_own_colour_and_green_ends_where_the_weak_begin() -> None:
    assert len({level.colour for level in LEVELS}) == len(LEVELS)
    green = [level for level in LEVELS if int(level.colour[3:5], 16) > int(level.colour[1:3], 16)]
    assert [level.name for level in green] == ["strong", "moderate"]
    assert level_of(Guarantee(2500, 1e-5)) not in green


@given(epsilons, st.floats(0, 1e-3))
def test_the_odds_never_claim_less_than_an_attacker_may_do(epsilon: float, delta: float) -> None:
    guarantee = Guarantee(epsilon, delta)
    words = odds(guarantee)
    stated = re.findall(r"at most ([\d.e-]+)%", words)
    if stated and "two texts at most" in words:
        assert float(stated[0]) / 100 >= guess_of_two(guarantee) - 0.005  # three digits
    if epsilon > WEAK_ABOVE:
        digits = int(re.findall(r"10\^(\d+)", words)[0])
        assert digits * math.log(10) <= epsilon < (digits + 1) * math.log(10)


def test_words_differ_between_large_budgets() -> None:
    assert len({odds(Guarantee(epsilon, 0.0)) for epsilon in (1, 10, 25, 100, 500, 2500)}) == 6


def test_few_bits_limit_the_guess_further() -> None:
    assert "10^83" in odds(Guarantee(2500, 0.0), bits=278)
    assert "10^1085" in odds(Guarantee(2500, 0.0))


@pytest.mark.parametrize("epsilon", [0.5, 20.0])
def test_a_small_budget_states_chance(epsilon: float) -> None:
    assert "(50% is chance)" in odds(Guarantee(epsilon, 0.0))
