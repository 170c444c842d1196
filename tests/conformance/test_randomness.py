"""The randomness: fresh, exact, enough, on everything, and for the whole text. See docs/conformance.md."""

from __future__ import annotations

import math
import random
from collections import Counter

import numpy as np
import pytest
import torch

from dpbart.channels.columns import Columns, ColumnsChannel
from dpbart.privacy.calibration import gaussian_delta
from dpbart.privacy.clipping import ByNorm, ByValue, Clip
from dpbart.privacy.mechanisms import NOISES, Response, make_noise
from dpbart.privacy.sampling import SystemEntropy, grid_for
from tests.conformance.watched import BITS, BOTH, BOUND, KEPT, POSITIONS, WIDTH, received, watched_rewriter

TEXT = ["Ada Lovelace lives at 12 St James's Square."]


def latents(epsilon: float | None, *, texts: int, mechanism: str = "gaussian", delta: float = 1e-5) -> list[float]:
    """The kept entries that reach the decoder for copies of one text, minus the same entries without noise."""
    found = []
    for budget, name in ((epsilon, mechanism), (None, "none")):
        rewriter = watched_rewriter("columns", epsilon=budget, mechanism=name, delta=delta)
        rewriter.rewrite(TEXT * texts)
        found.append(np.concatenate([each.values for each in received(rewriter)])[..., list(KEPT)])
    return [float(each) for each in (found[0] - found[1]).ravel()]


@pytest.mark.parametrize("kind", BOTH)
def test_no_seed_of_any_library_repeats_the_randomness(kind: str) -> None:
    """The chance that two draws of 24 entries, or of four codes at epsilon 0.01, are equal is below 1e-14."""
    drawn = []
    for _ in range(2):
        random.seed(42)
        np.random.seed(42)  # the seeds that other code sets
        torch.manual_seed(42)
        rewriter = watched_rewriter(kind, epsilon=0.01)
        rewriter.rewrite(TEXT * 4)
        drawn.append(np.array(received(rewriter)[0].values))
    assert not np.array_equal(drawn[0], drawn[1])


@pytest.mark.parametrize("kind", BOTH)
def test_randomness_from_a_seed_is_never_called_private(kind: str) -> None:
    done = watched_rewriter(kind, replay_seed=7).rewrite(TEXT)
    assert not done.guarantee.private
    assert done.recipe.split("|model:")[0].endswith("NOT PRIVATE")


def test_all_latents_come_out_on_one_grid() -> None:
    """So the low bits of a released float say nothing: every text has the same set of possible outputs."""
    rewriter = watched_rewriter("columns", epsilon=20)
    rewriter.rewrite([f"text {number}" for number in range(50)])
    channel = rewriter.channel
    assert isinstance(channel, ColumnsChannel)
    scale, bounds = float(channel.facts.figures["scale"]), channel.bounds
    grid = grid_for(scale=scale, typical=bounds.sensitivity.l1 / (2 * bounds.entries))
    steps = np.concatenate([each.values for each in received(rewriter)]).astype(np.float64) / grid
    np.testing.assert_array_equal(steps, np.round(steps))
    # The control: noise added in floating point leaves the grid.
    floats = np.float32(0.1) + np.float32(scale) * np.random.default_rng(0).normal(size=1000).astype(np.float32)
    assert np.mean(floats / grid == np.round(floats / grid)) < 0.1


class Counted:
    """Entropy of the system that counts the words drawn."""

    private = True

    def __init__(self) -> None:
        self.drawn = 0

    def words(self, count: int) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
        self.drawn += count
        return np.asarray(SystemEntropy().words(count))


def test_every_code_is_decided_with_whole_numbers_and_as_many_bits() -> None:
    response = Response(3.0, 1 << BITS)
    drawn = []
    for codes in ((0,), (1,), ((1 << BITS) - 1,), ()):
        entropy = Counted()
        private = response.privatize([codes], entropy)
        assert isinstance(private.values[0], int)
        drawn.append(entropy.drawn)
    assert drawn == [2] * 4  # one word decides whether the code is kept, one is the other code


@pytest.mark.parametrize("epsilon", [0.5, 10.0, 250.0, 2500.0])
def test_the_gaussian_scale_holds_where_the_textbook_one_does_not(epsilon: float) -> None:
    channel = watched_rewriter("columns", epsilon=epsilon).channel
    figures, delta = channel.facts.figures, 1e-5
    sigma = float(figures["scale"]) / float(figures["sensitivity_l2"])
    assert gaussian_delta(sigma=sigma, epsilon=epsilon) <= delta
    textbook = math.sqrt(2 * math.log(1.25 / delta)) / epsilon
    if epsilon > 10:  # the control
        assert gaussian_delta(sigma=textbook, epsilon=epsilon) > 0.9


CLIPS: list[Clip] = [ByValue(BOUND), ByNorm(2.0)]


@pytest.mark.parametrize("clip", CLIPS, ids=lambda clip: clip.name)
@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
def test_the_noise_follows_the_farthest_pair_in_the_norm_of_its_proof(clip: Clip, mechanism: str) -> None:
    """The farthest pairs are searched among corners, single entries and random directions, on both sides."""
    entries = POSITIONS * len(KEPT)
    random_rows = np.random.default_rng(1).normal(size=(200, entries))
    rows = np.concatenate([np.ones((1, entries)), np.eye(entries), np.sign(random_rows), random_rows]) * 1e3
    apart = clip.clip(rows).values - clip.clip(-rows).values  # (pairs, entries)
    order = {"gaussian": 2, "laplace": 1}[mechanism]
    farthest = float(np.linalg.norm(apart, ord=order, axis=1).max())
    noise = make_noise(mechanism, epsilon=4.0, delta=1e-5)
    channel = ColumnsChannel(Columns(WIDTH, KEPT), clip, noise, POSITIONS)
    scale = float(channel.facts.figures["scale"])
    if mechanism == "laplace":  # Pr ratios of two texts reach exp(distance / scale)
        assert 3.99 < farthest / scale <= 4.0
    else:
        assert 0.99e-5 < gaussian_delta(sigma=scale / farthest, epsilon=4.0) <= 1e-5


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
def test_every_position_and_column_has_its_own_noise(mechanism: str) -> None:
    """Each of the 24 entries of a text varies with the stated spread, and no two vary together."""
    texts = 2000
    noise = np.array(latents(5.0, texts=texts, mechanism=mechanism)).reshape(texts, -1)  # (texts, entries)
    facts = watched_rewriter("columns", epsilon=5.0, mechanism=mechanism).facts
    spread = float(facts.figures["scale"]) * (1.0 if mechanism == "gaussian" else math.sqrt(2))
    assert noise.shape[1] == POSITIONS * len(KEPT)
    # Six standard errors: 2 % each for a normal law, 4 % for Laplace's heavier tails.
    np.testing.assert_allclose(noise.std(axis=0), spread, rtol=0.2)
    together = np.corrcoef(noise, rowvar=False) - np.eye(noise.shape[1])
    assert np.abs(together).max() < 7 / math.sqrt(texts)  # seven standard errors, for each of 276 pairs


def test_every_bit_of_a_code_can_change() -> None:
    rewriter = watched_rewriter("code", epsilon=0.01)
    rewriter.rewrite(TEXT * 2000)
    codes = [code for each in received(rewriter) for code in each.values]
    ones = np.array([[code >> bit & 1 for bit in range(BITS)] for code in codes]).mean(axis=0)  # (bits,)
    assert np.abs(ones - 0.5).max() < 6 * 0.5 / math.sqrt(2000) + 0.01


@pytest.mark.parametrize("positions", [1, 16, 400])
def test_epsilon_is_that_of_the_whole_latent_however_long(positions: int) -> None:
    """Two texts that differ at every position are still only epsilon apart: the noise grows with the length."""
    for name in ("gaussian", "laplace"):
        channel = ColumnsChannel(
            Columns.all(WIDTH), ByValue(BOUND), make_noise(name, epsilon=8.0, delta=1e-5), positions
        )
        entries, scale = positions * WIDTH, float(channel.facts.figures["scale"])
        assert (channel.facts.guarantee.epsilon, channel.facts.figures["entries"]) == (8.0, entries)
        if name == "laplace":
            assert entries * 2 * BOUND / scale == pytest.approx(8.0)
        else:
            together = scale / (2 * BOUND * math.sqrt(entries))
            assert gaussian_delta(sigma=together, epsilon=8.0) == pytest.approx(1e-5, rel=1e-6)


def test_epsilon_is_that_of_the_whole_code_not_of_a_bit() -> None:
    """Of 20,000 draws at epsilon 2, a code of 3 bits comes out true as often as one choice of 8 allows."""
    draws, true = 20_000, 5
    counted = Counter(Response(2.0, 8).privatize([(true,)] * draws, SystemEntropy()).values)
    kept, least = counted[true] / draws, min(counted.values()) / draws
    stated = math.exp(2) / (math.exp(2) + 7)
    assert kept == pytest.approx(stated, abs=6 * math.sqrt(stated * (1 - stated) / draws))
    per_bit = (math.exp(2) / (math.exp(2) + 1)) ** 3  # the control: epsilon 2 spent on each of the bits
    assert abs(per_bit - stated) > 0.15
    assert math.log(kept / least) < 2 + 0.3


def test_each_budget_and_mechanism_changes_the_noise_as_it_says() -> None:
    settings = [(5.0, "gaussian", 1e-5), (50.0, "gaussian", 1e-5), (50.0, "gaussian", 1e-9), (50.0, "laplace", 1e-5)]
    spreads = []
    for epsilon, mechanism, delta in settings:
        noise = np.array(latents(epsilon, texts=400, mechanism=mechanism, delta=delta))
        facts = watched_rewriter("columns", epsilon=epsilon, mechanism=mechanism, delta=delta).facts
        stated = float(facts.figures["scale"]) * (math.sqrt(2) if mechanism == "laplace" else 1.0)
        assert noise.std() == pytest.approx(stated, rel=0.1)  # 9,600 entries: more than six standard errors
        spreads.append(stated)
    assert len({round(each, 6) for each in spreads}) == len(settings)
    assert set(latents(None, texts=2, mechanism="none")) == {0.0}
    assert {name for _, name, _ in settings} | {"none"} == set(NOISES)


@pytest.mark.parametrize("epsilon", [0.5, 4.0, 9.0, 14.0])
def test_each_budget_changes_how_many_codes_are_kept(epsilon: float) -> None:
    texts = 3000
    rewriter = watched_rewriter("code", epsilon=epsilon)
    ((code,),) = watched_rewriter("code").model.encode(TEXT)
    rewriter.rewrite(TEXT * texts)
    kept = Counter(each for private in received(rewriter) for each in private.values)[code] / texts
    stated = math.exp(epsilon) / (math.exp(epsilon) + (1 << BITS) - 1)
    assert kept == pytest.approx(stated, abs=6 * math.sqrt(stated * (1 - stated) / texts) + 1e-3)
