"""Which columns of the latent a decoder reads most, and which ones a round of pruning keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dpbart.channels.columns import Columns
from dpbart.errors import BadParameter

if TYPE_CHECKING:
    from transformers import BartForConditionalGeneration

Scores = npt.NDArray[np.float64]


def importance(model: BartForConditionalGeneration, *, layer: int = 0, projection: str = "k") -> Scores:
    """How much of each latent column a decoder layer's cross-attention reads: the sum over its outputs of |W|.

    W is [out, in]. The paper takes the K projection of layer 0. Only meaningful for trained weights.
    """
    layers = model.model.decoder.layers
    if not 0 <= layer < len(layers):
        raise BadParameter(f"layer must be from 0 to {len(layers) - 1} for this model, got {layer}.")
    attention = layers[layer].encoder_attn
    weight = {"k": attention.k_proj, "v": attention.v_proj}[projection].weight
    scores: Scores = weight.detach().double().abs().sum(dim=0).cpu().numpy()
    return scores


def choose(scores: Scores, columns: Columns, *, quantile: float = 0.25) -> Columns:
    """The columns to keep: those whose score is not strictly below the linear quantile of the ones still kept."""
    check_quantile(quantile)
    kept = np.array(columns.kept)
    threshold = np.quantile(scores[kept], quantile)  # numpy's default is linear
    return Columns(columns.width, tuple(int(column) for column in kept[scores[kept] >= threshold]))


def check_quantile(quantile: float) -> None:
    if not 0 < quantile < 1:
        raise BadParameter(f"quantile must be between 0 and 1, both excluded, got {quantile}.")
