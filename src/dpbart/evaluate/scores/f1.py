"""How well labels are predicted: macro F1 over the whole test set, and baselines to compare it with.

Macro F1 is the mean F1 over all labels in the test set, predicted or not, so every result on a data set has the same
denominator. (The authors' code averages F1 over batches, which gives a different number.)
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dpbart.errors import BadParameter


@dataclass(frozen=True)
class Scores:
    """Scores of predicted labels against the true ones."""

    macro_f1: float  # 0 to 1
    accuracy: float  # 0 to 1
    class_f1: Mapping[str, float]  # of each label in the test set


def score(truth: Sequence[str], predicted: Sequence[str]) -> Scores:
    """The scores of one prediction per text.

    >>> score(["a", "a", "b", "b"], ["a", "b", "b", "b"]).accuracy
    0.75
    """
    from sklearn.metrics import f1_score

    if len(truth) != len(predicted) or not truth:
        raise BadParameter(f"there must be one prediction per text, got {len(predicted)} for {len(truth)} texts.")
    labels = sorted(set(truth))
    each = f1_score(truth, predicted, labels=labels, average=None, zero_division=0)
    right = sum(a == b for a, b in zip(truth, predicted, strict=True))
    class_f1 = {label: float(value) for label, value in zip(labels, each, strict=True)}
    return Scores(sum(class_f1.values()) / len(labels), right / len(truth), class_f1)


def majority(train: Sequence[str], truth: Sequence[str]) -> Scores:
    """The scores of always guessing the most frequent label in train."""
    most = min(Counter(train).items(), key=lambda each: (-each[1], each[0]))[0]
    return score(truth, [most] * len(truth))


def randomised_response(truth: Sequence[str], *, labels: int, epsilon: float) -> Scores:
    """The scores of releasing only the label, without any text, by randomised response at the same epsilon.

    The true one of k labels is released with probability e^epsilon / (e^epsilon + k - 1), each other one with equal
    probability: pure epsilon (Kairouz et al. 2016). The scores come from the expected counts, without sampling. k is
    the number of labels in train, or in test if that has more.

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
