"""A budget in words: how strong a promise is, on a scale from strong to none, and what a guesser can still do.

Everything follows from epsilon and delta alone, so the words hold for every mechanism.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpbart.privacy.facts import Facts, guess_of_two
from dpbart.privacy.guarantee import Guarantee

A_MILLION_LOG2 = 20  # "a million" texts in the plain-language reading
SEVERAL = "possibilities"  # what is guessed if a guarantee is for several texts together
WEAK_ABOVE = 20.0  # epsilon; from here on, a run prints what its budget means


@dataclass(frozen=True)
class Level:
    """One step of the scale."""

    name: str
    most: float  # epsilon, at most
    meaning: str
    colour: str  # of the bar on the card
    background: str


LEVELS = (
    Level("strong", 1.0, "A reader of the output learns almost nothing about what was said.", "#1b6e3c", "#eef7f1"),
    Level(
        "moderate",
        5.0,
        "A reader of the output can form a suspicion about what was said, but hardly be certain.",
        "#5c7a12",
        "#f5f8e8",
    ),
    Level(
        "limited",
        WEAK_ABOVE,
        "A reader who suspects one of a few texts can usually tell which it was.",
        "#a86a00",
        "#fdf6e3",
    ),
    Level(
        "weak",
        100.0,
        "A reader who suspects one of many texts, even millions, can tell which it was.",
        "#c2500a",
        "#fdf0e6",
    ),
    Level(
        "almost none",
        math.nextafter(math.inf, 0.0),
        "The promise rules out nothing that an attacker could do in practice. "
        "What the model leaves out may still protect, but nobody guarantees it.",
        "#b3261e",
        "#fdecea",
    ),
    Level("none", math.inf, "NOT PRIVATE: nothing is promised.", "#7a0f0a", "#f9dedc"),
)


def level_of(guarantee: Guarantee) -> Level:
    """The step of the scale on which a guarantee lies.

    >>> [level_of(Guarantee(epsilon, 0.0)).name for epsilon in (1, 10, 20, 20.1, 100, 2500, math.inf)]
    ['strong', 'limited', 'limited', 'weak', 'weak', 'almost none', 'none']
    """
    return next(level for level in LEVELS if guarantee.epsilon <= level.most)


def in_words(facts: Facts) -> tuple[tuple[str, str], ...]:
    """What a channel means to somebody who decides about it: a heading and a sentence each."""
    level, weak = level_of(facts.guarantee), facts.guarantee.epsilon > WEAK_ABOVE
    many = facts.right_of_many(candidates_log2=A_MILLION_LOG2)
    guess = (
        f"An attacker who knows that a text is one of two, equally likely, picks the right one "
        f"{often(facts.right_of_two)} (50% is chance); one of a million, {often(many)}."
    )
    return (
        ("Guarantee", f"{facts.guarantee} for one text"),
        ("Promise", f"{level.name}. {level.meaning}"),
        *facts.lines,
        ("Channel", f"at most {facts.bits:.4g} bits of a text get through"),
        ("In words", odds(facts.guarantee, bits=facts.bits) if weak else guess),
    )


def odds(guarantee: Guarantee, *, bits: float = math.inf, what: str = "texts") -> str:
    """What an attacker who guesses can do at most.

    Args:
        guarantee: of what the attacker guesses.
        bits: fewer bits than the guarantee allows limit the guess further.
        what: the attacker guesses among; SEVERAL if the guarantee is for several texts together.

    >>> print(odds(Guarantee(epsilon=1, delta=0)))
    An attacker picks the right one of two texts at most 73.1% of the time (50% is chance), and the right one of a \
million at most 0.000272% of the time.
    >>> print(odds(Guarantee(epsilon=100, delta=0)))
    An attacker may pick the right one of two texts practically always, and even the right one of 10^43.
    """
    if not guarantee.private:
        return "An attacker may learn everything that was said."
    two = guess_of_two(guarantee)
    if guarantee.epsilon > WEAK_ABOVE:
        # exp(epsilon) / N and (bits + 1) / log2 N bound the guess among N texts (see Facts.right_of_many). Up to
        # N = exp(epsilon), or N = 2^bits, they rule out nothing.
        digits = math.floor(min(guarantee.epsilon / math.log(10), bits * math.log10(2)))
        return f"An attacker may pick the right one of two {what} {often(two)}, and even the right one of 10^{digits}."
    million = min(1.0, math.exp(guarantee.epsilon) / 1e6 + guarantee.delta)
    return (
        f"An attacker picks the right one of two {what} {often(two)} (50% is chance), and the right one of a million "
        f"{often(million)}."
    )


def often(share: float) -> str:
    """How often at most, in words. Near certainty gets no digits: it is no longer a useful bound.

    >>> often(0.8413), often(0.99999999)
    ('at most 84.1% of the time', 'practically always')
    """
    return "practically always" if share > 0.9999 else f"at most {100 * share:.3g}% of the time"
