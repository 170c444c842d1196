"""The mechanisms. Each file has a mechanism's sampling, proof, card check and composition."""

from __future__ import annotations

from collections.abc import Mapping

from dpbart.errors import BadParameter
from dpbart.privacy.mechanisms.gaussian import Gaussian
from dpbart.privacy.mechanisms.laplace import Laplace
from dpbart.privacy.mechanisms.mechanism import Mechanism, Noised, NoiseMechanism
from dpbart.privacy.mechanisms.none import NonPrivate
from dpbart.privacy.mechanisms.response import Response

__all__ = [
    "MECHANISMS",
    "NOISES",
    "Gaussian",
    "Laplace",
    "Mechanism",
    "NoiseMechanism",
    "Noised",
    "NonPrivate",
    "Response",
    "known",
    "make_noise",
]

NOISES: Mapping[str, type[NoiseMechanism]] = {each.name: each for each in (Gaussian, Laplace, NonPrivate)}
MECHANISMS: Mapping[str, type[Mechanism]] = {Response.name: Response, **NOISES}


def known(name: str) -> type[Mechanism]:
    """The mechanism of that name.

    Raises:
        BadParameter: There is no such mechanism.
    """
    if name not in MECHANISMS:
        raise BadParameter(f"mechanism must be one of {', '.join(MECHANISMS)}, got {name!r}.")
    return MECHANISMS[name]


def make_noise(name: str, *, epsilon: float | None, delta: float) -> NoiseMechanism:
    """The mechanism of that name for a real-valued latent.

    Args:
        name: "gaussian", "laplace" or "none".
        epsilon: budget of one document; None or infinite with "none", and only then.
        delta: used by "gaussian" only, but always checked.

    Raises:
        BadParameter: The name is unknown, or the mechanism cannot have this budget.

    >>> make_noise("laplace", epsilon=10, delta=1e-5)
    Laplace(epsilon=10)
    """
    known(name).check_budget(epsilon, delta)
    if name not in NOISES:
        raise BadParameter(f"the mechanism of a real-valued latent must be one of {', '.join(NOISES)}, got {name!r}.")
    return NOISES[name].of(epsilon, delta)
