"""Texts to codes: places in the book, or wording. This side may look at the texts.

Texts of every length take the same path: as many windows, candidates and steps, whichever form their code takes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dpbart.channels.code import CodeSize
from dpbart.models.code.book import Book, Places, nearest_of
from dpbart.models.code.fitting import Fitter
from dpbart.models.code.reader import DocumentReader, Documents, unit
from dpbart.models.code.settings import CodeSettings
from dpbart.models.code.weights import Floats
from dpbart.models.code.wording import code_of

_AT_ONCE = 8  # documents compared with the book in one product
FIRSTS = 8  # sentences tried at the first of two places of different sizes
CONSIDERED = 256  # sentences of the book compared with a document, by its whole and by each of its windows


@dataclass(frozen=True)
class CodeEncoder:
    """The sending side of one model.

    Attributes:
        reader: its sentence encoder.
        book: the sentences that may come out, as many as its codes can name.
        size: the public size of its codes.
        settings: its public settings.
        fitter: shortens texts for wording; None if no code is wording.
    """

    reader: DocumentReader
    book: Book
    size: CodeSize
    settings: CodeSettings
    fitter: Fitter | None = None

    def encode(self, texts: Sequence[str]) -> Places | list[tuple[int]]:
        """The values that mean the same for each text: at each place the nearest sentences, or one string of bits."""
        several = self.size.places > 1
        closely = self.settings.closely_for_several if several else self.settings.closely
        documents = self.reader.documents(texts, closely=closely)
        places = self._several(documents) if several else self.book.nearest(documents.whole, self.size.near)
        if self.fitter is None:
            return places
        forms = self.fitter.fit([self.fitter.cutter.reader.typical(text) for text in texts], documents.whole)
        by_book = np.sum(self._said(places) * documents.whole, axis=1)
        found = []
        for (form, near), book, row in zip(forms, by_book.tolist(), places, strict=True):
            codes = self._named(row), code_of(form.shares, self.size.wording_bits)  # both, for every text
            found.append((codes[near > book + self.settings.margin],))
        return found

    def _named(self, places: npt.NDArray[np.int64]) -> int:
        """The string of bits that names places in the book: a 1, then the places. The last bits may be unused.

        Places of different sizes come with a bit for their order: 1 if the second is said first.
        """
        code, size = 1, self.size
        if size.second_bits:
            first, second, swapped = (int(place) for place in places)
            code = ((code << 1 | swapped) << size.place_bits | first) << size.second_bits | second
        else:
            for place in places:
                code = code << size.place_bits | int(place)
        return code << size.bits - 1 - size.book_bits

    def _said(self, places: Places) -> Floats:
        """The vector of what each row of places says, (texts, vector); the near ones of a place are the same point."""
        if self.size.second_bits:
            others, second = self.book.neighbours(places[:, 0], self.size.second_sentences)[0], places[:, 1]
            spoken = np.stack([np.ones(len(places), bool), second < others.shape[1]], 1)
            second = others[np.arange(len(places)), np.where(spoken[:, 1], second, 0)]
            first = np.stack([places[:, 0], second], 1)  # (texts, 2)
        else:
            first = places[:, :: self.size.near]  # (texts, places)
            spoken = first < len(self.book.lines)
        return unit((self.book.rows(np.where(spoken, first, 0)) * spoken[..., None]).sum(1))

    def _several(self, documents: Documents) -> Places:
        """Several sentences for each document, in its order: (texts, places x near).

        For two places of different sizes, (texts, 3): the first, the second, and whether the second is said first.
        """
        rows = [
            row
            for first in range(0, len(documents.whole), _AT_ONCE)
            for row in self._several_of(documents, slice(first, first + _AT_ONCE))
        ]
        return np.array(rows, np.int64).reshape(len(rows), -1)

    def _several_of(self, documents: Documents, part: slice) -> Iterator[list[int]]:
        """The same for some of them, which are compared with the book together."""
        sought = np.concatenate([documents.whole[part, None], documents.windows[part]], 1)
        near = self.book.cosines(sought.reshape(-1, sought.shape[2])).reshape(*sought.shape[:2], -1)
        choose = self._pair_of if self.size.second_bits else self._sentences_of
        for rows, matches in zip(sought, near, strict=True):
            yield choose(rows[0], rows[1:], matches)

    def _pair_of(self, whole: Floats, windows: Floats, near: Floats) -> list[int]:
        """The two sentences that together are nearest to a document and to each of its windows, or one and silence.

        The second is named by its place among the neighbours of the first. Arguments as for `_sentences_of`.
        """
        points, there = self.settings.points, windows.any(1)
        share = points / max(int(there.sum()), 1)
        alone = near[0] + share * near[1:][there].sum(0)
        firsts = nearest_of(alone[None], min(FIRSTS, len(alone)))[0]
        seconds, together = self.book.neighbours(firsts, self.size.second_sentences)  # (firsts, others) each
        lengths = np.sqrt(np.maximum(2 + 2 * together, 0))
        values = (near[0, firsts, None] + near[0, seconds]) / np.maximum(lengths, np.float32(1e-9))
        for matches in near[1:][there]:
            values += share * np.maximum(matches[firsts, None], matches[seconds])
        row, second = (int(number) for number in np.unravel_index(int(np.argmax(values)), values.shape))
        if values[row, second] < alone[firsts[0]] + self.settings.silence:
            return [int(firsts[0]), self.size.second_sentences, 0]
        first = int(firsts[row])
        swapped = np.argmax(near[1:, seconds[row, second]]) < np.argmax(near[1:, first])
        return [first, second, int(swapped)]

    def _sentences_of(self, whole: Floats, windows: Floats, near: Floats) -> list[int]:
        """Greedily the sentences that together are nearest to a document and to each of its windows.

        Args:
            whole: (vector,).
            windows: (closely, vector), in the order of the document.
            near: (1 + closely, sentences), their cosines with all sentences.
        """
        considered = np.unique(nearest_of(near, min(CONSIDERED, near.shape[1])))
        vectors, match = self.book.rows(considered), near[:, considered]
        there = windows.any(1)
        chosen: list[int] = []
        said, covered, value = np.zeros_like(whole), np.zeros(len(windows), np.float32), 0.0
        for _ in range(self.size.places):
            # The cosine of the whole with what was said and one sentence more
            length = np.sqrt(said @ said + 2 * (vectors @ said) + np.float32(1))  # (considered,)
            with_whole = (said @ whole + match[0]) / np.maximum(length, 1e-9)
            best = np.maximum(covered[:, None], match[1:])[there].sum(0) / max(int(there.sum()), 1)
            values = with_whole + self.settings.points * best
            values[chosen] = -np.inf
            pick = int(np.argmax(values))
            enough = len(chosen) > int(there.sum())  # one more than the windows that were read
            if chosen and (enough or values[pick] < value + self.settings.silence):
                continue  # this place stays silent
            chosen.append(pick)
            said, covered, value = said + vectors[pick], np.maximum(covered, match[1:, pick]), float(values[pick])
        chosen.sort(key=lambda pick: int(np.argmax(match[1:, pick])))
        return self._sets([int(considered[pick]) for pick in chosen])

    def _sets(self, places: list[int]) -> list[int]:
        """Each chosen sentence with its nearest, then silence: places x near values."""
        size, sentences = self.size, len(self.book.lines)
        silent = list(range(sentences, sentences + size.silent))
        sets = [[place] for place in places]
        if size.near > 1:
            padded = np.array([*places, *[0] * (size.places - len(places))])  # as many, whatever the text
            nearest = nearest_of(self.book.cosines(self.book.rows(padded)), size.near).tolist()
            sets = [
                [place, *(each for each in near if each != place)][: size.near]
                for place, near in zip(places, nearest, strict=False)
            ]
        sets += [silent] * (size.places - len(sets))
        return [value for values in sets for value in values]
