"""A mechanism gives the privacy it states: tested by closed form, by attack, and in its facts."""

import dataclasses
import math

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta

from dpbart.errors import BadParameter
from dpbart.privacy.calibration import gaussian_delta
from dpbart.privacy.clipping import ByNorm, ByValue, Clip, Clipped, Sensitivity, clip_named
from dpbart.privacy.facts import Private
from dpbart.privacy.guarantee import NOTHING_PROMISED, Guarantee
from dpbart.privacy.mechanisms import MECHANISMS, Gaussian, Laplace, NoiseMechanism, NonPrivate, make_noise
from dpbart.privacy.sampling import ReplaySeed, SystemEntropy, Words, grid_for

NOISY: list[NoiseMechanism] = [Gaussian(epsilon=250, delta=1e-5), Laplace(epsilon=250)]
ALL: list[NoiseMechanism] = [*NOISY, NonPrivate()]
CLIPS: list[Clip] = [ByValue(0.1), ByNorm(5.0)]
each_noise = pytest.mark.parametrize("mechanism", NOISY, ids=["gaussian", "laplace"])
each_mechanism = pytest.mark.parametrize("mechanism", ALL, ids=[each.name for each in ALL])
each_clip = pytest.mark.parametrize("clip", CLIPS, ids=["value", "l2"])

Floats = npt.NDArray[np.float64]


class NoNoise:
    """Words that give a noise of 0: the tail probability is almost 1."""

    private = True

    def words(self, count: int) -> Words:
        return np.full(count, 2**64 - 2, dtype=np.uint64)


class TestEveryMechanism:
    """The contract of `NoiseMechanism`."""

    @each_mechanism
    @each_clip
    def test_a_private_latent_has_the_shape_of_the_clipped_one(self, mechanism: NoiseMechanism, clip: Clip) -> None:
        clipped = clip.clip(np.ones((2, 3, 4), dtype=np.float32))
        private = mechanism.privatize(clipped, SystemEntropy())
        assert private.values.shape == (2, 3, 4)
        assert private.values.dtype == np.float32
        assert private.guarantee == mechanism.guarantee

    @each_mechanism
    def test_a_replayed_latent_is_equal_and_says_not_private(self, mechanism: NoiseMechanism) -> None:
        clipped = ByValue(0.1).clip(np.ones((2, 50)))
        first, second = (mechanism.privatize(clipped, ReplaySeed(5)) for _ in range(2))
        assert np.array_equal(first.values, second.values)
        assert not first.guarantee.private
        assert str(first.guarantee) == "NOT PRIVATE (epsilon infinite)"
        assert first.facts.recipe.endswith("|NOT PRIVATE")

    @each_mechanism
    @pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e300, 0.0])
    def test_a_broken_row_takes_the_same_path(self, mechanism: NoiseMechanism, value: float) -> None:
        for clip in CLIPS:
            private = mechanism.privatize(clip.clip(np.full((2, 8), value)), SystemEntropy())
            assert np.all(np.isfinite(private.values))
            assert private.guarantee == mechanism.guarantee
            # Every entry got its own noise. Two of the 16 are equal with probability 3e-4, six such pairs with 2e-12.
            assert isinstance(mechanism, NonPrivate) or np.unique(private.values).size > 10

    @each_mechanism
    def test_an_empty_batch_gives_an_empty_batch(self, mechanism: NoiseMechanism) -> None:
        assert mechanism.privatize(ByValue(0.1).clip(np.zeros((0, 4))), SystemEntropy()).values.shape == (0, 4)

    @each_mechanism
    def test_a_mechanism_is_made_by_its_name(self, mechanism: NoiseMechanism) -> None:
        epsilon = None if mechanism.name == "none" else 250.0
        assert make_noise(mechanism.name, epsilon=epsilon, delta=1e-5) == mechanism


def test_a_recipe_says_how_the_latent_was_made() -> None:
    clipped = ByValue(0.1).clip(np.zeros((1, 4)))
    assert [m.privatize(clipped, SystemEntropy()).facts.recipe for m in ALL] == [
        "mech:gaussian|eps:250|delta:1e-05|clip:value:0.1",
        "mech:laplace|eps:250|delta:0|clip:value:0.1",
        "mech:none|eps:inf|delta:0|clip:value:0.1|NOT PRIVATE",
    ]


def test_guarantees_are_those_requested() -> None:
    assert [m.guarantee for m in ALL] == [Guarantee(250, 1e-5), Guarantee(250, 0.0), Guarantee(math.inf, 0.0)]


# theory.md section 3: C = 0.1, length 20, 182 columns, epsilon 500
def test_the_gaussian_scale_matches_the_theory_page() -> None:
    assert Gaussian(500, 1e-5).noise_scale(ByValue(0.1).sensitivity(3640)) == pytest.approx(0.4360331921, rel=1e-7)


def test_adepts_published_laplace_scale_is_too_small() -> None:
    """ADePT took 2C for the L1 sensitivity of an L2 ball; it is 2C sqrt(n) (Habernal 2021)."""
    clip, entries, epsilon = ByNorm(5.0), 1024, 10.0
    published = 2 * clip.bound / epsilon
    ours = Laplace(epsilon).noise_scale(clip.sensitivity(entries))
    assert ours == pytest.approx(published * math.sqrt(entries))
    # Two documents in the ball really are that far apart, so the published noise gives 32 times the epsilon.
    pair = clip.clip(np.stack([np.ones(entries), -np.ones(entries)])).values
    assert np.abs(pair[0] - pair[1]).sum() / published == pytest.approx(32 * epsilon)
    assert np.abs(pair[0] - pair[1]).sum() / ours <= epsilon


@each_noise
@each_clip
def test_noise_has_the_stated_scale(mechanism: NoiseMechanism, clip: Clip) -> None:
    clipped = clip.clip(np.zeros((40, 1000)))
    noise = mechanism.privatize(clipped, ReplaySeed(11)).values.astype(np.float64)
    scale, count = mechanism.noise_scale(clipped.bounds.sensitivity), noise.size
    # Variance and kurtosis of the laws: 1 and 3, 2 and 6. Five standard errors.
    variance, kurtosis = (1.0, 3.0) if mechanism.name == "gaussian" else (2.0, 6.0)
    assert abs(noise.mean()) < 5 * scale * math.sqrt(variance / count)
    assert noise.var() / scale**2 == pytest.approx(variance, abs=5 * variance * math.sqrt((kurtosis - 1) / count))


@each_noise
def test_noise_is_fresh_for_every_entry_and_every_release(mechanism: NoiseMechanism) -> None:
    clipped = ByValue(0.1).clip(np.zeros((30, 30)))
    first, second = (mechanism.privatize(clipped, SystemEntropy()).values for _ in range(2))
    assert np.mean(first == second) < 0.05  # 0.25 of the 900 are equal by chance, 45 never
    error = 6 / math.sqrt(29 * 30)  # six standard errors: 2e-9
    assert abs(np.corrcoef(first[1:].ravel(), first[:-1].ravel())[0, 1]) < error


def on_grid(mechanism: NoiseMechanism, clipped: Clipped) -> Floats:
    """The latent on its grid, before noise is added; read by using a noise of 0."""
    return mechanism.privatize(clipped, NoNoise()).values.astype(np.float64)


@settings(max_examples=30)
@given(
    seed=st.integers(0, 2**32),
    epsilon=st.sampled_from([0.01, 1.0, 250.0, 100_000.0]),
    entries=st.sampled_from([1, 5, 200]),
    kind=st.sampled_from(["ones", "one-hot", "random"]),
)
def test_the_grid_never_moves_two_documents_farther_apart_than_stated(
    seed: int, epsilon: float, entries: int, kind: str
) -> None:
    shapes = {
        "ones": np.ones(entries),
        "one-hot": np.eye(1, entries)[0],
        "random": np.random.default_rng(seed).normal(size=entries),
    }
    pair = np.stack([1e3 * shapes[kind], -1e3 * shapes[kind]])
    for clip in CLIPS:
        clipped = clip.clip(pair)
        for mechanism in (Gaussian(epsilon, 1e-5), Laplace(epsilon)):
            seen = on_grid(mechanism, clipped)
            rounding = 1 + 1e-6  # the values are read as float32
            assert np.abs(seen[0] - seen[1]).sum() <= clipped.bounds.sensitivity.l1 * rounding
            assert np.linalg.norm(seen[0] - seen[1]) <= clipped.bounds.sensitivity.l2 * rounding
            assert np.all(np.abs(seen) <= np.abs(clipped.values) * rounding)  # towards zero
            # and the latent is not rounded to 0
            assert np.abs(seen).sum() >= 0.95 * np.abs(clipped.values).sum()


@each_noise
def test_every_released_value_lies_on_the_grid(mechanism: NoiseMechanism) -> None:
    clipped = ByValue(0.1).clip(np.random.default_rng(0).normal(size=(20, 30)))
    grid = grid_for(scale=mechanism.noise_scale(clipped.bounds.sensitivity), typical=0.1)
    steps = mechanism.privatize(clipped, SystemEntropy()).values.astype(np.float64) / grid
    assert np.array_equal(steps, np.round(steps))


# -- the audit: attack the real release, with a control that must fail ------------------------------------------------

RUNS = 200_000
DOUBT = 1e-6  # probability that a correct mechanism fails


class WeakGaussian(Gaussian):
    """A fifth less noise than it states."""

    def noise_scale(self, sensitivity: Sensitivity) -> float:
        return 0.8 * super().noise_scale(sensitivity)


class WeakLaplace(Laplace):
    """A fifth less noise than it states."""

    def noise_scale(self, sensitivity: Sensitivity) -> float:
        return 0.8 * super().noise_scale(sensitivity)


def provable_delta(mechanism: NoiseMechanism, *, entries: int, epsilon: float, cut: float, seed: int) -> float:
    """A lower bound on delta that holds with probability 1 - DOUBT, from all +C against all -C."""
    entropy = ReplaySeed(seed)

    def hits(sign: int) -> int:
        clipped = ByValue(0.5).clip(np.full((RUNS, entries), sign * 9.0))
        along = mechanism.privatize(clipped, entropy).values.astype(np.float64).sum(axis=1) / math.sqrt(entries)
        return int((along > cut).sum())

    one, other = hits(+1), hits(-1)
    low = beta.ppf(DOUBT / 2, one, RUNS - one + 1)  # Clopper and Pearson 1934
    high = beta.ppf(1 - DOUBT / 2, other + 1, RUNS - other)
    return float(low - math.exp(epsilon) * high)


@pytest.mark.parametrize("entries", [1, 4])
@pytest.mark.parametrize("epsilon", [0.5, 1.0])
def test_an_honest_gaussian_passes_the_audit_and_a_weaker_one_is_caught(entries: int, epsilon: float) -> None:
    honest, weak, delta = Gaussian(epsilon, 0.01), WeakGaussian(epsilon, 0.01), 0.01
    far = ByValue(0.5).sensitivity(entries)

    def found(mechanism: NoiseMechanism) -> float:
        # The most revealing threshold: where the likelihood ratio is exp(epsilon).
        cut = mechanism.noise_scale(far) ** 2 * epsilon / far.l2
        return provable_delta(mechanism, entries=entries, epsilon=epsilon, cut=cut, seed=1)

    assert found(honest) <= delta
    assert found(weak) > delta


def test_an_honest_laplace_passes_the_audit_and_a_weaker_one_is_caught() -> None:
    assert provable_delta(Laplace(1.0), entries=1, epsilon=1.0, cut=0.5, seed=1) <= 0
    assert provable_delta(WeakLaplace(1.0), entries=1, epsilon=1.0, cut=0.5, seed=1) > 0
    # 1.0 is close to what it really spends
    assert provable_delta(Laplace(1.0), entries=1, epsilon=0.9, cut=0.5, seed=1) > 0


@pytest.mark.parametrize("epsilon", [0.05, 1.0, 250.0, 5000.0])
def test_the_closed_form_holds_where_sampling_has_no_power(epsilon: float) -> None:
    far = ByValue(0.1).sensitivity(3640)
    sigma = Gaussian(epsilon, 1e-5).noise_scale(far)
    apart = 2 * 0.1 * math.sqrt(3640)
    assert gaussian_delta(sigma=sigma / apart, epsilon=epsilon) <= 1e-5
    assert gaussian_delta(sigma=0.8 * sigma / apart, epsilon=epsilon) > 1e-5


# -- the baseline, the constructors, the seal -------------------------------------------------------------------------


def test_the_baseline_clips_without_noise_and_says_so() -> None:
    latent = np.random.default_rng(0).normal(size=(3, 7))
    clipped = ByValue(0.1).clip(latent)
    private = NonPrivate().privatize(clipped, SystemEntropy())
    assert np.array_equal(private.values, np.clip(latent, -0.1, 0.1).astype(np.float32))
    assert private.guarantee.epsilon == math.inf
    assert NonPrivate().noise_scale(clipped.bounds.sensitivity) == 0.0


def test_only_a_mechanism_can_make_a_private_value() -> None:
    made = NonPrivate().privatize(ByValue(0.1).clip(np.zeros((1, 2))), SystemEntropy())
    with pytest.raises(BadParameter, match="a Private value must be made by a mechanism"):
        Private(made.values, made.facts)
    better = dataclasses.replace(made.facts, guarantee=Guarantee(1.0, 0.0))
    with pytest.raises(BadParameter, match="a Private value must be made by a mechanism"):
        dataclasses.replace(made, facts=better)


@each_mechanism
def test_post_processing_keeps_the_guarantee(mechanism: NoiseMechanism) -> None:
    private = mechanism.privatize(ByValue(0.1).clip(np.zeros((1, 2))), SystemEntropy())
    wider = private.post_processed(np.pad(private.values, ((0, 0), (0, 3))), recipe="kept:2/5")
    assert wider.values.shape == (1, 5)
    assert wider.guarantee == private.guarantee
    assert wider.facts == private.facts.noted("kept:2/5")


@each_mechanism
def test_a_private_value_carries_the_facts_that_were_planned(mechanism: NoiseMechanism) -> None:
    """The facts are not computed twice: the card states what the value was made with."""
    clipped = ByValue(0.1).clip(np.zeros((2, 3, 4)))
    facts = mechanism.facts(clipped.bounds)
    assert mechanism.privatize(clipped, SystemEntropy()).facts == facts
    assert mechanism.privatize(clipped, ReplaySeed(1)).facts == facts.replayed()
    assert facts.figures["scale"] == mechanism.noise_scale(clipped.bounds.sensitivity)
    assert facts.figures["entries"] == 12


@each_mechanism
@each_clip
def test_the_facts_follow_from_the_bounds_and_the_guarantee_on_a_card(mechanism: NoiseMechanism, clip: Clip) -> None:
    facts = mechanism.facts(clip.clip(np.zeros((1, 50))).bounds)
    stated = {name: facts.figures[name] for name in ("clip", "entries")}
    assert mechanism.recomputed(stated, facts.guarantee) == facts


def test_no_noise_gives_no_guarantee() -> None:
    stated = {"clip": "value:0.1", "entries": 50}
    with pytest.raises(BadParameter, match="promises nothing"):
        NonPrivate.recomputed(stated, Guarantee(1.0, 1e-5))
    with pytest.raises(BadParameter, match="epsilon must be at most"):
        Gaussian.recomputed(stated, NOTHING_PROMISED)


@pytest.mark.parametrize("name", ["value", "value:", "value:-1", "value:nan", "value:0.10", "linf:1", "l2:1e99", ""])
def test_an_unknown_clip_is_refused(name: str) -> None:
    with pytest.raises(BadParameter, match="clip must be value:C or l2:C"):
        clip_named(name)


def test_every_mechanism_is_in_the_family_under_its_own_name() -> None:
    assert {name: each.name for name, each in MECHANISMS.items()} == {name: name for name in MECHANISMS}


@pytest.mark.parametrize("name", ["gaussian", "laplace"])
@pytest.mark.parametrize(
    ("epsilon", "message"),
    [
        (-1.0, "epsilon must be greater than 0, got -1.0."),
        (math.nan, "epsilon must be greater than 0, got nan."),
        (math.inf, "epsilon must be at most 100000, got inf."),
        (0.001, "epsilon must be at least 0.01, got 0.001."),
        (None, "epsilon must be given, got none."),
    ],
)
def test_a_budget_out_of_range_is_refused(name: str, epsilon: float | None, message: str) -> None:
    with pytest.raises(BadParameter) as refused:
        make_noise(name, epsilon=epsilon, delta=1e-5)
    assert str(refused.value).startswith(message)


@pytest.mark.parametrize("delta", [0.0, 1.0, -0.1, math.nan])
def test_a_gaussian_without_delta_is_refused(delta: float) -> None:
    with pytest.raises(BadParameter, match=r"delta must be between 0 and 1, both excluded, got .* use the mechanism"):
        Gaussian(1.0, delta)


def test_an_unknown_mechanism_is_refused_with_a_list_of_the_known_ones() -> None:
    with pytest.raises(
        BadParameter, match="must be one of response, gaussian, laplace, none, geometric, got 'staircase'"
    ):
        make_noise("staircase", epsilon=1.0, delta=1e-5)


def test_an_epsilon_with_the_mechanism_none_is_refused() -> None:
    with pytest.raises(BadParameter, match="epsilon must be left out with the mechanism 'none', got 250"):
        make_noise("none", epsilon=250.0, delta=1e-5)
    assert make_noise("none", epsilon=math.inf, delta=1e-5) == NonPrivate()
