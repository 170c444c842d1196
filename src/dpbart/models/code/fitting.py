"""Say what fits: shorten a text until the writer can spell it in the bits there are.

Spelling a text from the front until the bits run out keeps its first words and loses its point. Here words are dropped
instead, those first that cost many bits and say little. What is left costs few bits only if it reads well, so the same
count keeps it fluent. Names, numbers and rare words cost the most and are what a privacy budget should not buy: when a
text has to be shortened they go first, and a stand-in ("someone" for a name) takes their place.

One pass of the writer gives the cost of every word after every beginning of the text: the exact cost of a word when the
words just before it are dropped. The best way through the text is then found for several sums of bits (shortening.py),
and the shortened texts are spelled for their exact costs. Every text takes the same work, in arrays of one shape.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

from dpbart.models.code.reader import Reader
from dpbart.models.code.shortening import Words, best_paths
from dpbart.models.code.weights import Floats
from dpbart.models.code.writer import BEGIN, END, PAD, Rows, Writer

UNIT = re.compile(r"\s*\w+(?:['’\-]\w+)*|\s*[^\w\s]+")  # a word with its apostrophes and hyphens, or punctuation
# What every gap between kept words costs. With dear gaps, whole phrases are kept or dropped. For each of them a form is
# made and spelled; then, with the bits that it really took, forms that may take these shares of the room. If the text
# fits as it is, it takes the place of the last one.
GAPS = (0.01, 0.06)
SHARES = ((1.0, 0.85), (0.95,))
CANDIDATES = len(GAPS) + sum(map(len, SHARES))
UNEVEN = 0.015  # by how much a form must be nearer for every gap more
SLACK = 1.5  # bits: an interval must lie inside a piece, not only be as small
_AT_ONCE = 8  # texts
_COMMON_BITS = 9.0  # a name of fewer bits is so frequent that it tells little
_INSIDE = 4.0  # bits of every later token of a first word or a stand-in, about
_AFTER_STOP = 0.5  # bits of the end after a full stop, about
_NEGATION = re.compile(r"(not|no|never|nobody|nothing|without|neither|nor|cannot|\w+n['’]t)", re.IGNORECASE)
_PUNCTUATION = 0.004  # what a mark says: enough to keep one that is likely
_LITTLE = 0.01  # what a stand-in says
_FOR_NAMES = (" someone", " something", " somewhere")
_FOR_NUMBERS = (" some", " many", " several", " two", " one", " another")
_STOP = "."  # an end for what is left
_DEAR = 1e6  # bits: no unit
_UNIT_TOKENS = 8  # of the reader, in one unit


class Form(NamedTuple):
    """A shortened text.

    Attributes:
        text: empty if it does not fit.
        gaps: how often words were dropped between kept ones.
        shares: how it is spelled, (shares, 2); see `Spelling`.
    """

    text: str
    gaps: int
    shares: npt.NDArray[np.int64]


class _Draft(NamedTuple):
    """A shortened text that may not fit, and the number of its gaps."""

    text: str
    gaps: int


class _Unit(NamedTuple):
    """A word, mark or stand-in of a text.

    Attributes:
        text: with the space before it.
        gain: what is gained by keeping it.
        token: the column of its first token.
        inside: bits of its other tokens.
        first: the column of its first token at the beginning of a text, with a capital.
        more: bits of its other tokens there, about.
        end: the tokens of the text up to its end.
    """

    text: str
    gain: float
    token: int
    inside: float
    first: int
    more: float
    end: int


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

    @property
    def longest(self) -> int:
        """Tokens of a form, with its end. So few bits are hardly ever enough for more."""
        return min(self.length, self.bits // 5 + 4)

    @property
    def rare(self) -> int:
        """Rare tokens of a form, at most. Each takes about 13 bits."""
        return min(self.longest, self.bits // 13 + 1)

    def fit(self, texts: Sequence[str]) -> list[list[Form]]:
        """Shortened forms of each text, always CANDIDATES of them; an empty one where it does not fit."""
        found: list[list[Form]] = []
        for first in range(0, len(texts), _AT_ONCE):
            found += self._fit_batch([self._units(text) for text in texts[first : first + _AT_ONCE]])
        return found

    def tokens(self, texts: Sequence[str]) -> Rows:
        """Ids of texts without begin and end."""
        clean = [text.encode("utf-8", "replace").decode("utf-8") for text in texts]
        return [encoding.ids for encoding in self.tokenizer.encode_batch_fast(clean, add_special_tokens=False)]

    def is_telling(self, word: str) -> bool:
        """Whether a word is a name, a number or rare."""
        plain = word.replace("’", "'").removesuffix("'s")
        return any(map(str.isalnum, word)) and plain.lower() not in self.common and plain not in self.known

    def _units(self, text: str) -> list[str]:
        return UNIT.findall(text)[: self.length - 1]

    def _fit_batch(self, texts: Sequence[list[str]]) -> list[list[Form]]:
        """The texts as they are and their shortened forms, as far as they fit, in two rounds: forms that took too many
        bits, or left some, are followed by others."""
        count, room = len(texts), self.bits - SLACK
        changed, words, wholes = self._changed(texts)
        first = self._drafts(changed, words, [(gap, np.full(count, room)) for gap in GAPS])
        forms, taken = self._spelled(first)
        second = self._drafts(
            changed,
            words,
            [
                (gap, share * room * room / np.maximum(bits, 1.0))
                for gap, bits, shares in zip(GAPS, taken, SHARES, strict=True)
                for share in shares
            ],
        )
        second[-1] = [
            _Draft("".join(units).strip(), 0) if bits <= room else draft
            for units, bits, draft in zip(texts, wholes, second[-1], strict=True)
        ]
        return [list(each) for each in zip(*forms, *self._spelled(second)[0], strict=True)]

    def _drafts(
        self, changed: Sequence[list[_Unit]], words: Words, asked: Sequence[tuple[float, npt.NDArray[np.float64]]]
    ) -> list[list[_Draft]]:
        """A draft of each text for each price of a gap and budgets (texts,)."""
        count = len(changed)
        paths = best_paths(
            words.repeated(len(asked)),
            np.concatenate([budgets for _, budgets in asked]).astype(np.float32),
            np.repeat(np.array([gap for gap, _ in asked], np.float32), count),
            bits=self.bits,
        )
        drafts = [
            _Draft(shortened([unit.text for unit in changed[number % count]], path), _gaps(path))
            for number, path in enumerate(paths)
        ]
        return [drafts[first : first + count] for first in range(0, len(drafts), count)]

    def _spelled(self, drafts: Sequence[Sequence[_Draft]]) -> tuple[list[list[Form]], npt.NDArray[np.float64]]:
        """The forms of all drafts, and the bits of each, (drafts, texts)."""
        flat = [draft for each in drafts for draft in each]
        ids, fits = np.full((len(flat), self.longest), PAD), np.zeros(len(flat), bool)
        for number, row in enumerate(self.tokens([draft.text for draft in flat])):
            kept = [*row[: self.longest - 1], END]
            ids[number, : len(kept)] = kept
            fits[number] = 0 < len(row) < self.longest
        spelling = self.writer.spell(ids, rare=self.rare)
        fits &= spelling.fits & (spelling.bits <= self.bits - SLACK)
        forms = [
            Form(draft.text if fit else "", draft.gaps, shares)
            for draft, fit, shares in zip(flat, fits.tolist(), spelling.shares, strict=True)
        ]
        count = len(drafts[0])
        rows = [forms[first : first + count] for first in range(0, len(forms), count)]
        return rows, spelling.bits.reshape(len(drafts), count)

    # -- what each unit costs and says ---------------------------------------------------------------------------------

    def _changed(self, texts: Sequence[list[str]]) -> tuple[list[list[_Unit]], Words, list[float]]:
        """The units of each text, with stand-ins for telling ones; what they cost and gain; the bits of each text."""
        rows = [self._tokens_of_units(units) for units in texts]
        room = self.length - 1  # tokens of a text without its end, and units
        ids = np.full((len(texts), self.length), PAD)
        wanted = np.full((len(texts), 2 * room + len(self._fixed)), END)
        ids[:, 0], wanted[:, 2 * room :] = BEGIN, self._fixed
        firsts = self.tokens([_as_first(unit) for units in texts for unit in units])
        heads = []
        for number, units in enumerate(texts):
            flat = [token for row in rows[number] for token in row][:room]
            ids[number, 1 : len(flat) + 1] = wanted[number, : len(flat)] = flat
            heads.append([firsts.pop(0) for _ in units])
            wanted[number, room : room + len(units)] = [row[0] if row else END for row in heads[-1]]
        bits = self.writer.bits(ids, wanted)  # (texts, length, wanted)
        shares = self._shares(texts)
        changed = [
            self._with_stand_ins(*each, bits=bits[number])
            for number, each in enumerate(zip(texts, rows, heads, shares, strict=True))
        ]
        wholes = []
        for number, row in enumerate(rows):
            tokens = np.arange(sum(map(len, row)))
            long = len(tokens) >= self.longest
            own = 0.0 if long else float(bits[number, tokens, tokens].sum())
            wholes.append(_DEAR if long else own + float(bits[number, len(tokens), self._column(None)]))
        return changed, self._words(changed, bits), wholes

    def _with_stand_ins(
        self, units: Sequence[str], rows: Rows, heads: Rows, shares: Floats, *, bits: Floats
    ) -> list[_Unit]:
        """The units of a text that fit into its length. Each run of telling words has become one stand-in."""
        room, place, before = self.length - 1, 0, False
        found: list[_Unit] = []
        for number, (unit, row, head) in enumerate(zip(units, rows, heads, strict=True)):
            end = place + len(row)
            if end > room:
                break
            if not row:  # its characters belong to the token before
                continue
            own = bits[np.arange(place, end), np.arange(place, end)]  # of its tokens, in the text
            word = unit.strip()
            telling = float(own.sum()) > _COMMON_BITS and self.is_telling(word)
            more = _INSIDE * (len(head) - 1)
            if not telling or (word.islower() and word.isalpha()):
                # A rare word that is nobody's name goes first, without a stand-in.
                gain = 0.0 if telling else _gain(word, float(shares[number]))
                found.append(_Unit(unit, gain, place, float(own[1:].sum()), room + number, more, end))
            elif not before:
                found.append(self._stand_in(word, bits[place], first=number == 0, end=end))
            else:
                found[-1] = found[-1]._replace(end=end)  # the same stand-in
            place, before = end, telling
        if found and found[-1].text[-1].isalnum():
            column = self._column(_STOP)
            found.append(_Unit(_STOP, _PUNCTUATION, column, 0.0, column, 0.0, place))
        return found

    def _stand_in(self, word: str, expected: Floats, *, first: bool, end: int) -> _Unit:
        """The likeliest word for a name or a number here."""
        words: Sequence[str] = _FOR_NUMBERS if any(map(str.isdigit, word)) else _FOR_NAMES
        if first:
            words = [_as_first(each) for each in (words if words is _FOR_NUMBERS else _FOR_NAMES[:1])]
        best = min(words, key=lambda each: float(expected[self._column(each)]))
        column, more = self._column(best), _INSIDE * (len(self._stand_ins[best]) - 1)
        capital = self._column(_as_first(best))
        return _Unit(best, _LITTLE, column, more, capital, more, end)

    def _words(self, changed: Sequence[list[_Unit]], bits: Floats) -> Words:
        most = self.length  # units, with a full stop
        after = np.full((len(changed), most + 1, most), _DEAR, np.float32)
        end, gains = np.full((len(changed), most + 1), _DEAR, np.float32), np.zeros((len(changed), most), np.float32)
        for number, units in enumerate(changed):
            count, here = len(units), bits[number]
            ends = [0, *(unit.end for unit in units)]
            inside = np.array([unit.inside for unit in units], np.float32)
            after[number, : count + 1, :count] = here[np.ix_(ends, [unit.token for unit in units])] + inside
            for place, unit in enumerate(units[1:], start=1):
                after[number, 0, place] = here[0, unit.first] + unit.more
            end[number, : count + 1] = here[ends, self._column(None)]
            if units and units[-1].text == _STOP:
                end[number, count] = _AFTER_STOP
            gains[number, :count] = [unit.gain for unit in units]
        return Words(after, end, gains, np.array([len(units) for units in changed]))

    def _shares(self, texts: Sequence[list[str]]) -> Floats:
        """What each unit says: its part in the direction of all their words together, (texts, units)."""
        padded = [unit for units in texts for unit in [*units, *[""] * (self.length - len(units))]]
        bags = self.reader.bags(padded, tokens=_UNIT_TOKENS).reshape(len(texts), self.length, -1)
        total = bags.sum(1, keepdims=True)
        shares: Floats = (bags * total).sum(2) / np.maximum(np.square(total).sum(2), 1e-9)
        return shares

    @cached_property
    def _stand_ins(self) -> dict[str, list[int]]:
        """The tokens of all stand-ins, also at the beginning of a text, and of a full stop."""
        words = [*_FOR_NAMES, *_FOR_NUMBERS]
        words = [*words, *map(_as_first, words), _STOP]
        return dict(zip(words, self.tokens(words), strict=True))

    @cached_property
    def _fixed(self) -> list[int]:
        """The tokens whose costs every text needs: the first ones of stand-ins, then the end."""
        return [*(row[0] for row in self._stand_ins.values()), END]

    @cached_property
    def _columns(self) -> dict[str | None, int]:
        return {word: 2 * (self.length - 1) + place for place, word in enumerate([*self._stand_ins, None])}

    def _column(self, word: str | None) -> int:
        """Where the costs of a stand-in stand; None: those of the end."""
        return self._columns[word]

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


def _gain(word: str, share: float) -> float:
    """What is gained by keeping a unit."""
    if not any(map(str.isalnum, word)):
        return _PUNCTUATION
    if _NEGATION.fullmatch(word):
        return max(share, 0.1)  # without it a text says the opposite
    return max(share, 0.0)


def _gaps(path: Sequence[int]) -> int:
    """How often words were dropped between kept ones."""
    return sum(after - before > 1 for before, after in pairwise(path))


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
