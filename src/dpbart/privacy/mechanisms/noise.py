"""Code shared by the mechanisms that add noise to a latent: the grid, the sampling and the facts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpbart.privacy.clipping import Bounds, Clipped, bounds_of, clip_named
from dpbart.privacy.facts import SYSTEM_ENTROPY, Facts
from dpbart.privacy.private import seal
from dpbart.privacy.sampling import Entropy, Law, draw_rounded, grid_for

if TYPE_CHECKING:
    from dpbart.privacy.event import Event
    from dpbart.privacy.mechanisms.mechanism import Noised, NoiseMechanism, Stated

EXACT_SAMPLER = "continuous noise rounded to a grid of powers of two, drawn exactly by inversion with lazily drawn bits"


def add_noise(mechanism: NoiseMechanism, clipped: Clipped, law: Law, entropy: Entropy) -> Noised:
    """Put the latent on a grid, add noise on the same grid, and seal it."""
    bounds, scale = clipped.bounds, mechanism.noise_scale(clipped.sensitivity)
    # l1 / 2 is the largest L1 norm that the clip allows. Per entry that is C by value, and C / sqrt(n) by L2 norm.
    grid = grid_for(scale=scale, typical=clipped.l1 / (2 * bounds.entries))
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
            ("Noise scale", _noise_words(mechanism.scale_name, scale, bounds.bound)),
        ),
        sampler=EXACT_SAMPLER if scale else "no noise",
        entropy=SYSTEM_ENTROPY if scale else "no noise",
        bits=mechanism.bits(sensitivity),
        right_of_two=right_of_two,
        event=event,
        recipe=f"mech:{mechanism.name}|eps:{promised.epsilon:.10g}|delta:{promised.delta:.10g}|clip:{bounds.clip}",
    )


def _noise_words(name: str, scale: float, bound: float) -> str:
    if not scale:
        return "0: no noise"
    return f"{name} {scale:.6g} on every entry, {scale / bound:.3g} times the bound"
