"""k-ary randomised response: a label that may be another one, with its own epsilon.

With probability g = (e^epsilon - 1) / (e^epsilon + k - 1) the label is kept, and otherwise any of the k labels is
drawn, the true one among them; so the truth comes out with probability e^epsilon / (e^epsilon + k - 1) and each other
label with 1 / (e^epsilon + k - 1) (Kairouz, Oh and Viswanath 2014). A label that is not in the set comes out as any of
the k, equally likely, which lies between the two: the ratio of no two of these is above e^epsilon.

g is no binary fraction, so U < g is decided exactly, with lazily drawn bits, as in `sampling`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import mpmath

from dpbart.errors import BadParameter
from dpbart.privacy.calibration import check_epsilon
from dpbart.privacy.sampling import Entropy

_GUARD = 64  # bits of precision beyond those drawn; half of them are counted as doubt
_WORD = 64  # bits


@dataclass(frozen=True)
class RandomizedResponse:
    """Randomised response over a set of labels that is public.

    Attributes:
        epsilon: from 0.01 to 100,000; delta is 0.
        labels: at least two, all different; never taken from the private column.
    """

    epsilon: float
    labels: tuple[str, ...]

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        if len(self.labels) < 2 or len(set(self.labels)) != len(self.labels):
            raise BadParameter(f"labels must be at least two, all different, got {len(self.labels)}.")

    def randomize(self, given: Sequence[str], entropy: Entropy) -> list[str]:
        """A label for each one given. All take the same path, in the set or not."""
        keep = [self._keeps(word, entropy) for word in entropy.words(len(given)).tolist()]
        other = [self._any(entropy) for _ in given]
        known = frozenset(self.labels)
        return [
            label if kept and label in known else drawn for label, kept, drawn in zip(given, keep, other, strict=True)
        ]

    def _keeps(self, word: int, entropy: Entropy) -> bool:
        """Whether U < g, the first 64 bits of U being the word."""
        start, bits = word, _WORD
        low, high = self._first_edge
        while low <= start <= high:
            start, bits = start << _WORD | int(entropy.words(1)[0]), bits + _WORD
            low, high = self._edge(bits)
        return start < low

    @cached_property
    def _first_edge(self) -> tuple[int, int]:
        return self._edge(_WORD)

    def _edge(self, bits: int) -> tuple[int, int]:
        """Numbers of `bits` bits: below the first one U < g for sure, above the second one U > g for sure."""
        context = mpmath.MPContext()
        context.prec = bits + _GUARD
        weight = context.exp(-context.mpf(self.epsilon))  # of another label, the true one being 1: cannot overflow
        kept = (1 - weight) / (1 + (len(self.labels) - 1) * weight)
        doubt = context.ldexp(1, _GUARD // 2 - context.prec)
        low = int(context.floor(context.ldexp(kept * (1 - doubt), bits)))
        return low, int(context.floor(context.ldexp(kept * (1 + doubt), bits)))

    def _any(self, entropy: Entropy) -> str:
        # Words beyond the last whole multiple of k are thrown away: the rest is evenly spread.
        whole = (1 << _WORD) - (1 << _WORD) % len(self.labels)
        while (word := int(entropy.words(1)[0])) >= whole:
            pass
        return self.labels[word % len(self.labels)]
