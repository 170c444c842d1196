"""What an attack found, and the controls beside it: without them, a score says nothing.

Every attack is run four times, on the same targets:

- on the rewritten texts: the score;
- on the original texts: it must succeed, or the attack is too weak to say anything;
- on the rewritings of unrelated texts: it must do no better than chance;
- on the rewritings of phantoms. The phantom of a text is the most similar text that is not in the file. What still
  succeeds needs no text of the file: it is general knowledge, and no leak.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from dpbart.errors import BadParameter

Scores: TypeAlias = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Estimate:
    """A score with its standard error, both from 0 to 1, and which of several attackers reached it."""

    score: float
    spread: float
    by: str = ""


Run: TypeAlias = Callable[[Sequence[str]], Estimate]  # attacks outputs that stand in the order of the targets


@dataclass(frozen=True)
class AttackScore:
    """What one attack got at one budget. All scores are from 0 to 1.

    Attributes:
        attack: its name, such as "singling out".
        measure: what the score counts, such as "right of 100 candidates".
        score: on the rewritten texts.
        spread: the standard error of that score.
        chance: what a guesser gets who sees nothing.
        bound: what nobody can exceed on average, by the guarantee; None if the guarantee gives none for this attack.
        originals: control in which it must succeed: the same attack on the original texts.
        unrelated: control in which it must not: on the rewritings of unrelated texts.
        phantom: on the rewritings of the most similar texts outside the file; None if there are none.
        by: which attacker was best, by other texts than those of the score.
    """

    attack: str
    measure: str
    score: float
    spread: float
    chance: float
    bound: float | None
    originals: float
    unrelated: float
    phantom: float | None
    by: str = ""

    @property
    def beyond_phantom(self) -> float:
        """How much of the score is about the texts of the file: what chance or general knowledge gives is taken off."""
        return self.score - max(self.chance, self.phantom or 0.0)

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


@dataclass(frozen=True)
class Released:
    """Public texts and what came out of them, in the same order.

    Attributes:
        originals: the texts.
        rewritten: what was released.
        meant: of a code channel, everything that each text comes out as if its code is kept; None of any other.
    """

    originals: tuple[str, ...]
    rewritten: tuple[str, ...]
    meant: tuple[frozenset[str], ...] | None = None

    def __post_init__(self) -> None:
        counts = {len(self.originals), len(self.rewritten), len(self.meant or self.originals)}
        if len(counts) > 1:
            raise BadParameter(
                f"each text must have one rewriting, got {len(self.originals)} texts and {len(self.rewritten)} "
                "rewritings."
            )

    def __len__(self) -> int:
        return len(self.originals)

    def part(self, rows: Sequence[int]) -> Released:
        """Some of the texts."""
        meant = None if self.meant is None else tuple(self.meant[row] for row in rows)
        return Released(tuple(self.originals[row] for row in rows), tuple(self.rewritten[row] for row in rows), meant)


def controlled(
    attack: str,
    measure: str,
    run: Run,
    file: Released,
    *,
    phantoms: Sequence[str] | None,
    chance: float,
    bound: float | None = None,
    clear: Sequence[str] | None = None,
    unrelated: Sequence[str] | None = None,
) -> AttackScore:
    """Run an attack on the file and on its controls.

    Args:
        attack: its name.
        measure: what it counts.
        run: attacks outputs in the order of the file.
        file: the texts that were released.
        phantoms: for each text, the rewriting of its phantom.
        chance: see `AttackScore`.
        bound: see `AttackScore`.
        clear: outputs on which the attack must succeed; the originals by default.
        unrelated: rewritings of unrelated texts; by default those of the file, none in its own place.
    """
    found = run(file.rewritten)
    return AttackScore(
        attack,
        measure,
        found.score,
        found.spread,
        chance,
        bound,
        originals=run(file.originals if clear is None else clear).score,
        unrelated=run(shifted(file.rewritten) if unrelated is None else unrelated).score,
        phantom=None if phantoms is None else run(phantoms).score,
        by=found.by,
    )


def shifted(texts: Sequence[str]) -> list[str]:
    """The same texts, none in its own place: each stands where an unrelated one stood."""
    half = len(texts) // 2
    return [*texts[half:], *texts[:half]]


def most_right(epsilon: float, delta: float, *, prior: float) -> float:
    """The most often that anybody can guess right, where the best blind guess is right with probability `prior`.

    No output multiplies the odds of anything by more than e^epsilon (Kasiviswanathan and Smith 2014). Among N equally
    likely candidates, this is e^epsilon / (e^epsilon + N - 1); delta is added.

    >>> round(most_right(0.0, 0.0, prior=0.01), 6), round(most_right(10.0, 0.0, prior=0.01), 4)
    (0.01, 0.9955)
    """
    return min(1.0, prior / (prior + (1 - prior) * math.exp(-epsilon)) + delta)


def most_area(epsilon: float, delta: float) -> float:
    """The largest area under the ROC curve of any test of one text against another.

    The area below the trade-off curve of Wasserman and Zhou 2010 is (1 - delta)^2 / (1 + e^epsilon).

    >>> most_area(0.0, 0.0)
    0.5
    """
    return 1 - (1 - delta) ** 2 * math.exp(-epsilon) / (1 + math.exp(-epsilon))


def share_right(right: Scores | Sequence[float]) -> Estimate:
    """A share of right guesses, with its standard error. A tie may count in part."""
    values = np.asarray(right, np.float64)
    # With no right guess at all, the error is not 0: the rule of succession counts one right and one wrong more.
    mean, smoothed = float(values.mean()), (values.sum() + 1) / (len(values) + 2)
    return Estimate(mean, math.sqrt(smoothed * (1 - smoothed) / len(values)))


def area(scores: Scores, positive: npt.NDArray[np.bool_]) -> Estimate:
    """Area under the ROC curve: how often a positive has a higher score than a negative; ties count half.

    The standard error is that of DeLong, DeLong and Clarke-Pearson 1988.
    """
    yes, no = scores[positive], scores[~positive]
    if not len(yes) or not len(no):
        raise BadParameter(f"an area needs positives and negatives, got {len(yes)} and {len(no)}.")
    wins = (yes[:, None] > no).astype(np.float64) + (yes[:, None] == no) / 2  # (positives, negatives)
    terms = [side.var(ddof=1) / len(side) for side in (wins.mean(1), wins.mean(0)) if len(side) > 1]
    return Estimate(float(wins.mean()), math.sqrt(sum(terms)))
