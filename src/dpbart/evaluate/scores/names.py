"""Names and numbers recovered: the share of the details of texts that can be read in their rewritings."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from dpbart.errors import BadParameter

Words = tuple[str, ...]


@dataclass(frozen=True)
class Recovered:
    """Which share of the details came through, from 0 to 1."""

    share: float
    elsewhere: float | None  # control: in rewritings of texts that do not have the detail; None if there are none
    details: int


def recovered(originals: Sequence[str], rewritten: Sequence[str], details: Sequence[Sequence[str]]) -> Recovered:
    """Look for the details of each text in its rewriting, and in the rewritings of the other texts.

    Whole words count, whatever their case. Punctuation and spaces make no difference: "555-0142" is found in
    "555 - 0142".

    Args:
        originals: the texts.
        rewritten: the rewriting of each.
        details: of each text, the names or numbers in it.

    Raises:
        BadParameter: If the three differ in length, there are no details, or a text does not contain its detail.

    >>> recovered(["Ada is 36.", "Bo is 7."], ["ADA was here", "Adam is 36"], [["Ada", "36"], ["Bo", "7"]])
    Recovered(share=0.25, elsewhere=0.25, details=4)
    """
    if not len(originals) == len(rewritten) == len(details) or not any(details):
        raise BadParameter(
            f"each text must have a rewriting and its details, got {len(originals)} texts, {len(rewritten)} "
            f"rewritings and details of {sum(map(bool, details))}."
        )
    before, after = _Index(originals), _Index(rewritten)
    came = total = wrongly = others = 0
    for place, found in enumerate(details):
        for detail in found:
            has, shows = before.texts_with(detail), after.texts_with(detail)
            if place not in has:
                raise BadParameter(f"a detail must be in its text, but that of text {place + 1} is not.")
            total += 1
            came += place in shows
            wrongly += len(shows - has)
            others += len(originals) - len(has)
    return Recovered(came / total, wrongly / others if others else None, total)


class _Index:
    """Finds the texts that contain words in a row."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.words = [_words(text) for text in texts]
        self.places: dict[str, set[int]] = defaultdict(set)
        for place, words in enumerate(self.words):
            for word in words:
                self.places[word].add(place)

    def texts_with(self, detail: str) -> set[int]:
        sought = _words(detail)
        if not sought:
            return set()
        candidates = set.intersection(*(self.places.get(word, set()) for word in sought))
        return {place for place in candidates if _in_a_row(sought, self.words[place])}


def _words(text: str) -> Words:
    return tuple(re.findall(r"\w+", text.lower()))


def _in_a_row(sought: Words, words: Words) -> bool:
    return any(words[start : start + len(sought)] == sought for start in range(len(words) - len(sought) + 1))
