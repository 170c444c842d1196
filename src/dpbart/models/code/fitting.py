"""Say what fits: shorten a text until the writer can spell it in the bits there are.

Spelling a text from the front until the bits run out keeps its first words and loses its point. Here words are dropped
instead, those first that cost many bits and say little. What is left costs few bits only if it reads well, so the same
count keeps it fluent. Names, numbers and rare words cost the most and are what a privacy budget should not buy: when a
text has to be shortened they go first, and a stand-in ("someone" for a name) takes their place.

One pass of the writer gives the cost of every word after every beginning of the text: the exact cost of a word when the
words just before it are dropped. The best way through the text is then found by dynamic programming, for several sums
of bits, and the shortened texts are read once more for their exact costs. Every text takes the same number of passes,
in one shape.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from tokenizers import Tokenizer

from dpbart.models.code.book import Floats, Places
from dpbart.models.code.reader import Reader
from dpbart.models.code.settings import CodeSettings
from dpbart.models.code.writer import BEGIN, END, PAD, Rows, Writer

UNIT = re.compile(r"\s*\w+(?:['’\-]\w+)*|\s*[^\w\s]+")  # a word with its apostrophes and hyphens, or punctuation
# What every gap between kept words costs. With dear gaps, whole phrases are kept or dropped. For each of them a form is
# made and read once more; then, with the bits that it really took, forms that may take these shares of the room.
GAPS = (0.01, 0.06)
SHARES = ((1.0, 0.85), (0.95,))
CANDIDATES = 1 + len(GAPS) + sum(map(len, SHARES))  # the text as it is comes first
UNEVEN = 0.015  # by how much a form must be nearer for every gap more
SLACK = 1.5  # bits: an interval must lie inside a piece, not only be as small
_COMMON_BITS = 9.0  # a name of fewer bits is so frequent that it tells little
_INSIDE = 4.0  # bits of every later token of a first word, about
_SKIPPED = 8  # units that may be dropped in a row, at most, except before the last one
_NEGATION = re.compile(r"(not|no|never|nobody|nothing|without|neither|nor|cannot|\w+n['’]t)", re.IGNORECASE)
_PUNCTUATION = 0.004  # what a mark says: enough to keep one that is likely
_LITTLE = 0.01  # what a stand-in says
_SURPRISE = 0.012  # what every bit costs by which a word is less expected after a gap than in the text, or an end
_FOR_NAMES = (" someone", " something", " somewhere")
_FOR_NUMBERS = (" some", " many", " several", " two", " one", " another")

Costs = npt.NDArray[np.float64]


class Form(NamedTuple):
    """A shortened text, and the number of its gaps."""

    text: str
    gaps: int


@dataclass(frozen=True)
class Fitter:
    """Shortens texts for one writer and one number of bits."""

    reader: Reader  # says how much each word contributes
    tokenizer: Tokenizer
    writer: Writer
    common: frozenset[str]  # ordinary words: frequent in public text, and in lower case there
    known: frozenset[str]  # words that tell nobody apart as they are spelled: "Christmas"; "park", but not "Park"
    bits: int
    length: int  # most tokens of a text, with its end
    settings: CodeSettings

    def fit(self, texts: Sequence[str]) -> list[list[Form]]:
        """Shortened forms of each text, always CANDIDATES of them; an empty one where it does not fit."""
        units = [self._units(text) for text in texts]
        shares = [self._shares(each) for each in units]
        found: list[list[Form]] = []
        for first in range(0, len(texts), self.settings.batch):
            part = slice(first, first + self.settings.batch)
            found += self._fit_batch(units[part], shares[part])
        return found

    def tokens(self, texts: Sequence[str]) -> Rows:
        """Ids of texts without begin and end."""
        clean = [text.encode("utf-8", "replace").decode("utf-8") for text in texts]
        return [encoding.ids for encoding in self.tokenizer.encode_batch_fast(clean, add_special_tokens=False)]

    def _shares(self, units: Sequence[str]) -> Floats:
        """What each unit says: its part in the direction of all their words together, (units,)."""
        bags = self.reader.bags([*units, *[""] * (self.length - len(units))])[
            : len(units)
        ]  # as many, whatever the text
        total = bags.sum(0)
        shares: Floats = bags @ total / max(float(total @ total), 1e-9)
        return shares

    def _units(self, text: str) -> list[str]:
        return UNIT.findall(text)[: self.length - 1]

    def _fit_batch(self, units: Sequence[Sequence[str]], shares: Sequence[Floats]) -> list[list[Form]]:
        changed = self._with_stand_ins(units, shares)
        rows = [self._tokens_of_units([unit for unit, _ in each]) for each in changed]
        probabilities = self._read([_flat(row) for row in rows])  # (batch, length, vocabulary)
        shorteners = []
        for number, (each, row) in enumerate(zip(changed, rows, strict=True)):
            ends = np.cumsum([len(tokens) for tokens in row])
            kept = each[: int((ends < self.length).sum())]
            costs = _Costs.of(probabilities[number], row[: len(kept)], self.writer).starting(
                probabilities[number, 0], self.tokens([_as_first(unit) for unit, _ in kept]), self.writer
            )
            shorteners.append(_Shortener([unit for unit, _ in kept], costs, self._gains(kept)))
        texts = [Form("".join(each).strip(), 0) for each in units]
        return self._in_two_rounds(texts, shorteners)

    def _in_two_rounds(self, texts: Sequence[Form], shorteners: Sequence[_Shortener]) -> list[list[Form]]:
        """The texts as they are and their shortened forms, as far as they fit. Forms that took too many bits, or left
        some, are followed by others."""
        room = self.bits - SLACK
        first = [[text, *(each.form(room, gap) for gap in GAPS)] for text, each in zip(texts, shorteners, strict=True)]
        spent = self._spent(first)
        second = [
            [
                each.form(share * room * room / max(bits, 1.0), gap)
                for gap, bits, shares in zip(GAPS, taken[1:], SHARES, strict=True)
                for share in shares
            ]
            for each, taken in zip(shorteners, spent, strict=True)
        ]
        found = []
        for forms, taken in zip(
            zip(first, second, strict=True), zip(spent, self._spent(second), strict=True), strict=True
        ):
            both = zip([*forms[0], *forms[1]], [*taken[0], *taken[1]], strict=True)
            found.append([form if bits <= room else Form("", 0) for form, bits in both])
        return found

    def _with_stand_ins(
        self, units: Sequence[Sequence[str]], shares: Sequence[Floats]
    ) -> list[list[tuple[str, float]]]:
        """The units of one batch with what each says. Each run of telling words has become one stand-in."""
        rows = [self._tokens_of_units(each) for each in units]
        probabilities = self._read([_flat(row) for row in rows])
        found = []
        for number, (each, share, row) in enumerate(zip(units, shares, rows, strict=True)):
            starts = [0, *np.cumsum([len(tokens) for tokens in row]).tolist()]
            whole = [tokens for tokens, end in zip(row, starts[1:], strict=True) if end < self.length]
            costs = _Costs.of(probabilities[number], whole, self.writer)
            kept: list[tuple[str, float]] = []
            before = False
            for place, unit in enumerate(each[: len(whole)]):
                dear = float(costs.after[place, place]) > _COMMON_BITS
                telling = dear and self.is_telling(unit.strip())
                if not telling:
                    kept.append((unit, float(share[place])))
                elif unit.strip().islower() and unit.strip().isalpha():
                    kept.append((unit, 0.0))  # rare, and nobody's name: it goes first, without a stand-in
                elif not before:
                    expected = probabilities[number, min(starts[place], self.length - 1)]
                    kept.append((self._stand_in(unit, expected, first=place == 0), _LITTLE))
                before = telling
            found.append([*kept, (".", 0.0)] if kept and kept[-1][0][-1].isalnum() else kept)  # an end for what is left
        return found

    def _stand_in(self, unit: str, expected: torch.Tensor, *, first: bool) -> str:
        """The likeliest word for a name or a number here."""
        words = (
            _FOR_NUMBERS if any(character.isdigit() for character in unit) else _FOR_NAMES[:1] if first else _FOR_NAMES
        )
        ranks = [
            int(self.writer.rank[row[0]])
            for row in self.tokens([word.capitalize() if first else word for word in words])
        ]
        word = words[int(expected[torch.tensor(ranks)].argmax())]
        return word.strip().capitalize() if first else word

    def _gains(self, units: Sequence[tuple[str, float]]) -> Costs:
        """What is gained by keeping each unit."""
        gains = np.maximum([share for _, share in units], 0.0)
        for place, (unit, _) in enumerate(units):
            word = unit.strip()
            if not any(character.isalnum() for character in word):
                gains[place] = _PUNCTUATION
            elif _NEGATION.fullmatch(word):
                gains[place] = max(gains[place], 0.1)  # without it a text says the opposite
        return gains

    def is_telling(self, word: str) -> bool:
        """Whether a word is a name, a number or rare."""
        plain = word.replace("’", "'").removesuffix("'s")
        return any(map(str.isalnum, word)) and plain.lower() not in self.common and plain not in self.known

    def _spent(self, candidates: Sequence[Sequence[Form]]) -> list[list[float]]:
        """The bits of each form of one batch, its end included."""
        forms, each = [form for row in candidates for form in row], len(candidates[0])
        rows = [row[: self.length - 1] for row in self.tokens([form.text for form in forms])]
        spent: list[float] = []
        for first in range(0, len(rows), self.settings.batch):
            part = rows[first : first + self.settings.batch]
            probabilities = self._read(part)
            for number, row in enumerate(part):
                ranks = self.writer.rank[torch.tensor([*row, END])]
                spent.append(-torch.log2(probabilities[number, torch.arange(len(row) + 1), ranks]).sum().item())
        return [spent[first : first + each] for first in range(0, len(spent), each)]

    def _read(self, rows: Rows) -> torch.Tensor:
        """The probabilities after each token of a padded batch: (batch, length, vocabulary)."""
        ids = torch.full((self.settings.batch, self.length), PAD)
        ids[:, 0] = BEGIN
        for number, row in enumerate(rows):
            kept = row[: self.length - 1]
            ids[number, 1 : len(kept) + 1] = torch.tensor(kept, dtype=torch.long)
        return self.writer.whole(ids)

    def _tokens_of_units(self, units: Sequence[str]) -> Rows:
        """The tokens of each unit, as in the whole text."""
        text = "".join(units).encode("utf-8", "replace").decode("utf-8")
        encoding = self.tokenizer.encode(text, add_special_tokens=False)
        ends = np.cumsum([len(unit) for unit in units]).tolist() if units else []
        rows: Rows = [[] for _ in units]
        place = 0
        for token, (_, end) in zip(encoding.ids, encoding.offsets, strict=True):
            while place < len(ends) - 1 and end > ends[place]:
                place += 1
            if rows:
                rows[place].append(token)
        return rows


@dataclass(frozen=True)
class _Costs:
    """Bits of a text's units.

    Attributes:
        after: (units + 1, units): the bits of a unit after the first units of the text, as many as the row says.
        end: (units + 1,): the bits of the end there.
    """

    after: Costs
    end: Costs

    @classmethod
    def of(cls, probabilities: torch.Tensor, rows: Rows, writer: Writer) -> _Costs:
        """From the probabilities after each token, (length, vocabulary), and the tokens of each unit."""
        starts = np.cumsum([0, *(len(row) for row in rows)]).tolist()
        rank, last = writer.rank, -torch.log2(probabilities[torch.tensor(starts)] + 1e-12).double()  # (units + 1, ...)
        heads = torch.tensor([int(rank[row[0]]) if row else int(rank[END]) for row in rows], dtype=torch.long)
        inside = np.zeros(len(rows))
        for place, row in enumerate(rows):
            for offset, token in enumerate(row[1:], start=1):
                inside[place] -= np.log2(float(probabilities[starts[place] + offset, rank[token]]) + 1e-12)
        return cls(last[:, heads].numpy() + inside, last[:, int(rank[END])].numpy())

    def starting(self, expected: torch.Tensor, rows: Rows, writer: Writer) -> _Costs:
        """With the bits of each later unit as the first one, where it has a capital and no space.

        Args:
            expected: the probabilities at the beginning, (vocabulary,).
            rows: the tokens of each unit as the first one. Only the first token is known exactly.
            writer: whose tokens they are.
        """
        after = self.after.copy()
        for place, row in enumerate(rows):
            if place and row:
                first = -np.log2(float(expected[writer.rank[row[0]]]) + 1e-12)
                after[0, place] = first + _INSIDE * (len(row) - 1)
        return _Costs(after, self.end)


@dataclass(frozen=True)
class _Shortener:
    """The units of a text, their bits, and what is gained by keeping each."""

    units: list[str]
    costs: _Costs
    gains: Costs

    def form(self, room: float, gap: float) -> Form:
        """The units that gain most within some bits, by estimate."""
        path = _best_path(self.costs, self.gains, room, gap)
        return Form(shortened(self.units, path), _gaps(path))


def _best_path(costs: _Costs, gains: Costs, room: float, gap: float) -> list[int]:
    """The units to keep that gain most within some bits, by estimate; nothing if nothing fits.

    A knapsack whose items have an order: `best[i, b]` is the most that can be gained in b bits if unit i - 1 is the
    last one kept. Bits are whole numbers here. A word that is not expected after a gap counts for less.
    """
    units, most = len(gains), int(room) + 1
    best, back = np.full((units + 1, most), -np.inf), np.zeros((units + 1, most), int)
    best[0, 0] = 0.0
    after, end = np.rint(costs.after).astype(int), np.rint(costs.end).astype(int)
    for here in range(1, units + 1):
        first = 0 if here == units else max(0, here - _SKIPPED - 1)
        for before in range(first, here):
            spent = int(after[before, here - 1])
            if spent >= most:
                continue
            surprise = max(0, spent - int(after[here - 1, here - 1]))
            gain = gains[here - 1] - (0.0 if before == here - 1 else gap + _SURPRISE * surprise)
            value = best[before, : most - spent] + gain
            better = value > best[here, spent:]
            best[here, spent:][better] = value[better]
            back[here, spent:][better] = before
    return _trace(best, back, after, end, room)


def _trace(best: Costs, back: npt.NDArray[np.int64], after: Places, end: Places, room: float) -> list[int]:
    """The way that gains most within some bits, its end included."""
    values = np.where(np.arange(best.shape[1]) + end[:, None] <= room, best - _SURPRISE * end[:, None], -np.inf)
    values[0] = -np.inf  # something must be said
    here, bits = np.unravel_index(int(np.argmax(values)), values.shape)
    if values[here, bits] == -np.inf:
        return []
    place, spent, path = int(here), int(bits), []
    while place > 0:
        path.append(place - 1)
        before = int(back[place, spent])
        spent -= int(after[before, place - 1])
        place = before
    return path[::-1]


def _gaps(path: Sequence[int]) -> int:
    """How often words were dropped between kept ones."""
    return sum(after - before > 1 for before, after in pairwise(path))


def _flat(rows: Rows) -> list[int]:
    return [token for row in rows for token in row]


def _as_first(unit: str) -> str:
    """A unit as it stands at the beginning of a text."""
    word = unit.strip()
    return word[:1].upper() + word[1:]


def shortened(units: Sequence[str], path: Sequence[int]) -> str:
    """The kept units of a text as a text. One with dropped words begins with a capital letter."""
    text = "".join(units[place] for place in path).strip()
    if len(path) == len(units):
        return text
    text = text.lstrip(",;:.!?) ")
    return text[:1].upper() + text[1:]
