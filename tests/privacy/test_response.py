"""Randomised response: its probabilities, exactly, and what a label outside the set does."""

from __future__ import annotations

import math
from collections import Counter

import mpmath
import numpy as np
import pytest
from scipy.stats import beta

from dpbart.errors import BadParameter
from dpbart.privacy.response import RandomizedResponse
from dpbart.privacy.sampling import SystemEntropy, Words

RUNS = 20_000
DOUBT = 1e-8  # chance that a sound mechanism fails for a label; its bits are new in every run, so far below a test's


class Script:
    """Words that a test has written down."""

    private = True

    def __init__(self, *words: int) -> None:
        self.left = list(words)

    def words(self, count: int) -> Words:
        taken, self.left = self.left[:count], self.left[count:]
        return np.array(taken, dtype=np.uint64)


def shares(epsilon: float, labels: tuple[str, ...], given: str) -> dict[str, tuple[float, float]]:
    """Bounds on the probability of each label that hold with probability 1 - DOUBT (Clopper and Pearson)."""
    drawn = Counter(RandomizedResponse(epsilon, labels).randomize([given] * RUNS, SystemEntropy()))
    return {
        label: (
            float(beta.ppf(DOUBT / 2, drawn[label], RUNS - drawn[label] + 1)) if drawn[label] else 0.0,
            float(beta.ppf(1 - DOUBT / 2, drawn[label] + 1, RUNS - drawn[label])),
        )
        for label in labels
    }


@pytest.mark.parametrize(("epsilon", "labels"), [(1.0, ("a", "b")), (2.0, ("a", "b", "c", "d", "e"))])
def test_the_truth_comes_out_as_often_as_it_should(epsilon: float, labels: tuple[str, ...]) -> None:
    weight = math.exp(epsilon) + len(labels) - 1
    for label, (low, high) in shares(epsilon, labels, "b").items():
        assert low <= (math.exp(epsilon) if label == "b" else 1) / weight <= high


def test_a_label_outside_the_set_comes_out_as_any() -> None:
    for low, high in shares(3.0, ("a", "b", "c"), "none of them").values():
        assert low <= 1 / 3 <= high


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 7.3])
def test_the_edge_is_decided_exactly(epsilon: float) -> None:
    """Words around g, and further words around its next bits, against 100 digits."""
    response = RandomizedResponse(epsilon, ("a", "b", "c"))
    with mpmath.workdps(100):
        kept = (mpmath.exp(mpmath.mpf(epsilon)) - 1) / (mpmath.exp(mpmath.mpf(epsilon)) + 2)
        edge = int(mpmath.floor(kept * 2**128))
    high, low = edge >> 64, edge & (2**64 - 1)
    assert response._keeps(high - 1, Script())
    assert not response._keeps(high + 1, Script())
    assert response._keeps(high, Script(low - 1))
    assert not response._keeps(high, Script(low + 1))


def test_a_huge_epsilon_still_leaves_a_chance() -> None:
    """g is below 1, however near: a word of ones decides nothing, and further words are drawn."""
    script = Script(2**64 - 1, 2**64 - 1, 5)
    assert RandomizedResponse(100_000.0, ("a", "b"))._keeps(2**64 - 1, script)
    assert script.left == []


@pytest.mark.parametrize(
    ("epsilon", "labels", "message"),
    [(0.0, ("a", "b"), "epsilon must be"), (1.0, ("a",), "at least two"), (1.0, ("a", "a"), "all different")],
)
def test_nonsense_is_refused(epsilon: float, labels: tuple[str, ...], message: str) -> None:
    with pytest.raises(BadParameter, match=message):
        RandomizedResponse(epsilon, labels)
