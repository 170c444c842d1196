"""Text ⇄ ids of one fixed length.

Every text, empty or very long, becomes exactly `length` ids: begin, its first tokens, end, padding. No attention mask
is made, here or later: the true length of a text is part of the latent, which is clipped and noised.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dpbart.errors import BadParameter, NotPrepared, require_extra

if TYPE_CHECKING:
    from tokenizers import Tokenizer

# The first ids of every vocabulary made by dpbart; BART's own vocabulary starts with the same four.
SPECIAL_TOKENS = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
SHORTEST = 3  # begin, one token, end


@dataclass(frozen=True)
class Tokens:
    """A tokenizer with a fixed length."""

    tokenizer: Tokenizer
    length: int
    begin: str = "<s>"  # or a budget token

    def __post_init__(self) -> None:
        if self.length < SHORTEST:
            raise BadParameter(f"length must be at least {SHORTEST}, got {self.length}.")
        from tokenizers import Tokenizer

        # A copy, because the length is set inside the tokenizer, and another Tokens may need another length.
        object.__setattr__(self, "tokenizer", Tokenizer.from_str(self.tokenizer.to_str()))
        self.tokenizer.enable_truncation(self.length)
        self.tokenizer.enable_padding(length=self.length, pad_id=self.id_of("<pad>"), pad_token="<pad>")

    @classmethod
    def load(cls, file: Path, *, length: int, begin: str = "<s>") -> Tokens:
        require_extra("bart", f"the tokenizer '{file}' needs", "tokenizers")
        from tokenizers import Tokenizer

        try:
            tokenizer = Tokenizer.from_file(str(file))
        except Exception as error:  # the tokenizers library raises bare Exceptions
            remedy = "Restore the file, or make the model again."
            raise NotPrepared(f"the tokenizer '{file}' cannot be read. {remedy}") from error
        return cls(tokenizer, length, begin)

    @property
    def size(self) -> int:
        return int(self.tokenizer.get_vocab_size())

    @property
    def reach(self) -> int:
        """One more than the largest id that a text can get."""
        return reach_of(self.tokenizer)

    def id_of(self, token: str) -> int:
        number: int | None = self.tokenizer.token_to_id(token)
        if number is None:
            remedy = "Use a model made for dpbart."
            raise BadParameter(f"a tokenizer must have the token {token!r}, but this one lacks it. {remedy}")
        return number

    def encode(self, texts: Sequence[str]) -> npt.NDArray[np.int64]:
        """Ids (batch, length) of any texts."""
        # A lone surrogate (possible in JSON) cannot be encoded in UTF-8 and would make the tokenizer fail.
        clean = [text.encode("utf-8", "replace").decode("utf-8") for text in texts]
        rows = [encoding.ids for encoding in self.tokenizer.encode_batch_fast(clean)]
        ids = np.array(rows, dtype=np.int64).reshape(len(texts), self.length)
        ids[:, 0] = self.id_of(self.begin)
        return ids

    def decode(self, ids: npt.NDArray[np.int64]) -> list[str]:
        """Rows of ids to texts, without special tokens and surrounding blanks."""
        return [text.strip() for text in self.tokenizer.decode_batch(ids.tolist(), skip_special_tokens=True)]


def reach_of(tokenizer: Tokenizer) -> int:
    """One more than the largest id that a tokenizer can give. Ids may have gaps, so this can exceed their number."""
    framed = tokenizer.encode("").ids  # a template may add ids that no token has
    return 1 + max([*tokenizer.get_vocab(with_added_tokens=True).values(), *framed], default=-1)


SPECIAL_WORDS = SPECIAL_TOKENS[:4]  # ADePT needs no mask
_ENDINGS = r"n't\b|'(?:s|m|d|ll|re|ve)\b"
_WORDS = rf"\w+(?=n't\b)|{_ENDINGS}|\w+|[^\w\s]"
_NEEDLESS_BLANKS = rf" (?={_ENDINGS}|[.,!?;:%)\]}}])|(?<=[(\[{{$#@]) "


def word_tokenizer(vocabulary: Mapping[str, int], *, lowercase: bool = True) -> Tokenizer:
    """A tokenizer for ADePT with these words and ids, which include the special tokens.

    It splits contractions as in GloVe (do n't) and makes each punctuation mark a token. A word outside the vocabulary
    becomes <unk>, which is dropped when ids are decoded: only words of the public text are ever written.

    >>> ids = {"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3, "do": 4, "n't": 5, "go": 6, ",": 7, "ann": 8}
    >>> tokenizer = word_tokenizer(ids)
    >>> tokenizer.encode("Don’t go, Beatrix Ann").tokens
    ['<s>', 'do', "n't", 'go', ',', '<unk>', 'ann', '</s>']
    >>> tokenizer.decode([0, 4, 5, 6, 7, 3, 8, 2])
    "don't go, ann"
    """
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

    tokenizer = Tokenizer(models.WordLevel(dict(vocabulary), unk_token="<unk>"))
    steps = [normalizers.NFKC(), normalizers.Replace("’", "'"), *([normalizers.Lowercase()] if lowercase else [])]
    tokenizer.normalizer = normalizers.Sequence(steps)
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(_WORDS), behavior="removed", invert=True)
    tokenizer.decoder = decoders.Sequence(
        [decoders.WordPiece(cleanup=False), decoders.Fuse(), decoders.Replace(Regex(_NEEDLESS_BLANKS), "")]
    )
    tokenizer.add_special_tokens(list(SPECIAL_WORDS))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[(token, vocabulary[token]) for token in ("<s>", "</s>")]
    )
    return tokenizer
