"""The halves of whichever kind of model a bundle holds."""

from __future__ import annotations

from dpbart.models.adept import SplitAdept
from dpbart.models.bart import SplitBart
from dpbart.models.bundle import ADEPT, Bundle
from dpbart.models.halves import Halves


def load_halves(bundle: Bundle) -> Halves:
    return (SplitAdept if bundle.facts.variant == ADEPT else SplitBart).load(bundle.folder)
