"""Which words of a text to keep: those that gain most within some bits, found for many texts at once.

A knapsack whose items have an order. `best[i, b]` is the most that can be gained in b bits if unit i - 1 is the last
one kept. A word that is not expected after a gap counts for less. The shapes depend on the number of texts and on the
public sizes, and on nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Costs = npt.NDArray[np.float32]
Whole = npt.NDArray[np.int64]

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

    def repeated(self, times: int) -> Words:
        """All texts, then all of them again, so many times in all."""
        return Words(
            np.tile(self.after, (times, 1, 1)),
            np.tile(self.end, (times, 1)),
            np.tile(self.gains, (times, 1)),
            np.tile(self.count, times),
        )


def best_paths(words: Words, budgets: Costs, gaps: Costs, *, bits: float) -> list[list[int]]:
    """The units of each text that gain most within its budget, by estimate; none if nothing fits.

    Args:
        words: the texts.
        budgets: (texts,), bits.
        gaps: (texts,), what every gap between kept words costs.
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
        gain = _gains(words.gains[:, here - 1], spent, gaps, step)
        value = _reached(best[:, first:here], spent, most) + gain[..., None]
        pick = value.argmax(1)
        best[:, here, most:], back[:, here] = np.take_along_axis(value, pick[:, None], 1)[:, 0], first + pick
    last = np.maximum(words.count, 1)  # before the last unit of a text, all others may be dropped
    spent = np.where(np.arange(units) < last[:, None], after[rows, :units, last - 1], most)
    final = np.take_along_axis(spent, last[:, None] - 1, 1)  # in the text itself
    surprise = np.maximum(spent - final, 0) * (step * _SURPRISE)
    skipped = np.arange(units) < last[:, None] - 1
    gain = words.gains[rows, last - 1][:, None] - skipped * (gaps[:, None] + surprise)
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


def _gains(gains: Costs, spent: Whole, gaps: Costs, step: float) -> Costs:
    """What a unit gains after each of the units before it, the last of which is its neighbour: (texts, before)."""
    surprise = np.maximum(spent - spent[:, -1:], 0) * (step * _SURPRISE)
    found: Costs = (gains[:, None] - gaps[:, None] - surprise).astype(np.float32)
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
