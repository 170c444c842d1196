"""The type of private values: safe to decode, with the facts that say why."""

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

    Only mechanisms create one, with `seal`. The constructor refuses all other callers, so nothing is marked private by
    accident. To test without noise, use the mechanism "none".

    Attributes:
        values: a noised latent (batch, ...), or one code per text.
        facts: the facts of the channel that the values went through.
    """

    values: Values
    facts: Facts
    key: InitVar[object] = None

    def __post_init__(self, key: object) -> None:
        if key is not _SEAL:
            raise BadParameter(
                "a Private value must be made by a mechanism, not by calling the class. Use its privatize()."
            )

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee of each text in the batch."""
        return self.facts.guarantee

    def post_processed(self, values: Other, *, recipe: str) -> Private[Other]:
        """The same guarantee for other values, which must be computed from these values and public data only."""
        return Private(values, self.facts.noted(recipe), key=_SEAL)


def seal(values: Values, facts: Facts) -> Private[Values]:
    """Mark a value as private. Only mechanisms may call this, after drawing the randomness (a test checks that)."""
    return Private(values, facts, key=_SEAL)
