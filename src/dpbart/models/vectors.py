"""Load any sentence encoder: one of the transformers library, a static one, or the reader inside a code model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpbart.models.sentences import Floats, SentenceEncoderFiles, SentenceVectors
from dpbart.models.static import load_encoder

if TYPE_CHECKING:
    from dpbart.models.code.reader import DocumentReader

_CLOSELY = 6  # windows of a document that are read closely


@dataclass(frozen=True)
class CodeVectors:
    """The reader inside a code model. It reads whole documents."""

    identity: str
    reader: DocumentReader

    @property
    def width(self) -> int:
        return self.reader.width

    def vectors(self, texts: Sequence[str]) -> Floats:
        return self.reader.documents(texts, closely=_CLOSELY).whole


def load_vectors(files: SentenceEncoderFiles, *, longest: int | None = None) -> SentenceVectors:
    """Load a sentence encoder from its directory; nothing is fetched.

    Args:
        files: from `SentenceEncoderFiles.find`.
        longest: the most tokens of a text to read, if fewer than the encoder can. A code model reads all.

    Raises:
        NotPrepared: It cannot be loaded.
    """
    if not files.inside_code:
        return load_encoder(files, longest=longest)
    from dpbart.models.code.model import Networks

    return CodeVectors(files.identity, Networks.load(files.folder).reader)
