"""A clipped latent lies in its box or ball, and two clipped latents are never farther apart than stated."""

import math
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from dpbart.errors import BadParameter
from dpbart.privacy.clipping import Bounds, ByNorm, ByValue, Clip, Clipped, Sensitivity

CLIPS: list[Clip] = [ByValue(0.1), ByNorm(5.0)]
each_clip = pytest.mark.parametrize("clip", CLIPS, ids=["value", "l2"])

Floats = npt.NDArray[np.float64]
# Anything an encoder may return, including NaN and infinities, in float32 or float64.
latents = st.one_of(
    hnp.arrays(np.float32, (2, 3, 4), elements=st.floats(width=32)),
    hnp.arrays(np.float64, (2, 3, 4), elements=st.floats()),
)


def exact_l1(row: Floats) -> Fraction:
    return sum((abs(Fraction(float(x))) for x in row.flat), Fraction(0))


def exact_l2_squared(row: Floats) -> Fraction:
    return sum((Fraction(float(x)) ** 2 for x in row.flat), Fraction(0))


# theory.md section 2, recomputed: 2 C sqrt(n), ADePT 2 C sqrt(n) = 2 * 5 * 32
@pytest.mark.parametrize(
    ("clip", "entries", "l1", "l2"),
    [
        (ByValue(0.1), 20 * 768, 3072.0, 24.787093),
        (ByValue(0.1), 20 * 182, 728.0, 12.066483),
        (ByNorm(5.0), 1024, 320.0, 10.0),
    ],
)
def test_sensitivities_match_the_theory_page(clip: Clip, entries: int, l1: float, l2: float) -> None:
    assert clip.sensitivity(entries).l1 == pytest.approx(l1, rel=1e-12)
    assert clip.sensitivity(entries).l2 == pytest.approx(l2, rel=1e-7)


@given(st.floats(1e-12, 1e12), st.integers(1, 10**7))
def test_a_sensitivity_is_never_rounded_down(bound: float, entries: int) -> None:
    across = 2 * Fraction(bound)
    by_value, by_norm = ByValue(bound).sensitivity(entries), ByNorm(bound).sensitivity(entries)
    assert Fraction(by_value.l1) >= across * entries
    assert Fraction(by_value.l2) ** 2 >= across**2 * entries
    assert Fraction(by_norm.l1) ** 2 >= across**2 * entries
    assert Fraction(by_norm.l2) >= across


@each_clip
@given(latent=latents)
def test_two_documents_are_never_farther_apart_than_stated(clip: Clip, latent: Floats) -> None:
    clipped = clip.clip(latent)
    apart = [[Fraction(float(a)) - Fraction(float(b)) for a, b in zip(*map(np.ravel, clipped.values), strict=True)]]
    assert sum(abs(x) for x in apart[0]) <= Fraction(clipped.bounds.sensitivity.l1)
    assert sum(x * x for x in apart[0]) <= Fraction(clipped.bounds.sensitivity.l2) ** 2


@each_clip
@pytest.mark.parametrize("entries", [1, 7, 3640])
def test_opposite_documents_are_exactly_the_stated_distance_apart(clip: Clip, entries: int) -> None:
    ones = np.ones((1, entries))
    one_hot = np.eye(1, entries)
    pairs = [np.concatenate([sign * 1e6 * kind for sign in (1, -1)]) for kind in (ones, one_hot)]
    clipped = [clip.clip(pair) for pair in pairs]
    farthest_l1 = max(exact_l1(c.values[0] - c.values[1]) for c in clipped)
    farthest_l2 = max(math.sqrt(exact_l2_squared(c.values[0] - c.values[1])) for c in clipped)
    far = clip.sensitivity(entries)
    assert far.l1 * (1 - 1e-8) <= farthest_l1 <= far.l1
    assert far.l2 * (1 - 1e-8) <= farthest_l2 <= far.l2


@settings(max_examples=50)
@given(st.floats(1e-12, 1e12), st.integers(1, 500), st.integers(0, 2**32), st.floats(0.999999, 1.000001))
def test_a_norm_never_exceeds_the_radius_even_by_a_rounding_error(
    bound: float, entries: int, seed: int, length: float
) -> None:
    row = np.random.default_rng(seed).normal(size=(1, entries))
    row *= bound * length / np.linalg.norm(row)  # at the boundary: just inside, or just outside
    assert exact_l2_squared(ByNorm(bound).clip(row).values[0]) <= Fraction(bound) ** 2


@each_clip
@given(latent=latents)
def test_any_row_ends_inside_even_with_nan_or_infinities(clip: Clip, latent: Floats) -> None:
    clipped = clip.clip(latent)
    assert clipped.values.dtype == np.float64
    assert clipped.values.shape == latent.shape
    assert np.all(np.isfinite(clipped.values))
    assert np.all(np.abs(clipped.values) <= clip.bound)


def test_by_value_makes_nan_zero_and_infinities_the_bound() -> None:
    latent = np.array([[math.nan, math.inf, -math.inf, 0.05]])
    assert ByValue(0.1).clip(latent).values.tolist() == [[0.0, 0.1, -0.1, 0.05]]


def test_by_norm_keeps_the_direction_of_a_huge_row_and_survives_infinities() -> None:
    huge = ByNorm(5.0).clip(np.array([[3e300, -4e300], [math.inf, math.nan], [0.0, 0.0]])).values
    np.testing.assert_allclose(huge, [[3.0, -4.0], [5.0, 0.0], [0.0, 0.0]], rtol=1e-8)


@each_clip
def test_a_row_inside_the_bound_is_not_changed(clip: Clip) -> None:
    latent = np.array([[0.05, -0.01, 0.0], [0.0, 0.0, 0.0]])
    assert np.array_equal(clip.clip(latent).values, latent)


@each_clip
def test_a_row_is_clipped_independently_of_the_others(clip: Clip) -> None:
    latent = np.random.default_rng(0).normal(size=(4, 3, 5)) * 9
    alone = np.concatenate([clip.clip(row[None]).values for row in latent])
    assert np.array_equal(clip.clip(latent).values, alone)


@each_clip
def test_the_input_latent_is_not_changed(clip: Clip) -> None:
    latent = np.full((2, 3), math.inf)
    clip.clip(latent)
    assert np.all(np.isinf(latent))


def test_an_empty_batch_can_be_clipped() -> None:
    for clip in CLIPS:
        assert clip.clip(np.zeros((0, 3, 4))).values.shape == (0, 3, 4)


def test_a_clip_has_a_name_for_the_recipe() -> None:
    latent = np.zeros((1, 4))
    assert [clip.clip(latent).bounds.clip for clip in CLIPS] == ["value:0.1", "l2:5"]
    assert CLIPS[0].clip(latent).bounds.sensitivity == CLIPS[0].sensitivity(4)
    assert CLIPS[0].clip(np.zeros((3, 2, 5))).bounds.entries == 10


@pytest.mark.parametrize("bound", [0.0, -1.0, math.nan, math.inf, 1e-13])
def test_a_bound_out_of_range_is_refused(bound: float) -> None:
    for clip in (ByValue, ByNorm):
        with pytest.raises(BadParameter, match="bound must be between 1e-12 and 1e12, got"):
            clip(bound)


def test_other_wrong_values_are_refused() -> None:
    with pytest.raises(BadParameter, match="entries must be at least 1, got 0"):
        ByValue(1.0).sensitivity(0)
    with pytest.raises(BadParameter, match=r"latent must have a batch dimension .* got shape \(3,\)"):
        ByValue(1.0).clip(np.zeros(3))
    with pytest.raises(BadParameter, match="l2 sensitivity must be greater than 0 and finite, got nan"):
        Sensitivity(l1=1.0, l2=math.nan)


@pytest.mark.parametrize("entry", [0.11, math.nan, math.inf])
def test_values_outside_the_bound_cannot_be_marked_clipped(entry: float) -> None:
    with pytest.raises(BadParameter, match=r"clipped values must be within 0\.1, got one outside"):
        Clipped(np.array([[entry]]), Bounds("value:0.1", bound=0.1, entries=1, sensitivity=Sensitivity(0.2, 0.2)))
