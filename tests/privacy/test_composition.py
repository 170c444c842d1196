"""Several releases about one person: the stated guarantee always holds, and decimals stay exact."""

from __future__ import annotations

from decimal import Decimal

import pytest
from dp_accounting import GaussianDpEvent, LaplaceDpEvent
from dp_accounting.pld import PLDAccountant
from hypothesis import given
from hypothesis import strategies as st

from dpbart.errors import BadParameter
from dpbart.privacy.budget.composition import EXACT, ONE, SUM, Release, compose
from dpbart.privacy.calibration import gaussian_delta, gaussian_epsilon
from dpbart.privacy.clipping import Bounds, ByValue
from dpbart.privacy.decimals import exactly, minus, written
from dpbart.privacy.event import Event
from dpbart.privacy.mechanisms import Gaussian, Laplace, NoiseMechanism, NonPrivate

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


def test_ten_times_0_1_is_exactly_1() -> None:
    assert compose({laplace(0.1): 10}).epsilon == 1
    assert compose({laplace(0.1): 3, laplace(0.2): 1}).epsilon == Decimal("0.5")


def test_one_release_keeps_its_own_guarantee() -> None:
    assert compose({gaussian(250): 1}) == compose({gaussian(250): 1})
    assert (compose({gaussian(250): 1}).epsilon, compose({gaussian(250): 1}).rule) == (Decimal("250.0"), ONE)


@given(st.floats(0.01, 3000), st.floats(1e-12, 1e-3), st.integers(2, 500))
def test_gaussian_releases_cost_at_most_their_sum(epsilon: float, delta: float, count: int) -> None:
    composed = compose({gaussian(epsilon, delta): count})
    assert composed.epsilon <= exactly(epsilon) * count
    assert composed.delta == exactly(delta) * count


@given(st.floats(0.01, 3000), st.floats(1e-12, 1e-3), st.integers(2, 500))
def test_k_gaussians_equal_one_with_sqrt_k_times_the_sensitivity(epsilon: float, delta: float, count: int) -> None:
    one = gaussian(epsilon, delta)
    composed = compose({one: count})
    held = gaussian_delta(sigma=multiplier(one) / count**0.5, epsilon=float(composed.epsilon))
    assert held <= float(composed.delta) * (1 + 1e-9)


# theory.md section 4: the exact value from an independent implementation. PLD uses a grid, so allow 0.5% either way.
@pytest.mark.parametrize(("epsilons", "counts"), [((1.0,), (10,)), ((1.0, 0.5), (3, 20)), ((4.0,), (50,))])
def test_the_exact_rule_agrees_with_dp_accounting(epsilons: tuple[float, ...], counts: tuple[int, ...]) -> None:
    spent = {gaussian(epsilon): count for epsilon, count in zip(epsilons, counts, strict=True)}
    accountant = PLDAccountant(value_discretization_interval=1e-3)
    for one, count in spent.items():
        accountant.compose(GaussianDpEvent(multiplier(one)), count)
    composed = compose(spent)
    assert composed.rule == EXACT
    assert float(composed.epsilon) == pytest.approx(accountant.get_epsilon(float(composed.delta)), rel=5e-3)


def test_the_epsilon_of_mixed_releases_is_never_below_dp_accounting() -> None:
    first, second = gaussian(1.0), laplace(0.5)
    accountant = PLDAccountant(value_discretization_interval=1e-3)
    accountant.compose(GaussianDpEvent(multiplier(first)), 8)
    accountant.compose(LaplaceDpEvent(1 / 0.5), 4)
    composed = compose({first: 8, second: 4})
    assert accountant.get_epsilon(float(composed.delta)) <= float(composed.epsilon) < 8 * 1 + 4 * 0.5


def test_the_epsilon_of_a_label_is_added_to_gaussian_releases() -> None:
    text = gaussian(1.0)
    both = Release((*text.events, Event("response", Decimal(2), Decimal(0), 1.0)))
    assert compose({both: 10}).epsilon == compose({text: 10}).epsilon + 20


def test_one_release_without_noise_voids_the_guarantee() -> None:
    nothing = release(NonPrivate())
    assert Gaussian(1, 1e-5).facts(BOUNDS).replayed().event.epsilon.is_infinite()
    assert compose({nothing: 1, gaussian(1.0): 5}).rule == SUM
    assert not compose({nothing: 1, gaussian(1.0): 5}).guarantee.private


def test_the_epsilon_of_noise_is_rounded_up() -> None:
    for sigma in (0.015, 0.054, 0.5, 3.7, 40.0):
        for delta in (1e-12, 1e-5, 0.3):
            assert gaussian_delta(sigma=sigma, epsilon=gaussian_epsilon(sigma=sigma, delta=delta)) <= delta


def test_bad_parameters_are_refused() -> None:
    with pytest.raises(BadParameter, match="at least one"):
        compose({})
    with pytest.raises(BadParameter, match="delta must be between 0 and 1"):
        gaussian_epsilon(sigma=1.0, delta=1.0)


def test_what_is_left_is_never_below_zero() -> None:
    assert minus(Decimal("0.3"), Decimal("0.1")) == Decimal("0.2")
    assert minus(Decimal(1), Decimal(2)) == 0
    assert written(minus(Decimal(300), Decimal("200.50"))) == "99.5"
