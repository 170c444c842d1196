"""The public settings of a code: the same on both sides of the channel, and shipped with the model."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CodeSettings:
    """How texts become codes, and codes texts.

    Attributes:
        batch: texts that are coded and decoded at once. Both sides use the same number, and fill up the last batch.
        tries: texts written from a gist alone; the nearest to the gist is kept.
        kept: texts kept of these, joined.
        temperature: of the sampling from a gist alone.
        top_k: tokens that this sampling chooses from.
        whole: a text of more tokens is put into words by its most typical sentence.
        sentences: of a long text that are looked at for that.
    """

    batch: int = 32
    tries: int = 8
    kept: int = 1
    temperature: float = 0.8
    top_k: int = 50
    whole: int = 64
    sentences: int = 16
