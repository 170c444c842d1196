"""The public facts of one channel.

The card, `card verify`, resume, the ledger, `dpbart noise` and the experiments read only this record. A mechanism
creates it, and every private value carries it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal

from dpbart.privacy.event import Event
from dpbart.privacy.guarantee import NOTHING_PROMISED, Guarantee

SYSTEM_ENTROPY = "operating system, drawn in the process that adds the noise"
NOT_PRIVATE = "|NOT PRIVATE"  # at the end of a recipe
REPLAYED_ENTROPY = "replay seed: NOT PRIVATE"
Figure = float | int | str


@dataclass(frozen=True)
class Facts:
    """What a channel guarantees, how, and how much information about a text can get through.

    Attributes:
        guarantee: of each text.
        mechanism: its name.
        proof: why the guarantee holds, in words.
        figures: the bounds and the amount of randomness, as the mechanism's card check reads them.
        lines: the same for people: a heading and a sentence each.
        sampler: how the randomness is sampled.
        entropy: the source of the random bits.
        bits: the most bits about one text that can get through.
        right_of_two: how often an attacker picks the right one of two equally likely texts, at most (0.5 is chance).
        event: what one text spends.
        recipe: everything in one line, such as "mech:gaussian|eps:250|delta:1e-05|clip:value:0.1".
        options: k, if all of a release is one k-ary randomised response; None for any other mechanism.
    """

    guarantee: Guarantee
    mechanism: str
    proof: str
    figures: Mapping[str, Figure]
    lines: tuple[tuple[str, str], ...]
    sampler: str
    entropy: str
    bits: float
    right_of_two: float
    event: Event
    recipe: str
    options: int | None = None

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
        )

    def noted(self, recipe: str) -> Facts:
        """The same facts with an addition to the recipe. A NOT PRIVATE mark stays at its end."""
        mark = NOT_PRIVATE if self.recipe.endswith(NOT_PRIVATE) else ""
        return replace(self, recipe=f"{self.recipe.removesuffix(mark)}|{recipe}{mark}")

    def right_of_many(self, *, candidates_log2: int) -> float:
        """How often an attacker picks the right one of 2^k equally likely texts, at most.

        The smaller of two bounds: from the guarantee, exp(epsilon) / 2^k + delta; and from the bits that get through,
        by Fano's inequality, (bits + 1) / k.
        """
        epsilon, delta = self.guarantee.epsilon, self.guarantee.delta
        from_guarantee = math.exp(min(0.0, epsilon - candidates_log2 * math.log(2))) + delta
        return min(1.0, from_guarantee, (self.bits + 1) / candidates_log2)


def guess_of_two(guarantee: Guarantee) -> float:
    """How often an attacker picks the right one of two texts, at most, from the guarantee alone.

    exp(epsilon) / (1 + exp(epsilon)), plus delta / (1 + exp(epsilon)).
    """
    if not guarantee.private:
        return 1.0
    odds_against = math.exp(-guarantee.epsilon)
    return (1 + guarantee.delta * odds_against) / (1 + odds_against)
