"""The analytic Gaussian mechanism."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from dpbart.privacy.calibration import (
    check_delta,
    check_epsilon,
    gaussian_bits,
    gaussian_sigma,
    given,
)
from dpbart.privacy.clipping import Bounds, Clipped, Sensitivity
from dpbart.privacy.decimals import exactly
from dpbart.privacy.event import Event
from dpbart.privacy.facts import Facts
from dpbart.privacy.guarantee import Guarantee
from dpbart.privacy.loss import Loss, NormalLoss
from dpbart.privacy.mechanisms.mechanism import Noised, Stated
from dpbart.privacy.mechanisms.noise import add_noise, noise_facts, stated_bounds
from dpbart.privacy.sampling import Entropy, NormalLaw

PROOF = "analytic Gaussian mechanism, Balle and Wang 2018, Algorithm 1 (arXiv:1805.06530)"


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
    scale_name: ClassVar[str] = "standard deviation"

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

    def facts(self, bounds: Bounds) -> Facts:
        """The facts of a channel with these bounds."""
        multiplier = gaussian_sigma(epsilon=self.epsilon, delta=self.delta, sensitivity=1.0)
        # Exact for the two latents that lie farthest apart: Phi(L2 / 2 sigma).
        distance = bounds.sensitivity.l2 / (2 * self.noise_scale(bounds.sensitivity))
        right_of_two = math.erfc(-distance / math.sqrt(2)) / 2
        event = Event(self.name, exactly(self.epsilon), exactly(self.delta), multiplier)
        return noise_facts(self, bounds, proof=PROOF, right_of_two=right_of_two, event=event)

    def privatize(self, clipped: Clipped, entropy: Entropy) -> Noised:
        """The latent with normal noise, sealed."""
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
