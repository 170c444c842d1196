"""The protocols of a mechanism: one class with its sampling, proof, card check and composition."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from dpbart.privacy.clipping import Bounds, Clipped, Sensitivity
from dpbart.privacy.facts import Facts, Private
from dpbart.privacy.guarantee import Event, Guarantee, Loss
from dpbart.privacy.sampling import Entropy

Noised = Private[npt.NDArray[np.float32]]
Stated = Mapping[str, Any]  # the figures of a mechanism on a card


class Mechanism(Protocol):
    """What every mechanism offers to the card, the verifier and the ledger."""

    name: ClassVar[str]

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee of one release, if the entropy is private."""

    @staticmethod
    def check_budget(epsilon: float | None, delta: float) -> None:
        """Refuse a budget that the mechanism cannot have. Raises BadParameter."""

    @staticmethod
    def recomputed(stated: Stated, promised: Guarantee) -> Facts:
        """The facts of the channel that a card describes, computed from its bounds and the guarantee of one text.

        Nothing else on the card is used, so everything else on it can be checked. Raises BadParameter if there is no
        such channel.
        """

    @staticmethod
    def loss(event: Event) -> Loss | None:
        """The privacy loss of one event of this mechanism; None if no more is known than its epsilon and delta."""


class NoiseMechanism(Mechanism, Protocol):
    """A mechanism that adds noise to a clipped latent."""

    scale_name: ClassVar[str]  # what its scale is called

    @classmethod
    def of(cls, epsilon: float | None, delta: float) -> NoiseMechanism:
        """The mechanism for a budget. Raises BadParameter if it cannot have that budget."""

    def noise_scale(self, sensitivity: Sensitivity) -> float:
        """Scale of the noise on every entry, in units of the latent."""

    def bits(self, sensitivity: Sensitivity) -> float:
        """The most bits about one document that can get through, for any texts."""

    def facts(self, bounds: Bounds) -> Facts:
        """The facts of a channel with these bounds."""

    def privatize(self, clipped: Clipped, entropy: Entropy) -> Noised:
        """The latent with noise, sealed."""
