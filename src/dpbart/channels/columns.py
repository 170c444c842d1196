"""The channel for real-valued latents: keep some columns, clip, add noise, restore the width.

A pruned column is the same for every document, so it carries no information. It is neither clipped nor noised, and the
sensitivity counts only the kept columns.

A model trained with noise also gets public side information: what the decoder already knows need not be sent through
the noise. None of it depends on a text.

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
from functools import cached_property

import numpy as np
import numpy.typing as npt

from dpbart.errors import BadParameter
from dpbart.privacy.clipping import Bounds, Clip, bounds_of
from dpbart.privacy.facts import Facts
from dpbart.privacy.mechanisms import Noised, NoiseMechanism
from dpbart.privacy.sampling import Entropy

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


@dataclass(frozen=True)
class Columns:
    """The kept columns, in ascending order, of a latent with `width` columns."""

    width: int
    kept: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.kept:
            raise BadParameter("pruning must keep at least one column, got none.")
        if list(self.kept) != sorted(set(self.kept)) or self.kept[0] < 0:
            raise BadParameter("kept columns must be in ascending order, without repeats or negative numbers.")
        if self.kept[-1] >= self.width:
            raise BadParameter(
                f"kept columns must be below the model's width {self.width}, got column {self.kept[-1]}. "
                "These columns belong to a wider model."
            )

    @classmethod
    def all(cls, width: int) -> Columns:
        return cls(width, tuple(range(width)))

    @classmethod
    def without(cls, pruned: list[int], *, width: int) -> Columns:
        gone = set(pruned)
        outside = sorted(column for column in gone if not 0 <= column < width)
        if outside:
            raise BadParameter(
                f"pruned columns must be below the model's width {width}, got column {outside[-1]}. "
                "These columns belong to another model."
            )
        return cls(width, tuple(column for column in range(width) if column not in gone))

    @property
    def pruned(self) -> tuple[int, ...]:
        """The columns that are not kept, in ascending order."""
        kept = set(self.kept)
        return tuple(column for column in range(self.width) if column not in kept)

    def keep(self, latent: Floats) -> Floats:
        """(batch, positions, width) to (batch, positions, kept)."""
        if latent.shape[-1] != self.width:
            raise BadParameter(
                f"the latent must have {self.width} columns, got {latent.shape[-1]}. "
                "The pruning belongs to another model."
            )
        return latent[..., list(self.kept)]


@dataclass(frozen=True)
class ColumnsChannel:
    """Kept columns, a clip, a noise mechanism, and public side information for the decoder.

    Attributes:
        columns: the columns that are sent.
        clip: bounds them.
        mechanism: adds the noise.
        positions: the number of rows of a latent.
        public: side information that fills the pruned columns; with None, they are 0.
    """

    columns: Columns
    clip: Clip
    mechanism: NoiseMechanism
    positions: int
    public: SideInformation | None = None

    @property
    def bounds(self) -> Bounds:
        """What the clip guarantees about one text."""
        return bounds_of(self.clip, entries=self.positions * len(self.columns.kept))

    @cached_property
    def facts(self) -> Facts:
        """The public facts of this channel, if the entropy is private."""
        return self.mechanism.facts(self.bounds).noted(self._recipe)

    def send(self, encoded: Floats, entropy: Entropy) -> Noised:
        """Prune a latent (batch, positions, width), clip it, add noise, and restore its width."""
        kept = self.columns.keep(encoded)  # (batch, positions, kept)
        clipped = self.clip.clip(kept)  # bounded; carries its sensitivity
        private = self.mechanism.privatize(clipped, entropy)  # private from here on
        return private.post_processed(self._restore(private.values), recipe=self._recipe)

    def _restore(self, noised: Floats) -> Floats:
        """(batch, positions, kept) to (batch, positions, width): pruned columns are 0 or hold side information."""
        wide = np.zeros((*noised.shape[:-1], self.columns.width), dtype=np.float32)
        if self.public is not None:
            wide[...] = self.public.places
        wide[..., list(self.columns.kept)] = noised * np.float32(1.0 if self.public is None else self.public.loudness)
        return wide

    @property
    def _recipe(self) -> str:
        return f"kept:{len(self.columns.kept)}/{self.columns.width}"
