"""Labelled texts, and a data set of them in three splits: train, valid and test."""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from dpbart.errors import BadParameter, BadTable

SPLITS = ("train", "valid", "test")


@dataclass(frozen=True)
class LabelledText:
    """One text and its label. Classes are balanced within each `group`, such as a product category."""

    label: str
    text: str
    group: str = ""


SplitRow = tuple[str, LabelledText]  # the split's name, and the row
SourceRow = tuple[str | None, LabelledText]  # None: the source does not name a split


@dataclass(frozen=True)
class LabelledTexts:
    """Texts and their labels, in order."""

    texts: tuple[str, ...]
    labels: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(self.texts) != len(self.labels):
            raise BadParameter(
                f"every text must have a label, got {len(self.texts)} texts and {len(self.labels)} labels."
            )

    def __len__(self) -> int:
        return len(self.texts)

    def sample(self, rows: int | None, seed: int) -> LabelledTexts:
        """A random sample without replacement, in the original order; with None, all rows."""
        if rows is None or rows >= len(self):
            return self
        chosen = sorted(random.Random(seed).sample(range(len(self)), rows))
        return LabelledTexts(tuple(self.texts[i] for i in chosen), tuple(self.labels[i] for i in chosen))

    def shuffled(self, seed: int) -> LabelledTexts:
        """The same texts with their labels shuffled: a control from which nothing can be learned."""
        labels = list(self.labels)
        random.Random(seed).shuffle(labels)
        return LabelledTexts(self.texts, tuple(labels))


@dataclass(frozen=True)
class Splits:
    """A labelled data set in three splits."""

    train: LabelledTexts
    valid: LabelledTexts
    test: LabelledTexts

    @classmethod
    def of(cls, rows: Iterable[SplitRow]) -> Splits:
        """Collect rows into their splits.

        Raises:
            BadTable: If a split has no rows.
        """
        held: dict[str, list[LabelledText]] = {name: [] for name in SPLITS}
        for name, row in rows:
            held[name].append(row)
        empty = [name for name in SPLITS if not held[name]]
        if empty:
            raise BadTable(
                f"every split must have a row, got none for {', '.join(empty)}. Add rows, or name each row's split."
            )
        return cls(
            *(LabelledTexts(tuple(r.text for r in held[name]), tuple(r.label for r in held[name])) for name in SPLITS)
        )

    @property
    def checksum(self) -> str:
        """The first 16 digits of a SHA-256 over every split, label and text, in order. It identifies the data."""
        digest = hashlib.sha256()
        for name in SPLITS:
            split: LabelledTexts = getattr(self, name)
            for label, text in zip(split.labels, split.texts, strict=True):
                digest.update(f"{name}\0{label}\0{text}\0".encode("utf-8", "surrogatepass"))
        return digest.hexdigest()[:16]

    @property
    def unseen(self) -> tuple[str, ...]:
        """Labels in test but not in train: no classifier can predict them."""
        return tuple(sorted(set(self.test.labels) - set(self.train.labels)))

    @property
    def untested(self) -> tuple[str, ...]:
        """Labels in train but not in test: they have no F1."""
        return tuple(sorted(set(self.train.labels) - set(self.test.labels)))

    def counts(self) -> dict[str, Counter[str]]:
        """How often each label occurs in each split."""
        return {name: Counter(getattr(self, name).labels) for name in SPLITS}

    def sample(self, *, train: int | None, valid: int | None, test: int | None, seed: int = 0) -> Splits:
        """Smaller splits, sampled without replacement."""
        return replace(
            self,
            train=self.train.sample(train, seed),
            valid=self.valid.sample(valid, seed),
            test=self.test.sample(test, seed),
        )
