"""Texts to codes: places in the book, or wording. This side may look at the texts.

Texts of every length take the same path: as many windows, candidates and steps, whichever form their code takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dpbart.channels.code import CodeSize
from dpbart.models.code.book import Book, Floats, Places, nearest_of
from dpbart.models.code.fitting import CANDIDATES, UNEVEN, Fitter
from dpbart.models.code.reader import DocumentReader, Documents, unit
from dpbart.models.code.settings import CodeSettings
from dpbart.models.code.writer import Penmanship

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
        pen: spells them.
    """

    reader: DocumentReader
    book: Book
    size: CodeSize
    settings: CodeSettings
    fitter: Fitter | None = None
    pen: Penmanship | None = None

    def encode(self, texts: Sequence[str]) -> Places | list[tuple[int]]:
        """The values that mean the same for each text: at each place the nearest sentences, or one string of bits."""
        several = self.size.places > 1
        closely = self.settings.closely_for_several if several else self.settings.closely
        documents = self.reader.documents(texts, closely=closely)
        places = self._several(documents) if several else self.book.nearest(documents.whole, self.size.near)
        if self.fitter is None or self.pen is None:
            return places
        worded, near = self._worded(texts, documents.whole, self.fitter)
        wordings = self.pen.code(self.fitter.tokens(worded))
        by_book = np.sum(self._said(places) * documents.whole, axis=1)
        codes = [
            wording if better else self._named(row)
            for wording, better, row in zip(wordings, near > by_book + self.settings.margin, places, strict=True)
        ]
        return [(code,) for code in codes]

    def _named(self, places: npt.NDArray[np.int64]) -> int:
        """The string of bits that names places in the book: a 1, then the places. The last bits may be unused."""
        code, size = 1, self.size
        for place in places:
            code = code << size.place_bits | int(place)
        return code << size.bits - 1 - size.places * size.place_bits

    def _said(self, places: Places) -> Floats:
        """The vector of what each row of places says, (texts, vector); the near ones of a place are the same point."""
        with_silence = np.concatenate([self.book.vectors, np.zeros((self.size.silent, self.reader.width), np.float32)])
        return unit(with_silence[places[:, :: self.size.near]].sum(1))

    def _several(self, documents: Documents) -> Places:
        """Several sentences for each document, in its order: (texts, places x near)."""
        rows = [self._sentences_of(*each) for each in zip(documents.whole, documents.windows, strict=True)]
        return np.array(rows, np.int64).reshape(len(rows), self.size.places * self.size.near)

    def _sentences_of(self, whole: Floats, windows: Floats) -> list[int]:
        """Greedily the sentences that together are nearest to a document and to each of its windows.

        Args:
            whole: (vector,).
            windows: (closely, vector), in the order of the document.
        """
        sought = np.concatenate([whole[None], windows])  # (1 + closely, vector)
        near = sought @ self.book.vectors.T  # (1 + closely, sentences)
        count = min(CONSIDERED, near.shape[1])
        considered = np.unique(nearest_of(near, count))
        vectors, match = self.book.vectors[considered], near[:, considered]
        there = windows.any(1)
        chosen: list[int] = []
        said, covered, value = np.zeros_like(whole), np.zeros(len(windows), np.float32), 0.0
        for _ in range(self.size.places):
            sums = said + vectors  # (considered, vector)
            with_whole = (sums @ whole) / np.maximum(np.linalg.norm(sums, axis=1), 1e-9)
            best = np.maximum(covered[:, None], match[1:])[there].sum(0) / max(int(there.sum()), 1)
            values = with_whole + self.settings.points * best
            values[chosen] = -np.inf
            pick = int(np.argmax(values))
            enough = len(chosen) > int(there.sum())  # one more than the windows that were read
            if chosen and (enough or values[pick] < value + self.settings.silence):
                continue  # this place stays silent
            chosen.append(pick)
            said, covered, value = sums[pick], np.maximum(covered, match[1:, pick]), float(values[pick])
        chosen.sort(key=lambda pick: int(np.argmax(match[1:, pick])))
        return self._sets([int(considered[pick]) for pick in chosen])

    def _sets(self, places: list[int]) -> list[int]:
        """Each chosen sentence with its nearest, then silence: places x near values."""
        size, sentences = self.size, len(self.book.lines)
        silent = list(range(sentences, sentences + size.silent))
        nearest = nearest_of(self.book.vectors[places] @ self.book.vectors.T, size.near).tolist()
        sets = [
            [place, *(each for each in near if each != place)][: size.near]
            for place, near in zip(places, nearest, strict=True)
        ]
        sets += [silent] * (size.places - len(sets))
        return [value for values in sets for value in values]

    def _worded(self, texts: Sequence[str], wholes: Floats, fitter: Fitter) -> tuple[list[str], Floats]:
        """The shortened form of each text that is nearest to it, and how near it is, less for its gaps."""
        forms = fitter.fit([fitter.reader.typical(text) for text in texts])
        vectors = self.reader.sentences([form.text for each in forms for form in each])  # (texts x candidates, vector)
        near = np.einsum("tcv,tv->tc", vectors.reshape(len(texts), CANDIDATES, -1), wholes)
        near -= UNEVEN * np.array([[form.gaps for form in each] for each in forms], np.float32)
        near = np.where([[bool(form.text) for form in each] for each in forms], near, -1.0)
        best = near.argmax(1)
        return [each[place].text for each, place in zip(forms, best, strict=True)], near[np.arange(len(texts)), best]
