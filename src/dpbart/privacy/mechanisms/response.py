"""k-ary randomised response: a code or a label may be replaced by another one. Pure epsilon, delta = 0.

A value is kept with probability g = (e^epsilon - 1) / (e^epsilon + k - 1). Otherwise one of the k values is chosen
uniformly, and that may be the true one. So the output is the true value with probability
p = e^epsilon / (e^epsilon + k - 1), and each other value with q = 1 / (e^epsilon + k - 1) (Kairouz, Oh and Viswanath
2014). No value at all becomes one of the k, uniformly. 1 / k lies between q and p, so no ratio of two of these
probabilities exceeds p / q = e^epsilon.

The same holds for sets. There are n k values, and n of them, any n, mean the same for one text. If its set is kept, one
of the n is chosen uniformly; otherwise one of all n k. So each value in the set has probability p / n, and each other
value q / n, where p and q are those above. The ratio is e^epsilon again, whatever the sets are.

And for tuples. A text may send several places at once, each a set of n out of the same number of values. All places go
through one response: the tuples with a member of each set are the text's set, of n^places tuples, and there are k times
as many in all. One response for all places spends epsilon once; one for each place would spend it for each.

g is not a binary fraction, so U < g is decided exactly with bits drawn as needed, as in `sampling`. Every value takes
the same amount of work.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from dpbart.errors import BadParameter
from dpbart.privacy.calibration import check_epsilon, check_slack, given
from dpbart.privacy.facts import SYSTEM_ENTROPY, Facts, Private, seal
from dpbart.privacy.guarantee import Event, Guarantee, Loss, ResponseLoss, exactly
from dpbart.privacy.mechanisms.mechanism import Stated
from dpbart.privacy.sampling import Entropy

PROOF = "k-ary randomised response, Kairouz, Oh and Viswanath 2014; pure epsilon"
MOST_BITS = 1024
MOST_OPTIONS = 1 << MOST_BITS
SAMPLER = "integers compared with lazily drawn bits, exactly"
Sets = Sequence[Sequence[int]] | npt.NDArray[np.int64]  # values of each text, place after place; or none
_GUARD = 64  # bits of precision beyond those drawn; half of them count as uncertain
_WORD = 64  # bits


@dataclass(frozen=True)
class Response:
    """Randomised response over the whole numbers from 0 to options x near^places - 1.

    Attributes:
        epsilon: from 0.01 to 100,000.
        options: k, from 2 to 2^1024; public, and never taken from private data.
        near: n, the number of values that mean the same for one text; public, and the same for every text.
        places: how many values a text sends at once; public, and the same for every text. A tuple is one whole number,
            its places the digits, the first the most significant.
    """

    name: ClassVar[str] = "response"

    epsilon: float
    options: int
    near: int = 1
    places: int = 1

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        if not 2 <= self.options <= MOST_OPTIONS:
            raise BadParameter(f"options must be from 2 to 2^1024, got {self.options.bit_length()} bits.")
        if self.near < 1:
            raise BadParameter(f"near must be at least 1, got {self.near}.")
        if self.places < 1 or _root(self.options, self.places) is None:
            raise BadParameter(f"every place must have the same number of options, got {self.places} places.")

    @property
    def values(self) -> int:
        """The number of values of one place."""
        return (_root(self.options, self.places) or 0) * self.near

    @property
    def guarantee(self) -> Guarantee:
        """(epsilon, 0)."""
        return Guarantee(self.epsilon, 0.0)

    @property
    def kept(self) -> float:
        """p: the probability that the output means the same as the input."""
        # At most e^709.78, so it fits a float: options is at most 2^1024, and epsilon at least 0.01.
        return 1 / (1 + math.exp(math.log(self.options - 1) - self.epsilon))

    @property
    def bits(self) -> float:
        """The capacity of this channel in bits, reached when all values are equally likely.

        It is log2 k - H, where H is the entropy of the output given the input.
        """
        if self.kept >= 1.0:
            return math.log2(self.options)
        lost = 1 - self.kept
        entropy = -self.kept * math.log2(self.kept) - lost * (math.log2(lost) - math.log2(self.options - 1))
        return max(0.0, math.log2(self.options) - entropy)

    @property
    def facts(self) -> Facts:
        """The facts of a channel that sends one of `options` values."""
        size, of_100 = math.log2(self.options), 100 * self.kept
        other = self.kept * math.exp(-self.epsilon)  # q
        return Facts(
            guarantee=self.guarantee,
            mechanism=self.name,
            proof=PROOF,
            figures={"options_log2": size, "kept": self.kept, **self._extent},
            lines=(
                ("Code", f"{size:.10g} bits for each text: {self._code_in_words}"),
                (
                    "Kept",
                    f"of 100 texts, about {of_100:.3g} come through as meant; the others come out as unrelated texts, "
                    "and a reader who knows the subject of the file can often tell which",
                ),
            ),
            sampler=SAMPLER,
            entropy=SYSTEM_ENTROPY,
            bits=self.bits,
            right_of_two=0.5 + (self.kept - other) / 2,  # exact for k > 2: any third value reveals nothing
            event=Event(self.name, exactly(self.epsilon), Decimal(0), size),
            recipe=f"mech:{self.name}|eps:{self.epsilon:.10g}|delta:0|bits:{size:.10g}"
            + "".join(f"|{name}:{value}" for name, value in self._extent.items()),
            options=self.options,
        )

    @property
    def _extent(self) -> dict[str, int]:
        """How many values mean the same, and how many a text sends, if more than one."""
        return {name: value for name in ("near", "places") if (value := getattr(self, name)) > 1}

    @property
    def _code_in_words(self) -> str:
        if self.near == self.places == 1:
            return f"one of 2^{math.log2(self.options):.10g} codes"
        each = "" if self.places == 1 else f" for each of {self.places} places"
        meant = "" if self.near == 1 else f", where the {self.near:,} nearest count as meant"
        return f"one of {self.values:,} public texts{each}{meant}"

    def privatize(self, meant: Sets, entropy: Entropy) -> Private[tuple[int, ...]]:
        """A randomised value for each text, sealed.

        Args:
            meant: the values that mean the same for each text: for each place `near` different ones, the places one
                after the other; or none at all.
            entropy: where random bits come from. Every text takes the same number of them.
        """
        for values in meant:
            self._check(values)
        count = len(meant)
        kept = self._keeps(count, entropy)
        picks = self._uniform(count * self.places, self.near, entropy) if self.near > 1 else [0] * count * self.places
        others = self._uniform(count, self.options * self.near**self.places, entropy)
        drawn = tuple(
            self._chosen(values, picks[number * self.places : (number + 1) * self.places])
            if keep and len(values)
            else other
            for number, (values, keep, other) in enumerate(zip(meant, kept.tolist(), others, strict=True))
        )
        return seal(drawn, self.facts if entropy.private else self.facts.replayed())

    def join(self, values: Sequence[int]) -> int:
        """One whole number for a tuple of values, one of each place."""
        joined = 0
        for value in values:
            joined = joined * self.values + int(value)
        return joined

    def _chosen(self, values: Sequence[int] | npt.NDArray[np.int64], picks: Sequence[int]) -> int:
        return self.join([values[place * self.near + pick] for place, pick in enumerate(picks)])

    def _check(self, values: Sequence[int] | npt.NDArray[np.int64]) -> None:
        """A value that stands twice in a set would be twice as likely as epsilon allows."""
        if len(values) == 0:
            return
        starts = range(0, len(values), self.near)
        sets = [{int(value) for value in values[first : first + self.near]} for first in starts]
        different = len(values) == self.places * self.near and all(len(each) == self.near for each in sets)
        if not different or min(map(min, sets)) < 0 or max(map(max, sets)) >= self.values:
            raise BadParameter(
                f"each text needs no value, or {self.near} different ones for each of {self.places} places, "
                f"all from 0 to {self.values - 1}."
            )

    @staticmethod
    def check_budget(epsilon: float | None, delta: float) -> None:
        check_epsilon(given(epsilon))
        check_slack(delta)  # not used, but a typing mistake should be noticed

    @staticmethod
    def recomputed(stated: Stated, promised: Guarantee) -> Facts:
        options, near, places = 1 << whole_bits(stated["options_log2"]), stated.get("near", 1), stated.get("places", 1)
        return Response(promised.epsilon, options, near, places).facts

    @staticmethod
    def loss(event: Event) -> Loss | None:
        """Exact, if the number of options is known."""
        return ResponseLoss.of(epsilon=float(event.epsilon), options_log2=event.parameter or 1.0)

    def _keeps(self, count: int, entropy: Entropy) -> npt.NDArray[np.bool_]:
        """Whether U < g, for each value: (count,)."""
        words = entropy.words(count)  # the first 64 bits of each U
        low, high = self._first_edge
        kept: npt.NDArray[np.bool_] = words < np.uint64(low)
        for index in np.flatnonzero(~kept & (words <= np.uint64(min(high, (1 << _WORD) - 1)))):
            kept[index] = self._decide(int(words[index]), entropy)
        return kept

    def _decide(self, start: int, entropy: Entropy) -> bool:
        bits, (low, high) = _WORD, self._first_edge
        while low <= start <= high:
            start, bits = start << _WORD | int(entropy.words(1)[0]), bits + _WORD
            low, high = self._edge(bits)
        return start < low

    def keep_interval(self, bits: int) -> tuple[Fraction, Fraction]:
        """Two fractions with g between them, as thresholds of `bits` bits decide it. An audit computes epsilon here."""
        low, high = self._edge(bits)
        return Fraction(low, 1 << bits), Fraction(high + 1, 1 << bits)

    @cached_property
    def _first_edge(self) -> tuple[int, int]:
        return self._edge(_WORD)

    def _edge(self, bits: int) -> tuple[int, int]:
        """Two numbers of `bits` bits: below the first, U < g is certain; above the second, U > g is certain."""
        import mpmath  # slow to import, and only needed to draw

        context = mpmath.MPContext()
        context.prec = bits + _GUARD
        weight = context.exp(
            -context.mpf(self.epsilon)
        )  # of any other value, relative to the true one; cannot overflow
        kept = (1 - weight) / (1 + (self.options - 1) * weight)
        doubt = context.ldexp(1, _GUARD // 2 - context.prec)
        low = int(context.floor(context.ldexp(kept * (1 - doubt), bits)))
        return low, int(context.floor(context.ldexp(kept * (1 + doubt), bits)))

    @staticmethod
    def _uniform(count: int, most: int, entropy: Entropy) -> list[int]:
        """Uniform whole numbers from 0 to most - 1."""
        size = (most - 1).bit_length()
        even = most & (most - 1) == 0
        words = -(-size // _WORD) + (0 if even else 1)  # one more word, so that rejections are rare
        whole = 1 << _WORD * words
        whole -= whole % most
        drawn: list[int] = []
        while len(drawn) < count:
            # Numbers at or above the last whole multiple of `most` are rejected, so the rest is uniform.
            raw, step = entropy.words((count - len(drawn)) * words).tobytes(), 8 * words
            numbers = (int.from_bytes(raw[place : place + step], "little") for place in range(0, len(raw), step))
            drawn += [number % most for number in numbers if number < whole]
        return drawn


def _root(options: int, places: int) -> int | None:
    """The whole number whose power is the number of options; None if there is none."""
    if places == 1:
        return options
    root = round(options ** (1 / places)) if options < 1 << 50 else 1 << round(math.log2(options) / places)
    return root if root**places == options else None


def whole_bits(stated: float) -> int:
    """The size of a code on a card, in bits.

    Raises:
        BadParameter: It is not a whole number from 1 to 1024.
    """
    if not 1 <= stated <= MOST_BITS or stated != int(stated):
        raise BadParameter(f"a code must have a whole number of bits from 1 to {MOST_BITS}, got {stated}.")
    return int(stated)
