"""What the record of a channel says, figure by figure."""

from __future__ import annotations

import math
from decimal import Decimal, Inexact
from statistics import NormalDist

import pytest

from dpbart.channels.columns import Columns, ColumnsChannel
from dpbart.privacy.clipping import ByValue
from dpbart.privacy.facts import REPLAYED_ENTROPY, Facts, best_guess
from dpbart.privacy.guarantee import EXACT, NOTHING_PROMISED, Event, Guarantee, written
from dpbart.privacy.mechanisms import Gaussian, NonPrivate, Response
from dpbart.privacy.sampling import grid_for

CHANNEL = ColumnsChannel(Columns.all(4), ByValue(0.5), Gaussian(10, 1e-5), 3)
RECORDS = {"columns": CHANNEL.facts, "code": Response(10.0, 256).facts}


@pytest.mark.parametrize("facts", RECORDS.values(), ids=RECORDS)
def test_a_replayed_channel_promises_nothing_in_any_field(facts: Facts) -> None:
    replayed = facts.replayed()
    assert replayed.guarantee == NOTHING_PROMISED
    assert replayed.proof.startswith("none: ")
    assert replayed.entropy == REPLAYED_ENTROPY
    assert (replayed.bits, replayed.right_of_two) == (math.inf, 1.0)
    assert replayed.event == Event(facts.mechanism, Decimal("Infinity"), Decimal(0))
    assert replayed.recipe == f"{facts.recipe}|NOT PRIVATE"
    assert (replayed.figures, replayed.lines, replayed.sampler) == (facts.figures, facts.lines, facts.sampler)
    assert replayed.replayed() == replayed  # marked once


def test_a_note_comes_before_the_mark() -> None:
    assert RECORDS["code"].noted("form:book").recipe.endswith("|bits:8|form:book")
    assert RECORDS["code"].replayed().noted("form:book").recipe.endswith("|bits:8|form:book|NOT PRIVATE")


def test_a_code_says_how_many_of_100_texts_are_kept() -> None:
    """e^5 / (e^5 + 255) = 0.3679."""
    assert dict(Response(5.0, 256).facts.lines) == {
        "Code": "8 bits for each text: one of 2^8 codes",
        "Kept": "of 100 texts, about 36.8 come through as meant; the others come out as unrelated texts, and a reader "
        "who knows the subject of the file can often tell which",
    }


def test_an_attacker_guesses_no_better_than_either_bound_says() -> None:
    facts = RECORDS["code"]  # at most 8 bits at epsilon 10
    assert facts.right_of_many(candidates=2**40) == pytest.approx(math.exp(10) / (math.exp(10) + 2**40 - 1))
    assert facts.right_of_many(candidates=2**12) == pytest.approx((facts.bits + 1) / 12)
    assert facts.right_of_many(candidates=4) == facts.right_of_two
    gaussian = RECORDS["columns"]
    assert gaussian.right_of_many(candidates=2**60) == pytest.approx(math.exp(10) / 2**60 + 1e-5)


def test_the_guess_of_two_through_normal_noise_is_that_of_the_latents_farthest_apart() -> None:
    """Phi(1 / 2s), where s is the noise multiplier."""
    multiplier = RECORDS["columns"].event.parameter
    assert multiplier is not None
    assert RECORDS["columns"].right_of_two == pytest.approx(NormalDist().cdf(1 / (2 * multiplier)), rel=1e-9)
    assert 0.5 < RECORDS["columns"].right_of_two < 1


def test_the_best_guess_from_the_guarantee_alone() -> None:
    assert best_guess(NOTHING_PROMISED, candidates=2) == 1.0
    assert best_guess(Guarantee(math.log(3), 0.0), candidates=2) == pytest.approx(0.75)
    assert best_guess(Guarantee(math.log(3), 0.1), candidates=2) == pytest.approx(0.75 + 0.1 / 4)
    assert best_guess(Guarantee(math.log(3), 0.0), candidates=10) == pytest.approx(3 / 12)


@pytest.mark.parametrize("candidates", [2, 3, 7])
def test_the_best_guess_is_reached_by_a_response_over_the_candidates(candidates: int) -> None:
    """Randomised response is the worst case: guessing what came out is right that often. So the bound is tight."""
    kept = math.exp(2) / (math.exp(2) + candidates - 1)
    assert best_guess(Guarantee(2.0, 0.0), candidates=candidates) == pytest.approx(kept)


def test_codes_that_are_sent_as_they_are_promise_nothing() -> None:
    facts = NonPrivate().code_facts(12)
    assert (facts.guarantee, facts.mechanism, facts.proof) == (NOTHING_PROMISED, "none", "none: nothing is randomised")
    assert (facts.figures, facts.bits, facts.right_of_two) == ({"options_log2": 12}, 12.0, 1.0)
    assert facts.lines == (("Code", "12 bits for each text, sent as they are"),)
    assert facts.event == Event("none", Decimal("Infinity"), Decimal(0))
    assert facts.recipe == "mech:none|eps:inf|delta:0|bits:12|NOT PRIVATE"
    private = NonPrivate().pass_on((7, 4095), bits=12)
    assert (private.values, private.facts) == ((7, 4095), facts)


def test_the_finest_grid_is_2_to_the_32_below_the_noise() -> None:
    assert grid_for(scale=1.0, typical=1e-12) == 2.0**-32
    assert grid_for(scale=1.0, typical=2.0**-30) == 2.0**-32
    assert grid_for(scale=1.0, typical=2.0**-20) == 2.0**-28


def test_a_budget_that_would_be_rounded_is_an_error() -> None:
    assert EXACT.multiply(Decimal("0.1"), Decimal(10)) == 1
    with pytest.raises(Inexact):
        EXACT.multiply(Decimal("9" * 150), Decimal(9))


def test_a_millionth_is_written_without_an_exponent() -> None:
    assert written(Decimal("0.000001")) == "0.000001"
    assert written(Decimal("0.0000009")) == "9e-7"
