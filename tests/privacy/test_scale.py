"""A budget in words: the scale from strong to none, and what a guesser can still do."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpbart.options.rewriting import Request
from dpbart.options.settings import Settings
from dpbart.privacy.facts import best_guess
from dpbart.privacy.guarantee import NOTHING_PROMISED, Guarantee, rounded_up
from dpbart.privacy.mechanisms import Response
from dpbart.privacy.scale import A_MILLION, LEVELS, WEAK_ABOVE, in_words, level_of, odds, often
from dpbart.rewrite.chosen import ChosenModel
from tests.card.cards import code_rewriter
from tests.rewrite.jobs import run

REPOSITORY = Path(__file__).parent.parent.parent
epsilons = st.floats(0.01, 100_000)
deltas = st.floats(0, 1e-3)


@given(epsilons, epsilons)
def test_a_larger_epsilon_is_never_a_stronger_promise(one: float, other: float) -> None:
    smaller, larger = (LEVELS.index(level_of(Guarantee(each, 0.0))) for each in sorted((one, other)))
    assert smaller <= larger


def test_only_an_infinite_epsilon_promises_nothing() -> None:
    assert level_of(NOTHING_PROMISED).name == "none"
    assert level_of(Guarantee(100_000, 0.0)).name == "almost none"


def test_every_level_has_its_own_colour_and_green_ends_where_the_weak_begin() -> None:
    assert len({level.colour for level in LEVELS}) == len(LEVELS)
    green = [level for level in LEVELS if int(level.colour[3:5], 16) > int(level.colour[1:3], 16)]
    assert [level.name for level in green] == ["strong", "moderate"]
    assert level_of(Guarantee(2500, 1e-5)) not in green


def test_each_border_is_where_its_reason_says() -> None:
    """What a level says of a reader is still so at its border, and no longer so at that of the next level."""
    strong, moderate, limited, weak = (Guarantee(level.most, 0.0) for level in LEVELS[:4])
    assert (strong.epsilon, moderate.epsilon, limited.epsilon, weak.epsilon) == (1, 3, 13, 100)
    # strong: a guess of two is right less than three times in four. moderate: wrong about one time in twenty, at least.
    assert best_guess(strong, candidates=2) < 0.75 < best_guess(moderate, candidates=2)
    assert 1 / 22 < 1 - best_guess(moderate, candidates=2) < 1 / 20
    # limited: one of a million is found less than one time in three.
    assert best_guess(limited, candidates=A_MILLION) < 1 / 3 < best_guess(Guarantee(13.2, 0.0), candidates=A_MILLION)
    # weak: one of all rows of ten words out of 20,000 is found at most 73% of the time.
    assert 0.72 < best_guess(weak, candidates=10**43) < 0.73 > best_guess(weak, candidates=20_000**10)
    for smaller, larger in pairwise(LEVELS[:4]):
        assert level_of(Guarantee(math.nextafter(smaller.most, math.inf), 0.0)) is larger


def test_page_and_docs_show_this_scale() -> None:
    page = (REPOSITORY / "src/dpbart/web/static/index.html").read_text()
    docs = (REPOSITORY / "docs/large.md").read_text()
    for level in LEVELS[:4]:
        for cell in (f"up to {level.most:g}", level.name, level.meaning, level.reason):
            assert f"<td>{cell}</td>" in page
        assert f"| {level.name} | up to {level.most:g} | {level.meaning} | {level.reason} |" in docs


@given(epsilons, deltas, st.integers(2, 10**12), st.integers(2, 10**12))
def test_one_of_many_is_never_easier_than_one_of_fewer(epsilon: float, delta: float, one: int, other: int) -> None:
    fewer, more = (best_guess(Guarantee(epsilon, delta), candidates=each) for each in sorted((one, other)))
    assert more <= fewer * (1 + 1e-12)
    assert 1 / max(one, other) <= more


@given(st.floats(0.1, 100), st.integers(2, 1 << 40))
def test_a_channel_never_gives_one_of_many_more_often_than_one_of_two(epsilon: float, candidates: int) -> None:
    """At epsilon 20 and 11 bits, a million once had a bound of 1, and two a bound below it."""
    facts = Response(epsilon, 1 << 11).facts
    assert facts.right_of_many(candidates=candidates) <= facts.right_of_two


@pytest.mark.parametrize("epsilon", [0.5, 3, 10, 12.5, 13.5, 20, 50])
def test_card_terminal_and_page_say_the_same_of_a_million(epsilon: float, tmp_path: Path) -> None:
    facts = ChosenModel(Settings("mini-code", epsilon)).channel.facts
    assert facts.right_of_many(candidates=A_MILLION) <= best_guess(Guarantee(epsilon, 0.0), candidates=10**6)
    said = dict(in_words(facts))["In words"]  # on the terminal and on the page
    (tmp_path / "in.csv").write_text("text\na song\n")
    rewriter = code_rewriter(Response(epsilon, facts.options or 2))
    run(Request(tmp_path / "in.csv", tmp_path / "out.csv"), rewriter)
    assert said in (tmp_path / "out.csv.card.txt").read_text()


@given(epsilons, deltas)
def test_the_odds_never_claim_less_than_an_attacker_may_do(epsilon: float, delta: float) -> None:
    guarantee = Guarantee(epsilon, delta)
    words = odds(guarantee)
    stated = re.findall(r"at most ([\d.e-]+)%", words)
    if stated and "two equally likely texts at most" in words:
        assert float(stated[0]) / 100 >= best_guess(guarantee, candidates=2) - 0.005  # three digits
    if epsilon > WEAK_ABOVE:
        digits = int(re.findall(r"10\^(\d+)", words)[0])
        assert digits * math.log(10) <= epsilon < (digits + 1) * math.log(10)


def test_words_differ_between_large_budgets() -> None:
    assert len({odds(Guarantee(epsilon, 0.0)) for epsilon in (1, 10, 25, 100, 500, 2500)}) == 6


def test_few_bits_limit_the_guess_further() -> None:
    assert "10^83" in odds(Guarantee(2500, 0.0), facts=replace(Response(2500, 1 << 278).facts, bits=278))
    assert "10^1085" in odds(Guarantee(2500, 0.0))


@pytest.mark.parametrize("epsilon", [0.5, 13.0])
def test_a_small_budget_states_chance(epsilon: float) -> None:
    assert "(50% is chance)" in odds(Guarantee(epsilon, 0.0))


@given(st.floats(0, 1))
def test_a_bound_in_words_is_never_below_the_bound(share: float) -> None:
    words = often(share)
    if share > 0.999:
        assert words == "practically always"
    else:
        said = float(words.removeprefix("at most ").partition("%")[0])
        assert 100 * share * (1 - 1e-11) <= said <= 100 * share * 1.01
        assert said < 100


@given(st.floats(1e-6, 1e6), st.integers(3, 6))
def test_a_bound_is_rounded_up_to_few_digits(value: float, digits: int) -> None:
    rounded = rounded_up(value, digits=digits)
    assert value * (1 - 1e-11) <= rounded <= value * (1 + 10 ** (1 - digits))
    assert float(f"{rounded:.{digits}g}") == rounded
