"""Any sentence encoder as a reader: a directory of sentence-transformers or model2vec that is copied into a model.

A document is read as a fixed number of windows of one length, padded, and every window is always computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dpbart.models.code.reader import Documents, split_sentences, unit
from dpbart.models.code.weights import Floats
from dpbart.models.sentences import SentenceEncoderFiles
from dpbart.models.static import FixedVectors, load_encoder

ENCODER_FOLDER = "encoder"  # inside a model directory
WINDOWS, WINDOW = 4, 64  # windows of a document, and tokens in each
BATCH = 32  # windows read at once: always as many, so that a vector never depends on its neighbours


@dataclass(frozen=True)
class ForeignReader:
    """An encoder of the transformers library with mean or cls pooling, or a static one."""

    encoder: FixedVectors

    @classmethod
    def load(cls, folder: Path) -> ForeignReader:
        """The encoder of a directory; nothing is fetched."""
        return cls(load_encoder(SentenceEncoderFiles.find(str(folder)), longest=WINDOW))

    @property
    def width(self) -> int:
        return self.encoder.width

    @property
    def tokenizer_file(self) -> str:
        return str(self.encoder.tokenizer.to_str())

    def documents(self, texts: Sequence[str], *, closely: int) -> Documents:
        """Read all windows of each text; the first `closely` of them are returned."""
        parts = [_windows(text, self._room(text)) for text in texts]
        vectors = self.sentences([part for each in parts for part in each]).reshape(len(texts), WINDOWS, -1)
        words = np.array([[len(part.split()) for part in each] for each in parts], np.float32)
        return Documents(unit((vectors * words[..., None]).sum(1)), vectors[:, :closely])

    def sentences(self, texts: Sequence[str]) -> Floats:
        """Unit vectors of short texts, one window each; zeros for blank ones."""
        found = np.zeros((len(texts), self.width), np.float32)
        for first in range(0, len(texts), BATCH):
            part = texts[first : first + BATCH]
            read = self.encoder.fixed([*part, *[""] * (BATCH - len(part))], length=WINDOW)
            found[first : first + len(part)] = read[: len(part)]
        return found * np.array([[bool(text.strip())] for text in texts], np.float32)

    def _room(self, text: str) -> int:
        """Characters that fit into a window, about: tokens are shortest where a text has no blanks."""
        blanks = text.count(" ") / max(len(text), 1)
        return WINDOW * (4 if blanks > 0.05 else 1)


def _windows(text: str, room: int) -> list[str]:
    """The text in WINDOWS parts of about `room` characters, at the ends of sentences where possible."""
    filled = [""]
    for sentence in split_sentences(text):
        for first in range(0, len(sentence), room):
            piece = sentence[first : first + room]
            if len(filled[-1]) + len(piece) > room and filled[-1]:
                filled.append("")
            filled[-1] = f"{filled[-1]} {piece}".strip()
        if len(filled) > WINDOWS:
            break
    return [*filled, *[""] * WINDOWS][:WINDOWS]
