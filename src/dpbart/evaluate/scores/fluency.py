"""Fluency: the share of word pairs that also occur in public text.

It needs no language model. Words in a random order are the control: their share is what the measure gives for text
that is not fluent, and it must be clearly lower.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

Pair = tuple[str, str]
_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Fluency:
    """Shares from 0 to 1, or None if there is not a single pair of words."""

    share: float | None  # of pairs of neighbouring words that public text has too
    shuffled: float | None  # control: the same with the words of each text in random order
    original: float | None  # the same for the original texts, if they were given
    pairs: int


def measure_fluency(
    rewritten: Sequence[str], corpus: Iterable[str], *, originals: Sequence[str] = (), seed: int = 0
) -> Fluency:
    """Look up the word pairs of texts in public text, which is read once and not held in memory.

    Args:
        rewritten: texts to judge.
        corpus: public texts.
        originals: texts to compare them with.
        seed: of the random order of the control.

    >>> measure_fluency(["The cat sat", "sat the"], ["and the cat sat there"]).share
    0.6666666666666666
    """
    dice = random.Random(seed)
    counted = [[pair for text in texts for pair in word_pairs(text)] for texts in (rewritten, originals)]
    counted.append([pair for text in rewritten for pair in word_pairs(" ".join(_shuffled(text, dice)))])
    sought, found = {pair for pairs in counted for pair in pairs}, set[Pair]()
    for text in corpus:
        found.update(sought.intersection(word_pairs(text)))
    share, original, shuffled = (_share(pairs, found) for pairs in counted)
    return Fluency(share, shuffled, original, len(counted[0]))


def word_pairs(text: str) -> Iterator[Pair]:
    """Neighbouring words, in lower case.

    >>> list(word_pairs("Well, I do."))
    [('well', 'i'), ('i', 'do')]
    """
    words = _WORD.findall(text.lower())
    return pairwise(words)


def _shuffled(text: str, dice: random.Random) -> list[str]:
    words = _WORD.findall(text)
    dice.shuffle(words)
    return words


def _share(pairs: Sequence[Pair], found: set[Pair]) -> float | None:
    return sum(pair in found for pair in pairs) / len(pairs) if pairs else None
