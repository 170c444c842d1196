"""How much noise a budget requires.

Everything is rounded towards more noise, and computed in logarithms: exp(epsilon) overflows a float above 709. A sigma
is in units of the latent, or over the L2 sensitivity where there is none.
"""

import math
from collections.abc import Callable
from functools import lru_cache

from dpbart.errors import BadParameter
from dpbart.privacy.guarantee import exactly

EPSILONS = (0.01, 100_000.0)
DELTAS = (1e-15, 0.5)

# The computed delta has a relative error below 1e-10 over EPSILONS x DELTAS (tested against mpmath), and a relative
# change of sigma changes delta by at least 0.8 times as much. So this factor exceeds the error, at no real cost.
_MORE_NOISE = 1 + 2e-9


def gaussian_delta(*, sigma: float, epsilon: float) -> float:
    """The exact delta of normal noise at sensitivity 1.

    Balle and Wang 2018, https://arxiv.org/abs/1805.06530, Theorem 8:
    delta = Phi(1/(2 sigma) - epsilon sigma) - exp(epsilon) Phi(-1/(2 sigma) - epsilon sigma).

    >>> round(gaussian_delta(sigma=3.730632, epsilon=1.0), 8)
    1e-05
    >>> gaussian_delta(sigma=1e-3, epsilon=1.0)
    1.0
    """
    check_positive("sigma", sigma)
    if not 0 <= epsilon < math.inf:
        raise BadParameter(f"epsilon must be at least 0 and finite, got {epsilon}.")
    return math.exp(_log_delta(sigma, epsilon))


@lru_cache(maxsize=4096)  # every batch asks for the same
def gaussian_sigma(*, epsilon: float, delta: float, sensitivity: float) -> float:
    """The least standard deviation of normal noise that is (epsilon, delta) private at an L2 sensitivity.

    The analytic Gaussian mechanism (Balle and Wang 2018, Algorithm 1): valid for every epsilon, where the textbook
    sqrt(2 ln(1.25 / delta)) / epsilon holds only up to 1.

    >>> round(gaussian_sigma(epsilon=500, delta=1e-5, sensitivity=12.066483), 6)
    0.436033
    """
    check_epsilon(epsilon)
    check_delta(delta)
    check_positive("sensitivity", sensitivity)
    # delta falls as sigma grows. Where epsilon sigma^2 = 1/2 it is below 1/2, and a sixteenth of that sigma is
    # above 1/2 for every epsilon of at least 0.01.
    high = 1 / math.sqrt(2 * epsilon)
    sigma = _least(lambda sigma: _log_delta(sigma, epsilon), math.log(delta), low=high / 16, high=high)
    return sigma * _MORE_NOISE * sensitivity


def gaussian_epsilon(*, sigma: float, delta: float) -> float:
    """The least epsilon for which normal noise at sensitivity 1 is (epsilon, delta) private, rounded up.

    >>> round(gaussian_epsilon(sigma=0.05394, delta=1e-5), 1)
    250.0
    >>> gaussian_epsilon(sigma=1e9, delta=1e-5)
    0.0
    """
    check_positive("sigma", sigma)
    if not 0 < delta < 1:
        raise BadParameter(f"delta must be between 0 and 1, both excluded, got {delta}.")
    asked = math.log(delta) - 2e-9  # subtracts more than the error of a computed log delta (see _MORE_NOISE)
    if _log_delta(sigma, 0.0) <= asked:
        return 0.0
    # delta also falls as epsilon grows
    return _least(lambda epsilon: _log_delta(sigma, epsilon), asked, low=0.0, high=1.0)


def laplace_scale(*, epsilon: float, sensitivity: float) -> float:
    """The least scale of Laplace noise that is epsilon private: L1 sensitivity / epsilon, rounded up.

    >>> round(laplace_scale(epsilon=10, sensitivity=320), 9)
    32.0
    """
    check_epsilon(epsilon)
    check_positive("sensitivity", sensitivity)
    return math.nextafter(sensitivity / epsilon, math.inf)


def gaussian_bits(*, sigma: float, sensitivity: float) -> float:
    """The most bits about one document that can get through normal noise.

    All clipped latents lie within sensitivity / 2 of the origin, so the divergence from the noise alone is at most
    (sensitivity / 2)^2 / (2 sigma^2) nats. This bounds the mutual information for any texts.

    >>> round(gaussian_bits(sigma=0.05394, sensitivity=1.0))
    62
    """
    check_positive("sigma", sigma)
    check_positive("sensitivity", sensitivity)
    return (sensitivity / sigma) ** 2 / 8 / math.log(2)


def given(epsilon: float | None) -> float:
    """The budget; raises BadParameter if it is missing."""
    if epsilon is None:
        raise BadParameter("epsilon must be given, got none. Pass epsilon, such as 10; smaller is more private.")
    return epsilon


def check_positive(name: str, value: float) -> None:
    """Refuse a value that is not above 0, or infinite."""
    if not 0 < value < math.inf:
        raise BadParameter(f"{name} must be greater than 0 and finite, got {value}.")


def check_epsilon(epsilon: float) -> None:
    """Refuse an epsilon outside the range of the mechanisms."""
    if not epsilon > 0:
        raise BadParameter(f"epsilon must be greater than 0, got {epsilon}.")
    least, most = EPSILONS
    if epsilon < least:
        raise BadParameter(f"epsilon must be at least {least:g}, got {epsilon}. Below that nothing gets through.")
    if epsilon > most:
        raise BadParameter(
            f"epsilon must be at most {most:g}, got {epsilon}. For no privacy at all, use the mechanism 'none'."
        )


def check_delta(delta: float) -> None:
    """Refuse a delta outside the range of the Gaussian mechanism."""
    if not 0 < delta < 1:
        raise BadParameter(
            f"delta must be between 0 and 1, both excluded, got {delta}. For delta = 0, use the mechanism 'laplace'."
        )
    least, most = DELTAS
    if delta < least:
        raise BadParameter(
            f"delta must be at least {least:g}, got {delta}. Use {least:g}, or the mechanism 'laplace' for delta = 0."
        )
    if delta > most:
        raise BadParameter(f"delta must be at most {most:g}, got {delta}. Keep it below 1 / the number of documents.")


def check_slack(delta: float) -> None:
    """Refuse a delta that no mechanism can have. 0 is that of a pure one."""
    if delta != 0:
        check_delta(delta)


def check_delta_for(delta: float, *, texts: int, whose: str, remedy: str) -> None:
    """Refuse a delta that is not below 1 / (number of texts): 1 / N would allow publishing one whole text at random.

    Args:
        delta: of one text.
        texts: all of them, or people times the most texts of one person.
        whose: the texts in words, such as "10 texts".
        remedy: what to do, with `{delta}` where a delta that is small enough goes.
    """
    if exactly(delta) * texts >= 1:
        smaller = remedy.format(delta=f"{0.1 / texts:.0e}")
        raise BadParameter(f"delta must be below 1 / {texts} for {whose}, got {delta:g}. {smaller}")


def _least(falling: Callable[[float], float], asked: float, *, low: float, high: float) -> float:
    """The least x at which a falling function is at most `asked`, rounded up by a relative error of at most 1e-12.

    At `low` it is above that value, and `high` is the first point to try.
    """
    while falling(high) > asked:
        low, high = high, 2 * high
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        if falling(middle) > asked:
            low = middle
        else:
            high = middle
    return high


def _log_delta(sigma: float, epsilon: float) -> float:
    """log delta at sensitivity 1; minus infinity if a float cannot distinguish delta from 0."""
    from scipy.special import log_ndtr  # slow to import, and codes do without it

    first = float(log_ndtr(1 / (2 * sigma) - epsilon * sigma))
    second = epsilon + float(log_ndtr(-1 / (2 * sigma) - epsilon * sigma))
    return first + math.log(-math.expm1(second - first)) if second < first else -math.inf
