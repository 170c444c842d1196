"""The mechanisms of a latent: Gaussian and Laplace noise, on a grid that both share, and the baseline without noise."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import ClassVar

import numpy as np

from dpbart.errors import BadParameter
from dpbart.privacy.calibration import (
    check_delta,
    check_epsilon,
    check_slack,
    gaussian_bits,
    gaussian_sigma,
    given,
    laplace_scale,
)
from dpbart.privacy.clipping import Bounds, Clipped, Sensitivity, bounds_of, clip_named
from dpbart.privacy.facts import NOT_PRIVATE, SYSTEM_ENTROPY, Facts, Private, best_guess, seal
from dpbart.privacy.guarantee import NOTHING_PROMISED, Event, Guarantee, Loss, NormalLoss, ResponseLoss, exactly
from dpbart.privacy.mechanisms.mechanism import Noised, NoiseMechanism, Stated
from dpbart.privacy.mechanisms.response import whole_bits
from dpbart.privacy.sampling import Entropy, LaplaceLaw, Law, NormalLaw, draw_rounded, grid_for

_GAUSSIAN = "analytic Gaussian mechanism, Balle and Wang 2018, Algorithm 1 (arXiv:1805.06530)"
_LAPLACE = "Laplace mechanism, Dwork et al. 2006; pure epsilon"
_NO_PROOF = "none: nothing is randomised"
_SAMPLER = "continuous noise rounded to a grid of powers of two, drawn exactly by inversion with lazily drawn bits"


def add_noise(mechanism: NoiseMechanism, clipped: Clipped, law: Law, entropy: Entropy) -> Noised:
    """Put the latent on a grid, add noise on the same grid, and seal it."""
    bounds, scale = clipped.bounds, mechanism.noise_scale(clipped.bounds.sensitivity)
    # l1 / 2 is the largest L1 norm that the clip allows. Per entry that is C by value, and C / sqrt(n) by L2 norm.
    grid = grid_for(scale=scale, typical=bounds.sensitivity.l1 / (2 * bounds.entries))
    # Truncated TOWARDS ZERO: no entry grows and so no norm grows. The latent stays in its box or ball, and the
    # sensitivity still holds. Dividing by a power of two is exact.
    steps = np.trunc(clipped.values / grid).astype(np.int64)  # (batch, ...)
    noise = draw_rounded(law, scale=scale, grid=grid, count=steps.size, entropy=entropy)
    facts = mechanism.facts(bounds)
    values = ((steps + noise.reshape(steps.shape)) * grid).astype(np.float32)
    return seal(values, facts if entropy.private else facts.replayed())


def stated_bounds(stated: Stated) -> Bounds:
    """What the clip on a card guarantees about one text."""
    return bounds_of(clip_named(stated["clip"]), entries=stated["entries"])


def noise_facts(mechanism: NoiseMechanism, bounds: Bounds, *, proof: str, right_of_two: float, event: Event) -> Facts:
    """The facts of a channel that clips a latent and adds exact noise."""
    promised, sensitivity = mechanism.guarantee, bounds.sensitivity
    scale = mechanism.noise_scale(sensitivity)
    noise = f"{mechanism.scale_name} {scale:.6g} on every entry, {scale / bounds.bound:.3g} times the bound"
    return Facts(
        guarantee=promised,
        mechanism=mechanism.name,
        proof=proof,
        figures={
            "clip": bounds.clip,
            "entries": bounds.entries,
            "sensitivity_l1": sensitivity.l1,
            "sensitivity_l2": sensitivity.l2,
            "scale": scale,
        },
        lines=(
            ("Clip", f"{bounds.clip}, {bounds.entries:,} entries per text"),
            ("Sensitivity", f"L2 {sensitivity.l2:.6g}, L1 {sensitivity.l1:.6g}"),
            ("Noise scale", noise if scale else "0: no noise"),
        ),
        sampler=_SAMPLER if scale else "no noise",
        entropy=SYSTEM_ENTROPY if scale else "no noise",
        bits=mechanism.bits(sensitivity),
        right_of_two=right_of_two,
        event=event,
        recipe=f"mech:{mechanism.name}|eps:{promised.epsilon:.10g}|delta:{promised.delta:.10g}|clip:{bounds.clip}",
    )


@dataclass(frozen=True)
class Gaussian:
    """Normal noise, calibrated by the analytic Gaussian mechanism.

    Holds for every epsilon > 0. The textbook scale sqrt(2 ln(1.25 / delta)) / epsilon holds only up to epsilon = 1:
    at epsilon = 250 it gives no guarantee at all. Balle and Wang 2018, https://arxiv.org/abs/1805.06530.
    """

    name: ClassVar[str] = "gaussian"
    scale_name: ClassVar[str] = "standard deviation"

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        check_delta(self.delta)

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee(self.epsilon, self.delta)

    def noise_scale(self, sensitivity: Sensitivity) -> float:
        return gaussian_sigma(epsilon=self.epsilon, delta=self.delta, sensitivity=sensitivity.l2)

    def bits(self, sensitivity: Sensitivity) -> float:
        return gaussian_bits(sigma=self.noise_scale(sensitivity), sensitivity=sensitivity.l2)

    def facts(self, bounds: Bounds) -> Facts:
        multiplier = gaussian_sigma(epsilon=self.epsilon, delta=self.delta, sensitivity=1.0)
        # Exact for the two latents that lie farthest apart: Phi(L2 / 2 sigma).
        distance = bounds.sensitivity.l2 / (2 * self.noise_scale(bounds.sensitivity))
        right_of_two = math.erfc(-distance / math.sqrt(2)) / 2
        event = Event(self.name, exactly(self.epsilon), exactly(self.delta), multiplier)
        return noise_facts(self, bounds, proof=_GAUSSIAN, right_of_two=right_of_two, event=event)

    def privatize(self, clipped: Clipped, entropy: Entropy) -> Noised:
        return add_noise(self, clipped, NormalLaw(), entropy)

    @classmethod
    def of(cls, epsilon: float | None, delta: float) -> Gaussian:
        return cls(given(epsilon), delta)

    @staticmethod
    def check_budget(epsilon: float | None, delta: float) -> None:
        Gaussian.of(epsilon, delta)

    @staticmethod
    def recomputed(stated: Stated, promised: Guarantee) -> Facts:
        return Gaussian(promised.epsilon, promised.delta).facts(stated_bounds(stated))

    @staticmethod
    def loss(event: Event) -> Loss | None:
        """Normal, from the noise multiplier sigma / L2; the delta that it was calibrated with does not matter."""
        return None if event.parameter is None else NormalLoss(1 / event.parameter**2)


@dataclass(frozen=True)
class Laplace:
    """Laplace noise: pure epsilon, delta = 0. Dwork et al. 2006."""

    name: ClassVar[str] = "laplace"
    scale_name: ClassVar[str] = "scale"

    epsilon: float

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee(self.epsilon, 0.0)

    def noise_scale(self, sensitivity: Sensitivity) -> float:
        """Scale b of the density exp(-|x| / b) / 2b on every entry, in units of the latent."""
        return laplace_scale(epsilon=self.epsilon, sensitivity=sensitivity.l1)

    def bits(self, sensitivity: Sensitivity) -> float:
        """A bound on the bits about one document that get through; less than epsilon log2(e).

        The mutual information is at most the divergence of any noised latent from the noise alone: the sum of
        f(|entry| / b) over the entries, f(u) = u + exp(-u) - 1. The entries' L1 norm is at most l1 / 2 and their L2
        norm at most l2 / 2. f is convex, so the sum is at most f(l1 / 2b), with everything in one entry. And
        f(u) <= u^2 / 2, so it is at most (l2 / 2b)^2 / 2, which is smaller for a clip by value.
        """
        scale = self.noise_scale(sensitivity)
        in_one, spread = sensitivity.l1 / (2 * scale), sensitivity.l2 / (2 * scale)
        return min(in_one + math.expm1(-in_one), spread**2 / 2) / math.log(2)

    def facts(self, bounds: Bounds) -> Facts:
        event = Event(self.name, exactly(self.epsilon), Decimal(0))
        return noise_facts(
            self, bounds, proof=_LAPLACE, right_of_two=best_guess(self.guarantee, candidates=2), event=event
        )

    def privatize(self, clipped: Clipped, entropy: Entropy) -> Noised:
        return add_noise(self, clipped, LaplaceLaw(), entropy)

    @classmethod
    def of(cls, epsilon: float | None, delta: float) -> Laplace:
        check_slack(delta)  # not used, but a typing mistake should be noticed
        return cls(given(epsilon))

    @staticmethod
    def check_budget(epsilon: float | None, delta: float) -> None:
        Laplace.of(epsilon, delta)

    @staticmethod
    def recomputed(stated: Stated, promised: Guarantee) -> Facts:
        return Laplace(promised.epsilon).facts(stated_bounds(stated))

    @staticmethod
    def loss(event: Event) -> Loss | None:
        """That of binary response, which dominates every mechanism of pure epsilon, in any number of dimensions."""
        return ResponseLoss.of(epsilon=float(event.epsilon))


@dataclass(frozen=True)
class NonPrivate:
    """The same path with the clip and without noise. NOT PRIVATE: epsilon is infinite."""

    name: ClassVar[str] = "none"
    scale_name: ClassVar[str] = "scale"

    @property
    def guarantee(self) -> Guarantee:
        return NOTHING_PROMISED

    def noise_scale(self, sensitivity: Sensitivity) -> float:
        return 0.0

    def bits(self, sensitivity: Sensitivity) -> float:
        return math.inf

    def facts(self, bounds: Bounds) -> Facts:
        event = Event(self.name, Decimal("Infinity"), Decimal(0))
        facts = noise_facts(self, bounds, proof=_NO_PROOF, right_of_two=1.0, event=event)
        return replace(facts, recipe=facts.recipe + NOT_PRIVATE)

    def privatize(self, clipped: Clipped, entropy: Entropy) -> Noised:
        return seal(clipped.values.astype(np.float32), self.facts(clipped.bounds))

    def code_facts(self, bits: int) -> Facts:
        """The facts of a channel that sends codes of this many bits as they are."""
        return Facts(
            guarantee=NOTHING_PROMISED,
            mechanism=self.name,
            proof=_NO_PROOF,
            figures={"options_log2": bits},
            lines=(("Code", f"{bits} bits for each text, sent as they are"),),
            sampler="no noise",
            entropy="no noise",
            bits=float(bits),
            right_of_two=1.0,
            event=Event(self.name, Decimal("Infinity"), Decimal(0)),
            recipe=f"mech:{self.name}|eps:inf|delta:0|bits:{bits}{NOT_PRIVATE}",
        )

    def pass_on(self, codes: tuple[int, ...], *, bits: int) -> Private[tuple[int, ...]]:
        """The codes as they are, sealed with a guarantee of nothing."""
        return seal(codes, self.code_facts(bits))

    @classmethod
    def of(cls, epsilon: float | None, delta: float) -> NonPrivate:
        cls.check_budget(epsilon, delta)
        return cls()

    @staticmethod
    def check_budget(epsilon: float | None, delta: float) -> None:
        if epsilon is not None and epsilon != math.inf:
            raise BadParameter(
                f"epsilon must be left out with the mechanism 'none', got {epsilon}. "
                "It adds no noise; for a budget, choose another mechanism."
            )
        check_slack(delta)

    @staticmethod
    def recomputed(stated: Stated, promised: Guarantee) -> Facts:
        if promised.private:
            raise BadParameter(f"the mechanism 'none' promises nothing, got {promised}.")
        if "options_log2" in stated:
            return NonPrivate().code_facts(whole_bits(stated["options_log2"]))
        return NonPrivate().facts(stated_bounds(stated))

    @staticmethod
    def loss(event: Event) -> Loss | None:
        return None
