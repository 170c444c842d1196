"""What a guarantee means to somebody who sees the output and guesses."""

from __future__ import annotations

import math

from scipy.special import ndtr

from dpbart.privacy.clipping import Sensitivity
from dpbart.privacy.mechanisms import Gaussian, Mechanism


def right_of_two(mechanism: Mechanism, sensitivity: Sensitivity) -> float:
    """How often, at most, the best guesser names the true one of two equally likely texts (0.5 is blind).

    Gaussian: exact for the two latents that lie farthest apart, Phi(L2 / 2 sigma).
    Otherwise from the guarantee alone: exp(epsilon) / (1 + exp(epsilon)), plus delta / (1 + exp(epsilon)).
    """
    if isinstance(mechanism, Gaussian):
        return float(ndtr(sensitivity.l2 / (2 * mechanism.noise_scale(sensitivity))))
    guarantee = mechanism.guarantee
    if not guarantee.private:
        return 1.0
    odds_against = math.exp(-guarantee.epsilon)
    return (1 + guarantee.delta * odds_against) / (1 + odds_against)


def right_of_many(bits: float, *, candidates_log2: int) -> float:
    """How often, at most, a guesser names the true one of 2^k equally likely texts, from the bits that pass.

    Fano's inequality: right <= (bits + 1) / k.

    >>> right_of_many(math.inf, candidates_log2=20)
    1.0
    """
    return min(1.0, (bits + 1) / candidates_log2)
