"""The baseline without noise. NOT PRIVATE."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import ClassVar

import numpy as np

from dpbart.errors import BadParameter
from dpbart.privacy.calibration import check_delta
from dpbart.privacy.clipping import Bounds, Clipped, Sensitivity
from dpbart.privacy.event import Event
from dpbart.privacy.facts import NOT_PRIVATE, Facts
from dpbart.privacy.guarantee import NOTHING_PROMISED, Guarantee
from dpbart.privacy.loss import Loss
from dpbart.privacy.mechanisms.mechanism import Noised, Stated
from dpbart.privacy.mechanisms.noise import noise_facts
from dpbart.privacy.private import Private, seal
from dpbart.privacy.sampling import Entropy

PROOF = "none: nothing is randomised"


@dataclass(frozen=True)
class NonPrivate:
    """The same path with the clip and without noise. NOT PRIVATE: epsilon is infinite."""

    name: ClassVar[str] = "none"
    scale_name: ClassVar[str] = "scale"

    @property
    def guarantee(self) -> Guarantee:
        """Nothing: epsilon is infinite."""
        return NOTHING_PROMISED

    def noise_scale(self, sensitivity: Sensitivity) -> float:
        """0: no noise."""
        return 0.0

    def bits(self, sensitivity: Sensitivity) -> float:
        """Infinite: everything gets through."""
        return math.inf

    def facts(self, bounds: Bounds) -> Facts:
        """The facts of a channel that promises nothing."""
        event = Event(self.name, Decimal("Infinity"), Decimal(0))
        facts = noise_facts(self, bounds, proof=PROOF, right_of_two=1.0, event=event)
        return replace(facts, recipe=facts.recipe + NOT_PRIVATE)

    def privatize(self, clipped: Clipped, entropy: Entropy) -> Noised:
        """The latent as it is, sealed with a guarantee of nothing."""
        return seal(clipped.values.astype(np.float32), self.facts(clipped.bounds))

    def code_facts(self, bits: int) -> Facts:
        """The facts of a channel that sends codes of so many bits as they are."""
        return Facts(
            guarantee=NOTHING_PROMISED,
            mechanism=self.name,
            proof=PROOF,
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
        check_delta(delta)

    @staticmethod
    def holds(stated: Stated, promised: Guarantee) -> bool:
        return not promised.private

    @staticmethod
    def event_of(stated: Stated, promised: Guarantee) -> Event:
        return Event(NonPrivate.name, Decimal("Infinity"), Decimal(0))

    @staticmethod
    def loss(event: Event) -> Loss | None:
        return None
