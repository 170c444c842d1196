"""Static sentence encoders in the format of model2vec: a vector for each token, and the mean of them for a text.

They take no transformer and no transformers library, and are some hundred times faster.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from dpbart.errors import NotPrepared, require_extra
from dpbart.models.hub import foreign_errors
from dpbart.models.sentences import STATIC, Floats, SentenceEncoderFiles, load_transformer

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_LONGEST = 512  # tokens of a text
_REMEDY = "Download the encoder again."


class FixedVectors(Protocol):
    """A sentence encoder that can also read a batch in a shape that does not depend on the texts."""

    @property
    def identity(self) -> str:
        """Which encoder exactly, such as "all-MiniLM-L6-v2@0123456789ab"."""

    @property
    def width(self) -> int:
        """Entries of a vector."""

    @property
    def tokenizer(self) -> Tokenizer:
        """Its tokenizer."""

    def vectors(self, texts: Sequence[str]) -> Floats:
        """Unit vectors, (texts, width)."""

    def fixed(self, texts: Sequence[str], *, length: int) -> Floats:
        """The same in one batch of `length` tokens for each text."""


@dataclass(frozen=True)
class StaticVectors:
    """A table of token vectors.

    Attributes:
        identity: which encoder exactly.
        tokenizer: texts to tokens. An unknown token has no vector.
        table: (tokens, width), as it is summed: the weight of each token is in it.
        longest: tokens of a text that are read.
    """

    identity: str
    tokenizer: Tokenizer
    table: Floats
    longest: int

    @property
    def width(self) -> int:
        return int(self.table.shape[1])

    def vectors(self, texts: Sequence[str]) -> Floats:
        return self.fixed(texts, length=self.longest)

    def fixed(self, texts: Sequence[str], *, length: int) -> Floats:
        clean = [text.encode("utf-8", "replace").decode("utf-8") for text in texts]
        last = len(self.table)  # an extra row of zeros, for padding
        ids = np.full((len(texts), min(length, self.longest)), last, np.int64)
        for place, encoding in enumerate(self.tokenizer.encode_batch_fast(clean, add_special_tokens=False)):
            row = encoding.ids[: ids.shape[1]]
            ids[place, : len(row)] = row
        padded = np.concatenate([self.table, np.zeros((1, self.width), np.float32)])
        sums = padded[ids].sum(1)
        found: Floats = sums / np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-12)
        return found


def load_encoder(files: SentenceEncoderFiles, *, longest: int | None = None) -> FixedVectors:
    """Load an encoder from its directory: a static one, or one of the transformers library. Nothing is fetched.

    Args:
        files: from `SentenceEncoderFiles.find`.
        longest: the most tokens of a text to read, if fewer than the encoder can.

    Raises:
        MissingExtra: The libraries that it needs are not installed.
        NotPrepared: It cannot be loaded.
    """
    if files.pooling != STATIC:
        return load_transformer(files, longest=longest)
    require_extra("bart", f"the static encoder in '{files.folder}' needs", "tokenizers")
    from safetensors.numpy import load_file
    from tokenizers import Tokenizer

    with foreign_errors(f"the static encoder in '{files.folder}' could not be loaded", remedy=_REMEDY):
        tensors = load_file(files.folder / "model.safetensors")
        tokenizer = Tokenizer.from_file(str(files.folder / "tokenizer.json"))
        tokenizer.no_truncation()
        tokenizer.no_padding()
        table = tensors["embeddings"].astype(np.float32)
        if "mapping" in tensors:  # several tokens may share a row
            table = table[tensors["mapping"].astype(np.int64)]
        if "weights" in tensors:
            table = table * tensors["weights"].astype(np.float32)[:, None]
        if table.ndim != 2 or len(table) < tokenizer.get_vocab_size():
            raise NotPrepared(f"the tokenizer in '{files.folder}' must fit its table of vectors. {_REMEDY}")
        for token in ("[UNK]", "<unk>"):
            number = tokenizer.token_to_id(token)
            if number is not None:
                table[number] = 0
    return StaticVectors(files.identity, tokenizer, table, min(longest or _LONGEST, _LONGEST))
