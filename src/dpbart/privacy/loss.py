"""The privacy loss of one use of a mechanism: what exact composition needs.

The loss of an output is the logarithm of the ratio of its probabilities under two texts. Losses of several releases add
up. All losses here are those of the two texts that can be told apart best, and they are the same in both directions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class NormalLoss:
    """The loss of normal noise. Several compose to one whose precision is the sum (Dong, Roth and Su 2022).

    Attributes:
        precision: 1 / s^2, where s is the standard deviation over the L2 sensitivity.
    """

    precision: float


@dataclass(frozen=True)
class ResponseLoss:
    """The loss of randomised response: epsilon, 0 or -epsilon.

    Attributes:
        epsilon: greater than 0.
        kept: the probability of the loss epsilon: the true value comes out.
    """

    epsilon: float
    kept: float

    @property
    def swapped(self) -> float:
        """The probability of the loss -epsilon: the value of the other text comes out."""
        return self.kept * math.exp(-self.epsilon)

    @classmethod
    def of(cls, *, epsilon: float, options_log2: float = 1.0) -> ResponseLoss:
        """The loss of k-ary response, k = 2^options_log2.

        With k = 2 it dominates every mechanism of pure epsilon (Kairouz, Oh and Viswanath 2015, Theorem 3.1), so that
        stands for mechanisms about which no more is known.

        >>> ResponseLoss.of(epsilon=math.log(3)).kept
        0.75
        """
        # p = 1 / (1 + (k - 1) exp(-epsilon)), in logarithms: k reaches 2^1024.
        log_others = options_log2 * math.log(2) + math.log1p(-math.exp(-options_log2 * math.log(2)))
        return cls(epsilon, 1 / (1 + math.exp(min(709.0, log_others - epsilon))))


Loss = NormalLoss | ResponseLoss
