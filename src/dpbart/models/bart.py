"""BART cut in two: a latent of one row for each position of the text."""

from __future__ import annotations

from transformers import BartForConditionalGeneration

from dpbart.models.halves import Halves


class SplitBart(Halves):
    """The two halves of one BART."""

    model_class = BartForConditionalGeneration
