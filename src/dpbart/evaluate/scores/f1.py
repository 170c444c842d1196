"""How well labels are known: macro F1 over the whole test part, and what it must be held against.

Macro F1 is the mean of the F1 of every label that stands in the test part, whether it was ever predicted or not, so
that every result on a data set has the same denominator. (The authors' code averages F1 over batches: another number.)
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dpbart.errors import BadParameter


@dataclass(frozen=True)
class Scores:
    """Of predicted labels against the true ones."""

    macro_f1: float  # 0 to 1
    accuracy: float  # 0 to 1
    class_f1: Mapping[str, float]  # of each label of the test part


def score(truth: Sequence[str], predicted: Sequence[str]) -> Scores:
    """Scores of one prediction a text.

    >>> score(["a", "a", "b", "b"], ["a", "b", "b", "b"]).accuracy
    0.75
    """
    from sklearn.metrics import f1_score

    if len(truth) != len(predicted) or not truth:
        raise BadParameter(f"predictions must be one a text, got {len(predicted)} for {len(truth)} texts.")
    labels = sorted(set(truth))
    each = f1_score(truth, predicted, labels=labels, average=None, zero_division=0)
    right = sum(a == b for a, b in zip(truth, predicted, strict=True))
    class_f1 = {label: float(value) for label, value in zip(labels, each, strict=True)}
    return Scores(sum(class_f1.values()) / len(labels), right / len(truth), class_f1)


def majority(train: Sequence[str], truth: Sequence[str]) -> Scores:
    """Guessing the most frequent label of the train part every time: what knowing nothing gives."""
    most = min(Counter(train).items(), key=lambda each: (-each[1], each[0]))[0]
    return score(truth, [most] * len(truth))


def randomised_response(truth: Sequence[str], *, labels: int, epsilon: float) -> Scores:
    """The label released by itself, with no text, by randomised response at the same epsilon: how well is it known?

    The true one of k labels is released with probability e^epsilon / (e^epsilon + k - 1), each other one with equal
    probability: pure epsilon (Kairouz et al. 2016). The scores come from the expected counts, so nothing is drawn. The
    k labels are those of the train part, or of the test part where it has more.

    >>> randomised_response(["a", "b"], labels=2, epsilon=math.inf).macro_f1
    1.0
    """
    if not epsilon > 0:
        raise BadParameter(f"epsilon must be greater than 0, got {epsilon}.")
    counts, rows = Counter(truth), len(truth)
    k = max(labels, len(counts), 2)
    kept = 1 / (1 + (k - 1) * math.exp(-epsilon))
    other = (1 - kept) / (k - 1)
    # F1 = 2 TP / (2 TP + FP + FN), and TP + FN = the label's own count.
    class_f1 = {
        label: 2 * count * kept / (count * kept + (rows - count) * other + count)
        for label, count in sorted(counts.items())
    }
    return Scores(sum(class_f1.values()) / len(class_f1), kept, class_f1)
