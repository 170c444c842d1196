"""Experiment files: what they may contain, and the messages about wrong ones."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from dpbart.errors import BadParameter
from dpbart.evaluate.classifiers import EncoderClassifier
from dpbart.evaluate.experiment.experiment import Experiment
from dpbart.evaluate.experiment.plan import PRESETS, ExperimentRequest, preset_names, read_plan
from dpbart.models.bundle import Bundle

PLAN = """
models = ["mini"]
beams = 1
[[mechanisms]]
name = "gaussian"
epsilons = [500, inf]
[[data]]
name = "fruit"
delta = 1e-3
[[classifiers]]
kind = "linear"
name = "linear"
"""


@pytest.fixture
def plan_file(tmp_path: Path) -> Path:
    return tmp_path / "plan.toml"


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("beams = 1", "beam = 1", "has an unknown key: beam. Known keys: name, models,"),
        ('kind = "linear"', 'kind = "forest"', "must be one of encoder, linear, vectors, got 'forest'"),
        ('kind = "linear"\n', "", r"\[\[classifiers\]\] of .* lacks kind"),
        ("epsilons = [500, inf]", "epsilons = [-1]", "epsilon must be greater than 0"),
        ("epsilons = [500, inf]", "epsilons = 5", "wrong type"),
        (
            "epsilons = [500, inf]",
            'epsilons = ["much"]',
            r"'epsilons' in .* must be list\[float\], got \['much'\]",
        ),
        ("beams = 1", 'beams = "one"', "'beams' in .* must be int, got 'one'"),
        ("beams = 1", "beams = 0", "beams of the experiment must be at least 1, got 0"),
        ("delta = 1e-3", "delta = 1", "delta of 'fruit' must be at least 0 and below 1"),
        ("delta = 1e-3", "delta = 1e-3\ntrain = 1.5", r"'train' in \[\[data\]\] .* must be int \| None, got 1.5"),
        ('kind = "linear"', 'kind = "encoder"\nseeds = 3', "'seeds' in .* wrong type"),
        ('kind = "linear"', 'kind = "encoder"\nseeds = [1, 1]', r"seeds must differ, got \[1, 1\]"),
        (
            'kind = "linear"',
            'kind = "encoder"\nepochs = 0',
            "the classifier 'linear': epochs must be at least 1, got 0",
        ),
        ('kind = "linear"', 'kind = "encoder"\nlearning_rates = [0]', "learning rate must be greater than 0, got 0"),
        (
            'name = "linear"',
            'name = "linear"\nmechanisms = ["laplac"]',
            "names 'laplac', which is not in the experiment",
        ),
        ('name = "gaussian"', 'name = "none"', "epsilon must be left out with the mechanism 'none'"),
        ("delta = 1e-3", "delta = 1e-3\ntrain = 0", "train of 'fruit' must be at least 1 text"),
        ("[[data]]", "[data]", "must be tables"),
        ("models =", "models", "is not TOML"),
        ('name = "linear"', 'name = "linear"\ndata = ["pears"]', "names 'pears', which is not in the experiment"),
        ('name = "linear"', 'name = "linear"\nsettings = ["dp"]', "must be among original, rewrite-no-dp, rewrite-dp"),
    ],
)
def test_what_is_wrong_is_named(plan_file: Path, before: str, after: str, message: str) -> None:
    assert before in PLAN
    plan_file.write_text(PLAN.replace(before, after))
    with pytest.raises(BadParameter, match=message):
        read_plan(str(plan_file))


def test_a_setting_of_another_classifier_has_no_effect(plan_file: Path) -> None:
    plan_file.write_text(PLAN + "epochs = 3\n")
    with_epochs = read_plan(str(plan_file))
    plan_file.write_text(PLAN)
    assert with_epochs == read_plan(str(plan_file))


@pytest.mark.parametrize("settings", [["original"], ["rewrite-no-dp", "rewrite-dp"]])
def test_a_classifier_can_be_kept_to_some_settings(plan_file: Path, settings: list[str]) -> None:
    plan_file.write_text(PLAN.replace('name = "linear"', f'name = "linear"\nsettings = {settings}'))
    plan = read_plan(str(plan_file))
    assert [each.name for each in plan.settings() if plan.classifiers[0].scope.covers(each)] == settings


def test_a_plan_that_does_not_exist_lists_the_presets() -> None:
    with pytest.raises(BadParameter, match="Pass a TOML file, or one of mini, paper"):
        read_plan("maxi")


@pytest.mark.parametrize("name", ["mini", "paper"])
def test_presets_are_whole(name: str) -> None:
    assert preset_names() == ["mini", "paper"]
    plan = read_plan(name)
    gaussian = next(each for each in plan.mechanisms if each.name == "gaussian")
    assert gaussian.epsilons == (10, 50, 100, 250, 500, 750, 1000, 2500, math.inf)
    assert plan.name == name
    assert (PRESETS / f"{name}.toml").is_file()


def test_the_paper_has_the_papers_settings() -> None:
    plan = read_plan("paper")
    assert {each.name: each.delta for each in plan.data} == {
        "atis": 1e-5,
        "snips": 1e-5,
        "imdb": 1e-5,
        "drugs": 1e-6,
        "amazon": 1e-7,
    }
    (bert,) = plan.classifiers
    encoder = bert.classifier
    assert isinstance(encoder, EncoderClassifier)
    assert (plan.length, plan.beams, encoder.epochs, encoder.patience, len(encoder.seeds)) == (20, 10, 50, 5, 3)


RESPONSE = '[[mechanisms]]\nname = "response"\nepsilons = [10, 2]\n[[data]]'


def test_a_model_runs_only_with_mechanisms_that_it_knows(plan_file: Path, tiny: Bundle, tiny_code: Bundle) -> None:
    models = f'"{tiny.folder}", "{tiny_code.folder}"'
    plan_file.write_text(PLAN.replace('"mini"', models).replace("[[data]]", RESPONSE))
    plan = read_plan(str(plan_file))
    assert [(each.model, each.mechanism, each.epsilon) for each in plan.settings()] == [
        (None, None, None),
        (str(tiny.folder), "none", math.inf),
        (str(tiny.folder), "gaussian", 500),
        (str(tiny_code.folder), "response", 10),
        (str(tiny_code.folder), "response", 2),
    ]
    assert plan.cells() == 4 + 5 * 2  # rewritings; a training and its control in each setting
    assert (plan.beams_of(str(tiny.folder)), plan.beams_of(str(tiny_code.folder))) == (1, None)


def test_a_model_that_is_not_found_is_left_to_fail_on_its_own(plan_file: Path, tiny: Bundle) -> None:
    plan_file.write_text(PLAN.replace('"mini"', f'"{tiny.folder}", "gone"').replace("[[data]]", RESPONSE))
    settings = list(read_plan(str(plan_file)).settings())
    assert [each.mechanism for each in settings if each.model == "gone"] == ["none", "gaussian", "response", "response"]
    assert [each.mechanism for each in settings if each.model == str(tiny.folder)] == ["none", "gaussian"]


@pytest.mark.parametrize(
    ("models", "more", "message"),
    [
        ("{code}", "[[data]]", "knows none of the experiment's mechanisms \\(gaussian\\)"),
        ("{tiny}", RESPONSE, "no model of the experiment knows the mechanism 'response'"),
    ],
)
def test_what_does_not_fit_at_all_is_refused_before_any_work(
    plan_file: Path, tiny: Bundle, tiny_code: Bundle, models: str, more: str, message: str
) -> None:
    named = models.format(tiny=tiny.folder, code=tiny_code.folder)
    plan_file.write_text(PLAN.replace('"mini"', f'"{named}"').replace("[[data]]", more))
    request = ExperimentRequest(read_plan(str(plan_file)), plan_file.parent, plan_file.parent / "out")
    with pytest.raises(BadParameter, match=message):
        Experiment.prepare(request)


def test_the_preset_mini_has_the_small_budgets_for_the_code_model_alone() -> None:
    plan = read_plan("mini")
    response = next(each for each in plan.mechanisms if each.name == "response")
    assert {1, 2, 4, 6, 8, 10, 20, 70} <= set(response.epsilons)
    used = {model: {each.name for each in found} for model, found in plan.pairs.items()}
    assert [model for model, names in used.items() if "response" in names] == ["mini-code"]
    assert used["mini-pr-plus"] == {"gaussian", "laplace"}
