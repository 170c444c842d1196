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
        endings: endings sampled where the bits run out before the text does, besides the likeliest one.
        ending_temperature: of that sampling.
        ended_wording: bits of wording up to which endings are sampled. More bits say enough by themselves.
        top_k: tokens that sampling chooses from.
        choice: a code of at most so many bits may name a text of the book in place of a gist and wording.
        margin: by how much that text must be nearer than what the wording says: a difference of cosines.
    """

    batch: int = 32
    whole: int = 64
    sentences: int = 16
    endings: int = 4
    ending_temperature: float = 0.6
    ended_wording: int = 16
    top_k: int = 50
    choice: int = 28
    margin: float = 0.15
