"""An audit finds no more than is claimed, and catches a promise that is broken: on purpose, or in the code."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import binom

from dpbart.evidence.audit import Audit, audit
from dpbart.evidence.distinguish import (
    ceiling,
    epsilon_low,
    laplace_scale_high,
    lower_bound,
    normal_scale_high,
    wording_scores,
)
from dpbart.models.bundle import Bundle
from dpbart.options.evidence import AuditRequest
from dpbart.privacy.mechanisms import Geometric, Response
from dpbart.privacy.mechanisms.geometric import Tally
from dpbart.privacy.sampling import Entropy
from dpbart.progress import hidden_progress
from dpbart.rewrite.rewriter import Rewriter, Rewriting
from tests.command_line import run, succeed

SURE = 0.99999  # so that no sound run fails by luck


@pytest.fixture
def models(tiny: Bundle, tiny_adept: Bundle, tiny_code: Bundle) -> dict[str, str]:
    return {"code": str(tiny_code.folder), "bart": str(tiny.folder), "adept": str(tiny_adept.folder)}


def audited(model: str, **more: Any) -> Audit:
    with hidden_progress():
        return audit(AuditRequest(**{"model": model, "confidence": SURE, "trials": 2000, "seconds": 20.0, **more}))


SETTINGS: list[dict[str, Any]] = [
    {"model": "code", "epsilon": 1.0},
    {"model": "code", "epsilon": 4.0},
    {"model": "code", "epsilon": 15.0},  # two places
    {"model": "code", "epsilon": 20.0, "trials": 100},  # wording
    {"model": "bart", "epsilon": 5.0, "trials": 100},
    {"model": "bart", "epsilon": 100.0, "trials": 100, "mechanism": "laplace"},
    {"model": "adept", "epsilon": 5.0, "trials": 100},
    {"model": "adept", "epsilon": 2.0, "trials": 100, "mechanism": "laplace"},
    {"model": "code", "epsilon": 2.0, "release": "shuffled", "people": 40, "trials": 60},
    {"model": "code", "epsilon": 1.0, "release": "collection", "people": 20, "trials": 200},
    {"model": "code", "epsilon": 4.0, "release": "collection", "people": 20, "trials": 200},
]


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda each: "-".join(map(str, each.values())))
def test_no_audit_finds_more_than_is_claimed_and_every_control_is_caught(
    models: dict[str, str], setting: dict[str, Any]
) -> None:
    setting = {**setting, "model": models[setting["model"]]}
    found = audited(**setting)
    assert not found.caught
    assert found.audited <= found.claimed.epsilon
    broken = audited(**setting, control=True)
    assert broken.caught
    assert broken.claimed == found.claimed


def test_the_attackers_alone_catch_a_control_if_the_trials_can_show_it(models: dict[str, str]) -> None:
    for release in ("single", "collection"):
        asked: dict[str, Any] = {"release": release, "trials": 4000, "confidence": 0.99, "seconds": 6.0}
        honest = audited(models["code"], epsilon=1.0, **asked)
        broken = audited(models["code"], epsilon=1.0, control=True, **asked)
        assert 0.4 < honest.value.epsilon <= 1 < broken.value.epsilon <= 2


def test_the_exact_epsilon_comes_from_the_thresholds(models: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {"epsilon": 4.0, "trials": 20}
    assert audited(models["code"], **asked).exact == pytest.approx(4.0, rel=1e-14)
    edge = Response._edge

    def wider(self: Response, bits: int) -> tuple[int, int]:
        low, high = edge(self, bits)
        return low + (low >> 30), high + (high >> 30)  # a sampler that keeps one text more in 2^30

    monkeypatch.setattr(Response, "_edge", wider)
    found = audited(models["code"], **asked)
    assert found.exact is not None
    assert found.exact > 4.0
    assert found.caught


def test_a_sampler_that_keeps_everything_is_caught_by_its_values(
    models: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def keep_all(self: Response, count: int, entropy: Entropy) -> Any:
        return np.ones(count, np.bool_)

    monkeypatch.setattr(Response, "_keeps", keep_all)
    found = audited(models["code"], epsilon=1.0)
    assert found.value.epsilon > 1
    assert found.caught


def test_a_text_that_slips_past_the_channel_is_caught_by_the_texts_alone(
    models: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rewrite: Callable[..., Rewriting] = Rewriter.rewrite

    def leak(self: Rewriter, texts: list[str], *, row: int | None = None) -> Rewriting:
        done = rewrite(self, texts, row=row)
        lengths = tuple(f"{new} {len(old)}" for new, old in zip(done.texts, texts, strict=True))
        return Rewriting(lengths, done.facts, done.recipe)

    monkeypatch.setattr(Rewriter, "rewrite", leak)
    found = audited(models["code"], epsilon=1.0)
    assert found.value.epsilon <= 1 < found.text.epsilon
    assert found.caught


def test_a_file_in_its_old_order_is_caught_by_its_first_row(
    models: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, Any] = {"epsilon": 2.0, "release": "shuffled", "people": 200, "trials": 800, "confidence": 0.99}
    honest = audited(models["code"], **asked)
    assert not honest.caught
    assert honest.claimed.epsilon < 1
    monkeypatch.setattr("dpbart.evidence.releases.draw_order", lambda count, entropy: np.arange(count))
    broken = audited(models["code"], **asked)
    assert broken.first is not None
    assert broken.first.epsilon > broken.claimed.epsilon
    assert broken.caught


def test_counts_with_half_of_the_noise_are_caught(models: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    def half_noised(self: Geometric, tally: Tally, entropy: Entropy) -> Any:
        halved = [
            [count + noise // 2 for count, noise in zip(*rows, strict=True)]
            for rows in zip(
                tally.counts.tolist(),
                (np.array(noised(self, tally, entropy).values) - tally.counts).tolist(),
                strict=True,
            )
        ]
        return self.again(halved)

    noised: Callable[..., Any] = Geometric.privatize
    monkeypatch.setattr(Geometric, "privatize", half_noised)
    found = audited(models["code"], epsilon=1.0, release="collection", people=20, trials=200)
    assert found.seen is not None
    assert found.seen > 1
    assert found.caught


def test_a_pair_lies_as_far_apart_as_any(models: dict[str, str], tmp_path: Path) -> None:
    texts = tmp_path / "texts.txt"
    texts.write_text("is the cow ready today.\nis the cow ready today\nwho left the ferry outside.\n")
    found = audited(models["code"], epsilon=4.0, trials=20, texts=texts)
    assert "who left the ferry outside." in found.pair


def test_time_is_limited(models: dict[str, str]) -> None:
    found = audited(models["code"], epsilon=4.0, trials=10**9, seconds=0.5)
    assert found.stopped
    assert found.written <= found.trials < 10**9


def response_scores(epsilon: float, count: int, dice: np.random.Generator) -> tuple[Any, Any]:
    """Binary randomised response: 1 for the first world, -1 for the second."""
    kept = 1 / (1 + math.exp(-epsilon))
    said = np.where(dice.random((2, count)) < kept, 1.0, -1.0)
    return said[0], -said[1]


def test_false_alarms_are_no_more_frequent_than_stated() -> None:
    """On the tightest mechanism: binary response, whose rates have a ratio of exactly e^epsilon."""
    dice, alarms, runs = np.random.default_rng(0), 0, 2000
    for _ in range(runs):
        first, second = response_scores(1.0, 200, dice)
        alarms += lower_bound(first, second, delta=0.0, error=0.2).epsilon > 1.0
    assert alarms <= 0.2 * runs


def test_pure_noise_raises_no_more_alarms_than_stated() -> None:
    """Scores with many values, so that some threshold is lucky in any half; the epsilon of equal worlds is 0."""
    dice, alarms, runs = np.random.default_rng(5), 0, 500
    for _ in range(runs):
        first, second = dice.normal(size=(2, 400))
        alarms += lower_bound(first, second, delta=0.0, error=0.4).epsilon > 0
    assert alarms <= 0.1 * runs  # both rates must err together, so far fewer than 0.4


def test_the_rates_are_bounded_as_clopper_and_pearson_say() -> None:
    """At the bounds, the counts that were seen, or more extreme ones, have half of the error each."""
    right, wrong, judged, error = 700, 300, 1000, 0.05
    low = brentq(lambda rate: binom.sf(right - 1, judged, rate) - error / 2, 0.01, 0.99)
    high = brentq(lambda rate: binom.cdf(wrong, judged, rate) - error / 2, 0.01, 0.99)
    assert epsilon_low(right, wrong, judged, delta=0.1, error=error) == pytest.approx(math.log((low - 0.1) / high))


def test_twice_the_epsilon_is_found() -> None:
    first, second = response_scores(2.0, 4000, np.random.default_rng(1))
    assert 1.5 < lower_bound(first, second, delta=0.0, error=0.05).epsilon < 2


def test_the_half_that_chooses_does_not_judge() -> None:
    noise = np.random.default_rng(2).normal(size=400)
    first, second = noise.copy(), noise.copy()
    first[:200] += 100  # only the half that chooses tells the worlds apart
    assert lower_bound(first, second, delta=0.0, error=0.05).epsilon == 0
    texts = [[f"text {number}"] for number in range(100)]  # every text once: learned by heart, they would say all
    scored = wording_scores(texts[:50], texts[50:])
    assert lower_bound(*scored, delta=0.0, error=0.05).epsilon == 0


def test_both_directions_are_tried() -> None:
    """An event that only the second world has."""
    first, second = np.zeros(1000), np.zeros(1000)
    second[::3] = -1.0
    assert lower_bound(first, second, delta=0.0, error=0.05).epsilon > 3


def test_delta_is_taken_off_and_the_ceiling_is_that_of_the_trials() -> None:
    assert epsilon_low(50, 0, 1000, delta=0.0, error=0.05) > epsilon_low(50, 0, 1000, delta=0.02, error=0.05) > 0
    assert epsilon_low(50, 0, 1000, delta=0.06, error=0.05) == 0
    for judged in (100, 1000, 10_000):
        assert ceiling(judged, delta=0.0, error=0.05) == pytest.approx(math.log(judged) - 1.3, abs=0.1)


def test_the_scale_of_noise_is_bounded_from_above() -> None:
    dice, runs = np.random.default_rng(3), 400
    normal = [normal_scale_high(float((dice.normal(size=50) ** 2).sum()), 50, error=0.1) for _ in range(runs)]
    laplace = [laplace_scale_high(float(np.abs(dice.laplace(size=50)).sum()), 50, error=0.1) for _ in range(runs)]
    for found in (normal, laplace):
        assert 0.05 < np.mean(np.array(found) < 1) < 0.15


def test_the_command_says_what_it_found_and_fails_if_the_promise_is_broken(models: dict[str, str]) -> None:
    asked = ("audit", "--model", models["code"], "--epsilon", 4, "--trials", 400, "--confidence", SURE)
    shown = succeed(*asked)
    for heading in ("Claimed      (epsilon 4, delta 0)", "By value", "By text", "Exact        4,", "Ceiling", "Pair"):
        assert heading in shown
    assert "nothing contradicts the claim" in shown
    broken = run(*asked, "--control")
    assert broken.exit_code == 1
    assert "CAUGHT. The promise was broken on purpose" in broken.stdout
    stated = json.loads(succeed(*asked, "--json"))
    assert stated["claimed"] == {"epsilon": 4.0, "delta": 0.0}
    assert stated["caught"] is False


def test_few_trials_are_said_to_show_little(models: dict[str, str]) -> None:
    shown = succeed("audit", "--model", models["code"], "--epsilon", 15, "--trials", 40)
    assert "whatever the true epsilon is" in " ".join(shown.split())


def test_a_card_is_audited_only_if_it_states_the_same_release(models: dict[str, str], tmp_path: Path) -> None:
    source, target = tmp_path / "in.csv", tmp_path / "out.csv"
    source.write_text("text\nis the cow ready today\n")
    succeed("rewrite", source, target, "--epsilon", 4, "--model", models["code"])
    asked = ("audit", "--model", models["code"], "--trials", 20, "--card", f"{target}.card.json")
    assert "nothing contradicts" in succeed(*asked, "--epsilon", 4)
    refused = run(*asked, "--epsilon", 2)
    assert refused.exit_code == 1
    assert "states another release" in refused.stderr


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (("--epsilon", "0"), "greater than 0"),
        (("--epsilon", "4", "--people", "9"), "people are those of a file"),
        (("--epsilon", "4", "--confidence", "1"), "confidence must be less than 1"),
        (("--epsilon", "inf"), "epsilon"),
        (("--epsilon", "1", "--release", "collection", "--mechanism", "laplace"), "its own mechanism"),
        (("--epsilon", "4", "--texts", "missing.txt"), "cannot be read"),
    ],
)
def test_mistakes_are_answered(wrong: tuple[str, ...], words: str) -> None:
    done = run("audit", *wrong)
    assert done.exit_code != 0
    assert words in done.stderr
