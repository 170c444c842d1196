"""The mechanisms by name. Each class has its sampling, proof, card check and composition."""

from __future__ import annotations

from collections.abc import Mapping

from dpbart.errors import BadParameter
from dpbart.privacy.mechanisms.geometric import Geometric
from dpbart.privacy.mechanisms.mechanism import Mechanism, Noised, NoiseMechanism
from dpbart.privacy.mechanisms.noise import Gaussian, Laplace, NonPrivate
from dpbart.privacy.mechanisms.response import Response

__all__ = [
    "Gaussian",
    "Geometric",
    "Laplace",
    "NoiseMechanism",
    "Noised",
    "NonPrivate",
    "Response",
]  # imported from here

NOISES: Mapping[str, type[NoiseMechanism]] = {each.name: each for each in (Gaussian, Laplace, NonPrivate)}
MECHANISMS: Mapping[str, type[Mechanism]] = {Response.name: Response, **NOISES, Geometric.name: Geometric}


def known(name: str) -> type[Mechanism]:
    """The mechanism of that name."""
    if name not in MECHANISMS:
        raise BadParameter(f"mechanism must be one of {', '.join(MECHANISMS)}, got {name!r}.")
    return MECHANISMS[name]


def make_noise(name: str, *, epsilon: float | None, delta: float) -> NoiseMechanism:
    """The mechanism of that name for a real-valued latent, and the budget of one document.

    Only "none" has no epsilon. Only "gaussian" uses delta, but it is always checked.

    >>> make_noise("laplace", epsilon=10, delta=1e-5)
    Laplace(epsilon=10)
    """
    known(name).check_budget(epsilon, delta)
    if name not in NOISES:
        raise BadParameter(f"the mechanism of a real-valued latent must be one of {', '.join(NOISES)}, got {name!r}.")
    return NOISES[name].of(epsilon, delta)
