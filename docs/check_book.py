"""Check a book of sentences before a model is made with it. Exits with 1 if there is a fault.

    python docs/check_book.py book.tsv
    python docs/check_book.py book.tsv --corpus corpus/ --words words.txt.zst --words more.txt

A line of the book is an area, a topic and a sentence, with tabs between them. These are faults: any other line, a wrong
number of sentences, a sentence that is there twice or nearly so, that is too short or too long, or that has a digit, an
offensive term or a word in no list, and one of more than five words that stands in a public corpus. A rare word that is
right belongs in a second list. Words with a capital letter inside a sentence may be names: they are only listed, for
somebody to look at. `book_capitals.txt` has the harmless ones.
"""

from __future__ import annotations

import argparse
import io
import math
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, repeat
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from dpbart.models.code.book import is_offensive

TOPIC, BOOK = 20, 32_768  # sentences: of a topic at least, and of the book
SHORTEST, LONGEST = 4, 22  # words
NEAR = 0.75  # Jaccard similarity of two sets of words
COPIED = 6  # words of the shortest sentence that is looked for in a corpus

_CHUNK = 1 << 22  # bytes of a corpus at once
_APOSTROPHE = re.compile(rb"\xe2\x80[\x98\x99]")  # curly ones, in UTF-8
_CURLY = re.compile(rb"\xe2\x80[\x90-\x95\x9c-\x9e\xa6]")  # dashes, curly quotes and an ellipsis, in UTF-8
_SPACES = bytes(range(0x21)) + b'!"#$%&()*+,-./:;<=>?@[\\]^_`{|}~'
_PLAIN = bytes.maketrans(
    _SPACES + bytes(range(ord("A"), ord("Z") + 1)), b" " * len(_SPACES) + bytes(range(ord("a"), ord("z") + 1))
)
_NEW_SENTENCE = re.compile(r"""[.!?:…]["'”’)]*$|^["'“‘(]+$""")
_CONTRACTED = {"can't": "can", "won't": "will", "shan't": "shall"}
_ENDING = re.compile("n't$|'(s|d|ll|re|ve|m)$")
_EDGES = "\"'“”‘’().,;:!?…-–—"


@dataclass(frozen=True)
class Sentence:
    """One line of a book."""

    line: int
    area: str
    topic: str
    text: str

    @property
    def words(self) -> list[str]:
        """In small letters, without punctuation."""
        return plain_words(self.text.encode())

    def __str__(self) -> str:
        return f"line {self.line}: {self.text}"


@dataclass(frozen=True)
class Finding:
    """A kind of fault or warning, and where it is."""

    kind: str
    found: list[str]
    fault: bool = True


def plain_words(text: bytes) -> list[str]:
    """The words of a text in small letters, without punctuation: "Don't!" is dont.

    >>> plain_words(b"Don't stop, well-known (really)!")
    ['dont', 'stop', 'well', 'known', 'really']
    """
    return [word.decode(errors="replace") for word in _plain(text).split()]


def _plain(text: bytes) -> bytes:
    if not text.isascii():
        text = _CURLY.sub(b" ", _APOSTROPHE.sub(b"", text))
    return text.translate(_PLAIN, b"'")


def read_book(file: Path) -> tuple[list[Sentence], Finding]:
    """The sentences of a book, and the lines that hold none."""
    sentences, broken = [], []
    for line, row in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
        fields = [field.strip() for field in row.split("\t")]
        if len(fields) == 3 and all(fields):
            sentences.append(Sentence(line, *fields))
        else:
            broken.append(f"line {line}: must be an area, a topic and a sentence, got {len(fields)} fields: {row[:60]}")
    return sentences, Finding("broken lines", broken)


def check_count(book: Sequence[Sentence], *, topic: int, total: int) -> Finding:
    """Topics with fewer sentences than wanted, and a book with another number."""
    topics = Counter((sentence.area, sentence.topic) for sentence in book)
    found = [
        f"{' / '.join(name)}: {count:,} sentences, not at least {topic:,}"
        for name, count in topics.items()
        if count < topic
    ]
    found += [f"the book: {len(book):,} sentences, not {total:,}"] if len(book) != total else []
    return Finding("counts", found)


def check_duplicates(book: Sequence[Sentence]) -> Finding:
    """Sentences that stand in the book before, but for capitals and punctuation."""
    first: dict[tuple[str, ...], Sentence] = {}
    found = []
    for sentence in book:
        earlier = first.setdefault(tuple(sentence.words), sentence)
        if earlier is not sentence:
            found.append(f"{sentence}  (as line {earlier.line})")
    return Finding("duplicates", found)


def check_near_duplicates(book: Sequence[Sentence]) -> Finding:
    """Pairs of different sentences with nearly the same set of words.

    Two sets with a Jaccard similarity of t share one of the (1 - t) |set| + 1 rarest words of each (Bayardo et al.
    2007, "Scaling up all pairs similarity search"). So only sentences with a common rare word are compared.
    """
    sets = {sentence: set(sentence.words) for sentence in book}
    common = Counter(word for words in sets.values() for word in words)
    with_rare_word: dict[str, list[Sentence]] = defaultdict(list)
    found = []
    for sentence, words in sets.items():
        rarest = sorted(words, key=lambda word: (common[word], word))[: len(words) - math.ceil(NEAR * len(words)) + 1]
        candidates = dict.fromkeys(other for word in rarest for other in with_rare_word[word])
        for other in candidates:
            both = len(words & sets[other])
            if both >= NEAR * (len(words) + len(sets[other]) - both) and sentence.words != other.words:
                found.append(f"{sentence}  (like {other})")
        for word in rarest:
            with_rare_word[word].append(sentence)
    return Finding("near-duplicates", found)


def check_each(kind: str, book: Iterable[Sentence], wrong: Callable[[str], bool]) -> Finding:
    """The sentences with one fault."""
    return Finding(kind, [str(sentence) for sentence in book if wrong(sentence.text)])


def has_wrong_length(text: str) -> bool:
    return not SHORTEST <= len(text.split()) <= LONGEST


def has_digit(text: str) -> bool:
    return any(character.isdigit() for character in text)


def check_capitals(book: Iterable[Sentence], allowed: frozenset[str]) -> Finding:
    """Words with a capital letter inside a sentence, which may be names, with the number of their sentences."""
    lines: dict[str, list[int]] = defaultdict(list)
    for sentence in book:
        for word in dict.fromkeys(capitals_inside(sentence.text)):
            if not {word, word.removesuffix("'s")} & allowed:
                lines[word].append(sentence.line)
    return Finding("capitals inside a sentence", _by_word(lines), fault=False)


def capitals_inside(text: str) -> Iterator[str]:
    """The words with a capital letter that do not begin a sentence.

    >>> list(capitals_inside('When Anna rang, he said: "Come in." Then Bert\\u2019s dog barked at T-shirts.'))
    ['Anna', "Bert's", 'T-shirts']
    """
    words = text.split()
    for before, word in pairwise(words):
        bare = word.strip(_EDGES).replace("’", "'")
        begins = _NEW_SENTENCE.search(before) or word[0] in "\"“‘'("
        if bare[:1].isupper() and not begins:
            yield bare


def check_spelling(book: Iterable[Sentence], known: frozenset[str]) -> Finding:
    """Words that no list has, with the lines of their sentences."""
    lines: dict[str, list[int]] = defaultdict(list)
    for sentence in book:
        for word in dict.fromkeys(spelled_words(sentence.text)):
            if word not in known and not all(part in known for part in re.split("[-']", word)):
                lines[word].append(sentence.line)
    return Finding("words in no list", _by_word(lines))


def spelled_words(text: str) -> Iterator[str]:
    """The words of a text in small letters, without the endings of contractions.

    >>> list(spelled_words("He can't say “it’s Anna's well-known T-shirt”, you'd..."))
    ['he', 'can', 'say', 'it', 'anna', 'well-known', 't-shirt', 'you']
    """
    for word in re.sub("[–—…]", " ", text).lower().replace("’", "'").split():
        bare = word.strip(_EDGES)
        bare = _CONTRACTED.get(bare) or _ENDING.sub("", bare)
        if any(character.isalpha() for character in bare):
            yield bare


def _by_word(lines: dict[str, list[int]]) -> list[str]:
    often = sorted(lines.items(), key=lambda entry: (-len(entry[1]), entry[0]))
    return [f"{word}: {len(at):,} (line {', '.join(map(str, at[:5]))}{', ...' * (len(at) > 5)})" for word, at in often]


class Copies:
    """Finds sentences of a book word for word in a corpus, in constant memory.

    Every six words of the corpus in a row have a hash. If it is that of the first six words of a sentence, the whole
    sentence is compared.
    """

    def __init__(self, book: Iterable[Sentence]) -> None:
        self.numbers: dict[bytes, int] = {}  # of words; 0 is any other word, and the end of a line
        self.sentences: dict[int, list[tuple[Sentence, list[int]]]] = defaultdict(
            list
        )  # by the hash of their beginning
        for sentence in book:
            row = [self.numbers.setdefault(word.encode(), len(self.numbers) + 1) for word in sentence.words]
            if len(row) >= COPIED:
                self.sentences[int(_hashes(np.array(row[:COPIED], np.uint64))[0])].append((sentence, row))
        self.maybe = np.zeros(1 << 20, np.bool_)  # the first 20 bits of those hashes: tells most others apart at once
        self.maybe[[each >> 44 for each in self.sentences]] = True

    def find(self, text: bytes) -> Iterator[Sentence]:
        """The sentences that stand in whole lines of a text, also inside longer ones."""
        words = _plain(text.replace(b"\n", b" \x7f ")).split()  # a control character stands for the end of a line
        rows = np.fromiter(map(self.numbers.get, words, repeat(0)), np.uint64, len(words))
        if len(rows) < COPIED:
            return
        hashes = _hashes(rows)
        for place in np.flatnonzero(self.maybe[hashes >> np.uint64(44)]).tolist():
            for sentence, row in self.sentences.get(int(hashes[place]), ()):
                if rows[place : place + len(row)].tolist() == row:
                    yield sentence


def _hashes(rows: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """A hash of every six words in a row."""
    count, hashes = len(rows) - COPIED + 1, np.zeros(len(rows) - COPIED + 1, np.uint64)
    for place in range(COPIED):
        hashes = (hashes + rows[place : place + count]) * np.uint64(0x9E3779B97F4A7C15)
        hashes ^= hashes >> np.uint64(29)
    return hashes


def check_copies(book: Sequence[Sentence], corpora: Iterable[Path]) -> Finding:
    """Sentences of more than five words that stand in a corpus."""
    copies, where = Copies(book), defaultdict[Sentence, dict[str, None]](dict)
    for corpus in corpora:
        with opened(corpus) as file:
            for text in whole_lines(file):
                for sentence in copies.find(text):
                    where[sentence][corpus.name] = None
    found = sorted(where.items(), key=lambda entry: entry[0].line)
    return Finding("copied sentences", [f"{sentence}  (in {', '.join(names)})" for sentence, names in found])


def opened(file: Path) -> BinaryIO:
    """A file, decompressed if its name ends in .zst."""
    if file.suffix != ".zst":
        return file.open("rb")
    import zstandard

    return io.BufferedReader(zstandard.ZstdDecompressor().stream_reader(file.open("rb"), closefd=True))


def whole_lines(file: BinaryIO) -> Iterator[bytes]:
    """A file in chunks that end with a line."""
    while chunk := file.read(_CHUNK):
        yield chunk + file.readline()


def read_words(files: Iterable[Path]) -> frozenset[str]:
    """The words of some lists, one a line, in small letters."""
    words: set[str] = set()
    for name in files:
        with opened(name) as file:
            words.update(file.read().decode().lower().split())
    return frozenset(words)


def allowed_capitals() -> frozenset[str]:
    lines = Path(__file__).with_name("book_capitals.txt").read_text(encoding="utf-8").splitlines()
    return frozenset(word for line in lines if not line.startswith("#") for word in line.split())


def check(arguments: argparse.Namespace) -> list[Finding]:
    """All findings, also the empty ones."""
    book, broken = read_book(arguments.book)
    findings = [
        broken,
        check_count(book, topic=arguments.topic, total=arguments.total),
        check_duplicates(book),
        check_near_duplicates(book),
        check_each(f"not {SHORTEST} to {LONGEST} words", book, has_wrong_length),
        check_each("digits", book, has_digit),
        check_each("offensive terms", book, is_offensive),
        check_capitals(book, allowed_capitals()),
    ]
    if arguments.words:
        findings.append(check_spelling(book, read_words(arguments.words)))
    if arguments.corpus is not None:
        corpora = sorted(arguments.corpus.glob("*.txt.zst"))
        if not corpora:
            sys.exit(f"{str(arguments.corpus)!r} has no .txt.zst files. Pass --corpus DIR with a folder that has.")
        findings.append(check_copies(book, corpora))
    return findings


def main(given: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("book", type=Path, metavar="BOOK.tsv")
    parser.add_argument("--corpus", type=Path, metavar="DIR", help="a folder of .txt.zst files")
    parser.add_argument("--words", type=Path, action="append", metavar="FILE", help="words that are right, one a line")
    parser.add_argument(
        "--topic", type=int, default=TOPIC, metavar="N", help=f"sentences of a topic, at least ({TOPIC})"
    )
    parser.add_argument("--total", type=int, default=BOOK, metavar="N", help=f"sentences of the book ({BOOK:,})")
    findings = check(parser.parse_args(given))
    for finding in findings:
        for line in finding.found:
            print(f"{finding.kind}: {line}")
    for finding in findings:
        print(f"{len(finding.found):7,}  {finding.kind}{'' if finding.fault else ' (to be looked at)'}")
    return int(any(finding.fault and finding.found for finding in findings))


if __name__ == "__main__":
    sys.exit(main())
