"""The ADePT family: the latent has one row for the whole text, clipped by its L2 norm."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpbart.models.latent import LatentFamily
from dpbart.privacy.clipping import ByNorm

if TYPE_CHECKING:
    from dpbart.models.adept_network import SplitAdept
    from dpbart.models.bundle import Bundle


def load_adept(bundle: Bundle) -> SplitAdept:
    """Load both halves of an ADePT. Torch and transformers are imported only here."""
    from dpbart.models.adept_network import SplitAdept

    return SplitAdept.load(bundle.folder)


ADEPT = LatentFamily(
    name="adept",
    variants={"adept": "the older LSTM baseline ADePT, with corrected noise: comparisons"},
    clip=ByNorm,
    positions=lambda _: 1,
    halves=load_adept,
)
