"""What one use of a mechanism spends, in the form that composition needs."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from dpbart.privacy.guarantee import Guarantee


@dataclass(frozen=True)
class Event:
    """One use of a mechanism on one text or label.

    Attributes:
        mechanism: its name, as in `dpbart.privacy.mechanisms.MECHANISMS`.
        epsilon: infinite if nothing is promised.
        delta: at least 0.
        parameter: what exact composition needs in addition, if anything; each mechanism defines its own.
    """

    mechanism: str
    epsilon: Decimal
    delta: Decimal
    parameter: float | None = None

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee(float(self.epsilon), float(self.delta))
