"""What several releases about one person promise together.

Two bounds, both at the sum of the deltas, so that the smaller one holds too:

- the sum of the epsilons (basic composition, Dwork et al. 2006), in exact decimals;
- the exact epsilon of each mechanism that knows one (see its `composed`), plus the epsilons of all others.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, localcontext

from dpbart.errors import BadParameter
from dpbart.privacy.decimals import EXACT as EXACT_DECIMALS
from dpbart.privacy.event import Event
from dpbart.privacy.guarantee import Guarantee
from dpbart.privacy.mechanisms import known

ONE = "one release: nothing to compose"
SUM = "sum of the epsilons and deltas (basic composition, Dwork et al. 2006)"
EXACT = "exact for Gaussian releases (Dong, Roth and Su 2022), at the sum of the deltas; others are added"


@dataclass(frozen=True)
class Release:
    """All that is released at once: a text and, if it is randomised, its label."""

    events: tuple[Event, ...]

    @property
    def epsilon(self) -> Decimal:
        """The sum of the epsilons; infinite where nothing is promised."""
        with localcontext(EXACT_DECIMALS):
            return sum((each.epsilon for each in self.events), Decimal(0))

    @property
    def delta(self) -> Decimal:
        """The sum of the deltas."""
        with localcontext(EXACT_DECIMALS):
            return sum((each.delta for each in self.events), Decimal(0))


@dataclass(frozen=True)
class Composed:
    """What all releases promise together, and by which rule."""

    epsilon: Decimal
    delta: Decimal
    rule: str

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee(float(self.epsilon), float(self.delta))


def compose(releases: Mapping[Release, int]) -> Composed:
    """What releases promise together, each so many times.

    >>> compose({Release((Event("laplace", Decimal("0.1"), Decimal(0)),)): 10}).epsilon == 1
    True
    """
    if not releases or min(releases.values()) < 1:
        raise BadParameter(f"releases must be at least one, each at least once, got {list(releases.values())}.")
    with localcontext(EXACT_DECIMALS):
        epsilon = sum((each.epsilon * count for each, count in releases.items()), Decimal(0))
        delta = sum((each.delta * count for each, count in releases.items()), Decimal(0))
        if sum(releases.values()) == 1:
            return Composed(epsilon, delta, ONE)
        if not epsilon.is_finite() or not 0 < delta < 1:
            return Composed(epsilon, delta, SUM)
        exact = _exact(releases, float(delta))
        return Composed(exact, delta, EXACT) if exact < epsilon else Composed(epsilon, delta, SUM)


def _exact(releases: Mapping[Release, int], delta: float) -> Decimal:
    """The exact epsilon of the mechanism that spends delta, plus the sum of the others.

    float(delta) is off by at most 2^-53 of it, far less than an exact epsilon is rounded up.
    """
    by_mechanism: dict[str, Counter[Event]] = defaultdict(Counter)
    for release, count in releases.items():
        for event in release.events:
            by_mechanism[event.mechanism][event] += count
    total = Decimal(0)
    for name, events in by_mechanism.items():
        # Only one mechanism has a delta, so all of delta is its own.
        exact = known(name).composed(events, delta) if any(event.delta for event in events) else None
        total += sum((event.epsilon * n for event, n in events.items()), Decimal(0)) if exact is None else exact
    return total
