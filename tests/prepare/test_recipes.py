"""Recipes: strict records that the command line follows from, and that model directories keep."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpbart.errors import BadParameter
from dpbart.models.bundle import Bundle
from dpbart.options.declare import Record, leaves
from dpbart.options.recipes import AdeptRecipe, BookRecipe, CodeRecipe, NoisyRecipe, PretrainRecipe, PruneRecipe
from dpbart.prepare.noisy import mechanism_at
from dpbart.privacy.mechanisms import Gaussian, NonPrivate
from tests.command_line import succeed

RECIPES: dict[str, type[Record]] = {
    "pretrain": PretrainRecipe,
    "prune": PruneRecipe,
    "noisy": NoisyRecipe,
    "adept": AdeptRecipe,
}


@pytest.mark.parametrize("model", ["mini", "mini-pr", "mini-pr-plus", "mini-adept"])
def test_the_recipe_of_a_bundled_model_is_still_a_recipe(model: str) -> None:
    for part, recorded in Bundle.find(model).facts.recipe.items():
        beside = {"columns_of_round", "glove"}  # recorded with the recipe, but not settings
        own = {name: value for name, value in recorded.items() if name not in beside}
        recipe = RECIPES[part](**own)
        assert recipe.model_dump() == own


@pytest.mark.parametrize(
    ("command", "record"), [*RECIPES.items(), ("code", CodeRecipe), ("book", BookRecipe)], ids=lambda each: str(each)
)
def test_help_shows_every_option_of_a_recipe_with_its_default(command: str, record: type[Record]) -> None:
    shown = " ".join(succeed("prepare", command, "--help").split())
    for leaf in leaves(record):
        for flag in leaf.flags:
            assert f"{flag} " in shown or f"{flag}," in shown
            if leaf.kind is not bool and not leaf.field.is_required() and leaf.field.default is not None:
                assert f"{leaf.help} [default: {leaf.field.default}]" in shown


@pytest.mark.parametrize(
    ("recipe", "wrong"),
    [
        (PretrainRecipe, {"steps": True}),
        (PretrainRecipe, {"steps": 2.5}),
        (AdeptRecipe, {"learning_rate": float("inf")}),
        (PruneRecipe, {"by": "q"}),
        (NoisyRecipe, {"delta": float("nan")}),
        (NoisyRecipe, {"epsilon_low": 0.0}),
        (CodeRecipe, {"lines": "many"}),
    ],
)
def test_a_recipe_takes_only_values_of_its_types_and_ranges(recipe: type[Record], wrong: dict[str, Any]) -> None:
    with pytest.raises(BadParameter, match=f"{next(iter(wrong)).replace('_', ' ')} must be"):
        recipe(**wrong)


def test_a_recipe_cannot_change() -> None:
    with pytest.raises(ValueError, match="frozen"):
        PretrainRecipe().steps = 3


# -- the budgets that DP-BART-PR+ is trained for ----------------------------------------------------------------------


def test_budgets_start_high_and_widen_to_the_whole_range() -> None:
    recipe = NoisyRecipe(epsilon_low=10, epsilon_high=5000, steps=1000, easing=0.2)

    def sampled(step: int) -> list[float]:
        random = np.random.default_rng(0)
        made = [mechanism_at(recipe, step, random) for _ in range(2000)]
        assert sum(isinstance(each, NonPrivate) for each in made) == pytest.approx(100, abs=40)
        return [each.epsilon for each in made if isinstance(each, Gaussian)]

    assert min(sampled(0)) > 4500
    assert min(sampled(999)) < 20
    assert float(np.median(sampled(999))) == pytest.approx(810, rel=0.15)  # 5000 (10 / 5000)^(1 - sqrt(1/2))


def test_one_budget_is_that_budget_in_every_step() -> None:
    recipe = NoisyRecipe(epsilon_low=500, epsilon_high=500)
    random = np.random.default_rng(0)
    for step in (0, 4000):
        mechanism = mechanism_at(recipe, step, random)
        assert isinstance(mechanism, Gaussian)
        assert mechanism.epsilon == pytest.approx(500)


def test_a_range_of_budgets_in_the_wrong_order_is_refused() -> None:
    with pytest.raises(BadParameter, match="lower epsilon must not be above the higher 10, got 20"):
        NoisyRecipe(epsilon_low=20, epsilon_high=10)
