"""What a shuffled file promises to those who see only the file: for a row, and for all rows of a person.

A person with m rows is a group. Let the file be (epsilon, delta) for any one row. Changing the rows of the group one by
one, each step multiplies a probability by at most e^epsilon and then adds at most delta. So for the group the file is

    (m epsilon, delta (1 + e^epsilon + ... + e^((m - 1) epsilon)))

(group privacy, see Vadhan 2017; the sum is (e^(m epsilon) - 1) / (e^epsilon - 1)). In each step all other rows hide the
one that changes, those of the same person too, since each row has randomness of its own.

A code may be a set: n of n k values mean the same for one text (see `mechanisms.response`). Such releases have the
blanket bound of k-ary response. Relative to the uniform blanket, a value has weight 1 + r if it is in the set of x, and
weight 1 if not, r = e^local - 1. With c = e^epsilon, the weight for x minus c times the weight for y is

    only in the set of x: 1 + r - c         in both:    (1 - c)(1 + r)
    only in the set of y: 1 - c - c r       in neither: 1 - c

The two on the left have the same sum as the two on the right, and the two on the right lie between them. So moving one
value from "both" and one from "neither" to "only x" and "only y" keeps the mean and spreads the weights. By convexity
that never makes the divergence smaller. So disjoint sets are the worst case, and they are k-ary response with n copies
of each value.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpbart.errors import BadParameter
from dpbart.privacy.calibration import DELTAS, EPSILONS
from dpbart.privacy.guarantee import Guarantee
from dpbart.privacy.shuffling.amplification import LOCAL, Shuffled, Steps, central_guarantee, largest_local

KNOWN_SHARE = 10  # a tenth of the rows is known to the attacker of the second statement
OWN_CODE = (
    "the central guarantee needs that a text is written from its own latent alone, whatever texts share its batch. No "
    "test shows that: the rounding of a batch might depend on all of its texts"
)
_AIM = 0.9  # of the delta that is allowed: the search for a row's delta ends after few steps


@dataclass(frozen=True)
class ShuffledRelease:
    """The central guarantees of a shuffled file."""

    delta: float  # of the central guarantees, at most
    most_rows: int  # of one person
    guarantee: Guarantee  # for all rows of one person, to those who see only the file
    row_guarantee: Guarantee  # for one row, to the same
    rule: str  # the bound that gives the guarantee: "blanket", "clones", or "local" if shuffling gains nothing
    known: int  # how many rows the attacker of the next guarantee knows: a tenth
    known_guarantee: Guarantee  # for all rows of one person, to those who also know these rows, whoever's they are


def needs_own_code(rule: str, recipe: str) -> bool:
    """Whether a central guarantee rests on OWN_CODE, given its rule and the recipe of a run or a channel.

    It does not for a code: sentences of the book are looked up, and a wording is read with whole numbers, the same in
    any batch (models/code/writer.py). In older recipes, which name no form, that holds only if all bits are gist.

    >>> [needs_own_code("blanket", recipe) for recipe in ("bits:15|form:book", "bits:24|form:wording", "mech:laplace")]
    [False, False, True]
    >>> [needs_own_code("blanket", recipe) for recipe in ("bits:15|gist:15", "bits:24|gist:4")]
    [False, True]
    """
    stated = dict(part.partition(":")[::2] for part in recipe.split("|"))
    coded = "form" in stated or ("bits" in stated and stated["bits"] == stated.get("gist"))
    return rule != LOCAL and not coded


def shuffled_release(
    local: Guarantee, *, rows: int, most_rows: int, delta: float, options: int | None
) -> ShuffledRelease:
    """The central guarantees of a file from the local one of a row, as in `central_guarantee`."""
    known = min(-(-rows // KNOWN_SHARE), rows - 1)
    row = central_guarantee(local, people=rows, delta=delta, options=options)
    group, rule = _of_group(row, rows=rows, most_rows=most_rows, delta=delta, options=options)
    other = group
    if known:
        fewer = central_guarantee(local, people=rows, delta=delta, options=options, known=known)
        other, _ = _of_group(fewer, rows=rows, most_rows=most_rows, delta=delta, options=options, known=known)
    return ShuffledRelease(delta, most_rows, group, row.central, rule, known, other)


def local_for(
    central: Guarantee, *, rows: int, most_rows: int, options: int | Steps | None, label: float = 0.0
) -> float:
    """The largest epsilon of a text whose shuffled file has a central guarantee, rounded down to thousandths.

    Args:
        central: wanted for all rows of one person.
        rows: of the file.
        most_rows: of one person.
        options: as in `largest_local`. A row with a randomised label is not one response.
        label: the epsilon of the label in the same row.
    """
    asked = central.epsilon / most_rows
    row = Guarantee(asked, _AIM * central.delta / _growth(asked, most_rows) if most_rows > 1 else central.delta)
    if row.delta < DELTAS[0]:
        raise BadParameter(
            f"a person has {most_rows} rows, too many for a central delta of {central.delta:g}. "
            "Join them with --join-documents."
        )
    options = None if label else options
    epsilon = _rounded_down(largest_local(row, people=rows, options=options).local.epsilon - label)
    while epsilon >= EPSILONS[0]:
        local, k = Guarantee(epsilon + label, 0.0), _options_at(options, epsilon)
        held = central_guarantee(local, people=rows, delta=central.delta, options=k)
        group, _ = _of_group(held, rows=rows, most_rows=most_rows, delta=central.delta, options=k)
        if group.epsilon <= central.epsilon:
            return epsilon
        epsilon = _rounded_down(0.999 * epsilon)  # the bounds are rounded, so they can rise a little as epsilon falls
    raise BadParameter(
        f"a central epsilon of {central.epsilon:g} leaves less than {EPSILONS[0]:g} for a text in a file of {rows:,} "
        "rows. Ask for a larger one, or lower the epsilon of the labels."
    )


def _rounded_down(epsilon: float) -> float:
    return math.floor(epsilon * 1000) / 1000


def _options_at(options: int | Steps | None, epsilon: float) -> int | None:
    """The options of a response at one epsilon. Below the first step, they are those of the first.

    >>> [_options_at([(1.0, 8), (4.0, 32)], epsilon) for epsilon in (0.5, 3.9, 4.0)]
    [8, 8, 32]
    """
    if options is None or isinstance(options, int):
        return options
    return ([k for first, k in options if first <= epsilon] or [options[0][1]])[-1]


def _of_group(
    row: Shuffled, *, rows: int, most_rows: int, delta: float, options: int | None, known: int = 0
) -> tuple[Guarantee, str]:
    """The guarantee of a person with several rows, and its rule, from that of one row at the same delta."""
    while most_rows > 1 and row.rule != LOCAL:
        allowed = delta / _growth(row.central.epsilon, most_rows)
        if row.central.delta <= allowed:
            return Guarantee(most_rows * row.central.epsilon, delta), row.rule
        if not _AIM * allowed >= DELTAS[0]:
            break
        row = central_guarantee(row.local, people=rows, delta=_AIM * allowed, options=options, known=known)
    if most_rows == 1:
        return row.central, row.rule
    return Guarantee(most_rows * row.local.epsilon, 0.0), LOCAL


def _growth(epsilon: float, group: int) -> float:
    """1 + e^epsilon + ... + e^((group - 1) epsilon); infinite where a float overflows.

    >>> round(_growth(1.0, 3), 6) == round(1 + math.e + math.e**2, 6)
    True
    """
    return math.expm1(group * epsilon) / math.expm1(epsilon) if group * epsilon < 700 else math.inf
