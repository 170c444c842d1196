"""Each rule of the calculator, against the probabilities of the mechanism itself where they can be written down."""

from __future__ import annotations

import json
import math
from typing import Any, get_args

import numpy as np
import pytest

from dpbart.evidence.claims import METHODS, Converted, convert
from dpbart.options.declare import leaves
from dpbart.options.evidence import ClaimedEpsilon
from tests.command_line import run, succeed


def claim(method: str, **more: Any) -> Converted:
    return convert(ClaimedEpsilon(method, **more))


def softmax(logits: Any, temperature: float) -> Any:
    weights = np.exp(np.asarray(logits, np.float64) / temperature)
    return weights / weights.sum()


def test_every_method_can_be_chosen_and_cites_a_paper() -> None:
    choices = next(leaf for leaf in leaves(ClaimedEpsilon) if leaf.name == "method").choices
    assert set(choices) == set(METHODS)
    assert all("20" in method.paper for method in METHODS.values())
    assert get_args(ClaimedEpsilon.model_fields["method"].annotation)


@pytest.mark.parametrize("unit", ["token", "word", "sentence"])
def test_the_epsilons_of_all_units_add_up(unit: str) -> None:
    assert claim(f"per-{unit}", epsilon=2.0, length=200).document == 400
    # Binary response on each of three units: the likeliest output of one document, under the one that differs in all.
    kept = 1 / (1 + math.exp(-2.0))
    assert 3 * math.log(kept / (1 - kept)) == pytest.approx(claim(f"per-{unit}", epsilon=2.0, length=3).document)


@pytest.mark.parametrize("method", ["exponential", "dp-prompt", "dp-paraphrase", "dp-mlm"])
def test_a_temperature_gives_twice_the_range_of_the_logits(method: str) -> None:
    found = claim(method, temperature=1.5, clip=("-2", "3"), length=1)
    assert found.document == pytest.approx(2 * 5 / 1.5)
    # The worst two inputs: one token has the largest logit and all others the smallest, and the other way round.
    others = np.full(1_000_000, -2.0), np.full(1_000_000, 3.0)
    worst = [softmax([one, *rest], 1.5)[0] for one, rest in ((3.0, others[0]), (-2.0, others[1]))]
    assert 0.99 * found.document < math.log(worst[0] / worst[1]) <= found.document
    assert claim(method, temperature=1.5, clip=("0", "10"), length=120).document == pytest.approx(1600)


@pytest.mark.parametrize("method", ["exponential", "dp-prompt", "dp-paraphrase", "dp-mlm"])
def test_logits_without_a_clip_have_no_bound(method: str) -> None:
    found = claim(method, temperature=1.5, length=1)
    assert found.document == math.inf
    assert "not clipped" in found.claimed.notes[0]


def test_dp_mlm_sets_the_temperature_from_its_epsilon() -> None:
    """Its own code divides the logits by 2 (b2 - b1) / epsilon."""
    epsilon, low, high = 10.0, -3.2, 16.3
    temperature = 2 * (high - low) / epsilon
    stated = claim("dp-mlm", epsilon=epsilon, length=50).document
    assert stated == claim("dp-mlm", temperature=temperature, clip=(str(low), str(high)), length=50).document == 500


@pytest.mark.parametrize("method", ["metric", "santext"])
def test_metric_privacy_has_no_bound_without_a_diameter(method: str) -> None:
    assert claim(method, epsilon=3.0, length=50).document == math.inf
    assert claim(method, epsilon=3.0, diameter=15.0, length=50).document == 3 * 15 * 50


def test_santext_reaches_epsilon_times_the_diameter() -> None:
    """Pr[y | x] ~ e^(-epsilon d(x, y) / 2), with words at one of two ends of a line."""
    epsilon, diameter = 3.0, 2.0
    ends = np.array([0.0, *[diameter] * 10_000])  # one word here, the others there

    def law(word: float) -> Any:
        weights = np.exp(-epsilon / 2 * np.abs(ends - word))
        return weights / weights.sum()

    ratio = math.log(law(0.0)[0] / law(diameter)[0])
    assert ratio <= claim("santext", epsilon=epsilon, diameter=diameter).document == epsilon * diameter
    far = np.array([*[0.0] * 10_000, diameter])
    weights = np.exp(-epsilon / 2 * np.abs(far - diameter))
    other = np.exp(-epsilon / 2 * np.abs(far))
    worst = math.log(weights[-1] / weights.sum() / (other[-1] / other.sum()))
    assert worst <= epsilon * diameter


@pytest.mark.parametrize("method", ["custext", "dp-st"])
def test_a_promise_within_groups_is_none_against_any_other_document(method: str) -> None:
    found = claim(method, epsilon=2.0, length=10)
    assert (found.document, found.grouped) == (math.inf, 20)


def test_adept_is_corrected_by_the_root_of_its_dimensions() -> None:
    """Laplace noise of scale 2 C / epsilon, on vectors (C, ..., C) / sqrt(n) and their opposite: inside the clip."""
    epsilon, dimensions, clip = 3.0, 64, 0.7
    vector = np.full(dimensions, clip / math.sqrt(dimensions))
    assert np.linalg.norm(vector) == pytest.approx(clip)
    ratio = float(np.abs(2 * vector).sum()) / (2 * clip / epsilon)
    assert ratio == pytest.approx(claim("adept", epsilon=epsilon, dimensions=dimensions).document)


def test_the_command_says_what_a_guesser_can_do() -> None:
    asked = ("epsilon", "--method", "dp-prompt", "--temperature", 1.5, "--clip", "0,10", "--length", 120)
    shown = " ".join(succeed(*asked).split())
    for words in ("epsilon 1600 for 120 tokens", "2 x 10 / 1.5", "Utpala", "almost none", "practically always"):
        assert words in shown
    stated = json.loads(succeed(*asked, "--json"))
    assert (stated["epsilon_document"], stated["level"]) == (1600, "almost none")
    assert json.loads(succeed("epsilon", "--method", "custext", "-e", 2, "--json"))["epsilon_document"] is None
    strong = " ".join(succeed("epsilon", "--method", "per-sentence", "--epsilon", 0.5, "--length", 2).split())
    assert "strong" in strong
    assert "at most 73.2% of the time" in strong


def test_the_list_has_every_method() -> None:
    shown = succeed("epsilon", "--list")
    assert all(name in shown for name in METHODS)
    assert [row["method"] for row in json.loads(succeed("epsilon", "--list", "--json"))] == list(METHODS)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ((), "a method is needed"),
        (("--method", "per-word"), "Pass --epsilon E"),
        (("--method", "per-word", "--epsilon", "1", "--clip", "0,1"), "has no --clip"),
        (("--method", "dp-prompt"), "Pass --temperature T"),
        (("--method", "dp-prompt", "--temperature", "1", "--clip", "3"), "clip must be two numbers"),
        (("--method", "dp-prompt", "--temperature", "1", "--clip", "3,1"), "clip must be two numbers"),
        (("--method", "dp-prompt", "--temperature", "0"), "greater than 0"),
        (("--method", "dp-mlm", "--epsilon", "1", "--temperature", "1"), "an epsilon sets the temperature"),
        (("--method", "adept", "--epsilon", "1"), "Pass --dimensions N"),
        (("--method", "per-word", "--epsilon", "1", "--length", "0"), "length must be at least 1"),
        (("--method", "madlib"), "madlib"),
    ],
)
def test_mistakes_are_answered(wrong: tuple[str, ...], words: str) -> None:
    done = run("epsilon", *wrong)
    assert done.exit_code != 0
    assert words in done.stderr
