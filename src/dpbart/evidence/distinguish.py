"""A lower bound on epsilon from the scores of two worlds.

In the first world every release has one input, in the second the other. An attacker sees a release and says "first" if
its score is at least a threshold. If the releases are (epsilon, delta), then for every threshold

    Pr[says first | first] <= e^epsilon Pr[says first | second] + delta,

and the same holds with the worlds exchanged and for the answer "second". So ln((TPR - delta) / FPR) is at most epsilon
(Kairouz, Oh and Viswanath 2015; Jagielski, Ullman and Oprea 2020). Neither rate is known: the true positive rate is
bounded from below and the false positive rate from above by Clopper and Pearson (1934), each at half of the error that
the confidence allows.

The first half of the releases chooses threshold and direction, and the second half judges that one choice. So the
bound holds at its confidence, however many thresholds were tried.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Scores = npt.NDArray[np.float64]


@dataclass(frozen=True)
class LowerBound:
    """What the second half of the releases shows.

    Attributes:
        epsilon: at least this much, at the stated confidence; 0 if nothing was shown.
        right: of the judged releases of the world that was to be recognised, those that were.
        wrong: of as many of the other world, those taken for it.
        judged: releases of each world that were judged.
    """

    epsilon: float
    right: int
    wrong: int
    judged: int


def epsilon_low(right: int, wrong: int, judged: int, *, delta: float, error: float) -> float:
    """ln((TPR_low - delta) / FPR_high), at least 0; the two bounds are wrong with probability `error` at most.

    >>> round(epsilon_low(1000, 0, 1000, delta=0.0, error=0.05), 2), epsilon_low(10, 10, 20, delta=0.0, error=0.05)
    (5.6, 0.0)
    """
    from scipy.special import betaincinv

    if right == 0 or wrong == judged:
        return 0.0
    low = float(betaincinv(right, judged - right + 1, error / 2))
    high = float(betaincinv(wrong + 1, judged - wrong, 1 - error / 2))
    return max(0.0, math.log((low - delta) / high)) if low > delta else 0.0


def ceiling(judged: int, *, delta: float, error: float) -> float:
    """The largest bound that this many judged releases can show: every answer right."""
    return epsilon_low(judged, 0, judged, delta=delta, error=error)


def lower_bound(first: Scores, second: Scores, *, delta: float, error: float) -> LowerBound:
    """The bound of the best threshold, from as many scores of each world; larger ones speak for the first."""
    half = len(first) // 2
    threshold, mirrored = _best_threshold(first[:half], second[:half], delta=delta, error=error)
    yes, no = (first[half:], second[half:]) if not mirrored else (-second[half:], -first[half:])
    right, wrong, judged = int((yes >= threshold).sum()), int((no >= threshold).sum()), len(yes)
    return LowerBound(epsilon_low(right, wrong, judged, delta=delta, error=error), right, wrong, judged)


def _best_threshold(first: Scores, second: Scores, *, delta: float, error: float) -> tuple[float, bool]:
    """The threshold with the largest bound, and whether it is for the worlds exchanged, with scores negated."""
    best, chosen = -1.0, (0.0, False)
    for mirrored, yes, no in ((False, first, second), (True, -second, -first)):
        candidates = np.unique(np.quantile(yes, np.linspace(0, 1, 65), method="lower"))
        for threshold in candidates.tolist():
            right, wrong = int((yes >= threshold).sum()), int((no >= threshold).sum())
            # Halved error and one more false answer: a threshold that was lucky once is not worth choosing.
            found = epsilon_low(right, min(wrong + 1, len(yes) - 1), len(yes), delta=delta, error=error / 2)
            if found > best:
                best, chosen = found, (threshold, mirrored)
    return chosen


class Wording:
    """Scores of written texts alone: naive Bayes on whole texts and their words, learned from the first releases.

    Args:
        first: releases of the first world, each with one text or several.
        second: as many of the second.
    """

    def __init__(self, first: Iterable[Sequence[str]], second: Iterable[Sequence[str]]) -> None:
        counts = [Counter(each for release in world for each in _features(release)) for world in (first, second)]
        self._weights = {
            feature: math.log((counts[0][feature] + 0.5) / (counts[1][feature] + 0.5))
            for feature in counts[0].keys() | counts[1].keys()
        }

    def score(self, release: Sequence[str]) -> float:
        """Positive if the texts look like those of the first world."""
        return sum(self._weights.get(feature, 0.0) for feature in _features(release))


def _features(release: Sequence[str]) -> Iterable[str]:
    for text in release:
        yield text
        if len(release) == 1:  # in a file, whole texts say which sentences of the book came out
            yield from text.lower().split()


def wording_scores(first: Sequence[Sequence[str]], second: Sequence[Sequence[str]]) -> tuple[Scores, Scores]:
    """Scores of all releases by the texts alone. Only the first halves, which judge nothing, are learned from."""
    half = len(first) // 2
    wording = Wording(first[:half], second[:half])
    scored = [np.array([wording.score(release) for release in world], np.float64) for world in (first, second)]
    return scored[0], scored[1]


def normal_scale_high(squares: float, count: int, *, error: float) -> float:
    """An upper bound on the standard deviation of normal noise: the sum of squares / sigma^2 is chi-square."""
    from scipy.special import gammaincinv

    return math.sqrt(squares / (2 * float(gammaincinv(count / 2, error))))


def laplace_scale_high(absolute: float, count: int, *, error: float) -> float:
    """An upper bound on the scale of Laplace noise: the sum of absolute values / b follows a gamma distribution."""
    from scipy.special import gammaincinv

    return absolute / float(gammaincinv(count, error))
