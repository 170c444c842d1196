"""A budget in words: how strong a promise is, on a scale from strong to none, and what a guesser can still do.

Everything follows from epsilon and delta alone, so the words hold for every mechanism.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpbart.privacy.facts import Facts, best_guess
from dpbart.privacy.guarantee import Guarantee, rounded_up

A_MILLION = 10**6  # texts
SEVERAL = "possibilities"  # what is guessed if a guarantee is for several texts together
WEAK_ABOVE = 13.0  # epsilon; from here on, the words name no share for one of a million


@dataclass(frozen=True)
class Level:
    """One step of the scale."""

    name: str
    most: float  # epsilon, at most
    colour: str  # of the bar on the card
    background: str
    meaning: str
    reason: str = ""  # why the level ends where it does


_ALMOST_NOTHING_LEARNED = "A reader of the output learns almost nothing about what was said."
_SUSPICION = "A reader of the output can form a suspicion about what was said, but hardly be certain."
_ONE_OF_FEW = "A reader who suspects one of a few texts can usually tell which it was, but hardly one of a million."
_ONE_OF_MANY = "A reader who suspects one of thousands of texts, or of far more, can tell which it was."
_ALMOST_NOTHING = (
    "The promise rules out nothing that an attacker could do in practice. "
    "What the model leaves out may still protect, but nobody guarantees it."
)
_AS_MANY_AS_SENTENCES = (
    "One of 10^43 texts, as many as there are rows of ten words out of 20,000: right at most 73% of the time."
)
_LARGEST = math.nextafter(math.inf, 0.0)
LEVELS = (
    Level(
        "strong", 1, "#1b6e3c", "#eef7f1", _ALMOST_NOTHING_LEARNED, "One of two texts: right at most 73% of the time."
    ),
    Level(
        "moderate", 3, "#5c7a12", "#f5f8e8", _SUSPICION, "One of two texts: wrong about one time in twenty, at least."
    ),
    Level(
        "limited", WEAK_ABOVE, "#a86a00", "#fdf6e3", _ONE_OF_FEW, "One of a million: right at most one time in three."
    ),
    Level("weak", 100, "#c2500a", "#fdf0e6", _ONE_OF_MANY, _AS_MANY_AS_SENTENCES),
    Level("almost none", _LARGEST, "#b3261e", "#fdecea", _ALMOST_NOTHING),
    Level("none", math.inf, "#7a0f0a", "#f9dedc", "NOT PRIVATE: nothing is promised."),
)


def level_of(guarantee: Guarantee) -> Level:
    """The step of the scale on which a guarantee lies.

    >>> [level_of(Guarantee(epsilon, 0.0)).name for epsilon in (1, 3, 10, 13, 13.1, 100, 2500, math.inf)]
    ['strong', 'moderate', 'limited', 'limited', 'weak', 'weak', 'almost none', 'none']
    """
    return next(level for level in LEVELS if guarantee.epsilon <= level.most)


def in_words(facts: Facts) -> tuple[tuple[str, str], ...]:
    """What a channel means to somebody who decides about it: a heading and a sentence each."""
    level = level_of(facts.guarantee)
    bits = "nothing limits how much of a text gets through"
    if math.isfinite(facts.bits):
        bits = f"at most {rounded_up(facts.bits, digits=4):g} bits of a text get through"
    return (
        ("Guarantee", f"{facts.guarantee} for one text"),
        ("Promise", f"{level.name}. {level.meaning}"),
        *facts.lines,
        ("Channel", bits),
        ("In words", odds(facts.guarantee, facts=facts)),
    )


def odds(guarantee: Guarantee, *, facts: Facts | None = None, what: str = "texts") -> str:
    """What an attacker who guesses can do at most.

    Args:
        guarantee: of what is guessed.
        facts: those of the channel, if the guarantee is that of one text and nothing else. They may limit the guess
            further than the guarantee does.
        what: what is guessed among: SEVERAL if the guarantee is for several texts together.

    >>> print(odds(Guarantee(epsilon=1, delta=0)))
    An attacker picks the right one of two equally likely texts at most 73.2% of the time (50% is chance), and the \
right one of a million at most 0.000272% of the time.
    >>> print(odds(Guarantee(epsilon=100, delta=0)))
    An attacker may pick the right one of two texts practically always, and even the right one of 10^43.
    """
    if not guarantee.private:
        return "An attacker may learn everything that was said."
    two = best_guess(guarantee, candidates=2) if facts is None else facts.right_of_two
    if guarantee.epsilon > WEAK_ABOVE:
        # Up to N = exp(epsilon), the guarantee allows a right guess among N texts half of the time. Up to N = 2^bits,
        # the bits rule out nothing.
        bits = math.inf if facts is None else facts.bits
        digits = math.floor(min(guarantee.epsilon / math.log(10), bits * math.log10(2)))
        return f"An attacker may pick the right one of two {what} {often(two)}, and even the right one of 10^{digits}."
    million = best_guess(guarantee, candidates=A_MILLION)
    if facts is not None:
        million = facts.right_of_many(candidates=A_MILLION)
    return (
        f"An attacker picks the right one of two equally likely {what} {often(two)} (50% is chance), and the right one "
        f"of a million {often(million)}."
    )


def often(share: float) -> str:
    """How often at most, in words. Near certainty gets no digits: it is no longer a useful bound.

    >>> often(0.8413), often(0.99), often(0.99999999)
    ('at most 84.2% of the time', 'at most 99% of the time', 'practically always')
    """
    return "practically always" if share > 0.999 else f"at most {rounded_up(100 * share, digits=3):g}% of the time"
