"""k-ary randomised response: a code or a label may be replaced by another one. Pure epsilon, delta = 0.

A value is kept with probability g = (e^epsilon - 1) / (e^epsilon + k - 1). Otherwise one of the k values is chosen
uniformly, and that may be the true one. So the output is the true value with probability
p = e^epsilon / (e^epsilon + k - 1), and each other value with q = 1 / (e^epsilon + k - 1) (Kairouz, Oh and Viswanath
2014). A value outside the set becomes one of the k, uniformly. 1 / k lies between q and p, so no ratio of two of these
probabilities exceeds p / q = e^epsilon.

g is not a binary fraction, so U < g is decided exactly with bits drawn as needed, as in `sampling`. Every value takes
the same amount of work.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import ClassVar

import mpmath
import numpy as np
import numpy.typing as npt

from dpbart.errors import BadParameter
from dpbart.privacy.calibration import check_delta, check_epsilon, given
from dpbart.privacy.decimals import exactly
from dpbart.privacy.event import Event
from dpbart.privacy.facts import SYSTEM_ENTROPY, Facts
from dpbart.privacy.guarantee import Guarantee
from dpbart.privacy.loss import Loss, ResponseLoss
from dpbart.privacy.mechanisms.mechanism import Stated
from dpbart.privacy.private import Private, seal
from dpbart.privacy.sampling import Entropy

PROOF = "k-ary randomised response, Kairouz, Oh and Viswanath 2014; pure epsilon"
MOST_OPTIONS = 1 << 1024
SAMPLER = "integers compared with lazily drawn bits, exactly"
_GUARD = 64  # bits of precision beyond those drawn; half of them count as uncertain
_WORD = 64  # bits
_ROUNDING = 1 + 1e-9  # tolerance for a card's figures, which were floats


@dataclass(frozen=True)
class Response:
    """Randomised response over the whole numbers from 0 to options - 1.

    Attributes:
        epsilon: from 0.01 to 100,000.
        options: k, from 2 to 2^1024; public, and never taken from private data.
    """

    name: ClassVar[str] = "response"

    epsilon: float
    options: int

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        if not 2 <= self.options <= MOST_OPTIONS:
            raise BadParameter(f"options must be from 2 to 2^1024, got {self.options.bit_length()} bits.")

    @property
    def guarantee(self) -> Guarantee:
        """(epsilon, 0)."""
        return Guarantee(self.epsilon, 0.0)

    @property
    def kept(self) -> float:
        """p: the probability that a value is not changed."""
        return 1 / (1 + math.exp(min(700.0, math.log(self.options - 1) - self.epsilon)))

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
        other = (1 - self.kept) / (self.options - 1) if self.options < 1 << 1000 else 0.0  # q
        return Facts(
            guarantee=self.guarantee,
            mechanism=self.name,
            proof=PROOF,
            figures={"options_log2": size, "kept": self.kept},
            lines=(
                ("Code", f"{size:.10g} bits for each text: one of 2^{size:.10g} codes"),
                (
                    "Kept",
                    f"of 100 texts, about {of_100:.3g} come through as meant; the others come out as unrelated texts",
                ),
            ),
            sampler=SAMPLER,
            entropy=SYSTEM_ENTROPY,
            bits=self.bits,
            right_of_two=0.5 + (self.kept - other) / 2,  # exact for k > 2: any third value reveals nothing
            event=Event(self.name, exactly(self.epsilon), Decimal(0), size),
            recipe=f"mech:{self.name}|eps:{self.epsilon:.10g}|delta:0|bits:{size:.10g}",
        )

    def privatize(self, values: Sequence[int], entropy: Entropy) -> Private[tuple[int, ...]]:
        """A randomised value for each given one, sealed. Values inside and outside the set take the same path."""
        kept, others = self._keeps(len(values), entropy), self._uniform(len(values), entropy)
        drawn = tuple(
            value if keep and 0 <= value < self.options else other
            for value, keep, other in zip(values, kept.tolist(), others, strict=True)
        )
        return seal(drawn, self.facts if entropy.private else self.facts.replayed())

    @staticmethod
    def check_budget(epsilon: float | None, delta: float) -> None:
        check_epsilon(given(epsilon))
        check_delta(delta)  # not used, but a typing mistake should be noticed

    @staticmethod
    def holds(stated: Stated, promised: Guarantee) -> bool:
        # A value must be kept no more often than epsilon allows.
        log_others = float(stated["options_log2"]) * math.log(2) + math.log1p(-(2.0 ** -float(stated["options_log2"])))
        allowed = 1 / (1 + math.exp(min(700.0, log_others - promised.epsilon)))
        return bool(0 < stated["kept"] <= allowed * _ROUNDING)

    @staticmethod
    def event_of(stated: Stated, promised: Guarantee) -> Event:
        return Event(Response.name, exactly(promised.epsilon), Decimal(0), float(stated["options_log2"]))

    @staticmethod
    def loss(event: Event) -> Loss | None:
        """Exact, if the number of options is known."""
        return ResponseLoss.of(epsilon=float(event.epsilon), options_log2=event.parameter or 1.0)

    def _keeps(self, count: int, entropy: Entropy) -> npt.NDArray[np.bool_]:
        """Whether U < g, for each value: (count,)."""
        words = entropy.words(count)  # the first 64 bits of each U
        low, high = self._first_edge
        kept = words < np.uint64(low)
        for index in np.flatnonzero(~kept & (words <= np.uint64(min(high, (1 << _WORD) - 1)))):
            kept[index] = self._decide(int(words[index]), entropy)
        return kept

    def _decide(self, start: int, entropy: Entropy) -> bool:
        bits, (low, high) = _WORD, self._first_edge
        while low <= start <= high:
            start, bits = start << _WORD | int(entropy.words(1)[0]), bits + _WORD
            low, high = self._edge(bits)
        return start < low

    @cached_property
    def _first_edge(self) -> tuple[int, int]:
        return self._edge(_WORD)

    def _edge(self, bits: int) -> tuple[int, int]:
        """Two numbers of `bits` bits: below the first, U < g is certain; above the second, U > g is certain."""
        context = mpmath.MPContext()
        context.prec = bits + _GUARD
        weight = context.exp(
            -context.mpf(self.epsilon)
        )  # of any other value, relative to the true one; cannot overflow
        kept = (1 - weight) / (1 + (self.options - 1) * weight)
        doubt = context.ldexp(1, _GUARD // 2 - context.prec)
        low = int(context.floor(context.ldexp(kept * (1 - doubt), bits)))
        return low, int(context.floor(context.ldexp(kept * (1 + doubt), bits)))

    def _uniform(self, count: int, entropy: Entropy) -> list[int]:
        """Uniform values from 0 to options - 1."""
        size = (self.options - 1).bit_length()
        even = self.options & (self.options - 1) == 0
        words = -(-size // _WORD) + (0 if even else 1)  # one more word, so that rejections are rare
        whole = 1 << _WORD * words
        whole -= whole % self.options
        drawn: list[int] = []
        while len(drawn) < count:
            # Numbers at or above the last whole multiple of k are rejected, so the rest is uniform.
            raw, step = entropy.words((count - len(drawn)) * words).tobytes(), 8 * words
            numbers = (int.from_bytes(raw[place : place + step], "little") for place in range(0, len(raw), step))
            drawn += [number % self.options for number in numbers if number < whole]
        return drawn
