"""The public facts of one channel.

The card, `card verify`, resume, the ledger, `dpbart noise` and the experiments read this record and nothing else. A
mechanism writes it, and every private value carries it.
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
    """What a channel promises, how, and how much of a text can pass.

    Attributes:
        guarantee: what holds for each text.
        mechanism: its name.
        proof: why the guarantee holds, in words.
        figures: what is bounded and how much is randomised, as the mechanism's own card check reads it.
        lines: the same for people: a heading and a sentence each.
        sampler: how the randomness is drawn.
        entropy: where its bits come from.
        bits: that can pass about one text, at most.
        right_of_two: how often the best guesser names the true one of two equally likely texts, at most (0.5: blind).
        event: what one text spends.
        recipe: all of it in one line, such as "mech:gaussian|eps:250|delta:1e-05|clip:value:0.1".
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

    def replayed(self) -> Facts:
        """The same channel with its randomness from a seed: whoever has the seed can undo it."""
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
        """The same facts with more in the recipe, whose mark of no privacy stays at its end."""
        mark = NOT_PRIVATE if self.recipe.endswith(NOT_PRIVATE) else ""
        return replace(self, recipe=f"{self.recipe.removesuffix(mark)}|{recipe}{mark}")

    def right_of_many(self, *, candidates_log2: int) -> float:
        """How often a guesser names the true one of 2^k equally likely texts, at most.

        The smaller of two bounds: from the guarantee, exp(epsilon) / 2^k + delta; and from the bits that pass, by
        Fano's inequality, (bits + 1) / k.
        """
        epsilon, delta = self.guarantee.epsilon, self.guarantee.delta
        from_guarantee = math.exp(min(0.0, epsilon - candidates_log2 * math.log(2))) + delta
        return min(1.0, from_guarantee, (self.bits + 1) / candidates_log2)


def guess_of_two(guarantee: Guarantee) -> float:
    """How often a guesser is right about two texts, from the guarantee alone.

    exp(epsilon) / (1 + exp(epsilon)), plus delta / (1 + exp(epsilon)).
    """
    if not guarantee.private:
        return 1.0
    odds_against = math.exp(-guarantee.epsilon)
    return (1 + guarantee.delta * odds_against) / (1 + odds_against)
