"""Assign texts to splits when their source does not. A seeded hash of the text alone decides.

So a text can be assigned while streaming, the result is the same on every machine, and a text that occurs twice is
never in two splits. The shares are met on average, not exactly.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b

from dpbart.errors import BadParameter, BadTable
from dpbart.evaluate.data.splits import LabelledText, SourceRow, SplitRow

SPLIT_SEED = 0
VALID_SHARE = 0.2  # of train; theory: "20% of train for validation"
TEST_SHARE = 0.1


def is_chosen(text: str, *, share: float, seed: int, purpose: str) -> bool:
    """Whether this text is in a random share of all texts.

    >>> is_chosen("a", share=1.0, seed=0, purpose="test"), is_chosen("a", share=0.0, seed=0, purpose="test")
    (True, False)
    """
    salted = f"{purpose}\0{seed}\0{text}".encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(salted, digest_size=8).digest(), "big") < share * 2**64


def with_splits(rows: Iterable[SourceRow], seed: int = SPLIT_SEED) -> Iterator[SplitRow]:
    """Rows with a split each.

    If no row names a split, a tenth of the texts becomes test. If no row is in valid, a fifth of train becomes valid.

    Raises:
        BadTable: If some rows name a split and others do not.
    """
    held = list(rows)
    splits = named_splits(held)
    if not splits:
        unique = list(without_repeats(row for _, row in held))
        return with_validation(Preparation(seed=seed).run(lambda: unique), seed)
    named = [(split, row) for split, row in held if split is not None]
    return iter(named) if "valid" in splits else with_validation(named, seed)


def named_splits(rows: Iterable[SourceRow]) -> set[str]:
    """The splits that rows name; an empty set if no row names one.

    Raises:
        BadTable: If some rows name a split and others do not.
    """
    splits = {split for split, _ in rows}
    if None in splits and len(splits) > 1:
        raise BadTable("the column 'split' must name a split (train, valid, test) in every row, or in none.")
    return {split for split in splits if split is not None}


def with_validation(rows: Iterable[SplitRow], seed: int) -> Iterator[SplitRow]:
    """Move a fifth of train to valid."""
    for name, row in rows:
        moved = name == "train" and is_chosen(row.text, share=VALID_SHARE, seed=seed, purpose="valid")
        yield ("valid" if moved else name), row


@dataclass(frozen=True)
class Preparation:
    """How labelled texts without splits become train and test.

    In this order: empty and long texts are dropped; in each group, every class is cut to the size of the smallest;
    every third text of each class is dropped; a tenth of the rest becomes test.
    """

    longest: int | None = None  # words, split at white space
    balanced: bool = False
    two_thirds: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        if self.longest is not None and self.longest < 1:
            raise BadParameter(f"the longest text must have at least 1 word, got {self.longest}.")

    def run(self, read: Callable[[], Iterable[LabelledText]]) -> Iterator[SplitRow]:
        """Rows with their split. Balancing calls `read` twice: once to count, once to sample. No row is kept."""
        rows: Iterable[LabelledText] = (row for row in read() if self._fits(row))
        if self.balanced:
            counted = Counter((row.group, row.label) for row in rows)
            rows = self._balance((row for row in read() if self._fits(row)), counted)
        if self.two_thirds:
            rows = _without_every_third(rows)
        for row in rows:
            yield ("test" if is_chosen(row.text, share=TEST_SHARE, seed=self.seed, purpose="test") else "train"), row

    def _fits(self, row: LabelledText) -> bool:
        words = len(row.text.split())
        return words > 0 and (self.longest is None or words <= self.longest)

    def _balance(self, rows: Iterable[LabelledText], counted: Counter[tuple[str, str]]) -> Iterator[LabelledText]:
        """From each class, exactly as many rows as the smallest class of its group has, sampled WITHOUT replacement.

        Selection sampling (Knuth, The Art of Computer Programming 2, algorithm S): take the next row with probability
        wanted / left. Every selection is then equally likely, and no row is held in memory.
        """
        left = dict(counted)
        labels = {label for _, label in counted}  # a group without one of these labels keeps no rows of the others
        wanted = {(group, label): min(counted[group, each] for each in labels) for group, label in counted}
        dice = random.Random(self.seed)
        for row in rows:
            key = (row.group, row.label)
            if dice.random() * left[key] < wanted[key]:
                wanted[key] -= 1
                yield row
            left[key] -= 1


def _without_every_third(rows: Iterable[LabelledText]) -> Iterator[LabelledText]:
    """Two thirds of each class of each group: the authors drop row 0, 3, 6, ..."""
    seen: Counter[tuple[str, str]] = Counter()
    for row in rows:
        key = (row.group, row.label)
        if seen[key] % 3:
            yield row
        seen[key] += 1


def without_repeats(rows: Iterable[LabelledText]) -> Iterator[LabelledText]:
    """The first row of each text. Keeps 8 bytes per text in memory, not the text."""
    seen: set[bytes] = set()
    for row in rows:
        mark = blake2b(row.text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        if mark not in seen:
            seen.add(mark)
            yield row
