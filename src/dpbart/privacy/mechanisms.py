"""Noise that makes a clipped latent private.

A mechanism knows its budget, turns a sensitivity into a noise scale, and returns a `PrivateLatent` that carries the
guarantee. The decoder accepts nothing else.
"""

import math
from dataclasses import InitVar, dataclass
from typing import ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from dpbart.errors import BadParameter
from dpbart.privacy.calibration import check_delta, check_epsilon, gaussian_bits, gaussian_sigma, laplace_scale
from dpbart.privacy.clipping import Clipped, Sensitivity
from dpbart.privacy.guarantee import Guarantee
from dpbart.privacy.sampling import Entropy, LaplaceLaw, Law, NormalLaw, draw_rounded, grid_for

MECHANISMS = ("gaussian", "laplace", "none")

_SEAL = object()
_NOTHING_PROMISED = Guarantee(epsilon=math.inf, delta=0.0)


@dataclass(frozen=True, eq=False)
class PrivateLatent:
    """A latent that is safe to decode, and what it promises.

    Only the mechanisms of this module make one, and `post_processed` another from it: the constructor refuses anybody
    else, so that no latent is ever called private by accident. For a test without noise use `NonPrivate`.

    Attributes:
        values: the noised latent, of the shape of the clipped one.
        guarantee: what holds for each document of the batch.
        recipe: how it was made, such as "mech:gaussian|eps:250|delta:1e-05|clip:value:0.1".
    """

    values: npt.NDArray[np.float32]  # (batch, ...)
    guarantee: Guarantee
    recipe: str
    seal: InitVar[object] = None

    def __post_init__(self, seal: object) -> None:
        if seal is not _SEAL:
            raise BadParameter("a PrivateLatent must be made by a mechanism, got a call. Use its privatize().")

    def post_processed(self, values: npt.NDArray[np.float32]) -> "PrivateLatent":
        """The same promise for other values, which must come from these values and public data alone."""
        return PrivateLatent(values, self.guarantee, self.recipe, seal=_SEAL)


class Mechanism(Protocol):
    """A step from a clipped latent to a private one."""

    @property
    def name(self) -> str:
        """As `make_mechanism` knows it."""

    @property
    def guarantee(self) -> Guarantee:
        """What one release promises, if its entropy is private."""

    def noise_scale(self, sensitivity: Sensitivity) -> float:
        """Scale of the noise on every entry, in units of the latent."""

    def bits(self, sensitivity: Sensitivity) -> float:
        """The most bits about one document that get through, whatever the texts."""

    def privatize(self, clipped: Clipped, entropy: Entropy) -> PrivateLatent:
        """The latent with noise, and its guarantee."""


@dataclass(frozen=True)
class Gaussian:
    """Normal noise, calibrated by the analytic Gaussian mechanism.

    Holds for every epsilon > 0. The textbook scale sqrt(2 ln(1.25 / delta)) / epsilon holds only up to epsilon = 1:
    at epsilon = 250 it gives no guarantee at all. Balle and Wang 2018, https://arxiv.org/abs/1805.06530.

    Attributes:
        epsilon: from 0.01 to 100,000.
        delta: from 1e-15 to 0.5.
    """

    name: ClassVar[str] = "gaussian"

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        check_delta(self.delta)

    @property
    def guarantee(self) -> Guarantee:
        """(epsilon, delta)."""
        return Guarantee(self.epsilon, self.delta)

    def noise_scale(self, sensitivity: Sensitivity) -> float:
        """Standard deviation of the noise on every entry, in units of the latent."""
        return gaussian_sigma(epsilon=self.epsilon, delta=self.delta, sensitivity=sensitivity.l2)

    def bits(self, sensitivity: Sensitivity) -> float:
        """The most bits about one document that get through."""
        return gaussian_bits(sigma=self.noise_scale(sensitivity), sensitivity=sensitivity.l2)

    def privatize(self, clipped: Clipped, entropy: Entropy) -> PrivateLatent:
        """The latent with normal noise, and its guarantee."""
        values = _with_noise(clipped, NormalLaw(), scale=self.noise_scale(clipped.sensitivity), entropy=entropy)
        return _release(self, values, clipped, private=entropy.private)


@dataclass(frozen=True)
class Laplace:
    """Laplace noise: pure epsilon, delta = 0. Dwork et al. 2006.

    Attributes:
        epsilon: from 0.01 to 100,000.
    """

    name: ClassVar[str] = "laplace"

    epsilon: float

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)

    @property
    def guarantee(self) -> Guarantee:
        """(epsilon, 0)."""
        return Guarantee(self.epsilon, 0.0)

    def noise_scale(self, sensitivity: Sensitivity) -> float:
        """Scale b of the density exp(-|x| / b) / 2b on every entry, in units of the latent."""
        return laplace_scale(epsilon=self.epsilon, sensitivity=sensitivity.l1)

    def bits(self, sensitivity: Sensitivity) -> float:
        """A bound on the bits about one document that get through; less than epsilon log2(e).

        The mutual information is at most the divergence of any noised latent from the noise alone: the sum of
        f(|entry| / b) over the entries, f(u) = u + exp(-u) - 1. The entries' L1 norm is at most l1 / 2 and their L2
        norm at most l2 / 2. f is convex, so the sum is at most f(l1 / 2b), all in one entry; and f(u) <= u^2 / 2,
        so it is at most (l2 / 2b)^2 / 2, which is the smaller one for a clip by value.
        """
        scale = self.noise_scale(sensitivity)
        in_one = sensitivity.l1 / (2 * scale)
        spread = sensitivity.l2 / (2 * scale)
        return min(in_one + math.expm1(-in_one), spread**2 / 2) / math.log(2)

    def privatize(self, clipped: Clipped, entropy: Entropy) -> PrivateLatent:
        """The latent with Laplace noise, and its guarantee."""
        values = _with_noise(clipped, LaplaceLaw(), scale=self.noise_scale(clipped.sensitivity), entropy=entropy)
        return _release(self, values, clipped, private=entropy.private)


@dataclass(frozen=True)
class NonPrivate:
    """The baseline: the same path with the clip and without noise. NOT PRIVATE, epsilon is infinite."""

    name: ClassVar[str] = "none"

    @property
    def guarantee(self) -> Guarantee:
        """Nothing: epsilon is infinite."""
        return _NOTHING_PROMISED

    def noise_scale(self, sensitivity: Sensitivity) -> float:
        """0: no noise."""
        return 0.0

    def bits(self, sensitivity: Sensitivity) -> float:
        """Infinite: everything gets through."""
        return math.inf

    def privatize(self, clipped: Clipped, entropy: Entropy) -> PrivateLatent:
        """The latent as it is, with a guarantee of nothing."""
        return _release(self, clipped.values.astype(np.float32), clipped, private=False)


def make_mechanism(name: str, *, epsilon: float | None, delta: float) -> Mechanism:
    """The mechanism of that name.

    Args:
        name: "gaussian", "laplace" or "none".
        epsilon: budget of one document; None, or infinite, for "none" and only there.
        delta: for "gaussian"; the others have none, but a delta out of range is refused all the same.

    Raises:
        BadParameter: the name is unknown, or the budget does not fit it.

    >>> make_mechanism("laplace", epsilon=10, delta=1e-5)
    Laplace(epsilon=10)
    """
    if name not in MECHANISMS:
        raise BadParameter(f"mechanism must be one of {', '.join(MECHANISMS)}, got {name!r}.")
    check_delta(delta)
    if name == "none":
        if epsilon is not None and epsilon != math.inf:
            raise BadParameter(
                f"epsilon must be left out with the mechanism 'none', got {epsilon}. "
                "It adds no noise; for a budget, use 'gaussian' or 'laplace'."
            )
        return NonPrivate()
    if epsilon is None:
        raise BadParameter(f"epsilon must be given with the mechanism {name!r}, got none. Pass epsilon, such as 250.")
    return Gaussian(epsilon, delta) if name == "gaussian" else Laplace(epsilon)


def _with_noise(clipped: Clipped, law: Law, *, scale: float, entropy: Entropy) -> npt.NDArray[np.float32]:
    """The latent on a grid, plus noise on the same grid."""
    # l1 / 2 is the largest L1 norm that the clip lets through: over the entries, C by value, C / sqrt(n) by L2 norm.
    grid = grid_for(scale=scale, typical=clipped.l1 / (2 * clipped.entries))
    # Truncated TOWARDS ZERO: no entry and so no norm grows, the latent stays in its box or ball, and the sensitivity
    # still holds. Dividing by a power of two is exact.
    steps = np.trunc(clipped.values / grid).astype(np.int64)  # (batch, ...)
    noise = draw_rounded(law, scale=scale, grid=grid, count=steps.size, entropy=entropy)
    return ((steps + noise.reshape(steps.shape)) * grid).astype(np.float32)


def _release(
    mechanism: Mechanism, values: npt.NDArray[np.float32], clipped: Clipped, *, private: bool
) -> PrivateLatent:
    """Seal the latent. Where the noise is known or missing nothing is promised, and the recipe says so."""
    asked = mechanism.guarantee
    recipe = f"mech:{mechanism.name}|eps:{asked.epsilon:.10g}|delta:{asked.delta:.10g}|clip:{clipped.clip}"
    if private:
        return PrivateLatent(values, asked, recipe, seal=_SEAL)
    return PrivateLatent(values, _NOTHING_PROMISED, f"{recipe}|NOT PRIVATE", seal=_SEAL)
