"""Public side information for a model trained with noise: its budget, the loudness of the noise, and row positions.

What the decoder already knows need not be sent through the noise. None of this depends on a text.

- The budget, as a token: one token for each range of bits that the channel carries. It is the first token that the
  encoder reads and the first that the decoder writes, so the model stays a plain BART.
- The loudness: the noised columns are scaled to the same power at every budget. Otherwise strong noise would drown out
  the decoder's own words.
- The places: the pruned columns, which would be 0, hold the row number as sines and cosines (Vaswani et al. 2017,
  section 3.5). Otherwise the encoder would have to send each row number through the noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from dpbart.channels.columns import Columns
    from dpbart.privacy.clipping import Clip
    from dpbart.privacy.mechanisms import NoiseMechanism

Floats = npt.NDArray[np.float32]

# Lower edges in bits of all ranges but the first: half an octave each, from epsilon 15 to 8,000 at delta 1e-5.
EDGES = tuple(2 ** (half / 2) for half in range(2, 24))
TOKENS = tuple(f"<budget-{number}>" for number in range(len(EDGES) + 1))
LONGEST_WAVE = 1000.0  # positions, times 2 pi


@dataclass(frozen=True)
class SideInformation:
    """The public side information of one channel."""

    token: str
    loudness: float  # factor on the noised columns
    places: Floats  # (length, width); 0 in the kept columns

    @classmethod
    def of(cls, mechanism: NoiseMechanism, clip: Clip, columns: Columns, *, length: int) -> SideInformation:
        sensitivity = clip.sensitivity(length * len(columns.kept))
        return cls(
            token=budget_token(mechanism.bits(sensitivity)),
            loudness=loudness_of(mechanism.noise_scale(sensitivity), bound=clip.bound),
            places=row_places(columns, length=length),
        )


def loudness_of(scale: float, *, bound: float) -> float:
    """The factor that scales noised columns (values of at most `bound`, plus noise) to a power of about 1."""
    return 1 / math.hypot(1.0, scale / bound)


def budget_token(bits: float) -> str:
    """The token for a channel that carries at most `bits` bits.

    >>> budget_token(0.0), budget_token(float("inf")) == TOKENS[-1]
    ('<budget-0>', True)
    """
    return TOKENS[sum(bits >= edge for edge in EDGES)]


def row_places(columns: Columns, *, length: int) -> Floats:
    """The number of each row, written into the pruned columns: (length, width)."""
    pruned = list(columns.pruned)
    number = np.arange(len(pruned))  # even: a sine; odd: the cosine of the same wave
    wave = LONGEST_WAVE ** -((number // 2 * 2) / max(1, len(pruned)))
    angle = np.arange(length)[:, None] * wave  # (length, pruned)
    places = np.zeros((length, columns.width), dtype=np.float32)
    places[:, pruned] = np.where(number % 2 == 0, np.sin(angle), np.cos(angle))
    return places
