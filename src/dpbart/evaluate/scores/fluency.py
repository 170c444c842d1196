"""Fluency: the share of three words in a row that also occur in public text.

It needs no language model. Words in a random order are the control: their share is what the measure gives for text
that is not fluent, and it must be clearly lower. Two words in a row would be too weak: on 200 held-out texts their
share is 87%, and still 60% in random order; that of three is 58%, and 7% in random order.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

Triple = tuple[str, str, str]
_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Fluency:
    """Shares from 0 to 1, or None if no text has three words."""

    share: float | None  # of three words in a row that public text has too
    shuffled: float | None  # control: the same with the words of each text in random order
    original: float | None  # the same for the original texts, if they were given
    triples: int  # in the rewritten texts


def measure_fluency(
    rewritten: Sequence[str], corpus: Iterable[str], *, originals: Sequence[str] = (), seed: int = 0
) -> Fluency:
    """Look up the words of texts in public text, which is read once and not held in memory.

    Args:
        rewritten: texts to judge.
        corpus: public texts. None of them should be among the originals, which would then be found as a whole.
        originals: texts to compare them with.
        seed: of the random order of the control.

    >>> measure_fluency(["The cat sat there", "there sat"], ["and the cat sat down"]).share
    0.5
    """
    dice = random.Random(seed)
    shuffled = [" ".join(_shuffled(text, dice)) for text in rewritten]
    counted = [[each for text in texts for each in triples(text)] for texts in (rewritten, shuffled, originals)]
    sought = {each for found in counted for each in found}
    public: set[Triple] = set()
    for text in corpus:
        public.update(sought.intersection(triples(text)))
    share, without_order, original = (_share(found, public) for found in counted)
    return Fluency(share, without_order, original, len(counted[0]))


def triples(text: str) -> Iterator[Triple]:
    """Three words in a row, in lower case.

    >>> list(triples("Well, I do not."))
    [('well', 'i', 'do'), ('i', 'do', 'not')]
    """
    words = _WORD.findall(text.lower())
    return zip(words, words[1:], words[2:], strict=False)


def _shuffled(text: str, dice: random.Random) -> list[str]:
    words = _WORD.findall(text)
    dice.shuffle(words)
    return words


def _share(found: Sequence[Triple], public: set[Triple]) -> float | None:
    return sum(each in public for each in found) / len(found) if found else None
