"""Say what fits: shorten a text until the writer can spell it in the bits there are.

Spelling a text from the front until the bits run out keeps its first words and loses its point. Here words are dropped
instead, those first that cost many bits and say little. What is left costs few bits only if it reads well, so the same
count keeps it fluent. Names, numbers and rare words cost the most and are what a privacy budget should not buy. With
fewer bits than `CodeSettings.names_from` they go first when a text has to be shortened, and a stand-in ("someone" for a
name) takes their place.

A text is cut into units whose costs are known (cutting.py). The best way through it is found for several sums of bits
(shortening.py), and the shortened texts are spelled for their exact costs. The best of them is changed a little in many
ways; the changes that promise most are spelled, too. What promises most in the end is read. Every text takes the same
work, in arrays of one shape.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dpbart.models.code.cutting import Cut, Cutter
from dpbart.models.code.shortening import Kept, Words, best_paths
from dpbart.models.code.weights import Floats
from dpbart.models.code.writer import END, PAD

GAP = 0.02  # what every gap between kept words costs: so whole phrases are kept or dropped
# A first form is made and spelled; then, with the bits that it really took, forms that may take these shares of the
# room. If the text fits as it is, it takes the place of the last one.
SHARES = (1.0, 0.8)
CHANGES = 12  # of the best form that are spelled
READ = 8  # forms that are read
# Bits. The piece around the middle of an interval that is no smaller lies at least half inside it, so it is read as
# that text. The rest is for rounding.
SLACK = 0.01
_AT_ONCE = 8  # texts
_FRAME = 2  # tokens of the reader around a form


class Form(NamedTuple):
    """A text that may be sent.

    Attributes:
        text: what is said; empty if it does not fit.
        kept: (units,): which units of the original it has.
        promise: how near it is to what should be said, less for what reads badly, by estimate.
        rough: how badly it reads, as a difference of cosines.
        bits: that it takes.
        shares: how it is spelled, (shares, 2); see `Spelling`.
    """

    text: str
    kept: Kept
    promise: float
    rough: float
    bits: float
    shares: npt.NDArray[np.int64]


@dataclass(frozen=True)
class Fitter:
    """Shortens texts for one writer and one number of bits."""

    cutter: Cutter
    bits: int

    @property
    def longest(self) -> int:
        """Tokens of a form, with its end. So few bits are hardly ever enough for more."""
        return min(self.cutter.length, self.bits // 5 + 4)

    @property
    def rare(self) -> int:
        """Rare tokens of a form, at most. Each takes about 13 bits."""
        return min(self.longest, self.bits // 13 + 1)

    def fit(self, texts: Sequence[str], wholes: Floats) -> list[tuple[Form, float]]:
        """The form of each text that is nearest to a vector, (texts, vector), less for what reads badly; and how near.

        Every text gets as many forms. If none fits, the form is empty and -1 near.
        """
        found: list[tuple[Form, float]] = []
        for first in range(0, len(texts), _AT_ONCE):
            part = slice(first, first + _AT_ONCE)
            found += self._fit_batch(texts[part], wholes[part])
        return found

    def _fit_batch(self, texts: Sequence[str], wholes: Floats) -> list[tuple[Form, float]]:
        """Three rounds of forms: by the costs in the text, by the bits they really took, and changes of the best."""
        count, room = len(texts), self.bits - SLACK
        cut = self.cutter.cut(texts, wholes, longest=self.longest)
        words = Words.of([each.words for each in cut])
        rounds = [self._spelled(cut, self._paths(words, [np.full(count, room)]))]
        taken = np.maximum([form.bits for (form,) in rounds[0]], 1.0)
        second = self._paths(words, [share * room * room / taken for share in SHARES])
        whole = [each.whole if each.bits <= room else rows[-1] for each, rows in zip(cut, second, strict=True)]
        rounds.append(self._spelled(cut, [[*rows[:-1], last] for rows, last in zip(second, whole, strict=True)]))
        best = [max([*one, *other], key=_promise) for one, other in zip(*rounds, strict=True)]
        near = [each.changes(form.kept, room - form.bits, count=CHANGES) for each, form in zip(cut, best, strict=True)]
        rounds.append(self._spelled(cut, near))
        return self._nearest([[form for forms in each for form in forms] for each in zip(*rounds, strict=True)], wholes)

    def _paths(self, words: Words, budgets: Sequence[npt.NDArray[np.float64]]) -> list[list[Kept]]:
        """What each text keeps within each of some budgets, (texts,) each."""
        count = len(words.count)
        asked = np.concatenate(budgets).astype(np.float32)
        paths = best_paths(words.repeated(len(budgets)), asked, gap=GAP, bits=self.bits)
        kept = np.zeros((len(budgets), count, words.gains.shape[1]), bool)
        for number, path in enumerate(paths):
            kept[number // count, number % count, path] = True
        return [list(rows) for rows in kept.transpose(1, 0, 2)]

    def _spelled(self, cut: Sequence[Cut], kept: Sequence[Sequence[Kept]]) -> list[list[Form]]:
        """The forms of each text, as many for each."""
        drafts = [(each, rows) for each, several in zip(cut, kept, strict=True) for rows in several]
        said = [each.text(rows) for each, rows in drafts]
        ids, fits = np.full((len(said), self.longest), PAD), np.zeros(len(said), bool)
        for number, row in enumerate(self.cutter.tokens(said)):
            shown = [*row[: self.longest - 1], END]
            ids[number, : len(shown)] = shown
            fits[number] = 0 < len(row) < self.longest
        spelling = self.cutter.writer.spell(ids, rare=self.rare)
        fits &= spelling.fits & (spelling.bits <= self.bits - SLACK)
        forms = []
        for number, (each, rows) in enumerate(drafts):
            near, rough = each.worth(rows)
            fit = bool(fits[number])
            text, promise = (said[number], near - rough) if fit else ("", -1.0)
            forms.append(Form(text, rows, promise, rough, float(spelling.bits[number]), spelling.shares[number]))
        count = len(kept[0])
        return [forms[first : first + count] for first in range(0, len(forms), count)]

    def _nearest(self, forms: Sequence[Sequence[Form]], wholes: Floats) -> list[tuple[Form, float]]:
        """The nearest form of each text, of those that promise most, after reading them."""
        best = [sorted(each, key=_promise, reverse=True)[:READ] for each in forms]
        said = [form.text for each in best for form in each]
        vectors = self.cutter.reader.sentences(said, tokens=self.longest + _FRAME).reshape(len(forms), READ, -1)
        near = np.einsum("tcv,tv->tc", vectors, wholes)
        found = []
        for each, cosines in zip(best, near.tolist(), strict=True):
            values = [cosine - form.rough if form.text else -1.0 for form, cosine in zip(each, cosines, strict=True)]
            place = int(np.argmax(values))
            found.append((each[place], values[place]))
        return found


def _promise(form: Form) -> float:
    return form.promise
