"""The model and the channel of a rewriter that has a real latent."""

from __future__ import annotations

from dpbart import Rewriter
from dpbart.channels.columns import ColumnsChannel
from dpbart.models.families import LatentModel


def model_of(rewriter: Rewriter) -> LatentModel:
    assert isinstance(rewriter.model, LatentModel)
    return rewriter.model


def channel_of(rewriter: Rewriter) -> ColumnsChannel:
    assert isinstance(rewriter.channel, ColumnsChannel)
    return rewriter.channel


def entries_of(rewriter: Rewriter) -> int:
    """Noised entries of one text."""
    return channel_of(rewriter).bounds.entries
