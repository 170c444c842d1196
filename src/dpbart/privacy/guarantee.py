"""The guarantee of a release: epsilon and delta."""

import math
from dataclasses import dataclass

from dpbart.errors import BadParameter


@dataclass(frozen=True)
class Guarantee:
    """Local differential privacy of one document: (epsilon, delta).

    For any two texts x, y and any set S of outputs,
    Pr[M(x) in S] <= exp(epsilon) Pr[M(y) in S] + delta.

    Attributes:
        epsilon: greater than 0; infinite if nothing is promised.
        delta: at least 0 and less than 1; 0 is pure differential privacy.

    >>> print(Guarantee(epsilon=250, delta=1e-5))
    (epsilon 250, delta 1e-05)
    >>> print(Guarantee(epsilon=math.inf, delta=0))
    NOT PRIVATE (epsilon infinite)
    """

    epsilon: float
    delta: float

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
        return f"(epsilon {self.epsilon:.10g}, delta {self.delta:.10g})"


NOTHING_PROMISED = Guarantee(epsilon=math.inf, delta=0.0)
