"""The noise is exactly the continuous noise rounded to the grid, and nobody else knows it."""

import math
import multiprocessing
from collections.abc import Iterator
from multiprocessing.connection import Connection

import mpmath
import numpy as np
import numpy.typing as npt
import opendp.prelude as dp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2, ks_2samp

from dpbart.errors import BadParameter
from dpbart.privacy.calibration import gaussian_delta, gaussian_sigma, laplace_scale
from dpbart.privacy.sampling import (
    _MARGIN,
    Entropy,
    LaplaceLaw,
    Law,
    NormalLaw,
    ReplaySeed,
    SystemEntropy,
    Words,
    draw_rounded,
    grid_for,
)

LAWS: list[Law] = [NormalLaw(), LaplaceLaw()]
each_law = pytest.mark.parametrize("law", LAWS, ids=["normal", "laplace"])
EVEN, ODD = 0, 1  # the low bit of a word: plus, minus
DOUBT = 1e-6  # chance that a sound sampler fails a test of its distribution


class Scripted:
    """Returns the given words in order, then fails."""

    def __init__(self, *words: int) -> None:
        self._words: Iterator[int] = iter(words)
        self.private = True

    def words(self, count: int) -> Words:
        return np.array([next(self._words) for _ in range(count)], dtype=np.uint64)


class Counted:
    """Counts the words drawn."""

    def __init__(self, entropy: Entropy) -> None:
        self._entropy = entropy
        self.drawn = 0
        self.private = entropy.private

    def words(self, count: int) -> Words:
        self.drawn += count
        return self._entropy.words(count)


def exact_tail(law: Law, x: float | mpmath.mpf) -> mpmath.mpf:
    """Pr[|X| >= x], from textbook formulas, not from the code under test."""
    if isinstance(law, NormalLaw):
        return 2 * mpmath.ncdf(-mpmath.mpf(x))
    return mpmath.exp(-mpmath.mpf(x))


def weight(law: Law, k: int, ratio: float) -> mpmath.mpf:
    """Pr[round(ratio X) = k]: the mass between k - 1/2 and k + 1/2."""
    if k == 0:
        return 1 - exact_tail(law, mpmath.mpf(0.5) / ratio)
    low, high = (abs(k) - mpmath.mpf(0.5)) / ratio, (abs(k) + mpmath.mpf(0.5)) / ratio
    return (exact_tail(law, low) - exact_tail(law, high)) / 2


def misfit(law: Law, drawn: npt.NDArray[np.int64], ratio: float) -> float:
    """p-value of the draws against the weights (chi-square, cells of at least 10, the rest in two tails)."""
    last = 0
    while float(weight(law, last + 1, ratio)) * drawn.size >= 10:
        last += 1
    chances = [float(weight(law, k, ratio)) for k in range(-last, last + 1)]
    beyond = float(exact_tail(law, (last + 0.5) / ratio)) / 2
    expected = np.array([beyond, *chances, beyond]) * drawn.size
    assert expected.sum() == pytest.approx(drawn.size)
    seen = np.bincount(np.clip(drawn, -last - 1, last + 1) + last + 1, minlength=expected.size)
    return float(chi2.sf(((seen - expected) ** 2 / expected).sum(), df=expected.size - 1))


@each_law
@pytest.mark.parametrize("ratio", [0.3, 1.0, 3.0, 25.0])
def test_draws_follow_the_rounded_law(law: Law, ratio: float) -> None:
    drawn = draw_rounded(law, scale=ratio * 0.25, grid=0.25, count=100_000, entropy=ReplaySeed(1))
    assert misfit(law, drawn, ratio) > DOUBT


@each_law
def test_draws_follow_the_rounded_law_where_exact_arithmetic_decides(law: Law) -> None:
    entropy = Counted(ReplaySeed(2))
    drawn = draw_rounded(law, scale=10.0, grid=0.25, count=3000, entropy=entropy, _bits=6)
    assert entropy.drawn - 3000 > 2000  # most needed a second word
    assert misfit(law, drawn, 40.0) > DOUBT


@each_law
def test_the_distribution_test_can_fail(law: Law) -> None:
    drawn = draw_rounded(law, scale=3.0, grid=1.0, count=100_000, entropy=ReplaySeed(3))
    assert misfit(law, drawn, 3.0 * 1.05) < DOUBT
    assert misfit(law, np.abs(drawn), 3.0) < DOUBT


@each_law
@settings(max_examples=150)
@given(word=st.integers(0, 2**64 - 1), ratio=st.floats(0.01, 2.0**33))
def test_every_draw_lies_in_the_cell_that_its_bits_select(law: Law, word: int, ratio: float) -> None:
    further = 0x9E3779B97F4A7C15  # only used if the first word does not decide
    entropy = Scripted(word, further, further)
    drawn = int(draw_rounded(law, scale=ratio, grid=1.0, count=1, entropy=entropy)[0])
    assert drawn == 0 or (drawn < 0) == (word & 1 == ODD)
    with mpmath.workprec(400):
        u = mpmath.mpf(((word >> 1) << 128) | (further << 64) | further) / 2**191
        assert exact_tail(law, (abs(drawn) + mpmath.mpf(0.5)) / ratio) <= u
        assert drawn == 0 or u <= exact_tail(law, (abs(drawn) - mpmath.mpf(0.5)) / ratio)


@each_law
@pytest.mark.parametrize("steps", [0, 1, 17, 4000])
def test_a_draw_at_an_edge_is_decided_by_more_bits(law: Law, steps: int) -> None:
    with mpmath.workprec(400):
        edge = exact_tail(law, (steps + mpmath.mpf(0.5)) / 1024)
        start, second, third = (int(mpmath.floor(edge * 2**bits)) for bits in (63, 127, 191))
    word, second, third = start << 1 | EVEN, second & (2**64 - 1), third & (2**64 - 1)

    def draw(*further: int) -> int:
        return int(draw_rounded(law, scale=1024.0, grid=1.0, count=1, entropy=Scripted(word, *further))[0])

    assert draw(second + 1) == steps  # U above the edge: nearer
    assert draw(second - 1) == steps + 1  # U below the edge: farther
    assert draw(second, third + 1) == steps
    assert draw(second, third - 1) == steps + 1


@each_law
def test_a_first_word_of_zeros_reaches_tails_below_2_to_the_minus_64(law: Law) -> None:
    drawn = draw_rounded(law, scale=1.0, grid=1.0, count=1, entropy=Scripted(0 | ODD, 0, 1 << 63))
    x = -int(drawn[0])
    assert exact_tail(law, x + 0.5) <= mpmath.mpf(2) ** -128 <= exact_tail(law, x - 0.5)


@each_law
@given(tail=st.one_of(st.floats(2.0**-63, 1.0), st.floats(0.0, 63.0).map(lambda x: 2.0**-x)))
def test_the_error_of_a_float_quantile_is_far_below_the_margin(law: Law, tail: float) -> None:
    x = float(law.quantile(np.array([tail]))[0])
    error = 1e-15 * (1 + abs(x))
    assert error < _MARGIN * (1 + abs(x)) / 100
    with mpmath.workdps(40):
        assert exact_tail(law, x + error) <= tail
        assert x - error <= 0 or tail <= exact_tail(law, x - error)


@each_law
@given(x=st.floats(1e-9, 40.0), bits=st.sampled_from([127, 191, 255]))
def test_the_error_of_an_exact_tail_is_below_its_tolerance(law: Law, x: float, bits: int) -> None:
    context = mpmath.MPContext()
    context.prec = bits + 64
    found = law.tail(context.mpf(x))
    with mpmath.workprec(2 * context.prec):
        assert abs(mpmath.mpf(found) / exact_tail(law, x) - 1) < mpmath.mpf(2) ** -(bits + 40)


def test_a_law_with_inconsistent_quantile_and_tail_is_refused() -> None:
    class Crooked(NormalLaw):
        def tail(self, x: mpmath.mpf) -> mpmath.mpf:
            return super().tail(x * 2)

    with pytest.raises(ArithmeticError, match="quantile and tail of Crooked must agree"):
        draw_rounded(Crooked(), scale=30.0, grid=1.0, count=50, entropy=ReplaySeed(0), _bits=6)


def test_the_shared_precision_of_mpmath_is_not_changed() -> None:
    before = mpmath.mp.prec
    draw_rounded(NormalLaw(), scale=3.0, grid=1.0, count=50, entropy=ReplaySeed(0), _bits=6)
    assert mpmath.mp.prec == before


def hockey_stick(law: Law, *, shift: int, ratio: float, epsilon: float) -> mpmath.mpf:
    """delta of the rounded noise on two values `shift` steps apart: the sum of (p(k - shift) - exp(epsilon) p(k))+."""
    reach = shift + math.ceil(12 * ratio)  # everything beyond is counted as delta
    with mpmath.workprec(200):
        factor = mpmath.exp(mpmath.mpf(epsilon))
        # Up to the middle p(k - shift) <= p(k).
        excess = (weight(law, k - shift, ratio) - factor * weight(law, k, ratio) for k in range(shift // 2, reach + 1))
        return sum(max(x, mpmath.mpf(0)) for x in excess) + exact_tail(law, (reach - shift + 0.5) / ratio) / 2


@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 0.01), (5.0, 1e-5), (250.0, 1e-5), (2500.0, 1e-5)])
def test_rounded_normal_noise_has_the_delta_of_the_continuous_one(epsilon: float, delta: float) -> None:
    sigma = gaussian_sigma(epsilon=epsilon, delta=delta, sensitivity=1.0)
    continuous = gaussian_delta(sigma=sigma, epsilon=epsilon)
    found = []
    for fineness in (2, 16):  # steps per sigma
        shift = 2 ** math.ceil(math.log2(fineness / sigma))  # steps per sensitivity
        found.append(hockey_stick(NormalLaw(), shift=shift, ratio=sigma * shift, epsilon=epsilon))
    assert all(x <= continuous * (1 + 1e-9) for x in found)
    assert found[-1] >= 0.98 * continuous  # and it gets close as the grid shrinks
    assert found[-1] >= found[0]


@pytest.mark.parametrize("epsilon", [0.5, 10.0, 250.0])
def test_rounded_laplace_noise_is_purely_private(epsilon: float) -> None:
    shift = 2 ** math.ceil(math.log2(4 * epsilon))  # steps per sensitivity, at least 4 per scale
    scale = laplace_scale(epsilon=epsilon, sensitivity=1.0) * shift
    with mpmath.workprec(200):
        for ratio, bound in ((scale, 0), (0.8 * scale, 0.2 * epsilon)):
            # Beyond both centres the ratio is constant.
            loss = max(
                mpmath.log(weight(LaplaceLaw(), k, ratio) / weight(LaplaceLaw(), k - shift, ratio))
                for k in range(-8, shift + 8)
            )
            assert (loss <= epsilon) if bound == 0 else (loss > epsilon + bound)


@each_law
def test_opendp_draws_the_same_noise(law: Law) -> None:
    """OpenDP's exact discrete sampler: at 20 steps per scale its law and ours differ by less than 1e-3."""
    count, scale = 15_000, 20.0
    dp.enable_features("contrib")
    domain = dp.vector_domain(dp.atom_domain(T=int))
    if isinstance(law, NormalLaw):
        theirs_of = dp.m.make_gaussian(domain, dp.l2_distance(T=float), scale=scale)
        variance, kurtosis = scale**2, 3.0
    else:
        theirs_of = dp.m.make_laplace(domain, dp.l1_distance(T=int), scale=scale)
        variance, kurtosis = 2 * scale**2, 6.0
    theirs = np.array(theirs_of([0] * count), dtype=np.float64)
    ours = draw_rounded(law, scale=scale, grid=1.0, count=count, entropy=SystemEntropy())
    # Standard errors of the difference of two means and of two variances.
    mean_error = math.sqrt(2 * variance / count)
    variance_error = variance * math.sqrt(2 * (kurtosis - 1) / count)
    # Both draw new bits in every run. Six standard errors: 2e-9.
    assert abs(ours.mean() - theirs.mean()) < 6 * mean_error
    assert abs(ours.var() - theirs.var()) < 6 * variance_error
    assert ks_2samp(ours, theirs).pvalue > DOUBT / 100


@settings(max_examples=200)
@given(st.floats(-30, 30), st.floats(-30, 30))
def test_a_grid_resolves_the_noise_and_the_latent_and_fits_an_integer(log_scale: float, log_typical: float) -> None:
    scale, typical = 10**log_scale, 10**log_typical
    grid = grid_for(scale=scale, typical=typical)
    assert math.frexp(grid)[0] == 0.5  # a power of two
    assert grid <= scale / 1024
    assert scale / grid * 50 < 2**53
    if scale / typical < 2**24:
        assert grid <= typical / 256
    assert grid > min(scale / 1024, typical / 256) / 2  # no finer than needed


def test_two_draws_from_the_system_are_never_equal() -> None:
    first, second = (draw_rounded(NormalLaw(), scale=1e6, grid=1.0, count=50, entropy=SystemEntropy()) for _ in "ab")
    assert not np.array_equal(first, second)
    words = SystemEntropy().words(20_000)
    assert np.unique(words).size == words.size
    ones = np.unpackbits(words.view(np.uint8)).mean()
    assert abs(ones - 0.5) < 6 * 0.5 / math.sqrt(words.size * 64)  # six standard errors: 2e-9


def _send_words(entropy: SystemEntropy, pipe: Connection) -> None:
    pipe.send(entropy.words(4).tolist())


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_two_forked_workers_never_draw_the_same_noise() -> None:
    entropy = SystemEntropy()
    fork = multiprocessing.get_context("fork")
    seen = [entropy.words(4).tolist()]
    for _ in range(2):
        here, there = fork.Pipe(duplex=False)
        worker = fork.Process(target=_send_words, args=(entropy, there))
        worker.start()
        seen.append(here.recv())
        worker.join()
    assert len({word for words in seen for word in words}) == 12


def test_the_same_seed_gives_the_same_bits_and_another_does_not() -> None:
    def draws(seed: int) -> list[int]:
        entropy = ReplaySeed(seed)
        return [int(x) for _ in range(2) for x in entropy.words(3)]

    assert draws(7) == draws(7)
    assert len({*draws(7), *draws(8), *draws(-7)}) == 18
    assert not ReplaySeed(7).private
    assert SystemEntropy().private


def test_a_seed_gives_the_same_bits_on_every_machine() -> None:
    # shake_256(b"dpbart replay 0 0"), first 8 bytes, little-endian
    assert [hex(int(word)) for word in ReplaySeed(0).words(1)] == ["0x756ed4d78a5b963b"]


def test_a_count_of_zero_draws_nothing() -> None:
    assert draw_rounded(NormalLaw(), scale=1.0, grid=1.0, count=0, entropy=SystemEntropy()).shape == (0,)


@pytest.mark.parametrize(
    ("scale", "grid", "message"),
    [
        (0.0, 1.0, "scale must be greater than 0"),
        (math.nan, 1.0, "scale must be greater than 0"),
        (1.0, 0.3, "grid must be a power of two, got 0.3"),
        (1.0, math.nan, "grid must be a power of two"),
        (1.0, 2.0**-50, "grid must be at least scale"),
    ],
)
def test_a_grid_that_cannot_hold_the_noise_is_refused(scale: float, grid: float, message: str) -> None:
    with pytest.raises(BadParameter, match=message):
        draw_rounded(NormalLaw(), scale=scale, grid=grid, count=1, entropy=SystemEntropy())
    for bad in (0.0, math.inf, math.nan):
        with pytest.raises(BadParameter, match="must be greater than 0 and finite"):
            grid_for(scale=bad, typical=1.0)
