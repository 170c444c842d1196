"""LabelledText texts that a classifier can learn from one word."""

from __future__ import annotations

from dpbart.evaluate.data.splits import LabelledTexts


def learnable(first: int, count: int) -> LabelledTexts:
    labels = tuple(("apple", "boat")[i % 2] for i in range(first, first + count))
    return LabelledTexts(tuple(f"number {first + i} has the {label}" for i, label in enumerate(labels)), labels)


TRAIN, VALID, TEST = learnable(0, 48), learnable(48, 16), learnable(100, 30)
