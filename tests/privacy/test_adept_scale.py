"""ADePT's published noise against ours: two documents at the edge of the ball, through the real release.

ADePT took 2C for the L1 sensitivity of an L2 ball of radius C; it is 2C sqrt(n) (Habernal 2021, arXiv:2109.03175).
"""

import math

import numpy as np
import numpy.typing as npt
import pytest
from scipy.stats import beta

from dpbart.privacy.calibration import gaussian_delta
from dpbart.privacy.clipping import ByNorm, Sensitivity
from dpbart.privacy.mechanisms import Gaussian, Laplace
from dpbart.privacy.sampling import ReplaySeed

CLIP = ByNorm(5.0)
ENTRIES = 1024  # of the paper's ADePT: 512 of h, 512 of c
DOUBT = 1e-6  # probability that a correct mechanism fails

Floats = npt.NDArray[np.float64]


class PublishedLaplace(Laplace):
    """The scale of the ADePT paper: 2C / epsilon, whatever the number of entries."""

    def noise_scale(self, sensitivity: Sensitivity) -> float:
        return 2 * CLIP.bound / self.epsilon


def diagonal(entries: int) -> Floats:
    """The two documents farthest apart in the L1 norm, (2, entries): +C / sqrt(n) everywhere, and its opposite."""
    return CLIP.clip(np.stack([np.full(entries, 1e6), np.full(entries, -1e6)])).values


def axis(entries: int) -> Floats:
    """Two documents as far apart in the L2 norm, but in a single entry, (2, entries)."""
    one = np.eye(1, entries)[0] * 1e6
    return CLIP.clip(np.stack([one, -one])).values


def provable_delta(mechanism: Laplace, *, entries: int, epsilon: float, runs: int) -> float:
    """A lower bound on delta that holds with probability 1 - DOUBT.

    The event: the release tells for the one document against the other by more than exp(epsilon), less a hair, as the
    mechanism's own density has it.
    """
    entropy, pair = ReplaySeed(3), diagonal(entries)
    scale = mechanism.noise_scale(CLIP.sensitivity(entries))

    def hits(document: Floats) -> int:
        released = mechanism.privatize(CLIP.clip(np.tile(document, (runs, 1))), entropy).values.astype(np.float64)
        ratio = (np.abs(released - pair[1]) - np.abs(released - pair[0])).sum(axis=1) / scale  # log likelihood ratio
        return int((ratio > 0.999 * epsilon).sum())

    one, other = hits(pair[0]), hits(pair[1])
    low = beta.ppf(DOUBT / 2, one, runs - one + 1) if one else 0.0  # Clopper and Pearson 1934
    high = beta.ppf(1 - DOUBT / 2, other + 1, runs - other)
    return float(low - math.exp(epsilon) * high)


def test_the_pairs_lie_at_the_edge_and_reach_both_sensitivities() -> None:
    far = CLIP.sensitivity(ENTRIES)
    assert [far.l1, far.l2] == pytest.approx([320.0, 10.0])  # theory.md, section 2
    for pair, l1, l2 in ((diagonal(ENTRIES), far.l1, far.l2), (axis(ENTRIES), far.l2, far.l2)):
        np.testing.assert_allclose(np.linalg.norm(pair, axis=1), CLIP.bound, rtol=1e-8)
        apart = pair[0] - pair[1]
        assert l1 * (1 - 1e-8) <= np.abs(apart).sum() <= l1
        assert l2 * (1 - 1e-8) <= np.linalg.norm(apart) <= l2


@pytest.mark.parametrize("epsilon", [1.0, 10.0, 250.0])
def test_our_laplace_scale_leaks_at_most_epsilon_and_the_published_one_32_times_as_much(epsilon: float) -> None:
    """This is exact: the log likelihood ratio is largest beyond both documents, where it is L1 distance / scale."""
    far = CLIP.sensitivity(ENTRIES)
    apart = np.abs(diagonal(ENTRIES)[0] - diagonal(ENTRIES)[1]).sum()
    ours, published = Laplace(epsilon).noise_scale(far), PublishedLaplace(epsilon).noise_scale(far)
    assert epsilon * (1 - 1e-8) <= apart / ours <= epsilon
    assert apart / published == pytest.approx(32 * epsilon)


@pytest.mark.parametrize("epsilon", [1.0, 10.0, 250.0])
def test_our_gaussian_scale_holds_on_both_pairs_and_only_just(epsilon: float) -> None:
    sigma = Gaussian(epsilon, 1e-5).noise_scale(CLIP.sensitivity(ENTRIES))
    for pair in (diagonal(ENTRIES), axis(ENTRIES)):
        apart = float(np.linalg.norm(pair[0] - pair[1]))
        assert 0.99e-5 <= gaussian_delta(sigma=sigma / apart, epsilon=epsilon) <= 1e-5


@pytest.mark.parametrize(("entries", "epsilon", "runs"), [(2, 1.0, 100_000), (ENTRIES, 2.0, 2000)])
def test_the_published_scale_fails_the_audit_that_ours_passes(entries: int, epsilon: float, runs: int) -> None:
    assert provable_delta(Laplace(epsilon), entries=entries, epsilon=epsilon, runs=runs) <= 0
    assert provable_delta(PublishedLaplace(epsilon), entries=entries, epsilon=epsilon, runs=runs) > 0.03


def test_the_audit_has_power_where_ours_spends_all_of_its_epsilon() -> None:
    """With two entries, the most revealing event is common enough to observe: 80% of epsilon would fail."""
    assert provable_delta(Laplace(1.0), entries=2, epsilon=0.8, runs=100_000) > 0
