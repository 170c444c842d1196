"""The BART family: the latent has one row for each position of the text, clipped entry by entry."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpbart.models.latent import LatentFamily
from dpbart.privacy.clipping import ByValue

if TYPE_CHECKING:
    from dpbart.models.bundle import Bundle
    from dpbart.models.halves import SplitBart


def load_bart(bundle: Bundle) -> SplitBart:
    """Load both halves of a BART. Torch and transformers are imported only here."""
    from dpbart.models.halves import SplitBart

    return SplitBart.load(bundle.folder)


BART = LatentFamily(
    name="bart",
    variants={
        "clv": "the paper's DP-BART-CLV: large budgets and comparisons, and a start for other models",
        "pr": "the paper's DP-BART-PR: like CLV, with columns pruned so that the rest gets less noise",
        "pr-plus": "the paper's DP-BART-PR+: pruned, then trained under noise",
    },
    clip=ByValue,
    positions=lambda length: length,
    halves=load_bart,
)
