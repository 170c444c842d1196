"""Audit a release: two public texts, many releases of each, and how well anybody can tell them apart.

    text ──► the code that releases ──► private value, new text ──► score ──► lower bound on epsilon

The releases are real (`releases`), and their channel is only watched.

The pair is the one, among made-up texts and sentences of the model's book, whose private values lie farthest apart. The
score of a release is its likelihood ratio, from the private value; and one learned from the new texts alone. A few
trials cannot show a large epsilon, because what it allows is rarer than once in all trials. So two more figures need
no luck: for codes, the exact epsilon of the sampler's integer thresholds; for noise, the epsilon of the noise that was
seen on all entries.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass

import numpy as np

from dpbart.card.card import Card, read_card
from dpbart.errors import BadParameter
from dpbart.evidence.distinguish import LowerBound, ceiling, lower_bound, wording_scores
from dpbart.evidence.releases import SCALE_ERROR, Release, Trial, people_in, release_of
from dpbart.options.evidence import AuditRequest
from dpbart.privacy.guarantee import Guarantee
from dpbart.progress import progress

FEWEST = 20  # trials, even if the time is up
_TRIALS = {"single": 20_000, "shuffled": 400, "collection": 20_000}
_SECONDS_AT_ONCE = 2.0  # between two looks at the clock


@dataclass(frozen=True)
class Audit:
    """The epsilon that was found, beside the one that is claimed.

    Attributes:
        release: single, shuffled or collection.
        model: name and fingerprint.
        claimed: what is promised.
        people: in the file; None for single texts.
        pair: the two public texts.
        trials: releases of each of the two.
        written: how many of them were written out; the others ended with the private value.
        confidence: with which all bounds hold together.
        value: from the private values.
        text: from the new texts alone.
        first: from the first row of a shuffled file, where the text of the pair was before; None for other releases.
        ceiling: the most that so many trials can show.
        exact: from the sampler's thresholds, if it has some; of one text, even in a shuffled file.
        seen: from the noise that was seen, if there is some.
        local: the epsilon of one text, with which `exact` is compared.
        control: whether the promise was broken on purpose.
        stopped: whether the time was up before all trials were made.
    """

    release: str
    model: str
    claimed: Guarantee
    people: int | None
    pair: tuple[str, str]
    trials: int
    written: int
    confidence: float
    value: LowerBound
    text: LowerBound
    first: LowerBound | None
    ceiling: float
    exact: float | None
    seen: float | None
    local: float
    control: bool
    stopped: bool

    @property
    def audited(self) -> float:
        """The largest epsilon that the trials show."""
        first = 0.0 if self.first is None else self.first.epsilon
        return max(self.value.epsilon, self.text.epsilon, first, self.seen or 0.0)

    @property
    def caught(self) -> bool:
        """Whether the promise is broken."""
        # The exact epsilon has an error of 1e-15: it is compared with the claimed one as a float.
        too_large = self.exact is not None and self.exact > self.local * (1 + 1e-12)
        return self.audited > self.claimed.epsilon or too_large

    def as_dict(self) -> dict[str, object]:
        """As JSON has it."""
        derived = {"audited": self.audited, "caught": self.caught}
        return {**asdict(self), **derived}


def audit(asked: AuditRequest) -> Audit:
    """Audit a release. The texts must be public or made up: they are shown.

    Raises:
        BadParameter: The release cannot be audited, or the card states another one.
    """
    card = None if asked.card is None else read_card(asked.card)
    release = release_of(asked)
    if card is not None:
        check_card(card, release)
    shuffled = asked.release == "shuffled"
    # All distinguishers share the error that the confidence allows; the noise that was seen takes almost none of it.
    error, delta = (1 - asked.confidence - SCALE_ERROR) / (3 if shuffled else 2), release.claimed.delta
    trials = _TRIALS[asked.release] if asked.trials is None else asked.trials
    worlds = _gather(release, trials, asked.seconds)
    scores = [np.array([trial.score for trial in world], np.float64) for world in worlds]
    firsts = [np.array([trial.first for trial in world], np.float64) for world in worlds]
    texts = [[trial.texts for trial in world if trial.texts] for world in worlds]
    made = len(scores[0])
    judged = made - made // 2
    return Audit(
        release=asked.release,
        model=release.line.identity,
        claimed=release.claimed,
        people=None if asked.release == "single" else people_in(asked),
        pair=release.pair,
        trials=made,
        written=len(texts[0]),
        confidence=asked.confidence,
        value=lower_bound(scores[0], scores[1], delta=delta, error=error),
        text=lower_bound(*wording_scores(texts[0], texts[1]), delta=delta, error=error),
        first=lower_bound(firsts[0], firsts[1], delta=delta, error=error) if shuffled else None,
        ceiling=ceiling(judged, delta=delta, error=error),
        exact=release.exact,
        seen=release.seen,
        local=release.facts.guarantee.epsilon,
        control=asked.control,
        stopped=made < trials,
    )


def check_card(card: Card, release: Release) -> None:
    """Refuse a card that states another model, mechanism or budget than the audited ones."""
    if not card.recipe.startswith(release.facts.recipe) or card.model.identity != release.line.identity:
        raise BadParameter(
            f"the card states another release: {card.model.identity} with {card.noise.mechanism}, "
            f"{card.guarantee}. Give the options of that run."
        )


def _gather(release: Release, trials: int, seconds: float) -> tuple[list[Trial], list[Trial]]:
    """Release both texts equally often, until all trials are made or the time is up.

    Writing takes far longer than randomising, and what is written from a private value cannot say more than the value.
    So after half of the time, the releases end with the private value.
    """
    first: list[Trial] = []
    second: list[Trial] = []
    began, at_once, write = time.monotonic(), 4, True
    with progress("Auditing", total=trials, unit="trials") as bar:
        while len(first) < trials and (time.monotonic() - began < seconds or len(first) < FEWEST):
            if write and time.monotonic() - began > seconds / 2:
                write, at_once = False, 64
            started, count = time.monotonic(), min(at_once, trials - len(first))
            first += release.run(0, count, write=write)
            second += release.run(1, count, write=write)
            bar.advance(count)
            rate = count / max(time.monotonic() - started, 1e-9)
            at_once = max(1, min(4 * at_once, int(rate * min(_SECONDS_AT_ONCE, seconds / 8))))
    return first, second
