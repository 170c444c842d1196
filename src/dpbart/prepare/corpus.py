"""Public text to train on: files with one text per line. The last 1% of each file is held out.

Never pass private text to this module: what it reads becomes part of a published model.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

import numpy as np
import numpy.typing as npt

from dpbart.errors import BadParameter, BadTable, require_extra
from dpbart.files import digest_of, write_whole
from dpbart.models.text import Tokens
from dpbart.progress import progress

if TYPE_CHECKING:
    from tokenizers import Tokenizer

ENDINGS = (".txt", ".txt.gz", ".txt.zst")
HELD_OUT = 100  # one text in 100, at the end of each file, is held out
VOCABULARY_TEXTS = 1_000_000  # more would hardly change a vocabulary but cost time and memory


@dataclass(frozen=True)
class CorpusFile:
    """One file of public text, as a model's provenance records it."""

    path: Path
    sha256: str
    texts: int

    @property
    def training_texts(self) -> int:
        return self.texts - self.texts // HELD_OUT

    def provenance(self) -> dict[str, object]:
        return {"name": self.path.name, "sha256": self.sha256, "texts": self.texts}


def find_corpus(paths: Iterable[Path]) -> tuple[CorpusFile, ...]:
    """The given files and the files in the given folders, counted and hashed."""
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            found += sorted(file for file in path.iterdir() if file.name.endswith(ENDINGS))
        elif path.is_file():
            found.append(path)
        else:
            raise BadTable(f"no file or folder of public text at '{path}'. Check the path.")
    if not found:
        raise BadTable(f"no public text found: the folders hold no file ending in {', '.join(ENDINGS)}.")
    files = []
    with progress("Reading corpus", total=len(found), unit="files") as bar:
        for path in found:
            files.append(CorpusFile(path, digest_of(path), sum(1 for _ in read_texts(path))))
            bar.advance(1)
    if not any(file.texts for file in files):
        raise BadTable(
            f"no public text found: there are only blank lines in {', '.join(repr(str(path)) for path in found)}."
        )
    return tuple(files)


def read_texts(path: Path) -> Iterator[str]:
    """The non-blank lines of a file."""
    with open_text(path, what="public text") as lines:
        for line in lines:
            text = line.strip()
            if text:
                yield text


def training_texts(files: Sequence[CorpusFile]) -> Iterator[str]:
    for file in files:
        yield from islice(read_texts(file.path), file.training_texts)


def vocabulary_texts(files: Sequence[CorpusFile]) -> Iterator[str]:
    """Training texts for making a vocabulary: all of them or, in a large corpus, every nth."""
    stride = max(1, sum(file.training_texts for file in files) // VOCABULARY_TEXTS)
    return (text for number, text in enumerate(training_texts(files)) if number % stride == 0)


def held_out_texts(files: Sequence[CorpusFile], count: int) -> list[str]:
    """`count` held-out texts, spread evenly over all held-out texts of all files."""
    if count < 1:
        raise BadParameter(f"held-out texts must be at least 1, got {count}.")
    texts = [text for file in files for text in islice(read_texts(file.path), file.training_texts, None)]
    if len(texts) < count:
        raise BadTable(
            f"{count} held-out texts were requested, but the last 1% of these files holds {len(texts)}. "
            "Give more public text, or request fewer."
        )
    return [texts[i * len(texts) // count] for i in range(count)]


def tokenize_corpus(
    files: Sequence[CorpusFile], make: Callable[[], Tokenizer], folder: Path, *, length: int
) -> tuple[Tokens, npt.NDArray[np.uint32]]:
    """The tokenizer in the folder, created if missing, and the ids of all training texts."""
    tokenizer_file = folder / "tokenizer.json"
    if not tokenizer_file.is_file():
        write_whole(tokenizer_file, make().to_str(pretty=True))
    tokens = Tokens.load(tokenizer_file, length=length)
    return tokens, encode_corpus(files, tokens, folder)


def encode_corpus(files: Sequence[CorpusFile], tokens: Tokens, folder: Path) -> npt.NDArray[np.uint32]:
    """The ids of all training texts, (texts, length). They are stored on disk once and memory-mapped."""
    total = sum(file.training_texts for file in files)
    made_from = {
        "files": [file.provenance() for file in files],
        "tokenizer": hashlib.sha256(tokens.tokenizer.to_str().encode()).hexdigest(),
        "length": tokens.length,
    }
    ids_file, note = folder / "corpus-ids.bin", folder / "corpus-ids.json"
    if not (note.is_file() and json.loads(note.read_text()) == made_from):
        note.unlink(missing_ok=True)
        with ids_file.open("wb") as out, progress("Encoding corpus", total=total, unit="texts") as bar:
            for batch in _batched(training_texts(files), 10_000):
                out.write(tokens.encode(batch).astype(np.uint32).tobytes())
                bar.advance(len(batch))
        write_whole(note, json.dumps(made_from))  # written last: without this note the ids are made again
    return np.memmap(ids_file, dtype=np.uint32, mode="r", shape=(total, tokens.length))


def _batched(texts: Iterator[str], size: int) -> Iterator[list[str]]:
    while batch := list(islice(texts, size)):
        yield batch


@contextmanager
def open_text(path: Path, *, what: str) -> Iterator[io.TextIOWrapper]:
    """Open a UTF-8 file: plain, .gz or .zst.

    Raises:
        BadTable: It cannot be read as `what`.
        MissingExtra: It is a .zst file, and the package for these is not installed.
    """
    damaged: tuple[type[Exception], ...] = (OSError, EOFError)  # a truncated .gz is an EOFError
    if path.name.endswith(".zst"):
        require_extra("evaluate", "reading a .zst file needs", "zstandard")
        import zstandard

        damaged += (zstandard.ZstdError,)
    try:
        with io.TextIOWrapper(_unpacked(path), encoding="utf-8", errors="replace", newline="\n") as lines:
            yield lines
    except damaged as error:
        raise BadTable(f"'{path}' cannot be read as {what}: {type(error).__name__}.") from error


def _unpacked(path: Path) -> BinaryIO:
    if path.name.endswith(".gz"):
        return cast(BinaryIO, gzip.GzipFile(path, "rb"))
    if path.name.endswith(".zst"):
        import zstandard

        return cast(BinaryIO, zstandard.ZstdDecompressor().stream_reader(path.open("rb"), closefd=True))
    return path.open("rb")
