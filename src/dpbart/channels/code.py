"""The channel of codes: one code for the whole text, through k-ary randomised response.

Nothing is clipped and nothing is noised. What bounds a text is the number of bits of its code, which is public and the
same for every text of a run. There are two kinds of codes:

- a string of bits, the text's gist and then its wording;
- where the bits are too few for any wording, a place in a book of public texts. The texts of the book that are nearest
  to a text mean the same for it: all of them together are its code.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from dpbart.errors import BadParameter
from dpbart.privacy.facts import Facts
from dpbart.privacy.mechanisms import NonPrivate, Response
from dpbart.privacy.mechanisms.response import Sets
from dpbart.privacy.private import Private
from dpbart.privacy.sampling import Entropy

Codes = tuple[int, ...]


@dataclass(frozen=True)
class CodeSize:
    """How large a code is. All of it is public.

    Attributes:
        bits: of the code.
        gist_bits: how many of them, the first ones, are the gist. If all are, the code is a place in the book.
        near: texts of the book that are a text's code together; 1 for a string of bits.
    """

    bits: int
    gist_bits: int
    near: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.gist_bits <= self.bits or not 1 <= self.bits <= 1024:
            raise BadParameter(
                f"a code must have from 1 to 1024 bits, the gist's among them, got {self.bits} and {self.gist_bits}."
            )

    @property
    def wording_bits(self) -> int:
        """Bits that are left for the wording."""
        return self.bits - self.gist_bits


@dataclass(frozen=True)
class CodeTable:
    """Which size a code has at each budget. Chosen on public text, and shipped with the model.

    Attributes:
        rows: (epsilon, bits, gist bits), epsilon ascending.
        book_bits: the book has 2^book_bits texts.
    """

    rows: tuple[tuple[float, int, int], ...]
    book_bits: int

    def __post_init__(self) -> None:
        epsilons = [row[0] for row in self.rows]
        if not self.rows or epsilons != sorted(set(epsilons)):
            raise BadParameter("the table of a code must have rows, their epsilons ascending and each there once.")
        if any(gist == bits > self.book_bits for _, bits, gist in self.rows):
            raise BadParameter(f"a code without wording must have at most the {self.book_bits} bits of the book.")

    def size(self, epsilon: float) -> CodeSize:
        """The size for a budget: that of the largest epsilon in the table that is not above it.

        A smaller budget than the first row's has that row's size.
        """
        fitting = [row for row in self.rows if row[0] <= epsilon] or [self.rows[0]]
        return self._size(*fitting[-1][1:])

    @property
    def largest(self) -> CodeSize:
        """The size where nothing is randomised."""
        return self._size(*self.rows[-1][1:])

    def _size(self, bits: int, gist_bits: int) -> CodeSize:
        return CodeSize(bits, gist_bits, 1 << self.book_bits - bits if bits == gist_bits else 1)


@dataclass(frozen=True)
class CodeChannel:
    """Codes of one size, and the mechanism that randomises them."""

    size: CodeSize
    mechanism: Response | NonPrivate

    @cached_property
    def facts(self) -> Facts:
        """All that is public about this channel, if its entropy is private."""
        facts = self.mechanism.facts if isinstance(self.mechanism, Response) else self.mechanism.code_facts(self._bits)
        return facts.noted(self._recipe)

    def send(self, encoded: Sets, entropy: Entropy) -> Private[Codes]:
        """One code for each text, which may come out as another. Codes that mean the same come nearest first."""
        if isinstance(self.mechanism, Response):
            private = self.mechanism.privatize(encoded, entropy)
        else:
            private = self.mechanism.pass_on(tuple(int(codes[0]) for codes in encoded), bits=self._bits)
        return private.post_processed(private.values, recipe=self._recipe)

    @property
    def _bits(self) -> int:
        return self.size.bits

    @property
    def _recipe(self) -> str:
        return f"gist:{self.size.gist_bits}"


def make_channel(table: CodeTable, mechanism: str, *, epsilon: float | None) -> CodeChannel:
    """The channel of a model for one budget, already checked by its mechanism.

    Raises:
        BadParameter: The mechanism is not one for codes.
    """
    if mechanism == Response.name and epsilon is not None:
        size = table.size(epsilon)
        return CodeChannel(size, Response(epsilon, 1 << size.bits, size.near))
    if mechanism == NonPrivate.name:
        return CodeChannel(table.largest, NonPrivate())
    raise BadParameter(f"a code needs the mechanism '{Response.name}' or '{NonPrivate.name}', got {mechanism!r}.")
