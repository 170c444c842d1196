"""The guarantee of a release, what one use of a mechanism spends, and its privacy loss.

The loss of an output is the logarithm of the ratio of its probabilities under two texts. Losses of several releases add
up. All losses here are those of the two texts that are easiest to tell apart, and they are the same in both directions.

Budgets are exact decimals: 0.1 spent ten times is 1, not 0.9999999999999999.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal, Inexact, InvalidOperation

from dpbart.errors import BadParameter


@dataclass(frozen=True)
class Guarantee:
    """Local differential privacy of one document: (epsilon, delta).

    For any two texts x, y and any set S of outputs,
    Pr[M(x) in S] <= exp(epsilon) Pr[M(y) in S] + delta.

    >>> print(Guarantee(epsilon=250, delta=1e-5))
    (epsilon 250, delta 1e-05)
    >>> print(Guarantee(epsilon=0.9993174256, delta=0))
    (epsilon 0.9994, delta 0)
    >>> print(Guarantee(epsilon=math.inf, delta=0))
    NOT PRIVATE (epsilon infinite)
    """

    epsilon: float  # greater than 0; infinite if nothing is promised
    delta: float  # at least 0 and less than 1; 0 is pure differential privacy

    def __post_init__(self) -> None:
        # `not ... >` instead of `... <=`, so that a NaN is refused too.
        if not self.epsilon > 0:
            raise BadParameter(f"epsilon must be greater than 0, got {self.epsilon}.")
        if not 0 <= self.delta < 1:
            raise BadParameter(f"delta must be at least 0 and less than 1, got {self.delta}.")

    @property
    def private(self) -> bool:
        """Whether anything is promised."""
        return math.isfinite(self.epsilon)

    def __str__(self) -> str:
        if not self.private:
            return "NOT PRIVATE (epsilon infinite)"
        return f"(epsilon {few_digits(self.epsilon)}, delta {few_digits(self.delta)})"


NOTHING_PROMISED = Guarantee(epsilon=math.inf, delta=0.0)


@dataclass(frozen=True)
class Event:
    """One use of a mechanism on one text or label."""

    mechanism: str  # its name, as in `dpbart.privacy.mechanisms.MECHANISMS`
    epsilon: Decimal  # infinite if nothing is promised
    delta: Decimal
    parameter: float | None = None  # what exact composition needs in addition; each mechanism defines its own


@dataclass(frozen=True)
class NormalLoss:
    """The loss of normal noise. Several compose to one whose precision is the sum (Dong, Roth and Su 2022)."""

    precision: float  # 1 / s^2, where s is the standard deviation over the L2 sensitivity


@dataclass(frozen=True)
class ResponseLoss:
    """The loss of randomised response: epsilon, 0 or -epsilon."""

    epsilon: float
    kept: float  # the probability of the loss epsilon: the true value comes out

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

# A budget has at most 17 digits and a count far fewer than 30, so nothing is ever rounded. Rounding raises an error.
EXACT = Context(prec=150, traps=[Inexact, InvalidOperation])


def exactly(value: float) -> Decimal:
    """The decimal as the user wrote it, not the nearest binary fraction.

    >>> exactly(0.1) * 10 == 1
    True
    """
    return Decimal(repr(value))


def written(value: Decimal) -> str:
    """A decimal for people: no exponent unless it is very small, no trailing zeros.

    >>> [written(Decimal(each)) for each in ("1E+3", "0.10", "1e-05", "Infinity")]
    ['1000', '0.1', '0.00001', 'infinite']
    """
    if not value.is_finite():
        return "infinite"
    return f"{value.normalize():f}" if value == 0 or abs(value) >= Decimal("1e-6") else f"{value.normalize():e}"


def rounded_up(value: float, *, digits: int) -> float:
    """A bound with few digits. It is never rounded down, except by the error of a float.

    >>> rounded_up(0.52341, digits=3), rounded_up(0.5, digits=3), rounded_up(9.6444, digits=4)
    (0.524, 0.5, 9.645)
    """
    return float(Context(prec=digits, rounding=ROUND_CEILING).create_decimal_from_float(value * (1 - 1e-12)))


def few_digits(value: float) -> str:
    """An epsilon or a delta in words: at most four digits, rounded up. JSON has all of them.

    >>> [few_digits(value) for value in (0.9993174256, 500.0, 12345.0, 1e-5, 0.0)]
    ['0.9994', '500', '12350', '1e-05', '0']
    """
    return f"{rounded_up(value, digits=4):.10g}"


def minus(first: Decimal, second: Decimal) -> Decimal:
    """What is left of a budget, exactly; never below 0."""
    return max(EXACT.subtract(first, second), Decimal(0)) if first.is_finite() else first
