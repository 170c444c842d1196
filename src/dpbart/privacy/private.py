"""The seal: a value that is safe to decode, and the facts that say why."""

from __future__ import annotations

from dataclasses import InitVar, dataclass
from typing import Generic, TypeVar

from dpbart.errors import BadParameter
from dpbart.privacy.facts import Facts
from dpbart.privacy.guarantee import Guarantee

Values = TypeVar("Values")
Other = TypeVar("Other")

_SEAL = object()


@dataclass(frozen=True, eq=False)
class Private(Generic[Values]):
    """A value that went through a mechanism. A decoder accepts nothing else.

    Only mechanisms make one, by `seal`. The constructor refuses everybody else, so that nothing is called private by
    accident. To test without noise, use the mechanism "none".

    Attributes:
        values: a noised latent (batch, ...), or one code for each text.
        facts: of the channel it went through.
    """

    values: Values
    facts: Facts
    key: InitVar[object] = None

    def __post_init__(self, key: object) -> None:
        if key is not _SEAL:
            raise BadParameter("a Private value must be made by a mechanism, got a call. Use its privatize().")

    @property
    def guarantee(self) -> Guarantee:
        """What holds for each text of the batch."""
        return self.facts.guarantee

    def post_processed(self, values: Other, *, recipe: str) -> Private[Other]:
        """The same promise for other values, which must be made from these values and public data alone."""
        return Private(values, self.facts.noted(recipe), key=_SEAL)


def seal(values: Values, facts: Facts) -> Private[Values]:
    """Call a value private. Only for mechanisms, in the line after the randomness is drawn (a test holds that)."""
    return Private(values, facts, key=_SEAL)
