"""The Laplace mechanism: pure epsilon, delta = 0."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from typing import ClassVar

from dpbart.privacy.calibration import check_delta, check_epsilon, given, laplace_scale
from dpbart.privacy.clipping import Bounds, Clipped, Sensitivity
from dpbart.privacy.decimals import exactly
from dpbart.privacy.event import Event
from dpbart.privacy.facts import Facts, guess_of_two
from dpbart.privacy.guarantee import Guarantee
from dpbart.privacy.loss import Loss, ResponseLoss
from dpbart.privacy.mechanisms.mechanism import Noised, Stated
from dpbart.privacy.mechanisms.noise import add_noise, noise_facts
from dpbart.privacy.sampling import Entropy, LaplaceLaw

PROOF = "Laplace mechanism, Dwork et al. 2006; pure epsilon"
_ROUNDING = 1 + 1e-9  # tolerance for a card's figures, which were floats


@dataclass(frozen=True)
class Laplace:
    """Laplace noise: pure epsilon, delta = 0. Dwork et al. 2006.

    Attributes:
        epsilon: from 0.01 to 100,000.
    """

    name: ClassVar[str] = "laplace"
    scale_name: ClassVar[str] = "scale"

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
        norm at most l2 / 2. f is convex, so the sum is at most f(l1 / 2b), with everything in one entry. And
        f(u) <= u^2 / 2, so it is at most (l2 / 2b)^2 / 2, which is smaller for a clip by value.
        """
        scale = self.noise_scale(sensitivity)
        in_one = sensitivity.l1 / (2 * scale)
        spread = sensitivity.l2 / (2 * scale)
        return min(in_one + math.expm1(-in_one), spread**2 / 2) / math.log(2)

    def facts(self, bounds: Bounds) -> Facts:
        """The facts of a channel with these bounds."""
        event = Event(self.name, exactly(self.epsilon), Decimal(0))
        return noise_facts(self, bounds, proof=PROOF, right_of_two=guess_of_two(self.guarantee), event=event)

    def privatize(self, clipped: Clipped, entropy: Entropy) -> Noised:
        """The latent with Laplace noise, sealed."""
        return add_noise(self, clipped, LaplaceLaw(), entropy)

    @classmethod
    def of(cls, epsilon: float | None, delta: float) -> Laplace:
        check_delta(delta)  # not used, but a typing mistake should be noticed
        return cls(given(epsilon))

    @staticmethod
    def check_budget(epsilon: float | None, delta: float) -> None:
        Laplace.of(epsilon, delta)

    @staticmethod
    def holds(stated: Stated, promised: Guarantee) -> bool:
        return bool(stated["scale"] * promised.epsilon * _ROUNDING >= stated["sensitivity_l1"])

    @staticmethod
    def event_of(stated: Stated, promised: Guarantee) -> Event:
        return Event(Laplace.name, exactly(promised.epsilon), exactly(promised.delta))

    @staticmethod
    def loss(event: Event) -> Loss | None:
        """That of binary response, which dominates every mechanism of pure epsilon, in any number of dimensions."""
        return ResponseLoss.of(epsilon=float(event.epsilon))
