"""Several releases about one person: the stated guarantee always holds, and decimals stay exact."""

from __future__ import annotations

import math
import subprocess
import sys
import time
from collections import Counter
from decimal import Decimal

import mpmath
import pytest
from dp_accounting import GaussianDpEvent, LaplaceDpEvent
from dp_accounting.pld import PLDAccountant
from dp_accounting.pld.privacy_loss_distribution import (
    from_gaussian_mechanism,
    from_laplace_mechanism,
    from_randomized_response,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from dpbart.errors import BadParameter
from dpbart.privacy.calibration import gaussian_delta, gaussian_epsilon
from dpbart.privacy.clipping import Bounds, ByValue
from dpbart.privacy.composition import EXACT, LOSSES, ONE, SUM, Release, compose
from dpbart.privacy.guarantee import Event, exactly, minus, written
from dpbart.privacy.mechanisms import Gaussian, Laplace, NoiseMechanism, NonPrivate, Response

DELTA = Decimal("0.00001")
BOUNDS = Bounds("value:1", 1.0, 4, ByValue(1.0).sensitivity(4))


def release(mechanism: NoiseMechanism) -> Release:
    return Release((mechanism.facts(BOUNDS).event,))


def multiplier(release: Release) -> float:
    (event,) = release.events
    assert event.parameter is not None
    return event.parameter


def gaussian(epsilon: float, delta: float = 1e-5) -> Release:
    return release(Gaussian(epsilon, delta))


def laplace(epsilon: float) -> Release:
    return release(Laplace(epsilon))


def response(epsilon: float, bits: int) -> Release:
    return Release((Response(epsilon, 1 << bits).facts.event,))


def test_ten_times_0_1_is_exactly_1() -> None:
    assert compose({laplace(0.1): 10}, delta=DELTA).epsilon == 1
    assert compose({laplace(0.1): 3, laplace(0.2): 1}, delta=DELTA).epsilon == Decimal("0.5")


def test_one_release_keeps_its_own_guarantee() -> None:
    for one, at in ((gaussian(250), DELTA), (laplace(250), DELTA), (laplace(250), Decimal(0))):
        composed = compose({one: 1}, delta=at)
        assert (composed.epsilon, composed.delta, composed.rule) == (Decimal(250), one.delta, ONE)


# Calibrated at any delta: what counts is the noise.
@given(st.floats(0.01, 3000), st.floats(1e-12, 0.5), st.integers(1, 500), st.floats(1e-12, 0.4))
def test_k_gaussians_equal_one_with_sqrt_k_times_the_sensitivity(
    epsilon: float, delta: float, count: int, fixed: float
) -> None:
    one = gaussian(epsilon, delta)
    composed = compose({one: count}, delta=exactly(fixed))
    assert composed.delta <= exactly(fixed)
    held = gaussian_delta(sigma=multiplier(one) / count**0.5, epsilon=float(composed.epsilon))
    assert held <= fixed
    exact = gaussian_epsilon(sigma=multiplier(one) / count**0.5, delta=fixed)
    assert float(composed.epsilon) <= exact * (1 + 5e-8) + 1e-6


def test_the_epsilon_of_a_gaussian_release_is_that_at_the_fixed_delta() -> None:
    """Both by mpmath, 80 digits: sigma from (1, 0.05), then epsilon at 1e-5 (Balle and Wang 2018, Theorem 8)."""
    composed = compose({gaussian(1, 0.05): 1}, delta=DELTA)
    assert float(composed.epsilon) == pytest.approx(3.1482886026614038, rel=1e-7)
    assert composed.rule == EXACT


KINDS = st.one_of(
    st.builds(gaussian, st.floats(0.01, 100), st.floats(1e-12, 0.5)),
    st.builds(laplace, st.floats(0.01, 10)),
    st.builds(response, st.floats(0.01, 20), st.integers(1, 40)),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(KINDS, st.integers(1, 20)), min_size=1, max_size=3), KINDS, st.floats(1e-12, 0.3))
def test_no_release_is_ever_refunded(some: list[tuple[Release, int]], one: Release, fixed: float) -> None:
    before: Counter[Release] = Counter()
    for each, count in some:
        before[each] += count
    spent = compose(before, delta=exactly(fixed))
    assert compose(before + Counter({one: 1}), delta=exactly(fixed)).epsilon >= spent.epsilon


def response_delta(epsilon: mpmath.mpf, options: int, count: int, total: mpmath.mpf) -> mpmath.mpf:
    """delta of k-ary responses at a total epsilon, by the sum over all outcomes in high precision."""
    weight = mpmath.exp(epsilon) + options - 1
    kept, swapped = mpmath.exp(epsilon) / weight, 1 / weight
    delta = mpmath.mpf(0)
    for true in range(count + 1):
        for other in range(count + 1 - true):
            loss, rest = epsilon * (true - other), count - true - other
            if loss > total:
                ways = mpmath.binomial(count, true) * mpmath.binomial(count - true, other)
                mass = kept**true * swapped**other * (1 - kept - swapped) ** rest
                delta += ways * mass * (1 - mpmath.exp(total - loss))
    return delta


@pytest.mark.parametrize(
    ("epsilon", "bits", "count"),
    [(0.5, 1, 20), (0.5, 3, 20), (2.0, 4, 12), (10.0, 15, 10), (10.0, 15, 25), (0.37, 1, 25), (10.3, 20, 6)],
)
@pytest.mark.parametrize("delta", ["1e-5", "1e-8"])
def test_responses_agree_with_the_sum_over_all_outcomes(epsilon: float, bits: int, count: int, delta: str) -> None:
    composed = compose({response(epsilon, bits): count}, delta=Decimal(delta))
    with mpmath.workdps(40):
        stated = mpmath.mpf(str(composed.epsilon))
        exact = [response_delta(mpmath.mpf(epsilon), 1 << bits, count, stated - less) for less in (0, 0.02)]
    assert exact[0] <= mpmath.mpf(delta)  # an upper bound, and not by more than two hundredths
    if composed.rule == LOSSES:
        assert exact[1] > mpmath.mpf(delta)
    assert composed.rule == LOSSES or delta == "1e-8"


@pytest.mark.parametrize(("epsilon", "bits", "count"), [(1.0, 2, 30), (5.0, 8, 20), (0.1, 6, 2000)])
def test_responses_agree_with_dp_accounting(epsilon: float, bits: int, count: int) -> None:
    options = 1 << bits
    replaced = options / (math.exp(epsilon) + options - 1)  # by a uniform value
    theirs = from_randomized_response(replaced, options, value_discretization_interval=1e-4).self_compose(count)
    composed = compose({response(epsilon, bits): count}, delta=DELTA)
    assert composed.rule == LOSSES
    assert float(composed.epsilon) == pytest.approx(theirs.get_epsilon_for_delta(float(DELTA)), rel=3e-3)


def test_responses_with_gaussian_and_laplace_releases_agree_with_dp_accounting() -> None:
    normal, pure = gaussian(1.0), laplace(0.3)
    theirs = from_gaussian_mechanism(multiplier(normal), value_discretization_interval=1e-3).self_compose(8)
    theirs = theirs.compose(from_randomized_response(0.6, 4, value_discretization_interval=1e-3).self_compose(40))
    theirs = theirs.compose(from_laplace_mechanism(1 / 0.3, value_discretization_interval=1e-3).self_compose(10))
    four = response(math.log(1 + 4 * 0.4 / 0.6), 2)  # kept unless replaced, with probability 0.6
    composed = compose({normal: 8, four: 40, pure: 10}, delta=DELTA)
    least = theirs.get_epsilon_for_delta(float(DELTA))
    assert composed.rule == LOSSES
    assert least <= float(composed.epsilon) < least * 1.02 < 8 + 40 * 1.2993 + 3


@pytest.mark.parametrize("epsilon", [0.01, 0.7, 10.0, 333.3, 1000.0])
@pytest.mark.parametrize("bits", [1, 15, 1024])
def test_any_budget_and_any_number_of_texts_take_a_second_and_no_more_than_the_sum(epsilon: float, bits: int) -> None:
    before = Decimal(0)
    for count in (1, 30, 1000, 100_000):
        began = time.process_time()
        composed = compose({response(epsilon, bits): count}, delta=DELTA)
        assert time.process_time() - began < 5
        assert before <= composed.epsilon <= exactly(epsilon) * count
        before = composed.epsilon


def test_nothing_is_computed_where_nothing_can_be_gained() -> None:
    code = (
        "import sys; from decimal import Decimal; from dpbart.privacy.mechanisms import Response\n"
        "from dpbart.privacy.composition import Release, compose\n"
        "one = Release((Response(50.0, 1 << 60).facts.event,))\n"
        "assert compose({one: 500}, delta=Decimal('1e-5')).epsilon == 25_000\n"
        "print('dp_accounting' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


# theory.md section 4: the exact value from an independent implementation. PLD uses a grid, so allow 0.5% either way.
@pytest.mark.parametrize(("epsilons", "counts"), [((1.0,), (10,)), ((1.0, 0.5), (3, 20)), ((4.0,), (50,))])
def test_the_exact_rule_agrees_with_dp_accounting(epsilons: tuple[float, ...], counts: tuple[int, ...]) -> None:
    spent = {gaussian(epsilon): count for epsilon, count in zip(epsilons, counts, strict=True)}
    accountant = PLDAccountant(value_discretization_interval=1e-3)
    for one, count in spent.items():
        accountant.compose(GaussianDpEvent(multiplier(one)), count)
    composed = compose(spent, delta=DELTA)
    assert composed.rule == EXACT
    assert float(composed.epsilon) == pytest.approx(accountant.get_epsilon(float(DELTA)), rel=5e-3)


def test_the_epsilon_of_mixed_releases_is_never_below_dp_accounting() -> None:
    first, second = gaussian(1.0), laplace(0.5)
    accountant = PLDAccountant(value_discretization_interval=1e-3)
    accountant.compose(GaussianDpEvent(multiplier(first)), 8)
    accountant.compose(LaplaceDpEvent(1 / 0.5), 4)
    composed = compose({first: 8, second: 4}, delta=DELTA)
    assert accountant.get_epsilon(float(DELTA)) <= float(composed.epsilon) < 8 * 1 + 4 * 0.5


def test_the_epsilon_of_a_label_is_added_to_gaussian_releases() -> None:
    text = gaussian(1.0)
    both = Release((*text.events, Event("response", Decimal(20), Decimal(0), 1.0)))
    assert compose({both: 10}, delta=DELTA).epsilon == compose({text: 10}, delta=DELTA).epsilon + 200


def test_noise_that_is_not_known_promises_nothing_beyond_its_delta() -> None:
    unknown = Release((Event("gaussian", Decimal(1), Decimal("1e-6")),))
    assert compose({unknown: 10}, delta=DELTA).epsilon == 10
    assert compose({unknown: 11}, delta=DELTA).epsilon.is_infinite()
    assert compose({gaussian(1.0): 1}, delta=Decimal(0)).epsilon.is_infinite()


def test_one_release_without_noise_voids_the_guarantee() -> None:
    nothing = release(NonPrivate())
    assert Gaussian(1, 1e-5).facts(BOUNDS).replayed().event.epsilon.is_infinite()
    composed = compose({nothing: 1, gaussian(1.0, 0.5): 5}, delta=DELTA)
    assert composed.rule == SUM
    assert not composed.guarantee.private


def test_the_epsilon_of_noise_is_rounded_up() -> None:
    for sigma in (0.015, 0.054, 0.5, 3.7, 40.0):
        for delta in (1e-12, 1e-5, 0.3):
            assert gaussian_delta(sigma=sigma, epsilon=gaussian_epsilon(sigma=sigma, delta=delta)) <= delta


def test_bad_parameters_are_refused() -> None:
    with pytest.raises(BadParameter, match="at least one"):
        compose({}, delta=DELTA)
    with pytest.raises(BadParameter, match="fixed delta must be at least 0 and less than 1, got 1"):
        compose({laplace(1.0): 1}, delta=Decimal(1))
    with pytest.raises(BadParameter, match="delta must be between 0 and 1"):
        gaussian_epsilon(sigma=1.0, delta=1.0)


def test_what_is_left_is_never_below_zero() -> None:
    assert minus(Decimal("0.3"), Decimal("0.1")) == Decimal("0.2")
    assert minus(Decimal(1), Decimal(2)) == 0
    assert written(minus(Decimal(300), Decimal("200.50"))) == "99.5"
