"""Which columns of the latent are kept.

A pruned column is the same for every document: it carries nothing, so it is neither clipped nor noised, and the
sensitivity counts the kept columns only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dpbart.errors import BadParameter
from dpbart.models.told import Told
from dpbart.privacy.mechanisms import PrivateLatent

if TYPE_CHECKING:
    from transformers import BartForConditionalGeneration

Floats = npt.NDArray[np.float32]
Scores = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Columns:
    """The kept columns, ascending, of a latent `width` wide."""

    width: int
    kept: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.kept:
            raise BadParameter("a pruning must keep at least one column, got none.")
        if list(self.kept) != sorted(set(self.kept)) or self.kept[0] < 0:
            raise BadParameter("kept columns must be ascending, each named once and none below 0.")
        if self.kept[-1] >= self.width:
            raise BadParameter(
                f"kept columns must lie below the model's width {self.width}, got column {self.kept[-1]}. "
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
                f"pruned columns must lie below the model's width {width}, got column {outside[-1]}. "
                "These columns belong to another model."
            )
        return cls(width, tuple(column for column in range(width) if column not in gone))

    def keep(self, latent: Floats) -> Floats:
        """(batch, positions, width) to (batch, positions, kept)."""
        if latent.shape[-1] != self.width:
            raise BadParameter(
                f"a latent must be {self.width} wide for these columns, got {latent.shape[-1]}. "
                "The columns belong to another model."
            )
        return latent[..., list(self.kept)]

    def restore(self, private: PrivateLatent, told: Told | None = None) -> PrivateLatent:
        """(batch, positions, kept) to (batch, positions, width): where a column was pruned 0, or what is told there."""
        wide = np.zeros((*private.values.shape[:-1], self.width), dtype=np.float32)
        if told is not None:
            wide[...] = told.places
        wide[..., list(self.kept)] = private.values * (1.0 if told is None else np.float32(told.loudness))
        return private.post_processed(wide)


def importance(model: BartForConditionalGeneration, *, layer: int = 0, projection: str = "k") -> Scores:
    """How much of each latent column a decoder layer's cross-attention reads: the sum over its outputs of |W|.

    W is [out, in]; the paper takes the K projection of layer 0. To be asked of loaded weights: of fresh ones the
    answer is chance.
    """
    layers = model.model.decoder.layers
    if not 0 <= layer < len(layers):
        raise BadParameter(f"layer must be from 0 to {len(layers) - 1} for this model, got {layer}.")
    attention = layers[layer].encoder_attn
    weight = {"k": attention.k_proj, "v": attention.v_proj}[projection].weight
    scores: Scores = weight.detach().double().abs().sum(dim=0).cpu().numpy()
    return scores


def choose(scores: Scores, columns: Columns, *, quantile: float = 0.25) -> Columns:
    """The columns that stay: those whose score is not strictly below the linear quantile of the ones still kept."""
    check_quantile(quantile)
    kept = np.array(columns.kept)
    threshold = np.quantile(scores[kept], quantile)  # numpy's default is linear
    return Columns(columns.width, tuple(int(column) for column in kept[scores[kept] >= threshold]))


def check_quantile(quantile: float) -> None:
    if not 0 < quantile < 1:
        raise BadParameter(f"quantile must be between 0 and 1, both excluded, got {quantile}.")
