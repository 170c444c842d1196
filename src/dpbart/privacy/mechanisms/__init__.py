"""The mechanisms: each in one file with its draw, its proof, its card check and its composition."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dpbart.errors import BadParameter
from dpbart.privacy.mechanisms.gaussian import Gaussian
from dpbart.privacy.mechanisms.laplace import Laplace
from dpbart.privacy.mechanisms.mechanism import Mechanism, Noised, NoiseMechanism
from dpbart.privacy.mechanisms.none import NonPrivate
from dpbart.privacy.mechanisms.response import Response

__all__ = [
    "MECHANISMS",
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

MECHANISMS: Mapping[str, type[Mechanism]] = {each.name: each for each in (Response, Gaussian, Laplace, NonPrivate)}

_NOISES: Mapping[str, Callable[[Any, float], NoiseMechanism]] = {
    Gaussian.name: Gaussian,
    Laplace.name: lambda epsilon, _: Laplace(epsilon),
    NonPrivate.name: lambda *_: NonPrivate(),
}


def known(name: str) -> type[Mechanism]:
    """The mechanism of that name.

    Raises:
        BadParameter: there is none.
    """
    if name not in MECHANISMS:
        raise BadParameter(f"mechanism must be one of {', '.join(MECHANISMS)}, got {name!r}.")
    return MECHANISMS[name]


def make_noise(name: str, *, epsilon: float | None, delta: float) -> NoiseMechanism:
    """The mechanism of that name for a real latent.

    Args:
        name: "gaussian", "laplace" or "none".
        epsilon: budget of one document; None, or infinite, for "none" and only there.
        delta: for "gaussian"; the others have none, but a delta out of range is refused all the same.

    Raises:
        BadParameter: the name is not one of these, or the budget does not fit it.

    >>> make_noise("laplace", epsilon=10, delta=1e-5)
    Laplace(epsilon=10)
    """
    known(name).check_budget(epsilon, delta)
    if name not in _NOISES:
        raise BadParameter(f"this model's mechanism must be one of {', '.join(_NOISES)}, got {name!r}.")
    return _NOISES[name](epsilon, delta)
