"""The public settings of a code: the same on both sides of the channel, and shipped with the model."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CodeSettings:
    """How texts become codes, and codes texts.

    Attributes:
        batch: texts that are coded and decoded at once. Both sides use the same number, and fill up the last batch.
        whole: a text of more tokens is put into words by its most typical sentence.
        sentences: of a long text that are looked at for that.
        tries: texts sampled from a gist alone; the nearest to the gist are kept.
        kept: texts kept of these, joined.
        drawn: tokens of each of these, at most.
        temperature: of this sampling.
        endings: endings sampled where the bits run out before the text does, besides the likeliest one.
        ending_temperature: of that sampling.
        ended_wording: bits of wording up to which endings are sampled. More bits say enough by themselves.
        top_k: tokens that sampling chooses from.
    """

    batch: int = 32
    whole: int = 64
    sentences: int = 16
    tries: int = 8
    kept: int = 2
    drawn: int = 24
    temperature: float = 0.8
    endings: int = 4
    ending_temperature: float = 0.6
    ended_wording: int = 16
    top_k: int = 50
