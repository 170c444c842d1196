"""The public text that a code model learns from: sampled lines, without the offensive ones.

Arrays that take long to compute are stored in pieces, so that a stopped run computes only what is missing.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from dpbart.errors import BadTable
from dpbart.files import whole_or_nothing, write_whole
from dpbart.models.code.book import is_offensive
from dpbart.models.code.tokens import BytePairs
from dpbart.prepare.corpus import CorpusFile, read_texts
from dpbart.progress import progress

Number = TypeVar("Number", bound=np.generic)
Ids = npt.NDArray[np.int64]

PIECE = 2_048  # texts in one file
_AT_ONCE = 20_000  # texts given to the tokenizer
_WORD = re.compile(r"[^\W\d_]+(?:['\-][^\W\d_]+)*")
_LETTER = 100  # a single letter is a word only if it is that much more frequent than other words must be


def in_pieces(
    count: int, compute: Callable[[range], npt.NDArray[Number]], folder: Path, *, title: str
) -> npt.NDArray[Number]:
    """One row for each of `count` texts, (count, ...), computed and stored piece by piece."""
    files = [
        (range(first, min(count, first + PIECE)), folder / f"{first // PIECE:04d}.npy")
        for first in range(0, count, PIECE)
    ]
    there = sum(len(numbers) for numbers, file in files if file.is_file())
    with progress(title, total=count, unit="texts", start=there) as bar:
        for numbers, file in files:
            if not file.is_file():
                piece = compute(numbers)
                with whole_or_nothing(file) as partial, partial.open("wb") as out:
                    np.save(out, piece)
                bar.advance(len(numbers))
    return np.concatenate([np.load(file) for _, file in files])


@dataclass(frozen=True)
class PublicText:
    """Sampled lines, file after file."""

    lines: list[str]
    counts: dict[str, dict[str, int]]  # by file: lines looked at, and lines dropped as offensive


def gather(files: Sequence[CorpusFile], folder: Path, *, most: int, seed: int) -> PublicText:
    """Sample at most `most` training lines of each file, or read the sample that is already in the folder."""
    file, counts_file = folder / "lines.txt", folder / "counts.json"
    if not (file.is_file() and counts_file.is_file()):
        text = _gather(files, most, np.random.default_rng([seed, 0]))
        write_whole(counts_file, json.dumps(text.counts, indent=2))
        write_whole(file, "\n".join(text.lines))
    lines = file.read_text(encoding="utf-8").split("\n")
    return PublicText(lines, json.loads(counts_file.read_text()))


def _gather(files: Sequence[CorpusFile], most: int, draw: np.random.Generator) -> PublicText:
    lines: list[str] = []
    counts: dict[str, dict[str, int]] = {}
    with progress("Reading public text", total=len(files), unit="files") as bar:
        for file in files:
            total = file.training_texts
            wanted = set(draw.permutation(total)[:most].tolist())
            chosen = [text for number, text in enumerate(islice(read_texts(file.path), total)) if number in wanted]
            fit = [text for text in chosen if not is_offensive(text)]
            counts[file.path.name] = {"looked_at": len(chosen), "dropped": len(chosen) - len(fit)}
            lines += [text.replace("\r", " ") for text in fit]
            bar.advance(1)
    if len(lines) < 2:
        raise BadTable(f"at least 2 lines of public text are needed, got {len(lines)}. Give more public text.")
    return PublicText(lines, counts)


def common_words(lines: Iterable[str], *, least: int) -> frozenset[str]:
    """Words that tell nobody apart: they stand in the text often, and in lower case at least as often as not.

    The first word of a line is not counted where it has a capital: every word has one there. A script without capitals
    counts as lower case.

    >>> sorted(common_words(["The rose met Rose.", "A rose", "the rose"], least=2))
    ['rose']
    """
    low: Counter[str] = Counter()
    high: Counter[str] = Counter()
    for line in lines:
        for place, word in enumerate(_WORD.findall(line.replace("’", "'"))):
            if word == word.lower():
                low[word] += 1
            elif place:
                high[word.lower()] += 1
    return frozenset(
        word
        for word, count in low.items()
        if count >= (least if len(word) > 1 else _LETTER * least) and count >= high[word]
    )


def known_words() -> frozenset[str]:
    """Public things that many texts name, and words that are names only with a capital; as they are spelled.

    Chosen by reading all frequent words of public text that often have a capital. What may be a person's name or a
    place to live in is not among them.
    """
    return frozenset(Path(__file__).with_name("known.txt").read_text(encoding="utf-8").split())


@dataclass(frozen=True)
class TokenRows:
    """Token ids of many texts, without begin and end."""

    flat: npt.NDArray[np.uint16]  # of all texts
    lengths: Ids  # (texts,)

    def __len__(self) -> int:
        return len(self.lengths)

    def row(self, number: int) -> Ids:
        """The ids of one text."""
        end = int(self._ends[number])
        return self.flat[end - int(self.lengths[number]) : end].astype(np.int64)

    @cached_property
    def _ends(self) -> Ids:
        return np.cumsum(self.lengths)

    @classmethod
    def of(cls, rows: Sequence[Sequence[int]]) -> TokenRows:
        flat = np.array([token for row in rows for token in row], np.uint16)
        return cls(flat, np.array([len(row) for row in rows], np.int64))


def to_rows(texts: Sequence[str], tokenizer: BytePairs) -> TokenRows:
    """The ids of texts."""
    parts = [TokenRows.of([])]
    for first in range(0, len(texts), _AT_ONCE):
        parts.append(TokenRows.of(tokenizer.ids(texts[first : first + _AT_ONCE])))
    return TokenRows(np.concatenate([part.flat for part in parts]), np.concatenate([part.lengths for part in parts]))
