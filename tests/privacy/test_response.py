"""Randomised response: its exact probabilities, and values outside the set."""

from __future__ import annotations

import math
from collections import Counter
from itertools import product

import mpmath
import numpy as np
import pytest
from scipy.stats import beta

from dpbart.errors import BadParameter
from dpbart.privacy.mechanisms import Response
from dpbart.privacy.sampling import ReplaySeed, SystemEntropy, Words

RUNS = 20_000
DOUBT = 1e-10  # probability that a correct mechanism fails for one value; small, because each run draws new bits


class Script:
    """Words that a test has chosen."""

    private = True

    def __init__(self, *words: int) -> None:
        self.left = list(words)

    def words(self, count: int) -> Words:
        taken, self.left = self.left[:count], self.left[count:]
        return np.array(taken, dtype=np.uint64)


class Counting(ReplaySeed):
    """Remembers how many words each call requested."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.asked: list[int] = []

    def words(self, count: int) -> Words:
        self.asked.append(count)
        return super().words(count)


def shares(response: Response, given: tuple[int, ...]) -> list[tuple[float, float]]:
    """Bounds on the probability of each value that hold with probability 1 - DOUBT (Clopper and Pearson)."""
    drawn = Counter(response.privatize([given] * RUNS, SystemEntropy()).values)
    return [
        (
            float(beta.ppf(DOUBT / 2, drawn[value], RUNS - drawn[value] + 1)) if drawn[value] else 0.0,
            float(beta.ppf(1 - DOUBT / 2, drawn[value] + 1, RUNS - drawn[value])),
        )
        for value in range(response.options * response.near**response.places)
    ]


@pytest.mark.parametrize(("epsilon", "options"), [(1.0, 2), (2.0, 5), (2.0, 8)])
def test_the_true_value_is_kept_with_the_stated_probability(epsilon: float, options: int) -> None:
    weight = math.exp(epsilon) + options - 1
    for value, (low, high) in enumerate(shares(Response(epsilon, options), (1,))):
        assert low <= (math.exp(epsilon) if value == 1 else 1) / weight <= high


def test_no_value_becomes_a_uniform_one() -> None:
    for low, high in shares(Response(3.0, 3), ()):
        assert low <= 1 / 3 <= high


@pytest.mark.parametrize("given", [(1, 4), (5, 0)])
def test_each_value_of_a_set_is_e_to_the_epsilon_times_as_likely_as_any_other(given: tuple[int, ...]) -> None:
    weight = 2 * (math.exp(1.5) + 3 - 1)
    for value, (low, high) in enumerate(shares(Response(1.5, 3, near=2), given)):
        assert low <= (math.exp(1.5) if value in given else 1) / weight <= high


@pytest.mark.parametrize("given", [(1,), (1, 1), (1, 6), (-1, 2), (0, 1, 2)])
def test_a_set_with_a_value_twice_or_outside_or_of_another_size_is_refused(given: tuple[int, ...]) -> None:
    with pytest.raises(BadParameter, match="no value, or 2 different ones"):
        Response(1.5, 3, near=2).privatize([(0, 1), given], SystemEntropy())


@pytest.mark.parametrize(
    ("options", "near", "places", "given"),
    [
        (4, 2, 2, (1, 2, 3, 0)),  # one place is 1 or 2, the other 3 or 0
        (4, 2, 2, (0, 1, 0, 1)),
        (8, 1, 3, (1, 0, 1)),
        (9, 1, 2, (2, 2)),  # the same sentence at two places
        (4, 1, 1, (3,)),
        (3, 2, 1, (5, 0)),
    ],
)
def test_each_tuple_of_a_text_is_e_to_the_epsilon_times_as_likely_as_any_other(
    options: int, near: int, places: int, given: tuple[int, ...]
) -> None:
    """All tuples of a small book, against the closed form: p / near^places for a text's own, q / near^places else."""
    response = Response(1.5, options, near, places)
    sets = [given[place * near : (place + 1) * near] for place in range(places)]
    own = {response.join(members) for members in product(*sets)}
    assert len(own) == near**places
    weight = near**places * (math.exp(1.5) + options - 1)
    bounds = shares(response, given)
    assert len(bounds) == response.values**places == options * near**places
    for value, (low, high) in enumerate(bounds):
        assert low <= (math.exp(1.5) if value in own else 1) / weight <= high


@pytest.mark.parametrize("given", [(0, 0, 1, 2), (0, 1, 2, 2), (0, 1), (0, 1, 2, 4), (0, 1, -1, 2), (0, 1, 2, 3, 0, 1)])
def test_a_tuple_with_a_value_twice_in_a_set_or_outside_is_refused(given: tuple[int, ...]) -> None:
    with pytest.raises(BadParameter, match="2 different ones for each of 2 places, all from 0 to 3"):
        Response(1.5, 4, near=2, places=2).privatize([(0, 1, 2, 3), given], SystemEntropy())


def test_places_must_share_the_options_evenly() -> None:
    for options, places in ((8, 2), (1 << 67, 5), (4, 0)):
        with pytest.raises(BadParameter, match="every place must have the same number of options"):
            Response(1.0, options, places=places)
    assert Response(50.0, 1 << 65, places=5).values == 1 << 13


def test_several_places_promise_what_one_code_of_as_many_bits_promises() -> None:
    alone, together = Response(20.0, 1 << 24).facts, Response(20.0, 1 << 24, near=2, places=2).facts
    assert (together.guarantee, together.bits, together.event) == (alone.guarantee, alone.bits, alone.event)
    assert together.figures == {**alone.figures, "near": 2, "places": 2}
    assert Response.recomputed(together.figures, together.guarantee) == together
    assert together.recipe.endswith("|bits:24|near:2|places:2")


@pytest.mark.parametrize("near", [2, 32])
def test_sets_promise_what_single_values_promise(near: int) -> None:
    alone, together = Response(10.0, 1 << 10).facts, Response(10.0, 1 << 10, near).facts
    assert (together.guarantee, together.bits, together.right_of_two) == (
        alone.guarantee,
        alone.bits,
        alone.right_of_two,
    )
    assert together.event == alone.event
    assert together.lines[0][1] == f"10 bits for each text: one of {near * 1024:,} public texts, where the {near} " + (
        "nearest count as meant"
    )


def audited_epsilon(response: Response) -> float:
    """A lower bound on the epsilon spent, from how often the output is 1 for inputs 1 and 0."""
    return math.log(shares(response, (1,))[1][0] / shares(response, (0,))[1][1])


class Weak(Response):
    """Keeps the true value as often as a third more epsilon would allow."""

    def _edge(self, bits: int) -> tuple[int, int]:
        return Response(self.epsilon * 4 / 3, self.options)._edge(bits)


def test_an_honest_response_passes_the_audit_and_a_weaker_one_is_caught() -> None:
    assert audited_epsilon(Response(1.5, 4)) <= 1.5
    assert audited_epsilon(Weak(1.5, 4)) > 1.5


@pytest.mark.parametrize("options", [2, 3, 7, 1 << 10, 1 << 11, 1 << 64, 1 << 140, 1 << 1024])
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 10.0, 100.0, 1000.0])
def test_the_integer_thresholds_have_a_ratio_of_e_to_the_epsilon(epsilon: float, options: int) -> None:
    """The true value has probability g + (1 - g) / k, any other (1 - g) / k: a ratio of exactly e^epsilon."""
    bits = 4096
    low, high = Response(epsilon, options)._edge(bits)
    with mpmath.workprec(bits + 2000):
        for edge, side in ((low, 1), (high + 1, -1)):
            kept = mpmath.mpf(edge) / mpmath.mpf(2) ** bits
            ratio = (kept + (1 - kept) / options) / ((1 - kept) / options)
            exact = mpmath.exp(mpmath.mpf(epsilon))
            assert side * (exact - ratio) >= 0  # the true g lies between the two edges
            assert abs(ratio / exact - 1) < mpmath.mpf(2) ** -500


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 7.3])
def test_draws_at_the_threshold_are_decided_exactly(epsilon: float) -> None:
    """Words around g, and second words around its next bits, compared with g in 100 digits."""
    response = Response(epsilon, 3)
    with mpmath.workdps(100):
        kept = (mpmath.exp(mpmath.mpf(epsilon)) - 1) / (mpmath.exp(mpmath.mpf(epsilon)) + 2)
        edge = int(mpmath.floor(kept * 2**128))
    high, low = edge >> 64, edge & (2**64 - 1)
    assert response._keeps(1, Script(high - 1))[0]
    assert not response._keeps(1, Script(high + 1))[0]
    assert response._keeps(1, Script(high, low - 1))[0]
    assert not response._keeps(1, Script(high, low + 1))[0]


def test_a_huge_epsilon_still_leaves_a_chance_of_another_value() -> None:
    """g is below 1, however close: a word of ones decides nothing, so more words are drawn."""
    script = Script(2**64 - 1, 2**64 - 1, 2**64 - 1, 5)
    assert Response(100_000.0, 2)._keeps(1, script)[0]
    assert script.left == []


@pytest.mark.parametrize("options", [2, 3, 5, 1 << 11, 1 << 64, 1 << 65, 1 << 1024])
def test_replacement_values_are_uniform_over_the_whole_set(options: int) -> None:
    drawn = Response._uniform(4000, options, SystemEntropy())
    assert all(0 <= value < options for value in drawn)
    below = sum(2 * value < options for value in drawn) / 4000  # a share of 1/2, or 2/3 of 3 and 3/5 of 5
    share = ((options + 1) // 2) / options
    assert below == pytest.approx(share, abs=6 * math.sqrt(0.25 / 4000))  # six standard errors: 2e-9


def test_numbers_at_or_above_the_last_whole_multiple_are_rejected() -> None:
    script = Script(2**64 - 1, 2**64 - 1, 4, 0)  # little-endian: 2^128 - 1 is a multiple of 3, 2^128 is not
    assert Response._uniform(1, 5, script) == [4]
    assert script.left == []


def test_every_value_uses_the_same_number_of_words() -> None:
    """The number of random words does not reveal the value."""
    asked = []
    for given in ((0, 1), (2047, 4095), ()):
        entropy = Counting(3)
        Response(10.0, 1 << 11, near=2).privatize([given] * 7, entropy)
        asked.append(entropy.asked)
    assert asked == [[7, 7, 7]] * 3
    asked = []
    for places in ((0, 1, 2, 3), (62, 63, 63, 62), ()):
        entropy = Counting(3)
        Response(10.0, 1 << 10, near=2, places=2).privatize([places] * 7, entropy)
        asked.append(entropy.asked)
    assert asked == [[7, 14, 7]] * 3


@pytest.mark.parametrize(
    ("epsilon", "bits"),
    [(0.5, 1), (4.0, 5), (10.0, 11), (50.0, 66), (100.0, 138), (200.0, 280), (0.01, 1024), (700.0, 1024), (1e5, 1)],
)
def test_the_facts_match_the_theory(epsilon: float, bits: int) -> None:
    response, facts = Response(epsilon, 1 << bits), Response(epsilon, 1 << bits).facts
    with mpmath.workdps(200):
        weight = mpmath.exp(epsilon) + 2**bits - 1
        kept, other = mpmath.exp(epsilon) / weight, 1 / weight
        passing = bits + kept * mpmath.log(kept, 2) + (1 - kept) * mpmath.log(other, 2)
    assert response.kept == pytest.approx(float(kept), rel=1e-12, abs=0)
    assert facts.bits == pytest.approx(float(passing), rel=1e-9)
    assert facts.right_of_two == pytest.approx(float(kept + (1 - kept - other) / 2), rel=1e-12)
    assert (facts.guarantee.epsilon, facts.guarantee.delta) == (epsilon, 0.0)


def test_the_capacity_at_epsilon_10_matches_the_design() -> None:
    assert Response(10.0, 1 << 11).bits == pytest.approx(9.6, abs=0.3)


@pytest.mark.parametrize(("epsilon", "bits"), [(0.5, 1), (10.0, 11), (100.0, 140), (200.0, 40), (1000.0, 1024)])
def test_the_facts_follow_from_the_size_and_the_guarantee_on_a_card(epsilon: float, bits: int) -> None:
    facts = Response(epsilon, 1 << bits).facts
    assert Response.recomputed({"options_log2": float(bits)}, facts.guarantee) == facts


@pytest.mark.parametrize("bits", [0.5, 0, -1, 1025, 1e300, 2.5])
def test_a_code_of_an_impossible_size_is_refused(bits: float) -> None:
    with pytest.raises(BadParameter, match="a whole number of bits from 1 to 1024"):
        Response.recomputed({"options_log2": bits}, Response(1.0, 2).guarantee)


@pytest.mark.parametrize(
    ("epsilon", "options", "message"),
    [(0.0, 2, "epsilon must be"), (1.0, 1, "options must be from 2"), (1.0, (1 << 1024) + 1, "options must be from 2")],
)
def test_bad_parameters_are_refused(epsilon: float, options: int, message: str) -> None:
    with pytest.raises(BadParameter, match=message):
        Response(epsilon, options)


@pytest.mark.parametrize("near", [0, -1])
def test_a_set_of_no_value_is_no_code(near: int) -> None:
    with pytest.raises(BadParameter, match=f"near must be at least 1, got {near}"):
        Response(1.0, 2, near)


@pytest.mark.parametrize("sizes", [(2, 1), (2, 3), (1, 2), (4, 2)])
def test_all_texts_of_a_run_have_sets_of_one_size(sizes: tuple[int, int]) -> None:
    """A text with a larger set than another would have each of its values more seldom: the ratio would change."""
    meant = [tuple(range(size)) for size in sizes]
    for near in {1, 2, *sizes}:
        with pytest.raises(BadParameter, match=f"no value, or {near} different ones"):
            Response(1.5, 8, near).privatize(meant, SystemEntropy())


def test_the_size_of_a_set_on_a_card_is_recomputed() -> None:
    facts = Response(10.0, 1 << 8, near=4).facts
    assert facts.figures == {"options_log2": 8.0, "kept": Response(10.0, 256).kept, "near": 4}
    assert facts.recipe == "mech:response|eps:10|delta:0|bits:8|near:4"
    assert Response.recomputed({"options_log2": 8.0, "near": 4}, facts.guarantee) == facts
    assert "near" not in Response(10.0, 256).facts.figures
