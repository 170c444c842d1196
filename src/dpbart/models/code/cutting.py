"""A text cut into units: words and marks, with stand-ins for telling words, and what each unit costs and says.

One pass of the writer gives the cost of every word after every beginning of the text: the exact cost of a word when the
words just before it are dropped. One pass of the reader gives what every word adds to the meaning. Every text takes the
same work, in arrays of one shape.

Names, numbers and rare words cost the most and are what a privacy budget should not buy. A stand-in ("someone" for a
name) takes their place. With so many bits that most texts fit as they are, they are words like others.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from dpbart.models.code.reader import Reader
from dpbart.models.code.shortening import Kept, Steps, Words, changes
from dpbart.models.code.tokens import BytePairs
from dpbart.models.code.weights import Floats
from dpbart.models.code.writer import BEGIN, END, PAD, Rows, Writer

UNIT = re.compile(r"\s*\w+(?:['’\-]\w+)*|\s*[^\w\s]+")  # a word with its apostrophes and hyphens, or punctuation
DEAR = 1e6  # bits: never
_COMMON_BITS = 9.0  # a name of fewer bits is so frequent that it tells little
_INSIDE = 4.0  # bits of every later token of a first word or a stand-in, about
_AFTER_STOP = 0.5  # bits of the end after a full stop, about
_NEGATION = re.compile(r"(not|no|never|nobody|nothing|without|neither|nor|cannot|\w+n['’]t)", re.IGNORECASE)
_PUNCTUATION = 0.004  # what a mark says: enough to keep one that is likely
_LITTLE = 0.01  # what a stand-in says
_FOR_NAMES = (" someone", " something", " somewhere")
_FOR_NUMBERS = (" some", " many", " several", " two", " one", " another")
_STOP = "."  # an end for what is left


class _Unit(NamedTuple):
    """A word, mark or stand-in of a text.

    Attributes:
        text: with the space before it.
        gain: what is gained by keeping it, if a rule says so.
        token: the column of its first token.
        inside: bits of its other tokens.
        first: the column of its first token at the beginning of a text, with a capital.
        more: bits of its other tokens there, about.
        end: the tokens of the text up to its end.
    """

    text: str
    gain: float | None
    token: int
    inside: float
    first: int
    more: float
    end: int


@dataclass(frozen=True)
class Cutter:
    """Cuts texts for one writer."""

    reader: Reader  # says how much each word contributes
    tokenizer: BytePairs
    writer: Writer
    common: frozenset[str]  # ordinary words: frequent in public text, and in lower case there
    known: frozenset[str]  # words that tell nobody apart as they are spelled: "Christmas"; "park", but not "Park"
    length: int  # most tokens of a text, with its end
    spares_names: bool  # whether names, numbers and rare words are words like others

    def tokens(self, texts: Sequence[str]) -> Rows:
        """Ids of texts without begin and end."""
        clean = [text.encode("utf-8", "replace").decode("utf-8") for text in texts]
        return self.tokenizer.ids(clean)

    def is_telling(self, word: str) -> bool:
        """Whether a word is a name, a number or rare."""
        plain = word.replace("’", "'").removesuffix("'s")
        return any(map(str.isalnum, word)) and plain.lower() not in self.common and plain not in self.known

    def cut(self, texts: Sequence[str], wholes: Floats, *, longest: int) -> list[Cut]:
        """Each text, and what should be said of it, (texts, vector). One of `longest` tokens or more counts as dear."""
        units_of = [UNIT.findall(text)[: self.length - 1] for text in texts]
        rows = [self._tokens_of_units(units) for units in units_of]
        room = self.length - 1  # tokens of a text without its end, and units
        ids = np.full((len(texts), self.length), PAD)
        wanted = np.full((len(texts), 2 * room + len(self._fixed)), END)
        ids[:, 0], wanted[:, 2 * room :] = BEGIN, self._fixed
        firsts = self.tokens([_as_first(unit) for units in units_of for unit in units])
        heads = []
        for number, units in enumerate(units_of):
            flat = [token for row in rows[number] for token in row][:room]
            ids[number, 1 : len(flat) + 1] = wanted[number, : len(flat)] = flat
            heads.append([firsts.pop(0) for _ in units])
            wanted[number, room : room + len(units)] = [row[0] if row else END for row in heads[-1]]
        bits = self.writer.bits(ids, wanted)  # (texts, length, wanted)
        changed = [
            self._with_stand_ins(*each, bits=bits[number])
            for number, each in enumerate(zip(units_of, rows, heads, strict=True))
        ]
        parts = self.reader.parts([[unit.text for unit in units] for units in changed], most=self.length)
        found = []
        for number, (cut, row) in enumerate(zip(changed, rows, strict=True)):
            tokens = np.arange(sum(map(len, row)))
            long = len(tokens) >= longest
            own = 0.0 if long else float(bits[number, tokens, tokens].sum())
            whole = DEAR if long else own + float(bits[number, len(tokens), self._column(None)])
            words = self._words(cut, bits[number], self._gains(cut, parts[number]))
            original = "".join(units_of[number]).strip()
            found.append(Cut(original, cut, words, parts[number], self.reader, wholes[number], whole))
        return found

    def _with_stand_ins(self, units: Sequence[str], rows: Rows, heads: Rows, *, bits: Floats) -> list[_Unit]:
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
            telling = not self.spares_names and float(own.sum()) > _COMMON_BITS and self.is_telling(word)
            more = _INSIDE * (len(head) - 1)
            if not telling or (word.islower() and word.isalpha()):
                # A rare word that is nobody's name goes first, without a stand-in.
                gain = 0.0 if telling else None
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

    def _words(self, units: Sequence[_Unit], bits: Floats, gains: Floats) -> Words:
        """What the units of one text cost and gain."""
        most, count = self.length, len(units)  # units, with a full stop
        after, end = np.full((most + 1, most), DEAR, np.float32), np.full(most + 1, DEAR, np.float32)
        ends = [0, *(unit.end for unit in units)]
        inside = np.array([unit.inside for unit in units], np.float32)
        after[: count + 1, :count] = bits[np.ix_(ends, [unit.token for unit in units])] + inside
        after[0, 1:count] = [bits[0, unit.first] + unit.more for unit in units[1:]]
        end[: count + 1] = bits[ends, self._column(None)]
        if units and units[-1].text == _STOP:
            end[count] = _AFTER_STOP
        return Words(after[None], end[None], gains[None], np.array([count]))

    def _gains(self, units: Sequence[_Unit], parts: Floats) -> Floats:
        """What is gained by keeping each unit: its part in the direction of all of them, closely read; (length,)."""
        closely = parts[:, : self.reader.sizes.meaning]
        total = closely.sum(0)
        shares = closely @ total / max(float(total @ total), 1e-9)
        gains = np.zeros(self.length, np.float32)
        for place, unit in enumerate(units):
            gains[place] = _gain(unit.text.strip(), float(shares[place])) if unit.gain is None else unit.gain
        return gains

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
        ends = np.cumsum([len(unit) for unit in units]).tolist() if units else []
        rows: Rows = [[] for _ in units]
        place = 0
        for token, end in zip(*self.tokenizer.tokens(text), strict=True):
            while place < len(ends) - 1 and end > ends[place]:
                place += 1
            if rows:
                rows[place].append(token)
        return rows


@dataclass(frozen=True)
class Cut:
    """A text cut into units.

    Attributes:
        original: the text as it is.
        units: with stand-ins.
        words: what they cost and gain.
        parts: (length, vector), what each adds to the vector of the text.
        reader: whose vectors these are.
        sought: (vector,), what should be said.
        bits: that the original takes.
    """

    original: str
    units: list[_Unit]
    words: Words
    parts: Floats
    reader: Reader
    sought: Floats
    bits: float

    @property
    def whole(self) -> Kept:
        """Stands for the original: more units than there are."""
        return np.ones(len(self.parts), bool)

    def text(self, kept: Kept) -> str:
        """What a form says. One with dropped words begins with a capital letter."""
        if kept.all():
            return self.original
        text = "".join(unit.text for unit, there in zip(self.units, kept.tolist(), strict=False) if there).strip()
        if int(kept.sum()) < len(self.units):
            text = text.lstrip(",;:.!?) ")
            text = text[:1].upper() + text[1:]
        return text

    def worth(self, kept: Kept) -> tuple[float, float]:
        """How near a form is to what should be said, by estimate, and how badly it reads."""
        if kept.all():
            return 1.0, 0.0
        near = self._near(kept.astype(np.float32)[None] @ self.parts, np.zeros((1, self.parts.shape[1]), np.float32))
        return float(near[0, 0]), self.steps.along(kept)[1]

    @cached_property
    def steps(self) -> Steps:
        negations = np.zeros(len(self.parts), bool)
        negations[: len(self.units)] = [bool(_NEGATION.fullmatch(unit.text.strip())) for unit in self.units]
        return Steps.of(self.words, negations)

    def changes(self, form: Kept, room: float, *, count: int) -> list[Kept]:
        """Forms near to one, always `count` of them, that take at most `room` bits more by estimate."""
        kept = np.zeros_like(form) if form.all() else form
        last = np.flatnonzero(kept)[-1:].tolist()
        marked = bool(last) and not self.units[last[0]].text[-1].isalnum()
        units = len(self.units)
        return changes(kept, self.steps, room, self._near, self.parts, count=count, units=units, marked=marked)

    def _near(self, some: Floats, more: Floats) -> Floats:
        """The cosine of sums of parts, each of some (n, vector) with each of more (m, vector): (n, m)."""
        cut, share = self.reader.sizes.meaning, self.reader.sizes.share
        found = np.zeros((len(some), len(more)), np.float32)
        for half, weight in ((slice(None, cut), share), (slice(cut, None), 1 - share)):
            one, other, sought = some[:, half], more[:, half], self.sought[half]
            squares = np.square(one).sum(1)[:, None] + np.square(other).sum(1) + 2 * (one @ other.T)
            dots = (one @ sought)[:, None] + other @ sought
            found += np.float32(weight**0.5) * dots / np.sqrt(np.maximum(squares, 1e-9))
        return found


def _gain(word: str, share: float) -> float:
    """What is gained by keeping a unit."""
    if not any(map(str.isalnum, word)):
        return _PUNCTUATION
    if _NEGATION.fullmatch(word):
        return max(share, 0.1)  # without it a text says the opposite
    return max(share, 0.0)


def _as_first(unit: str) -> str:
    """A unit as it stands at the beginning of a text."""
    word = unit.strip()
    return word[:1].upper() + word[1:]
