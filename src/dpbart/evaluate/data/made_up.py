"""Made-up texts with names and numbers that are known, to measure how many come through a rewriting.

Every name is in common use and belongs to nobody here. Phone numbers are from 555-0100 to 555-0199, which are reserved
for fiction. No text is taken from a corpus.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from dpbart.errors import BadParameter

_NAMES = ("first", "last", "place")
_NUMBER = r"\d+(?:[-:/.,]\d+)*"


@dataclass(frozen=True)
class MadeUp:
    """A text, and the details in it."""

    text: str
    names: tuple[str, ...]  # of people and places, word by word
    numbers: tuple[str, ...]  # of phones, amounts, times, houses, and the numbers in dates


def make_up(count: int, *, seed: int = 0) -> list[MadeUp]:
    """`count` different texts, with all shapes in turn. The same seed gives the same texts.

    >>> make_up(1)[0].text.startswith("My name is ")
    True
    """
    if count < 1:
        raise BadParameter(f"texts must be at least 1, got {count}.")
    dice = random.Random(seed)
    shapes = lists()["shape"]
    made: dict[str, MadeUp] = {}
    while len(made) < count:
        new = _fill(shapes[len(made) % len(shapes)], dice)
        made.setdefault(new.text, new)
    return list(made.values())


def _fill(shape: str, dice: random.Random) -> MadeUp:
    filled = {slot: _SLOTS[slot](dice) for slot in re.findall(r"{(\w+)}", shape)}
    names = tuple(value for slot, value in filled.items() if slot in _NAMES)
    others = [value for slot, value in filled.items() if slot not in _NAMES]
    return MadeUp(shape.format(**filled), names, tuple(each for value in others for each in re.findall(_NUMBER, value)))


@cache
def lists() -> dict[str, list[str]]:
    """The lists of made_up.txt by section: words, but the shapes line by line."""
    found: dict[str, list[str]] = {}
    section = ""
    for line in Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif line and not line.startswith("#"):
            found.setdefault(section, []).extend([line] if section == "shape" else line.split())
    return found


def _one_of(name: str) -> Callable[[random.Random], str]:
    return lambda dice: dice.choice(lists()[name])


_SLOTS: Mapping[str, Callable[[random.Random], str]] = {
    "first": _one_of("first"),
    "last": _one_of("last"),
    "place": _one_of("place"),
    "month": _one_of("month"),
    "day": lambda dice: str(dice.randint(1, 28)),
    "year": lambda dice: str(dice.randint(1951, 2019)),
    "date": lambda dice: f"{dice.randint(1, 28):02}/{dice.randint(1, 12):02}/{dice.randint(1951, 2019)}",
    "time": lambda dice: f"{dice.randint(7, 22)}:{dice.randint(0, 59):02}",
    "phone": lambda dice: f"555-01{dice.randint(0, 99):02}",
    "amount": lambda dice: f"{dice.randint(1, 9)},{dice.randint(0, 999):03}",
    "house": lambda dice: str(dice.randint(11, 399)),
    "room": lambda dice: str(dice.randint(101, 999)),
    "age": lambda dice: str(dice.randint(18, 97)),
    "flight": lambda dice: str(dice.randint(1000, 9999)),
    "invoice": lambda dice: str(dice.randint(10_000, 99_999)),
}
