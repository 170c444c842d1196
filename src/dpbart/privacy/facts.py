"""The public facts of one channel, and private values, which carry them.

The card, `card verify`, resume, the ledger, `dpbart noise` and the experiments read only this record. A mechanism
creates it. A private value is safe to decode, and its facts say why.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import InitVar, dataclass, replace
from decimal import Decimal
from typing import Generic, TypeVar

from dpbart.errors import BadParameter
from dpbart.privacy.guarantee import NOTHING_PROMISED, Event, Guarantee

SYSTEM_ENTROPY = "operating system, drawn in the process that adds the noise"
NOT_PRIVATE = "|NOT PRIVATE"  # at the end of a recipe
REPLAYED_ENTROPY = "replay seed: NOT PRIVATE"
Figure = float | int | str


@dataclass(frozen=True)
class Facts:
    """What a channel guarantees, how, and how much information about a text can get through."""

    guarantee: Guarantee  # of each text
    mechanism: str  # its name
    proof: str  # why the guarantee holds, in words
    figures: Mapping[str, Figure]  # the bounds and the amount of randomness, as the mechanism's card check reads them
    lines: tuple[tuple[str, str], ...]  # the same for people: a heading and a sentence each
    sampler: str  # how the randomness is sampled
    entropy: str  # the source of the random bits
    bits: float  # about one text, the most that can get through
    right_of_two: float  # how often an attacker picks the right one of two equally likely texts, at most; 0.5 is chance
    event: Event  # what one text spends
    recipe: str  # everything in one line, such as "mech:gaussian|eps:250|delta:1e-05|clip:value:0.1"
    options: int | None = None  # k, if all of a release is one k-ary response; None for any other mechanism
    whole: bool = False  # whether the release is that of a whole collection, and its guarantee that of each person
    replay_of: Guarantee | None = None  # what a replay would guarantee without its seed; None for any other channel

    def replayed(self) -> Facts:
        """The same channel with randomness from a seed, which anybody who has the seed can undo."""
        if not self.guarantee.private:
            return self
        return replace(
            self,
            guarantee=NOTHING_PROMISED,
            proof="none: the randomness can be reproduced from the seed",
            entropy=REPLAYED_ENTROPY,
            bits=math.inf,
            right_of_two=1.0,
            event=Event(self.mechanism, Decimal("Infinity"), Decimal(0)),
            recipe=f"{self.recipe}{NOT_PRIVATE}",
            replay_of=self.guarantee,
        )

    def noted(self, recipe: str) -> Facts:
        """The same facts with an addition to the recipe. A NOT PRIVATE mark stays at its end."""
        mark = NOT_PRIVATE if self.recipe.endswith(NOT_PRIVATE) else ""
        return replace(self, recipe=f"{self.recipe.removesuffix(mark)}|{recipe}{mark}")

    def right_of_many(self, *, candidates: int) -> float:
        """How often an attacker picks the right one of N equally likely texts, at most.

        The smallest of three bounds: from the guarantee; from the bits that get through, by Fano's inequality,
        (bits + 1) / log2 N; and from a guess of two. An attacker who is told two of the N, the right one among them, is
        right at least as often.
        """
        from_bits = (self.bits + 1) / math.log2(candidates)
        return min(self.right_of_two, best_guess(self.guarantee, candidates=candidates), from_bits)


def best_guess(guarantee: Guarantee, *, candidates: int) -> float:
    """How often an attacker picks the right one of N equally likely texts, at most, from the guarantee alone.

    Let the attacker guess x where the output is in S(x). For any two texts, Pr[S(x) | x] is at most
    e^epsilon Pr[S(x) | x'] + delta. Summed over all pairs, with Pr[S(x) | x'] of all x adding up to 1 for each x', this
    is (N - 1) p <= e^epsilon (1 - p) + (N - 1) delta for the share p of right guesses.
    """
    if not guarantee.private:
        return 1.0
    others = (candidates - 1) * math.exp(-guarantee.epsilon)
    return (1 + guarantee.delta * others) / (1 + others)


Values = TypeVar("Values")
Other = TypeVar("Other")

_SEAL = object()


@dataclass(frozen=True, eq=False)
class Private(Generic[Values]):
    """A value that went through a mechanism. A decoder accepts nothing else.

    Only mechanisms create one, with `seal`. The constructor refuses all other callers, so nothing is marked private by
    accident. To test without noise, use the mechanism "none".
    """

    values: Values  # a noised latent (batch, ...), or one code per text
    facts: Facts  # of the channel that the values went through
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
