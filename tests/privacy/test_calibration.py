"""The noise is always enough for the budget, and no more than needed."""

import math
from fractions import Fraction

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpbart.errors import BadParameter
from dpbart.privacy.calibration import (
    DELTAS,
    EPSILONS,
    gaussian_bits,
    gaussian_delta,
    gaussian_sigma,
    laplace_scale,
)
from dpbart.privacy.guarantee import Guarantee

# Logarithmic: a budget of 0.03 is as likely as one of 30,000.
epsilons = st.floats(*map(math.log, EPSILONS)).map(lambda x: min(max(math.exp(x), EPSILONS[0]), EPSILONS[1]))
deltas = st.floats(*map(math.log, DELTAS)).map(lambda x: min(max(math.exp(x), DELTAS[0]), DELTAS[1]))


def exact_delta(sigma: float, epsilon: float) -> mpmath.mpf:
    """Phi(1/2s - es) - exp(e) Phi(-1/2s - es), computed with 60 correct digits."""
    with mpmath.workdps(60):
        s, e = mpmath.mpf(sigma), mpmath.mpf(epsilon)

        def phi(x: mpmath.mpf) -> mpmath.mpf:
            return mpmath.erfc(-x / mpmath.sqrt(2)) / 2

        return phi(1 / (2 * s) - e * s) - mpmath.exp(e) * phi(-1 / (2 * s) - e * s)


# mpmath, 1500 digits (theory.md section 3): Phi(1/2s - es) - exp(e) Phi(-1/2s - es)
@pytest.mark.parametrize(
    ("epsilon", "sigma", "delta"),
    [
        (1, 3.730631634813, 1.0e-5),
        (250, 0.053937, 1.0098852e-5),
        (2500, 0.015019, 9.7346568e-6),
    ],
)
def test_delta_matches_high_precision_values(epsilon: float, sigma: float, delta: float) -> None:
    assert gaussian_delta(sigma=sigma, epsilon=epsilon) == pytest.approx(delta, rel=1e-7)


# theory.md section 3, delta = 1e-5, recomputed with mpmath
@pytest.mark.parametrize(
    ("epsilon", "s"),
    [
        (1, 3.73063),
        (10, 0.49989),
        (50, 0.14976),
        (100, 0.09467),
        (250, 0.05394),
        (500, 0.03614),
        (750, 0.02880),
        (1000, 0.02458),
        (2500, 0.01502),
    ],
)
def test_sigma_matches_the_theory_page(epsilon: float, s: float) -> None:
    assert gaussian_sigma(epsilon=epsilon, delta=1e-5, sensitivity=1.0) == pytest.approx(s, abs=5.1e-6)


# theory.md section 3; Igamberdiev and Habernal 2023 print 0.8958 and 0.4362 (and call them sigma squared)
@pytest.mark.parametrize(("l2", "sigma"), [(24.787093, 0.8957039024), (12.066483, 0.4360331921)])
def test_sigma_of_the_papers_latents(l2: float, sigma: float) -> None:
    assert gaussian_sigma(epsilon=500, delta=1e-5, sensitivity=l2) == pytest.approx(sigma, rel=1e-7)


def assert_enough_and_not_wasteful(epsilon: float, delta: float) -> None:
    sigma = gaussian_sigma(epsilon=epsilon, delta=delta, sensitivity=1.0)
    assert exact_delta(sigma, epsilon) <= delta
    assert exact_delta(sigma * (1 - 1e-6), epsilon) > delta


@settings(max_examples=400)
@given(epsilons, deltas)
def test_the_calibrated_delta_is_never_above_the_requested_one(epsilon: float, delta: float) -> None:
    assert_enough_and_not_wasteful(epsilon, delta)


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 36.0, 709.0, 710.0, 100_000.0])
@pytest.mark.parametrize("delta", [1e-15, 1e-5, 0.5])
def test_the_calibrated_delta_is_never_above_the_requested_one_at_the_limits(epsilon: float, delta: float) -> None:
    assert_enough_and_not_wasteful(epsilon, delta)


@settings(max_examples=200)
@given(epsilons, deltas)
def test_delta_agrees_with_high_precision(epsilon: float, delta: float) -> None:
    sigma = gaussian_sigma(epsilon=epsilon, delta=delta, sensitivity=1.0)
    exact = exact_delta(sigma, epsilon)
    # The rounding towards more noise, 2e-9 * 0.8, relies on this.
    assert abs(gaussian_delta(sigma=sigma, epsilon=epsilon) / exact - 1) < 2e-10


@given(epsilons, deltas, st.floats(1e-6, 1e6))
def test_sigma_is_proportional_to_the_sensitivity(epsilon: float, delta: float, sensitivity: float) -> None:
    unit = gaussian_sigma(epsilon=epsilon, delta=delta, sensitivity=1.0)
    assert gaussian_sigma(epsilon=epsilon, delta=delta, sensitivity=sensitivity) == pytest.approx(
        unit * sensitivity, rel=1e-14
    )


def test_the_textbook_scale_is_not_private_at_epsilon_250() -> None:
    textbook = math.sqrt(2 * math.log(1.25 / 1e-5)) / 250
    assert gaussian_delta(sigma=textbook, epsilon=250) > 0.99


@given(epsilons, st.floats(1e-12, 1e12))
def test_a_laplace_scale_is_never_rounded_down(epsilon: float, sensitivity: float) -> None:
    scale = Fraction(laplace_scale(epsilon=epsilon, sensitivity=sensitivity))
    assert scale * Fraction(epsilon) >= Fraction(sensitivity)
    assert scale * Fraction(epsilon) <= Fraction(sensitivity) * (1 + Fraction(1, 2**50))


# theory.md section 7: bits at epsilon, delta = 1e-5
@pytest.mark.parametrize(
    ("epsilon", "bits"), [(10, 0.7), (50, 8.0), (100, 20.0), (250, 62.0), (500, 138.0), (2500, 800.0)]
)
def test_the_channel_carries_the_bits_of_the_theory_page(epsilon: float, bits: float) -> None:
    sigma = gaussian_sigma(epsilon=epsilon, delta=1e-5, sensitivity=3.0)
    assert gaussian_bits(sigma=sigma, sensitivity=3.0) == pytest.approx(bits, abs=0.5 if bits > 1 else 0.05)


@pytest.mark.parametrize(
    ("epsilon", "message"),
    [
        (-1.0, "epsilon must be greater than 0, got -1.0."),
        (0.0, "epsilon must be greater than 0, got 0.0."),
        (math.nan, "epsilon must be greater than 0, got nan."),
        (0.001, "epsilon must be at least 0.01, got 0.001."),
        (2e5, "epsilon must be at most 100000, got 200000.0. For no privacy at all, use the mechanism 'none'."),
        (math.inf, "epsilon must be at most 100000, got inf."),
    ],
)
def test_an_epsilon_out_of_range_is_refused(epsilon: float, message: str) -> None:
    with pytest.raises(BadParameter) as refused:
        gaussian_sigma(epsilon=epsilon, delta=1e-5, sensitivity=1.0)
    assert str(refused.value).startswith(message)
    with pytest.raises(BadParameter):
        laplace_scale(epsilon=epsilon, sensitivity=1.0)


@pytest.mark.parametrize(
    ("delta", "message"),
    [
        (0.0, "delta must be between 0 and 1, both excluded, got 0.0."),
        (1.0, "delta must be between 0 and 1, both excluded, got 1.0."),
        (math.nan, "delta must be between 0 and 1, both excluded, got nan."),
        (1e-16, "delta must be at least 1e-15, got 1e-16."),
        (0.6, "delta must be at most 0.5, got 0.6."),
    ],
)
def test_a_delta_out_of_range_is_refused(delta: float, message: str) -> None:
    with pytest.raises(BadParameter) as refused:
        gaussian_sigma(epsilon=1.0, delta=delta, sensitivity=1.0)
    assert str(refused.value).startswith(message)


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf])
def test_a_sensitivity_or_sigma_that_is_not_positive_is_refused(value: float) -> None:
    with pytest.raises(BadParameter, match="sensitivity must be greater than 0 and finite"):
        gaussian_sigma(epsilon=1.0, delta=1e-5, sensitivity=value)
    with pytest.raises(BadParameter, match="sensitivity must be greater than 0 and finite"):
        laplace_scale(epsilon=1.0, sensitivity=value)
    with pytest.raises(BadParameter, match="sigma must be greater than 0 and finite"):
        gaussian_delta(sigma=value, epsilon=1.0)
    with pytest.raises(BadParameter, match="sigma must be greater than 0 and finite"):
        gaussian_bits(sigma=value, sensitivity=1.0)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 0.1), (math.nan, 0.1), (1.0, -0.1), (1.0, 1.0), (1.0, math.nan)])
def test_a_guarantee_with_bad_values_is_refused(epsilon: float, delta: float) -> None:
    with pytest.raises(BadParameter, match="must be"):
        Guarantee(epsilon=epsilon, delta=delta)


def test_a_guarantee_says_what_it_promises() -> None:
    assert str(Guarantee(epsilon=250, delta=1e-5)) == "(epsilon 250, delta 1e-05)"
    assert str(Guarantee(epsilon=math.inf, delta=0)) == "NOT PRIVATE (epsilon infinite)"
    assert Guarantee(epsilon=100_000, delta=0).private
    assert not Guarantee(epsilon=math.inf, delta=0.1).private
