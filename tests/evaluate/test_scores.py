from __future__ import annotations

import math

import pytest

from dpbart.errors import BadParameter
from dpbart.evaluate.scores import majority, randomised_response, score


def test_macro_f1_known_by_hand() -> None:
    truth = ["a", "a", "a", "b", "b", "c"]
    predicted = ["a", "a", "b", "b", "a", "b"]
    # a: 2 right of 3, precision 2/3, recall 2/3: F1 2/3. b: 1 right, precision 1/3, recall 1/2: F1 2/5. c: 0.
    found = score(truth, predicted)
    assert found.class_f1 == pytest.approx({"a": 2 / 3, "b": 2 / 5, "c": 0.0})
    assert found.macro_f1 == pytest.approx((2 / 3 + 2 / 5 + 0) / 3)
    assert found.accuracy == pytest.approx(3 / 6)


def test_the_mean_is_over_the_labels_of_the_test_set() -> None:
    # A label that only the classifier names is no class of its own: its victims lose recall, once.
    assert score(["a", "a"], ["a", "z"]).macro_f1 == pytest.approx(2 / 3)


def test_the_majority_guess_on_atis_is_0_041() -> None:
    # Theory, section 6: 632 of 893 test texts are the most frequent of 20 labels.
    rest = [f"label {i % 19}" for i in range(893 - 632)]
    found = majority(["flight", "flight", "label 1"], ["flight"] * 632 + rest)
    assert found.macro_f1 == pytest.approx(0.041, abs=5e-4)


def test_predictions_come_one_per_text() -> None:
    with pytest.raises(BadParameter, match="got 1 for 2 texts"):
        score(["a", "b"], ["a"])


class TestRandomisedResponse:
    def test_with_much_budget_the_label_is_known(self) -> None:
        # e^10 / (e^10 + 6) = 0.99973
        found = randomised_response([str(i % 7) for i in range(700)], labels=7, epsilon=10)
        assert found.accuracy == pytest.approx(math.exp(10) / (math.exp(10) + 6))
        assert found.macro_f1 == pytest.approx(found.accuracy)  # balanced labels: precision and recall are the same

    def test_without_budget_it_is_chance(self) -> None:
        found = randomised_response(["a", "b"] * 50, labels=2, epsilon=1e-9)
        assert found.macro_f1 == pytest.approx(0.5)

    def test_unequal_labels_by_hand(self) -> None:
        # k = 2, e^eps = 3: kept 3/4. a: TP 6, FN 2, FP 1/2: F1 12 / 14.5. b: TP 1.5, FN 0.5, FP 2: F1 3 / 5.5.
        found = randomised_response(["a"] * 8 + ["b"] * 2, labels=2, epsilon=math.log(3))
        assert found.class_f1 == pytest.approx({"a": 12 / 14.5, "b": 3 / 5.5})

    def test_a_huge_budget_does_not_overflow(self) -> None:
        assert randomised_response(["a", "b"], labels=2, epsilon=2500).macro_f1 == 1
