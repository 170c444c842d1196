"""The areas of a model's book, for people who choose among them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dpbart.models.code.book import Line


@dataclass(frozen=True)
class Area:
    """One area of a book.

    Attributes:
        name: as the option `areas` takes it.
        sentences: how many there are.
        topics: in the order of the book.
        examples: the first sentence of the first topic, and of the one in the middle.
    """

    name: str
    sentences: int
    topics: tuple[str, ...]
    examples: tuple[str, ...]


def areas_of(lines: Sequence[Line]) -> list[Area]:
    """The areas in the order of the book; none if its lines name none.

    >>> areas_of([Line("health", "pain", "It hurts."), Line("", "", "Hello.")])
    [Area(name='health', sentences=1, topics=('pain',), examples=('It hurts.',))]
    """
    held: dict[str, dict[str, list[str]]] = {}
    for area, topic, sentence in lines:
        if area:
            held.setdefault(area, {}).setdefault(topic, []).append(sentence)
    found = []
    for area, topics in held.items():
        sentences = list(topics.values())
        examples = dict.fromkeys((sentences[0][0], sentences[len(sentences) // 2][0]))
        found.append(Area(area, sum(map(len, sentences)), tuple(filter(None, topics)), tuple(examples)))
    return found
