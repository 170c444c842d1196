"""The budgets that DP-BART-PR+ is trained for."""

from __future__ import annotations

import numpy as np
import pytest

from dpbart.errors import BadParameter
from dpbart.prepare.noisy import NoisyRecipe
from dpbart.privacy.mechanisms import Gaussian, NonPrivate


def test_budgets_start_high_and_widen_to_the_whole_range() -> None:
    recipe = NoisyRecipe(epsilon_low=10, epsilon_high=5000, steps=1000, easing=0.2)

    def sampled(step: int) -> list[float]:
        random = np.random.default_rng(0)
        made = [recipe.mechanism_at(step, random) for _ in range(2000)]
        assert sum(isinstance(each, NonPrivate) for each in made) == pytest.approx(100, abs=40)
        return [each.epsilon for each in made if isinstance(each, Gaussian)]

    assert min(sampled(0)) > 4500
    assert min(sampled(999)) < 20
    assert float(np.median(sampled(999))) == pytest.approx(810, rel=0.15)  # 5000 (10 / 5000)^(1 - sqrt(1/2))


def test_one_budget_is_that_budget_in_every_step() -> None:
    recipe = NoisyRecipe(epsilon_low=500, epsilon_high=500)
    random = np.random.default_rng(0)
    for step in (0, 4000):
        mechanism = recipe.mechanism_at(step, random)
        assert isinstance(mechanism, Gaussian)
        assert mechanism.epsilon == pytest.approx(500)


def test_a_range_of_budgets_in_the_wrong_order_is_refused() -> None:
    with pytest.raises(BadParameter, match="lower epsilon must not be above the higher 10, got 20"):
        NoisyRecipe(epsilon_low=20, epsilon_high=10)
