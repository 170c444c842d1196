"""What `dpbart noise --collection` says beforehand is what the noise does."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from scipy.stats import binom

from dpbart.cli import cli
from dpbart.collect.expect import Expected
from dpbart.errors import BadParameter
from dpbart.options.collecting import CollectionBudget, CollectionRequest
from dpbart.options.declare import flat_model
from dpbart.options.settings import NoiseQuestion
from dpbart.privacy.mechanisms.geometric import UNIT, Geometric, Tally
from dpbart.privacy.sampling import SystemEntropy

RUNS = 20_000
DOUBT = 1e-9  # chance that sound noise misses too often or too seldom


def expected(people: int, labels: int = 0, epsilon: float = 1.0) -> Expected:
    return Expected.of(CollectionBudget(epsilon=epsilon), people=people, labels=labels)


@pytest.mark.parametrize(("people", "epsilon"), [(200, 1.0), (4000, 0.5)])
def test_a_share_is_as_near_as_promised_in_19_of_20_releases(people: int, epsilon: float) -> None:
    """With the real noise, on a topic of a tenth of the people, many times."""
    votes = np.full((1, RUNS), people // 10 * UNIT, np.int64)
    noised = Geometric(epsilon, RUNS).privatize(Tally(votes, people=people * RUNS), SystemEntropy())
    shares = np.array(noised.values[0]) / (UNIT * people)
    missed = int((np.abs(shares - 0.1) > expected(people, epsilon=epsilon).error).sum())
    assert binom.ppf(DOUBT, RUNS, 0.05) <= missed <= binom.ppf(1 - DOUBT, RUNS, 0.05)


def test_more_people_and_a_larger_epsilon_tell_more() -> None:
    by_people = [expected(people).told_apart for people in (10, 100, 1000, 10_000, 1_000_000)]
    assert by_people == sorted(by_people) == [1, 16, 63, 200, 1024]
    assert expected(1000, epsilon=4.0).error < expected(1000).error < expected(1000, labels=5).error
    assert expected(1000).least == expected(50).least == 120


def test_the_command_says_it_in_words_and_figures() -> None:
    done = CliRunner().invoke(cli, ["noise", "--collection", "--people", "500", "-e", "1"])
    assert done.exit_code == 0, done.stderr
    assert [line[:13].strip() for line in done.stdout.splitlines() if line[0] != " "] == [
        *("Guarantee", "Promise", "Book", "Noise", "Topics", "A tenth", "Worth it"),
    ]
    assert "about 45 can be told apart, if they are equally common" in done.stdout
    assert "a topic of 10% of the people comes out as 8.8% to 11.2%, in 19 of 20 releases" in done.stdout
    assert "from about 120 people on at this epsilon" in done.stdout
    held = json.loads(CliRunner().invoke(cli, ["noise", "--collection", "--people", "500", "-e", "1", "--json"]).stdout)
    assert (held["topics_told_apart"], held["least_people"], held["enough"], held["labels"]) == (45, 120, True, 0)
    assert held["share_error"] == pytest.approx(2 * np.log(20) / 500)


def test_too_few_people_are_warned_about_first() -> None:
    done = CliRunner().invoke(cli, ["noise", "--collection", "--people", "500", "-e", "1", "--labels", "7"])
    assert done.stdout.startswith("Warning      TOO FEW PEOPLE: 500 at epsilon 1 with 7 labels.")


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"collection": True}, "Pass --people with --collection"),
        ({"labels": 3}, "Pass --collection with --labels"),
        ({"collection": True, "people": 10, "clip": 0.1}, "Leave out --length"),
        ({"collection": True, "people": 10, "delta": 1e-3}, "Leave out --length"),
        ({"collection": True, "people": 10, "labels": 1}, "labels must be at least 2"),
    ],
)
def test_a_question_without_an_answer_is_refused(asked: dict[str, Any], message: str) -> None:
    with pytest.raises(BadParameter, match=message):
        NoiseQuestion(epsilon=1.0, **asked)


def test_nobody_and_one_label_are_refused() -> None:
    with pytest.raises(BadParameter, match="people must be at least 1"):
        expected(0)
    with pytest.raises(BadParameter, match="labels must be at least 2"):
        expected(10, labels=1)


def test_a_request_over_http_may_have_the_public_options_alone() -> None:
    body = flat_model(CollectionRequest, CollectionBudget, name="Collection")
    assert set(body.model_fields) >= {"epsilon", "rows", "label_values", "person_column", "areas"}
    assert {"source", "target", "ledger", "card", "sign_key", "overwrite"}.isdisjoint(body.model_fields)
