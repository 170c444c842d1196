"""The guarantee of several releases about one person, taken together.

There are two bounds, both at the sum of the deltas, so the smaller one holds:

- the sum of the epsilons (basic composition, Dwork et al. 2006), in exact decimals;
- the exact epsilon of each mechanism that has one (see its `composed`), plus the epsilons of all others.
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
    """What is released together: a text and, if it is randomised, its label."""

    events: tuple[Event, ...]

    @property
    def epsilon(self) -> Decimal:
        """The sum of the epsilons; infinite if nothing is promised."""
        with localcontext(EXACT_DECIMALS):
            return sum((each.epsilon for each in self.events), Decimal(0))

    @property
    def delta(self) -> Decimal:
        """The sum of the deltas."""
        with localcontext(EXACT_DECIMALS):
            return sum((each.delta for each in self.events), Decimal(0))


@dataclass(frozen=True)
class Composed:
    """The guarantee of all releases together, and the rule that gives it."""

    epsilon: Decimal
    delta: Decimal
    rule: str

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee(float(self.epsilon), float(self.delta))


def compose(releases: Mapping[Release, int]) -> Composed:
    """The guarantee of releases taken together; the mapping says how often each was made.

    >>> compose({Release((Event("laplace", Decimal("0.1"), Decimal(0)),)): 10}).epsilon == 1
    True
    """
    if not releases or min(releases.values()) < 1:
        raise BadParameter(
            f"there must be at least one release, each made at least once, got {list(releases.values())}."
        )
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

    float(delta) has a relative error of at most 2^-53, far less than the rounding up of an exact epsilon.
    """
    by_mechanism: dict[str, Counter[Event]] = defaultdict(Counter)
    for release, count in releases.items():
        for event in release.events:
            by_mechanism[event.mechanism][event] += count
    total = Decimal(0)
    for name, events in by_mechanism.items():
        # Only one mechanism has a delta, so the whole delta belongs to it.
        exact = known(name).composed(events, delta) if any(event.delta for event in events) else None
        total += sum((event.epsilon * n for event, n in events.items()), Decimal(0)) if exact is None else exact
    return total
