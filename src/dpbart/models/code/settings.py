"""The public settings of a code: the same on both sides of the channel, and shipped with the model."""

from __future__ import annotations

from dataclasses import dataclass

MODEL_TYPE = "dpbart-code"  # in config.json


@dataclass(frozen=True)
class CodeSettings:
    """How texts become codes, and codes texts.

    Attributes:
        closely: windows of a text that are read closely where its code has one place.
        closely_for_several: the same where its code has several places.
        points: how much the best match of each window counts beside the match of the whole, when several sentences of
            the book are chosen.
        silence: say nothing at a place if another sentence would add less than this.
        names_from: from this many bits of wording on, names, numbers and rare words are words like others.
        margin: how much nearer, as a difference of cosines, a wording must be than the sentences of the book.
    """

    closely: int = 1
    closely_for_several: int = 6
    points: float = 0.5
    silence: float = 0.01
    names_from: int = 90
    margin: float = 0.0
