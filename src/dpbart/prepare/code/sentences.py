"""The public sentences that a book is made from: one in each line, or area, topic and sentence.

Every sentence of a book can come out of the model. So the file must be public, and lines that look private are counted
and named to whoever makes the book.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from dpbart.errors import BadTable
from dpbart.models.code.book import Line, is_offensive
from dpbart.prepare.corpus import CorpusFile, find_corpus, open_text

FEWEST = 64  # sentences of a book
LONGEST = 300  # characters: a longer line is no sentence, and no sentence encoder would read all of it
_NAMED = 5  # line numbers in a warning

# What somebody's private text looks like, in some languages. The first that fits counts.
_LOOKS = {
    "e-mail addresses": r"[^\s@]+@[^\s@]+\.\w{2,}",
    "web addresses": r"https?://|www\.\w",
    "account numbers": r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){3,}",
    "phone numbers": r"(?:\+|\b0)\d(?:[ ()/.-]{0,2}\d){6,}|\b\d{3}[ .-]\d{3}[ .-]\d{4}\b",
    "long numbers": r"\d(?:[ -]?\d){5,}",
    "street addresses": (
        r"\b\d+[a-z]?,? (?:[\w'.-]+ ){1,3}(?:street|st\.|road|rd\.?|avenue|ave\.?|lane|drive|boulevard|square)\b"
        r"|\w*(?:straße|strasse|str\.|gasse|allee|weg|platz) \d+"
        r"|\b\d+,? (?:bis )?(?:rue|avenue|boulevard|place) \w"
        r"|\b(?:calle|avenida|via|viale|piazza|rua) (?:[\w'.-]+ ){1,4}\d+"
        r"|\b(?:ул\.|улица|улице|проспект|пр-т|переулок|вул\.) ?(?:[\w.-]+,? ){1,3}(?:д\. ?)?\d+"
    ),
}
_PRIVATE = {kind: re.compile(pattern, re.IGNORECASE) for kind, pattern in _LOOKS.items()}


@dataclass(frozen=True)
class Sentences:
    """The usable lines of a file, each sentence once.

    Attributes:
        file: where they are from.
        lines: in the order of the file.
        left_out: how many lines were left out, by reason.
        private: numbers of the used lines that look private, by what they look like.
    """

    file: CorpusFile
    lines: tuple[Line, ...]
    left_out: dict[str, int]
    private: dict[str, list[int]]

    @property
    def warning(self) -> str | None:
        """What to tell the operator about lines that look private; None if there are none."""
        if not self.private:
            return None
        kinds = ", ".join(f"{len(numbers):,} with {kind}" for kind, numbers in self.private.items())
        numbers = sorted(number for each in self.private.values() for number in each)
        some = ", ".join(str(number) for number in numbers[:_NAMED]) + (", ..." if len(numbers) > _NAMED else "")
        return (
            f"{len(numbers):,} lines of {self.file.path.name} look private: {kinds} (lines {some}). "
            "Every sentence of a book is published with the model and can come out. If they are private, remove them."
        )

    def require_enough(self) -> None:
        """Refuse too few sentences for a book."""
        if len(self.lines) < FEWEST:
            reasons = ", ".join(f"{count:,} {reason}" for reason, count in self.left_out.items() if count)
            raise BadTable(
                f"a book needs at least {FEWEST} different sentences, got {len(self.lines)} from '{self.file.path}'"
                f"{f' (left out: {reasons})' if reasons else ''}. Give more public sentences, one in each line."
            )


def read_sentences(path: Path) -> Sentences:
    """The sentences of a file: plain, .gz or .zst.

    Raises:
        BadTable: It cannot be read, or some lines have an area and a topic and others have not.
    """
    (file,) = find_corpus([path])
    reading = _Reading()
    with open_text(path, what="public sentences") as lines:
        for number, row in _rows(lines, path):
            reading.take(number, row)
    return Sentences(file, tuple(reading.lines), dict(reading.left_out), reading.private)


def _rows(lines: Iterable[str], path: Path) -> Iterable[tuple[int, Line]]:
    """Every line that is not blank, with its number. All of them have an area and a topic, or none has."""
    columns = 0
    for number, text in enumerate(lines, start=1):
        cells = [" ".join(cell.split()) for cell in text.split("\t")]
        if not any(cells):
            continue
        columns = columns or len(cells)
        if len(cells) != columns or columns not in (1, 3):
            raise BadTable(
                f"line {number} of '{path}' must be a sentence or, like all lines, area, topic and sentence with a tab "
                f"between them; got {len(cells)} columns. Remove the tabs, or give all lines an area and a topic."
            )
        line = Line(*cells) if columns == 3 else Line("", "", cells[0])
        if "," in line.area:
            raise BadTable(f"the area in line {number} of '{path}' must have no comma: --areas separates by commas.")
        yield number, line


@dataclass
class _Reading:
    """What was read so far."""

    lines: list[Line] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    private: dict[str, list[int]] = field(default_factory=dict)
    _seen: set[str] = field(default_factory=set)

    def take(self, number: int, line: Line) -> None:
        reason = self._unfit(line.sentence)
        if reason is not None:
            self.left_out[reason] += 1
            return
        self._seen.add(line.sentence)
        self.lines.append(line)
        kind = looks_private(line.sentence)
        if kind is not None:
            self.private.setdefault(kind, []).append(number)

    def _unfit(self, sentence: str) -> str | None:
        """Why a sentence cannot be in a book."""
        if not any(character.isalpha() for character in sentence):
            return "without words"
        if "\N{REPLACEMENT CHARACTER}" in sentence:
            return "not UTF-8"
        if len(sentence) > LONGEST:
            return f"longer than {LONGEST} characters"
        if sentence in self._seen:
            return "repeated"
        return "with listed terms" if is_offensive(sentence) else None


def looks_private(sentence: str) -> str | None:
    """What in a sentence looks private; None if nothing does.

    >>> looks_private("Write to me at jo@example.org.")
    'e-mail addresses'
    >>> looks_private("I waited 45 minutes at gate 12.")
    """
    return next((kind for kind, pattern in _PRIVATE.items() if pattern.search(sentence)), None)
