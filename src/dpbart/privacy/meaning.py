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


def right_of_many(mechanism: Mechanism, sensitivity: Sensitivity, *, candidates_log2: int) -> float:
    """How often, at most, a guesser names the true one of 2^k equally likely texts.

    The smaller of two bounds: from the guarantee, exp(epsilon) / 2^k + delta; and from the bits that pass, by
    Fano's inequality, (bits + 1) / k.
    """
    guarantee = mechanism.guarantee
    from_guarantee = math.exp(min(0.0, guarantee.epsilon - candidates_log2 * math.log(2))) + guarantee.delta
    from_bits = (mechanism.bits(sensitivity) + 1) / candidates_log2
    return min(1.0, from_guarantee, from_bits)
