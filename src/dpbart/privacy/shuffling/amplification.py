"""The central guarantee of shuffled releases, and the largest local epsilon for a wanted central one.

It holds for those who see the rows in uniformly random order and nothing else. docs/shuffling.md has the conditions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from dpbart.errors import BadParameter
from dpbart.privacy.calibration import DELTAS, check_epsilon
from dpbart.privacy.guarantee import Guarantee
from dpbart.privacy.shuffling.blanket import MOST_EPSILON, Blanket, clones, uniform_blanket

Steps = Sequence[tuple[float, int]]  # how many options a response has from each local epsilon on; epsilons ascend
LOCAL, CLONES, BLANKET = "local", "clones", "blanket"  # the rules
MOST_PEOPLE = 10**9  # more count as this many: the tests of the rounding end here
MOST_OPTIONS = 1 << 1024
_LEAST_EPSILON = 1e-6  # a smaller central epsilon is reported as this one
_CLOSE = 1e-5  # how far a result may be from the bound, relatively; always on the safe side


@dataclass(frozen=True)
class Shuffled:
    """What shuffled releases promise."""

    local: Guarantee  # of each release, whoever sees it, with or without its place
    central: Guarantee  # of all rows together, to those who see them shuffled and nothing else
    rule: str  # the bound that gave the central guarantee: "blanket", "clones", or "local" if neither helps
    people: int  # whose releases hide each other: all but those whom the attacker knows


def central_guarantee(
    local: Guarantee, *, people: int, delta: float, options: int | None = None, known: int = 0
) -> Shuffled:
    """The least central epsilon for a delta, rounded up. Where shuffling gains nothing, the local guarantee itself.

    Args:
        local: of one release, with delta 0.
        people: how many give one release each.
        delta: of the central guarantee.
        options: k, if all of a release is one k-ary randomised response; None for any other mechanism.
        known: how many of the other people the attacker knows, or who do not follow the protocol.

    >>> shuffled = central_guarantee(Guarantee(4.0, 0.0), people=100_000, delta=1e-6)
    >>> f"{shuffled.central.epsilon:.3f} by the {shuffled.rule}"
    '0.170 by the clones'
    >>> central_guarantee(Guarantee(4.0, 0.0), people=1, delta=1e-6).central
    Guarantee(epsilon=4.0, delta=0.0)
    """
    if local.delta > 0:
        raise BadParameter(
            f"a shuffled release must have a local delta of 0, got {local.delta:g}. The delta of every row would add "
            "to the central one, so Gaussian noise is not offered here. Use the mechanism 'response' or 'laplace'."
        )
    check_epsilon(local.epsilon)
    _check_delta(delta)
    hiding = _hiding(people, known)
    best = Shuffled(local, local, LOCAL, hiding)
    for rule, blanket in _rules(local.epsilon, options):
        curve = blanket.curve(min(hiding, MOST_PEOPLE))
        most = min(best.central.epsilon * (1 - _CLOSE), MOST_EPSILON)
        if curve.delta(most) <= delta:
            best = Shuffled(local, Guarantee(_least_epsilon(curve.delta, delta, most), delta), rule, hiding)
    return best


def largest_local(central: Guarantee, *, people: int, options: int | Steps | None = None, known: int = 0) -> Shuffled:
    """The largest local epsilon whose shuffled releases have a central guarantee, rounded down.

    For a fixed k, both bounds rise with the local epsilon. So the largest lies in the last step of a table in which
    the first epsilon is small enough. The arguments are those of `central_guarantee`, but options may be one k for each
    range of the local epsilon, as a code model has.

    >>> shuffled = largest_local(Guarantee(1.0, 1e-6), people=100_000, options=256)
    >>> f"{shuffled.local.epsilon:.2f} by the {shuffled.rule}"
    '7.87 by the blanket'
    """
    check_epsilon(central.epsilon)
    _check_delta(central.delta)
    hiding = _hiding(people, known)

    def delta_and_rule(k: int | None, local: float) -> tuple[float, str]:
        """The smaller central delta at the wanted epsilon, and its rule."""
        found = ((blanket.curve(min(hiding, MOST_PEOPLE)), rule) for rule, blanket in _rules(local, k))
        return min((curve.delta(central.epsilon), rule) for curve, rule in found)

    def delta_at(k: int | None, local: float) -> float:
        return delta_and_rule(k, local)[0]

    if central.epsilon > MOST_EPSILON:
        raise BadParameter(f"the central epsilon must be at most {MOST_EPSILON:g}, got {central.epsilon:g}.")

    for first, last, k in reversed(_steps(options)):
        start = max(first, central.epsilon * (1 + _CLOSE))
        if start < last and delta_at(k, start) <= central.delta:
            epsilon = _largest_epsilon(partial(delta_at, k), central.delta, start, last)
            return Shuffled(Guarantee(epsilon, 0.0), central, delta_and_rule(k, epsilon)[1], hiding)
    unhelped = Guarantee(central.epsilon, 0.0)
    return Shuffled(unhelped, unhelped, LOCAL, hiding)


def _rules(local: float, options: int | None) -> Iterator[tuple[str, Blanket]]:
    if options is not None:
        if not 2 <= options <= MOST_OPTIONS:
            raise BadParameter(f"options must be from 2 to 2^1024, got {options.bit_length()} bits.")
        yield BLANKET, uniform_blanket(local, options)
    yield CLONES, clones(local)


def _steps(options: int | Steps | None) -> list[tuple[float, float, int | None]]:
    """(first, last, options): the ranges of the local epsilon."""
    if options is None or isinstance(options, int):
        return [(0.0, math.inf, options)]
    firsts = [first for first, _ in options]
    if not firsts or firsts != sorted(set(firsts)):
        raise BadParameter(f"the steps of the options must have ascending epsilons, got {firsts}.")
    # A smaller budget than the first step's has that step's options, and each step ends just before the next.
    lasts = [*(math.nextafter(first, 0.0) for first in firsts[1:]), math.inf]
    return [(first, last, k) for first, last, (_, k) in zip([0.0, *firsts[1:]], lasts, options, strict=True)]


def _least_epsilon(delta_at: Callable[[float], float], delta: float, high: float) -> float:
    """The least epsilon at which a falling delta is small enough, given one where it is."""
    while high > _LEAST_EPSILON and delta_at(high / 2) <= delta:
        high /= 2
    if high <= _LEAST_EPSILON:
        return _LEAST_EPSILON
    return math.exp(_crossing(lambda x: delta_at(math.exp(x)), delta, holds=math.log(high), fails=math.log(high / 2)))


def _largest_epsilon(delta_at: Callable[[float], float], delta: float, holds: float, last: float) -> float:
    """The largest local epsilon up to `last` at which a rising delta is small enough, given one where it is."""
    step = 1.0
    while delta_at(min(holds + step, last)) <= delta:
        if holds + step >= last:
            return last
        holds, step = holds + step, 2 * step
    return _crossing(delta_at, delta, holds=holds, fails=min(holds + step, last))


def _crossing(delta_at: Callable[[float], float], delta: float, *, holds: float, fails: float) -> float:
    """Where a monotone delta crosses the wanted one: a point where it holds, within _CLOSE.

    False position with the Illinois rule. As a function of log epsilon, or of the local epsilon, log(-log delta) is
    almost a straight line.
    """

    def margin(x: float) -> float:
        return math.log(max(-math.log(delta_at(x)), 1e-9)) - math.log(-math.log(delta))

    good, bad = max(margin(holds), 0.0), margin(fails)
    moved = 0  # which end moved last
    while abs(holds - fails) > _CLOSE * max(1.0, abs(holds)):
        share = min(max(good / (good - bad), 0.01), 0.99)
        middle = holds + share * (fails - holds)
        value = margin(middle)
        if value >= 0:
            holds, good, bad, moved = middle, value, bad / 2 if moved == 1 else bad, 1
        else:
            fails, bad, good, moved = middle, value, good / 2 if moved == -1 else good, -1
    return holds


def _hiding(people: int, known: int) -> int:
    if not people >= 1:
        raise BadParameter(f"people must be at least 1, got {people}.")
    if not 0 <= known < people:
        raise BadParameter(f"known must be at least 0 and below the number of people, {people}, got {known}.")
    return people - known


def _check_delta(delta: float) -> None:
    least, most = DELTAS
    if not least <= delta <= most:
        raise BadParameter(f"the central delta must be from {least:g} to {most:g}, got {delta:g}.")
