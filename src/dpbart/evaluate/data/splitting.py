"""Which part a text belongs to, where its file does not say: decided by a seeded hash of the text alone.

So it can be decided while streaming, it is the same on every machine, and a text that stands in the file twice can
never stand in two parts. The shares are met on average, not to the row.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b

from dpbart.errors import BadParameter
from dpbart.evaluate.data.parts import Labelled

VALID_SHARE = 0.2  # of train; theory: "20% of train for validation"
TEST_SHARE = 0.1


def is_drawn(text: str, *, share: float, seed: int, purpose: str) -> bool:
    """Whether this text is among a random share of all texts.

    >>> is_drawn("a", share=1.0, seed=0, purpose="test"), is_drawn("a", share=0.0, seed=0, purpose="test")
    (True, False)
    """
    salted = f"{purpose}\0{seed}\0{text}".encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(salted, digest_size=8).digest(), "big") < share * 2**64


def with_validation(rows: Iterable[tuple[str, Labelled]], seed: int) -> Iterator[tuple[str, Labelled]]:
    """Put a fifth of the train part into the validation part."""
    for name, row in rows:
        moved = name == "train" and is_drawn(row.text, share=VALID_SHARE, seed=seed, purpose="valid")
        yield ("valid" if moved else name), row


@dataclass(frozen=True)
class Preparation:
    """How labelled texts that have no parts become train and test.

    The order: long and empty texts go; each class of each group is cut to the size of its smallest class; every third
    text of each class goes; a tenth is for testing.
    """

    longest: int | None = None  # words, split at white space
    balanced: bool = False
    two_thirds: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        if self.longest is not None and self.longest < 1:
            raise BadParameter(f"the longest text must have at least 1 word, got {self.longest}.")

    def run(self, read: Callable[[], Iterable[Labelled]]) -> Iterator[tuple[str, Labelled]]:
        """Rows with their part. To balance, `read` is called twice: once to count, once to draw. No row is held."""
        rows: Iterable[Labelled] = (row for row in read() if self._fits(row))
        if self.balanced:
            counted = Counter((row.group, row.label) for row in rows)
            rows = self._balance((row for row in read() if self._fits(row)), counted)
        if self.two_thirds:
            rows = _without_every_third(rows)
        for row in rows:
            yield ("test" if is_drawn(row.text, share=TEST_SHARE, seed=self.seed, purpose="test") else "train"), row

    def _fits(self, row: Labelled) -> bool:
        words = len(row.text.split())
        return words > 0 and (self.longest is None or words <= self.longest)

    def _balance(self, rows: Iterable[Labelled], counted: Counter[tuple[str, str]]) -> Iterator[Labelled]:
        """Exactly as many of each class as its group's smallest class has, drawn WITHOUT replacement.

        Selection sampling (Knuth, The Art of Computer Programming 2, algorithm S): the next row is taken with
        probability wanted / left, so that every choice of rows is equally likely and none is held in memory.
        """
        left = dict(counted)
        labels = {label for _, label in counted}  # a group that lacks one of them has none of the others to match it
        wanted = {(group, label): min(counted[group, each] for each in labels) for group, label in counted}
        dice = random.Random(self.seed)
        for row in rows:
            key = (row.group, row.label)
            if dice.random() * left[key] < wanted[key]:
                wanted[key] -= 1
                yield row
            left[key] -= 1


def _without_every_third(rows: Iterable[Labelled]) -> Iterator[Labelled]:
    """Two thirds of each class of each group: the authors drop row 0, 3, 6, ..."""
    seen: Counter[tuple[str, str]] = Counter()
    for row in rows:
        key = (row.group, row.label)
        if seen[key] % 3:
            yield row
        seen[key] += 1


def without_repeats(rows: Iterable[Labelled]) -> Iterator[Labelled]:
    """The first of each text. Holds 8 bytes a text, not the text."""
    seen: set[bytes] = set()
    for row in rows:
        mark = blake2b(row.text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        if mark not in seen:
            seen.add(mark)
            yield row
