"""Text to token ids, for the two kinds of tokenizer that a code model has: word pieces, and byte pairs and back.

Both are read from a `tokenizer.json` of the Hugging Face library tokenizers and agree with it: in ids, in where tokens
end, and in decoded text. So the default model does without that library. Two things to know:

- A special token that is spelled in a text, such as "[SEP]", becomes its id, as it does there.
- The tables of Unicode are Python's. They differ from those of the library for characters that one of the two does not
  know yet, such as marks and punctuation that Unicode got after version 8, and for four that changed their category.

The tokens of short words are kept in memory for the next text, for a bounded number of words.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, lru_cache
from heapq import heapify, heappop, heappush
from itertools import accumulate, groupby, pairwise
from string import punctuation
from typing import Any, ClassVar, NamedTuple
from unicodedata import category, combining, normalize

from dpbart.errors import NotPrepared

_KEPT = 1 << 15  # words whose tokens are kept
_SHORT = 32  # characters of a word whose tokens are kept, at most
_BLANKS = r" \xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_WHITE = rf"\t-\r\x85{_BLANKS}"  # white space as Unicode has it; \s has more
_REMEDY = "Make the model again, or download it again."

# What the library splits text at, apart from changes between letters and numbers: `_runs` finds those.
_BYTE_WORD = re.compile(
    rf"'(?:[stmd]|re|ve|ll)| ?[^\W_]+| ?(?:[^\w{_WHITE}]|_)+|[{_WHITE}]+(?![^{_WHITE}])|[{_WHITE}]+"
)
# Other control characters than these three are left out and separate nothing. No mark can move past punctuation.
_PIECE_WORD = re.compile(rf"[^\t\n\r{_BLANKS}{re.escape(punctuation)}]+|[{re.escape(punctuation)}]")
# Each is a word. The gap from 2b820 to 2b91f is the library's.
_CHINESE = re.compile(
    "[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002a6df\U0002a700-\U0002b81f\U0002b920-\U0002ceaf"
    "\U0002f800-\U0002fa1f]"
)


class Tokens(NamedTuple):
    """The tokens of a text.

    Attributes:
        ids: one for each token.
        ends: the number of characters up to the end of each. Tokens that share a character both end after it.
    """

    ids: list[int]
    ends: list[int]


class Tokenizer(ABC):
    """Cuts a text at special tokens and what is between them into words, and these into tokens.

    Texts must not have lone surrogates. Nothing is put before or after the tokens of a text.
    """

    KINDS: ClassVar[tuple[tuple[str, str | None], ...]]  # of the parts of a file
    WORD: ClassVar[re.Pattern[str]]  # the next word of a text

    def __init__(self, file: str) -> None:
        """Read the text of a tokenizer.json.

        Raises:
            NotPrepared: The file has something that is not known here.
        """
        held = json.loads(file)
        for name, kind in self.KINDS:
            _require(_part(held, name).get("type") == kind, f"another {name} than {kind}")
        self.file, self.vocabulary = file, dict(held["model"]["vocab"])
        self._prefix = ""  # is put before a text that does not begin with it
        self.special = _special(held, self.vocabulary)
        self.size = len(self.vocabulary)
        longest_first = sorted(self.special, key=len, reverse=True)
        self._borders = re.compile(f"({'|'.join(map(re.escape, longest_first))})") if longest_first else None
        self._kept = lru_cache(_KEPT)(self._cut)
        template = _part(held, "post_processor").get("special_tokens", {})
        framing = [number for each in template.values() for number in each["ids"]]
        self.reach = 1 + max([*self.vocabulary.values(), *framing], default=-1)  # one more than the largest id
        self._read(held)

    @abstractmethod
    def _read(self, held: dict[str, Any]) -> None:
        """Read what a kind has of its own."""

    @abstractmethod
    def _cut(self, word: str) -> Tokens:
        """The tokens of one word."""

    def id_of(self, token: str) -> int | None:
        return self.vocabulary.get(token)

    def ids(self, texts: Iterable[str]) -> list[list[int]]:
        """The ids of texts."""
        found, prefix, words, kept, cut = [], self._prefix, self.WORD.findall, self._kept, self._cut
        for text in texts:
            if self._borders is not None and self._borders.search(text):
                found.append(self.tokens(text).ids)
                continue
            whole = text if not text or text.startswith(prefix) else prefix + text
            rows = [kept(word) if len(word) <= _SHORT else cut(word) for word in words(whole)]
            found.append([number for row in rows for number in row.ids])
        return found

    def tokens(self, text: str) -> Tokens:
        """The tokens of one text, with their ends."""
        ids: list[int] = []
        ends: list[int] = []
        place = 0  # characters before the part
        for number, part in enumerate([text] if self._borders is None else self._borders.split(text)):
            if number % 2:  # parts and what separates them take turns
                ids.append(self.special[part])
                ends.append(place + len(part))
            elif part:
                self._add(part, place, ids, ends)
            place += len(part)
        return Tokens(ids, ends)

    def _add(self, part: str, place: int, ids: list[int], ends: list[int]) -> None:
        """Add the tokens of a part without special tokens."""
        more = "" if part.startswith(self._prefix) else self._prefix
        for match in self.WORD.finditer(more + part):
            word, first = match.group(), match.start() - len(more)
            row = self._kept(word) if len(word) <= _SHORT else self._cut(word)
            ids += row.ids
            ends += [place + max(first + end, 1) for end in row.ends]  # a token of the prefix has the first character


def _special(held: dict[str, Any], vocabulary: dict[str, int]) -> dict[str, int]:
    """The ids of special tokens, which are added to the vocabulary."""
    found = {}
    for token in held.get("added_tokens") or ():
        content, number = token["content"], token["id"]
        plain = not any(token.get(each) for each in ("single_word", "lstrip", "rstrip", "normalized"))
        _require(plain and token["special"] and vocabulary.setdefault(content, number) == number, repr(content))
        found[content] = number
    return found


def _part(held: dict[str, Any], name: str) -> dict[str, Any]:
    return held.get(name) or {}


def _require(known: bool, what: str) -> None:
    if not known:
        raise NotPrepared(f"the tokenizer of a code model cannot have {what}. {_REMEDY}")


# -- word pieces ------------------------------------------------------------------------------------------------------


class WordPieces(Tokenizer):
    """The tokenizer of BERT: plain words and punctuation, and the longest known pieces of each from the left."""

    KINDS = (("model", "WordPiece"), ("normalizer", "BertNormalizer"), ("pre_tokenizer", "BertPreTokenizer"))
    WORD = _PIECE_WORD

    def _read(self, held: dict[str, Any]) -> None:
        model, normalizer = held["model"], _part(held, "normalizer")
        _require(normalizer["clean_text"] and normalizer["handle_chinese_chars"], "a normalizer that leaves text as is")
        _require(model["unk_token"] in self.vocabulary, f"no token {model['unk_token']!r}")
        self._lowercase, strip = bool(normalizer["lowercase"]), normalizer["strip_accents"]
        self._strips = self._lowercase if strip is None else bool(strip)
        self._unknown, self._inside = self.vocabulary[model["unk_token"]], model["continuing_subword_prefix"]
        self._most = int(model["max_input_chars_per_word"])
        self._longest = max(map(len, self.vocabulary))

    def _cut(self, word: str) -> Tokens:
        plain, places = self._plain(word)
        pieces = [
            (number, places[end - 1] + 1)
            for first, last in _spans(plain)
            for number, end in self._pieces(plain, first, last)
        ]
        return Tokens([number for number, _ in pieces], [end for _, end in pieces])

    def _plain(self, word: str) -> tuple[str, list[int]]:
        """A word in its plain form, and the place in the word that each of its characters comes from."""
        signs = [(sign, place) for place, sign in enumerate(word) if not _is_control(sign)]
        if not word.isascii():
            signs = [(each, place) for sign, place in signs for each in _CHINESE.sub(r" \g<0> ", sign)]
            if self._strips:
                signs = [(sign, place) for sign, place in _decomposed(signs) if category(sign) != "Mn"]
        if self._lowercase:
            signs = [(low, place) for sign, place in signs for low in sign.lower()]
        return "".join(sign for sign, _ in signs), [place for _, place in signs]

    def _pieces(self, text: str, first: int, last: int) -> list[tuple[int, int]]:
        """The id and the end of each piece of text[first:last]; the unknown token if no pieces make it up."""
        found: list[tuple[int, int]] = []
        at, unknown, known = first, [(self._unknown, last)], self.vocabulary.get
        if last - first > self._most:
            return unknown
        while at < last:
            head = self._inside if at > first else ""
            for end in range(min(last, at + self._longest), at, -1):
                number = known(head + text[at:end])
                if number is not None:
                    break
            else:
                return unknown
            found.append((number, end))
            at = end
        return found


def _is_control(sign: str) -> bool:
    return sign == "\ufffd" or category(sign) in ("Cc", "Cf", "Co")


def _decomposed(signs: Sequence[tuple[str, int]]) -> Iterator[tuple[str, int]]:
    """Characters without their accents, which follow, in the order of Unicode's normal form D."""
    parts = [(part, not number) for sign, _ in signs for number, part in enumerate(normalize("NFD", sign))]
    at = -1
    for moves, run in groupby(parts, lambda part: combining(part[0]) > 0):
        for part, begins in sorted(run, key=lambda part: combining(part[0])) if moves else run:
            at += begins
            yield part, signs[max(at, 0)][1]


def _spans(text: str) -> list[tuple[int, int]]:
    """First and last + 1 of each word; every punctuation mark is one."""
    found: list[tuple[int, int]] = []
    inside = False
    for place, sign in enumerate(text):
        mark = sign in punctuation or category(sign)[0] == "P"
        if inside and not mark and sign != " ":
            found[-1] = (found[-1][0], place + 1)
        elif sign != " ":
            found.append((place, place + 1))
        inside = not mark and sign != " "
    return found


# -- byte pairs -------------------------------------------------------------------------------------------------------


class BytePairs(Tokenizer):
    """Byte-level byte pair encoding: every text has tokens, which say exactly it."""

    KINDS = (("model", "BPE"), ("normalizer", None), ("pre_tokenizer", "ByteLevel"), ("decoder", "ByteLevel"))
    WORD = _BYTE_WORD

    def _read(self, held: dict[str, Any]) -> None:
        model, splitter = held["model"], held["pre_tokenizer"]
        self._prefix = " " if splitter["add_prefix_space"] else ""
        more = (
            "dropout",
            "unk_token",
            "continuing_subword_prefix",
            "end_of_word_suffix",
            "byte_fallback",
            "ignore_merges",
        )
        _require(splitter.get("use_regex", True) and not any(model.get(each) for each in more), "such settings")
        _require(all(sign in self.vocabulary for sign in _SIGNS), "no token for some bytes")
        self._bytes = [self.vocabulary[sign] for sign in _SIGNS]  # the id of each byte
        pairs = [pair.split(" ") if isinstance(pair, str) else pair for pair in model["merges"]]
        number = self.vocabulary
        self._merges = {
            (number[one], number[other]): (rank, number[one + other]) for rank, (one, other) in enumerate(pairs)
        }

    def texts(self, rows: Iterable[Iterable[int]]) -> list[str]:
        """What ids say, without special tokens. An incomplete character is replaced."""
        said = self._spellings
        return [b"".join(said.get(number, b"") for number in row).decode("utf-8", "replace") for row in rows]

    @cached_property
    def _spellings(self) -> dict[int, bytes]:
        """The bytes of each token."""
        byte = {sign: number for number, sign in enumerate(_SIGNS)}
        return {
            number: bytes(byte[sign] for sign in token) if byte.keys() >= set(token) else token.encode()
            for token, number in self.vocabulary.items()
            if token not in self.special
        }

    def _cut(self, word: str) -> Tokens:
        sizes = [len(sign.encode()) for sign in word]
        places = [place for place, size in enumerate(sizes, 1) for _ in range(size)]  # the end of each byte
        ids: list[int] = []
        lengths: list[int] = []  # bytes of each token
        for run in _runs(word):
            row, several = self._merged([self._bytes[byte] for byte in run.encode()])
            ids += row
            lengths += several
        return Tokens(ids, [places[end - 1] for end in accumulate(lengths)])

    def _merged(self, ids: list[int]) -> tuple[list[int], list[int]]:
        """Tokens after all merges, those of the lowest rank first, then the leftmost; and the bytes of each."""
        count, merges = len(ids), self._merges
        sizes, before, after = [1] * count, list(range(-1, count - 1)), list(range(1, count + 1))
        waiting = [
            (merges[pair][0], place, merges[pair][1]) for place, pair in enumerate(pairwise(ids)) if pair in merges
        ]
        heapify(waiting)
        while waiting:
            _, place, made = heappop(waiting)
            other = after[place]
            if not sizes[place] or other == count or merges.get((ids[place], ids[other]), (0, -1))[1] != made:
                continue  # one of the two has been merged with another one
            ids[place], after[place] = made, after[other]
            sizes[place], sizes[other] = sizes[place] + sizes[other], 0
            if after[place] < count:
                before[after[place]] = place
            for left in (before[place], place):
                right = after[left] if left >= 0 else count
                if right < count and (ids[left], ids[right]) in merges:
                    rank, joined = merges[ids[left], ids[right]]
                    heappush(waiting, (rank, left, joined))
        kept = [place for place, size in enumerate(sizes) if size]
        return [ids[place] for place in kept], [sizes[place] for place in kept]


def _runs(word: str) -> list[str]:
    """A word cut where letters and numbers meet.

    >>> _runs(" B2B")
    [' B', '2', 'B']
    """
    blank, plain = word[: word[0] == " "], word.removeprefix(" ")
    if word.isalpha() or not plain[:1].isalnum():
        return [word]
    first, *others = ("".join(run) for _, run in groupby(plain, str.isalpha))
    return [blank + first, *others]


def _byte_signs() -> str:
    """The character that stands for each byte in a vocabulary: itself if it is visible, otherwise one from 256 on."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    return "".join(chr(byte if byte in shown else next(others)) for byte in range(256))


_SIGNS = _byte_signs()
