"""Which words of a text to keep: those that gain most within some bits.

`best_paths` is a knapsack whose items have an order, for many texts at once. `best[i, b]` is the most that can be
gained in b bits if unit i - 1 is the last one kept. A word that is not expected after a gap counts for less. `changes`
looks for something better nearby: a few words dropped, a few others taken back.

The shapes depend on the number of texts and on the public sizes, and on nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dpbart.models.code.weights import Floats

Costs = npt.NDArray[np.float32]
Whole = npt.NDArray[np.int64]
Kept = npt.NDArray[np.bool_]  # (units,): which units of a text are kept

UNEVEN = 0.015  # by how much a form must be nearer for every gap between kept words
UNEXPECTED = 0.004  # and for every bit by which a word is less expected after a gap than in the text, or an end
REVERSED = 0.1  # and for every word that is kept without the "not" before it
_RUN = 3  # words that a change drops or takes back, at most

_SKIPPED = 8  # units that may be dropped in a row, at most, except before the last one
_SURPRISE = 0.012  # what every bit costs by which a word is less expected after a gap than in the text, or an end
_STEPS = 96  # into which the bits are divided, if they are more
_MORE = 1.5  # times the bits that there are: an estimate may allow so many
_NEVER = np.float32(-1e9)


@dataclass(frozen=True)
class Words:
    """The units of some texts, padded to one number of units.

    Attributes:
        after: (texts, units + 1, units): the bits of a unit after the first units of the text, as many as the row says.
        end: (texts, units + 1): the bits of the end there.
        gains: (texts, units): what is gained by keeping each.
        count: (texts,): how many units each text has.
    """

    after: Costs
    end: Costs
    gains: Costs
    count: Whole

    @classmethod
    def of(cls, several: Sequence[Words]) -> Words:
        """The texts of all of them."""
        columns = zip(*((each.after, each.end, each.gains, each.count) for each in several), strict=True)
        return cls(*(np.concatenate(column) for column in columns))

    def repeated(self, times: int) -> Words:
        """All texts, then all of them again, so many times in all."""
        return Words(
            np.tile(self.after, (times, 1, 1)),
            np.tile(self.end, (times, 1)),
            np.tile(self.gains, (times, 1)),
            np.tile(self.count, times),
        )


def best_paths(words: Words, budgets: Costs, *, gap: float, bits: float) -> list[list[int]]:
    """The units of each text that gain most within its budget, by estimate; none if nothing fits.

    Args:
        words: the texts.
        budgets: (texts,), bits.
        gap: what every gap between kept words costs.
        bits: that there are. A budget counts as 1.5 times as many, at most.
    """
    texts, _, units = words.after.shape
    step = max(1.0, bits / _STEPS)  # bits in a step
    most = int(_MORE * bits / step) + 1
    after = np.minimum(np.rint(words.after / step), most).astype(np.int64)
    # The first `most` entries stand for less than 0 bits, so that no index has to be checked.
    best = np.full((texts, units + 1, 2 * most), _NEVER, np.float32)
    back = np.zeros((texts, units + 1, most), np.int64)
    best[:, 0, most] = 0.0
    rows = np.arange(texts)
    for here in range(1, units + 1):
        first = max(0, here - _SKIPPED - 1)
        spent = after[:, first:here, here - 1]  # (texts, before)
        gain = _gains(words.gains[:, here - 1], spent, gap, step)
        value = _reached(best[:, first:here], spent, most) + gain[..., None]
        pick = value.argmax(1)
        best[:, here, most:], back[:, here] = np.take_along_axis(value, pick[:, None], 1)[:, 0], first + pick
    last = np.maximum(words.count, 1)  # before the last unit of a text, all others may be dropped
    spent = np.where(np.arange(units) < last[:, None], after[rows, :units, last - 1], most)
    final = np.take_along_axis(spent, last[:, None] - 1, 1)  # in the text itself
    surprise = np.maximum(spent - final, 0) * (step * _SURPRISE)
    skipped = np.arange(units) < last[:, None] - 1
    gain = words.gains[rows, last - 1][:, None] - skipped * (gap + surprise)
    value = _reached(best[:, :units], spent, most) + gain.astype(np.float32)[..., None]
    pick = value.argmax(1)
    best[rows, last, most:], back[rows, last] = np.take_along_axis(value, pick[:, None], 1)[:, 0], pick
    return _traced(words, best[:, :, most:], back, after, budgets, step)


def _reached(best: Costs, spent: Whole, most: int) -> Costs:
    """What was gained before a unit that takes some bits, for each sum of bits: (texts, before, bits)."""
    texts, before, width = best.shape
    base = (np.arange(texts * before) * width).reshape(texts, before) + most - spent
    found: Costs = best.reshape(-1)[base[..., None] + np.arange(most)]
    return found


def _gains(gains: Costs, spent: Whole, gap: float, step: float) -> Costs:
    """What a unit gains after each of the units before it, the last of which is its neighbour: (texts, before)."""
    surprise = np.maximum(spent - spent[:, -1:], 0) * (step * _SURPRISE)
    found: Costs = (gains[:, None] - gap - surprise).astype(np.float32)
    found[:, -1] = gains
    return found


def _traced(words: Words, best: Costs, back: Whole, after: Whole, budgets: Costs, step: float) -> list[list[int]]:
    """The way of each text that gains most within its budget, its end included."""
    end = np.rint(words.end / step)
    fits = np.arange(best.shape[2]) + end[..., None] <= (budgets / step)[:, None, None]
    values = np.where(fits, best - (_SURPRISE * step) * end[..., None], _NEVER)
    values[:, 0] = _NEVER  # something must be said
    values[np.arange(values.shape[1]) > words.count[:, None]] = _NEVER
    found = []
    for text, place in enumerate(values.reshape(len(values), -1).argmax(1).tolist()):
        here, bits = divmod(place, best.shape[2])
        path: list[int] = []
        if values[text, here, bits] > _NEVER / 2:
            while here > 0:
                path.append(here - 1)
                before = int(back[text, here, bits])
                bits -= int(after[text, before, here - 1])
                here = before
        found.append(path[::-1])
    return found


# -- changes of a form ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Steps:
    """From one kept unit of a text to the next: bits, and how badly it reads.

    Attributes:
        bits: (units + 1, units + 1): row i: after unit i - 1, or at the beginning; the last column is the end.
        rough: the same, as a difference of cosines.
    """

    bits: Costs
    rough: Costs

    @classmethod
    def of(cls, words: Words, negations: npt.NDArray[np.bool_]) -> Steps:
        """Of one text, and which of its units are negations, (units,)."""
        after, end = words.after[0], words.end[0]
        bits = np.concatenate([after, end[:, None]], 1)
        own, here = np.append(np.diagonal(after), 0.0), np.arange(bits.shape[1])
        gap = here[:, None] != here  # the rows are one ahead of the columns: equal numbers are neighbours
        gap[:, -1] = True
        surprise = np.where(gap, np.maximum(bits - own, 0.0), 0.0)
        counted = gap & (here[:, None] > 0) & (here < len(here) - 1)
        reversed_ = gap & np.append(False, negations)  # a column comes after the unit before it
        reversed_[:, -1] = False
        rough = UNEVEN * counted + UNEXPECTED * surprise + REVERSED * reversed_
        return cls(bits, rough.astype(np.float32))

    def along(self, kept: Kept) -> tuple[float, float]:
        """Bits and roughness of a form."""
        way = [0, *(np.flatnonzero(kept) + 1).tolist()]
        ahead = [*(np.flatnonzero(kept)).tolist(), len(self.bits) - 1]
        return float(self.bits[way, ahead].sum()), float(self.rough[way, ahead].sum())


def changes(
    kept: Kept,
    steps: Steps,
    room: float,
    promise: Callable[[Floats, Floats], Floats],
    parts: Floats,
    *,
    count: int,
    units: int,
    marked: bool,
) -> list[Kept]:
    """Forms near to one that promise most, always `count` of them: some kept units dropped, some dropped ones back.

    Args:
        kept: the form.
        steps: of its text.
        room: bits that a change may take more than the form, by estimate.
        promise: from sums of parts without what is dropped, (n, vector), and of what comes back, (m, vector), to the
            cosine of both together with what should be said, (n, m).
        parts: (units, vector), what each unit adds to the vector of the text.
        count: how many.
        units: of the text.
        marked: the last kept unit is a mark that must stay the last.
    """
    most, last = len(kept), int(np.flatnonzero(kept)[-1]) if kept.any() else 0
    dropped, less = _drops(kept, steps, most)
    taken, more = _returns(kept, steps, most, units)
    if marked:
        less[dropped[:, last]] = np.inf
        more[taken[:, last:].any(1)] = np.inf
    near = promise((kept & ~dropped).astype(np.float32) @ parts, taken.astype(np.float32) @ parts)  # (drops, returns)
    values = near - less[:, None, 1] - more[None, :, 1]
    values[less[:, None, 0] + more[None, :, 0] > room] = -np.inf
    values[0, 0] = -np.inf  # the form itself
    found = []
    best = np.argpartition(-values, count, axis=None)[:count]
    for place in best[np.argsort(-values.reshape(-1)[best], kind="stable")].tolist():
        drop, back = divmod(place, len(taken))
        change = kept & ~dropped[drop] | taken[back]
        found.append(change if np.isfinite(values[drop, back]) else np.zeros_like(kept))
    return found


def _drops(kept: Kept, steps: Steps, most: int) -> tuple[npt.NDArray[np.bool_], Costs]:
    """Nothing, then one to three kept units in a row, at every place: which, and the bits and roughness they add."""
    places = np.full(most + _RUN + 1, most)
    held = np.flatnonzero(kept)
    places[: len(held)] = held
    way, ahead = np.minimum(np.append(0, places[:most] + 1), most), places[: most + 1]  # step i leads to place i
    sums = [np.append(0.0, np.cumsum(each[way, ahead])) for each in (steps.bits, steps.rough)]
    rows, added = [np.zeros((1, most), bool)], [np.zeros((1, 2))]
    first = np.arange(most)
    for size in range(1, _RUN + 1):
        mask = np.zeros((most, most + 1), bool)
        for step in range(size):
            mask[first, places[first + step]] = True
        after = np.minimum(first + size, most)
        there = (first + size <= len(held))[:, None]
        jump = [
            each[way[first], places[after]] - (total[after + 1] - total[first])
            for each, total in zip((steps.bits, steps.rough), sums, strict=True)
        ]
        rows.append(mask[:, :most])
        added.append(np.where(there, np.stack(jump, 1), np.inf))
    return np.concatenate(rows), np.concatenate(added).astype(np.float32)


def _returns(kept: Kept, steps: Steps, most: int, units: int) -> tuple[npt.NDArray[np.bool_], Costs]:
    """Nothing, then one to three neighbours that were dropped: which, and the bits and roughness they add."""
    first = np.arange(most)
    before = np.maximum.accumulate(np.append(0, np.where(kept, first + 1, 0)))  # (most + 1,): one behind what was kept
    after = np.minimum.accumulate(np.append(np.where(kept, first, most), most)[::-1])[::-1]
    rows, added = [np.zeros((1, most), bool)], [np.zeros((1, 2))]
    for size in range(1, _RUN + 1):
        end = np.minimum(first + size, most)
        mask = (first[None] >= first[:, None]) & (first[None] < end[:, None])
        there = ((first + size <= units) & ~(mask & kept).any(1))[:, None]
        jump = []
        for each in (steps.bits, steps.rough):
            inner = sum(each[np.minimum(first + step, most), np.minimum(first + step, most)] for step in range(1, size))
            jump.append(each[before[:-1], first] + inner + each[end, after[end]] - each[before[:-1], after[:-1]])
        rows.append(mask)
        added.append(np.where(there, np.stack(jump, 1), np.inf))
    return np.concatenate(rows), np.concatenate(added).astype(np.float32)
