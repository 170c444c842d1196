"""The channel of code models: one code of the whole text, through k-ary randomised response.

Nothing is clipped and nothing is noised. The number of bits of a code bounds what it says about a text. It is public
and the same for every text of a run. A code has one of two forms:

- places in a book of public sentences: one, or several for a document. Several sentences of the book, the nearest ones,
  mean the same at each place;
- with enough bits, a string: its first bit says whether the rest are places of the book or the text's wording.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from dpbart.errors import BadParameter
from dpbart.privacy.facts import Facts, Private
from dpbart.privacy.mechanisms import NonPrivate, Response
from dpbart.privacy.mechanisms.response import Sets
from dpbart.privacy.sampling import Entropy

Codes = tuple[int, ...]


@dataclass(frozen=True)
class CodeSize:
    """The public size of a code.

    Attributes:
        bits: the bits of the code.
        places: how many sentences of the book a code names, k.
        place_bits: the bits of each of them or, if they differ, of the first.
        second_bits: if two places differ, the bits of the second, which names one of the neighbours of the first. A bit
            for their order goes before them.
        named: if two places differ, how many sentences the first can name. Others of its values wrap around.
        near: how many sentences of the book mean the same at a place; 1 if the code may be wording.
        worded: whether the first bit says which form the others have. Otherwise all are places of the book.
    """

    bits: int
    places: int
    place_bits: int
    near: int = 1
    worded: bool = False
    second_bits: int = 0
    named: int = 0

    def __post_init__(self) -> None:
        used, sets = self.book_bits, self.near == 1 if self.worded else self.near >= 1
        differ = self.worded and self.places == 2 and (1 << self.second_bits) // 2 < self.named <= 1 << self.place_bits
        sets &= differ if self.second_bits else not self.named
        fits = used < self.bits if self.worded else used == self.bits
        if not 1 <= self.bits <= 1024 or self.places < 1 or self.place_bits < 1 or not fits or not sets:
            raise BadParameter(
                f"a code must have from 1 to 1024 bits that hold its places, got {self.bits} bits for {self.places} "
                f"places of {self.place_bits} bits and {self.near} near."
            )

    @property
    def wording_bits(self) -> int:
        """The bits of a wording; 0 if all codes are places of the book."""
        return self.bits - 1 if self.worded else 0

    @property
    def book_bits(self) -> int:
        """The bits that places of the book take."""
        if self.second_bits:
            return 1 + self.place_bits + self.second_bits
        return self.places * self.place_bits

    @property
    def values(self) -> int:
        """What one place can say: a sentence or, if there are several places, nothing."""
        return self.near << self.place_bits

    @property
    def silent(self) -> int:
        """How many of those values say nothing. A text with fewer points than places needs them; one place speaks."""
        return self.near if self.places > 1 else 0

    @property
    def sentences(self) -> int:
        """How many sentences of the book can come out."""
        return self.named or self.values - self.silent

    @property
    def second_sentences(self) -> int:
        """How many neighbours a second place of its own size can name, at most. Its last value says nothing."""
        return (1 << self.second_bits) - 1


@dataclass(frozen=True)
class CodeTable:
    """The size of a code at each budget. Chosen on public text, and shipped with the model.

    Attributes:
        rows: (epsilon, bits, places, near), epsilon ascending. Near is the most, if the book has so many sentences.
        worded_from: from this many bits on, a code may be wording; None if the model has no writer.
    """

    rows: tuple[tuple[float, int, int, int], ...]
    worded_from: int | None

    def __post_init__(self) -> None:
        epsilons = [row[0] for row in self.rows]
        if not self.rows or epsilons != sorted(set(epsilons)):
            raise BadParameter("the table of a code must have rows with ascending epsilons, each once.")

    @property
    def most(self) -> float:
        """The largest budget that the model can use."""
        return self.rows[-1][0]

    def size(self, epsilon: float, *, sentences: int, book_only: bool = False) -> CodeSize:
        """The size of the last row whose epsilon is at most this; below all rows, the size of the first.

        Args:
            epsilon: the budget of one text.
            sentences: how many sentences of the book may come out. Fewer need fewer bits.
            book_only: no code is wording.
        """
        fitting = [row for row in self.rows if row[0] <= epsilon] or [self.rows[0]]
        return self._size(*fitting[-1][1:], sentences=sentences, book_only=book_only)

    def largest(self, *, sentences: int, book_only: bool = False) -> CodeSize:
        """The size without randomisation."""
        return self._size(*self.rows[-1][1:], sentences=sentences, book_only=book_only)

    def _size(self, bits: int, places: int, near: int, *, sentences: int, book_only: bool) -> CodeSize:
        worded = self.worded_from is not None and bits >= self.worded_from and not book_only
        several = places > 1
        place_bits = min((bits - worded) // places, (sentences + several).bit_length() - 1)
        if place_bits < 1:
            raise BadParameter(
                f"a book must have at least two sentences that can come out, got {sentences}. Choose more areas."
            )
        if worded:
            whole = (sentences - 1).bit_length()  # bits that name every sentence
            second = min(bits - 2 - whole, whole)
            if places == 2 and place_bits < whole and second > 1:
                # Every sentence and one of its neighbours say more than two of some sentences.
                return CodeSize(bits, places, whole, worded=True, second_bits=second, named=sentences)
            return CodeSize(bits, places, place_bits, worded=True)
        if near >= 3 and place_bits > 1 and 3 << place_bits - 1 <= sentences < 2 << place_bits and not several:
            place_bits -= 1  # half as many sets of three: fewer sentences are left out, and classifiers learn more
        near = max(1, min(near, sentences // ((1 << place_bits) - several)))
        return CodeSize(places * place_bits, places, place_bits, near)


@dataclass(frozen=True)
class CodeChannel:
    """Codes of one size, and the mechanism that randomises them."""

    size: CodeSize
    mechanism: Response | NonPrivate

    @cached_property
    def facts(self) -> Facts:
        """The public facts of this channel, if the entropy is private."""
        if isinstance(self.mechanism, Response):
            return self.mechanism.facts.noted(self._recipe)
        return self.mechanism.code_facts(self.size.bits).noted(self._recipe)

    def send(self, encoded: Sets, entropy: Entropy) -> Private[Codes]:
        """One randomised code for each text. At each place the nearest sentence comes first."""
        if isinstance(self.mechanism, Response):
            private = self.mechanism.privatize(encoded, entropy)
        else:
            nearest = tuple(self._nearest([int(value) for value in values]) for values in encoded)
            private = self.mechanism.pass_on(nearest, bits=self.size.bits)
        return private.post_processed(private.values, recipe=self._recipe)

    def _nearest(self, values: list[int]) -> int:
        """The code of the first value of each place."""
        code = 0
        for value in values[:: self.size.near]:
            code = code * self.size.values + value
        return code

    @property
    def _recipe(self) -> str:
        return "form:wording" if self.size.worded else "form:book"


def make_channel(
    table: CodeTable, mechanism: str, *, epsilon: float | None, sentences: int, book_only: bool, model: str
) -> CodeChannel:
    """The channel of a model for one budget, already checked by its mechanism.

    Raises:
        BadParameter: The mechanism is not one for codes, or the model cannot use so large a budget.
    """
    if mechanism == Response.name and epsilon is not None:
        if epsilon > table.most:
            raise BadParameter(
                f"epsilon must be at most {table.most:g} for '{model}', got {epsilon:g}: its longest code has "
                f"{table.rows[-1][1]} bits, and the rest of the budget would be spent for nothing."
            )
        size = table.size(epsilon, sentences=sentences, book_only=book_only)
        # A string of bits is one value; the places of a book are a tuple.
        places = 1 if size.worded else size.places
        return CodeChannel(size, Response(epsilon, 1 << size.bits, size.near, places))
    if mechanism == NonPrivate.name:
        return CodeChannel(table.largest(sentences=sentences, book_only=book_only), NonPrivate())
    raise BadParameter(f"a code needs the mechanism '{Response.name}' or '{NonPrivate.name}', got {mechanism!r}.")
