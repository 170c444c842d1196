"""No more bits of a document get through noise than stated."""

import math

import mpmath
import pytest

from dpbart.privacy.clipping import ByValue, Sensitivity
from dpbart.privacy.mechanisms import Gaussian, Laplace, NonPrivate


def test_the_gaussian_channel_carries_the_bits_of_the_theory_page() -> None:
    far = ByValue(0.1).sensitivity(3640)
    assert round(Gaussian(250, 1e-5).bits(far)) == 62  # theory.md section 7
    assert NonPrivate().bits(far) == math.inf


def laplace_divergence(apart: float) -> float:
    """KL of Laplace noise at `apart` scales from Laplace noise at 0, in nats, by quadrature."""

    def integrand(x: mpmath.mpf) -> mpmath.mpf:
        return mpmath.exp(-abs(x - apart)) / 2 * (abs(x) - abs(x - apart))

    return float(mpmath.quad(integrand, [-40, 0, apart, apart + 40]))


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0, 50.0])
@pytest.mark.parametrize("entries", [1, 30])
def test_no_document_leaks_more_through_laplace_noise_than_the_bound(epsilon: float, entries: int) -> None:
    laplace = Laplace(epsilon)
    by_value, by_norm = ByValue(0.5).sensitivity(entries), Sensitivity(l1=1.0, l2=1.0)  # of the L1 ball of radius 0.5
    # The documents with the largest divergence. In the box, every entry is at its bound:
    nats = laplace.bits(by_value) * math.log(2)
    assert entries * laplace_divergence(0.5 / laplace.noise_scale(by_value)) <= nats * (1 + 1e-9)
    # In the ball, the norm is all in one entry, or spread over all entries:
    nats = laplace.bits(by_norm) * math.log(2)
    assert laplace_divergence(0.5 / laplace.noise_scale(by_norm)) <= nats * (1 + 1e-9)
    assert entries * laplace_divergence(0.5 / entries / laplace.noise_scale(by_norm)) <= nats * (1 + 1e-9)
    assert nats < min(epsilon / 2, epsilon**2 / 8)  # pure epsilon allows no more than epsilon nats
