"""A word tokenizer for ADePT: lower case, contractions split as in GloVe (do n't), one token per punctuation mark.

A word outside the vocabulary becomes <unk>, which is dropped when ids are decoded. So a word that is not in the public
text is never written, and leaves no gap.
"""

from __future__ import annotations

from collections.abc import Mapping

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from dpbart.models.text import SPECIAL_TOKENS

SPECIAL_WORDS = SPECIAL_TOKENS[:4]  # ADePT needs no mask
_ENDINGS = r"n't\b|'(?:s|m|d|ll|re|ve)\b"
_WORDS = rf"\w+(?=n't\b)|{_ENDINGS}|\w+|[^\w\s]"
_NEEDLESS_BLANKS = rf" (?={_ENDINGS}|[.,!?;:%)\]}}])|(?<=[(\[{{$#@]) "


def word_tokenizer(vocabulary: Mapping[str, int], *, lowercase: bool = True) -> Tokenizer:
    """A tokenizer with these words and ids, which include the special tokens.

    >>> ids = {"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3, "do": 4, "n't": 5, "go": 6, ",": 7, "ann": 8}
    >>> tokenizer = word_tokenizer(ids)
    >>> tokenizer.encode("Don’t go, Beatrix Ann").tokens
    ['<s>', 'do', "n't", 'go', ',', '<unk>', 'ann', '</s>']
    >>> tokenizer.decode([0, 4, 5, 6, 7, 3, 8, 2])
    "don't go, ann"
    """
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
