"""A code model: the receiving side, both sides joined, and its files.

The receiving side sees whole numbers and public parts, and nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from safetensors.numpy import save_file

from dpbart.card.record import ModelLine
from dpbart.channels.code import Codes, CodeSize
from dpbart.errors import NotPrepared
from dpbart.files import whole_or_nothing, write_whole
from dpbart.models.bundle import Bundle, ModelFacts
from dpbart.models.code.book import BOOK_FILE, Book, BookUse, Places, load_book, write_book
from dpbart.models.code.cutting import Cutter
from dpbart.models.code.encoder import CodeEncoder
from dpbart.models.code.fitting import Fitter
from dpbart.models.code.foreign import ENCODER_FOLDER, ForeignReader
from dpbart.models.code.reader import DocumentReader, Reader, ReaderNetwork, ReaderSizes
from dpbart.models.code.settings import MODEL_TYPE, CodeSettings
from dpbart.models.code.tokens import BytePairs, WordPieces
from dpbart.models.code.weights import Arrays, Floats, below, mapped, one_thread
from dpbart.models.code.wording import WordingReader
from dpbart.models.code.writer import Writer, WriterSizes
from dpbart.models.hub import foreign_errors, read_config
from dpbart.privacy.facts import Private

WRITER_TOKENIZER = "writer_tokenizer.json"
COMMON_FILE, KNOWN_FILE = "common.txt", "known.txt"
Sizes = TypeVar("Sizes")
Kind = TypeVar("Kind", WordPieces, BytePairs)


@dataclass(frozen=True)
class CodeDecoder:
    """The receiving side of one model."""

    book: Book
    size: CodeSize
    tokenizer: BytePairs | None = None  # of the writer
    wording: WordingReader | None = None

    def decode(self, private: Private[Codes]) -> list[str]:
        """A text for each code. Every code has one."""
        size = self.size
        if self.wording is None or self.tokenizer is None:
            return [self._from_book(code, size.values) for code in private.values]
        bits = size.wording_bits
        rows = self.wording.read([code for code in private.values if not code >> bits])
        worded = iter(self.tokenizer.texts(rows))
        unused, form = bits - size.book_bits, self._from_pair if size.second_bits else self._from_places
        return [
            form((code & (1 << bits) - 1) >> unused) if code >> bits else next(worded).strip()
            for code in private.values
        ]

    def _from_places(self, code: int) -> str:
        return self._from_book(code, 1 << self.size.place_bits)

    def _from_pair(self, code: int) -> str:
        """A sentence and one of its neighbours. The first always speaks."""
        code, second = divmod(code, 1 << self.size.second_bits)
        swapped, first = divmod(code, 1 << self.size.place_bits)
        lines = self.book.lines
        first %= len(lines)
        others = self.book.neighbours(np.array([first]), self.size.second_sentences)[0][0]
        said = [lines[first].sentence]
        if second < len(others):
            said.insert(0 if swapped else 1, lines[others[second]].sentence)
        return " ".join(said)

    def _from_book(self, code: int, values: int) -> str:
        """The sentences at the places of a code, in order. A place beyond the last sentence is silent."""
        places = []
        for _ in range(self.size.places):
            code, place = divmod(code, values)
            places.append(place)
        lines = self.book.lines
        said = dict.fromkeys(lines[place].sentence for place in reversed(places) if place < len(lines))
        return " ".join(said)  # a sentence that was drawn twice stands once


@dataclass(frozen=True)
class CodeModel:
    """Both sides of one model."""

    line: ModelLine
    encoder: CodeEncoder
    decoder: CodeDecoder

    @property
    def recipe(self) -> str:
        return f"len:{self.line.length}|model:{self.line.identity}"

    def encode(self, texts: Sequence[str]) -> Places | list[tuple[int]]:
        """The values that mean the same for each text; see `CodeEncoder`."""
        with one_thread():
            return self.encoder.encode(texts)

    def read(self, texts: Sequence[str]) -> list[str]:
        """The texts as far as the model can write them: the first tokens of a wording, or all of them."""
        fitter = self.encoder.fitter
        if fitter is None:
            return list(texts)
        cutter = fitter.cutter
        rows = [row[: self.line.length] for row in cutter.tokens(texts)]
        return [text.strip() for text in cutter.tokenizer.texts(rows)]

    def decode(self, private: Private[Codes]) -> list[str]:
        """A text for each code."""
        with one_thread():
            return self.decoder.decode(private)


@dataclass(frozen=True)
class Pen:
    """What a model words texts with.

    Attributes:
        tokenizer: of the writer.
        writer: the language model.
        common: ordinary words, in lower case.
        known: well-known public things, and words that are names only with a capital; all as they are spelled.
    """

    tokenizer: BytePairs
    writer: Writer
    common: frozenset[str]
    known: frozenset[str]


@dataclass(frozen=True)
class Networks:
    """The parts of a code model: what it reads with, its book and, if it can word texts, what it writes with."""

    reader: DocumentReader
    book: Book
    pen: Pen | None = None

    @classmethod
    def load(cls, folder: Path, *, writes: bool = True) -> Networks:
        """All parts of a model directory; without what it writes with, if it only reads.

        Raises:
            NotPrepared: A part is missing or does not fit.
        """
        book = load_book(folder)
        failed = f"the code model in '{folder}' cannot be loaded"
        with foreign_errors(failed, remedy="Download or make it again."):
            config = read_config(folder)
            tensors = mapped(folder / "model.safetensors")
            reader = _load_reader(folder, config, tensors)
            pen = _load_pen(folder, config, tensors) if writes and "writer" in config else None
        if book.coarse.shape[1] != reader.width:
            raise NotPrepared(f"the book of '{folder}' does not fit its encoder. They belong to different models.")
        return cls(reader, book, pen)


def _load_reader(folder: Path, config: dict[str, Any], tensors: Arrays) -> DocumentReader:
    if "reader" not in config:
        return ForeignReader.load(folder / ENCODER_FOLDER)
    network = ReaderNetwork(chosen(ReaderSizes, config["reader"]), below(tensors, "reader."))
    return Reader(_load_tokenizer(WordPieces, folder / "tokenizer.json", network.sizes.vocabulary), network)


def _load_pen(folder: Path, config: dict[str, Any], tensors: Arrays) -> Pen:
    writer = Writer(chosen(WriterSizes, config["writer"]), below(tensors, "writer."))
    tokenizer = _load_tokenizer(BytePairs, folder / WRITER_TOKENIZER, writer.sizes.vocabulary)
    common, known = (
        frozenset((folder / file).read_text(encoding="utf-8").split()) for file in (COMMON_FILE, KNOWN_FILE)
    )
    return Pen(tokenizer, writer, common, known)


def _load_tokenizer(kind: type[Kind], file: Path, vocabulary: int) -> Kind:
    tokenizer = kind(file.read_text(encoding="utf-8"))
    if tokenizer.reach > vocabulary:
        raise NotPrepared(f"'{file}' must fit the weights beside it. They belong to different models.")
    return tokenizer


def save_code(parts: Networks, facts: ModelFacts, out: Path) -> Bundle:
    """Write a model directory, compactly. If interrupted, it leaves no complete model.

    A book is written by area and topic, for people to read. Its own order is stored with the weights.
    """
    lines = sorted(range(len(parts.book.lines)), key=_reading_order(parts.book))
    place = {number: row for row, number in enumerate(lines)}
    tensors: Arrays = {
        "book.order": np.array([place[number] for number in range(len(lines))], np.int32),
        "book.coarse": parts.book.coarse,
    }
    config: dict[str, Any] = {"model_type": MODEL_TYPE, "d_model": parts.reader.width, "max_position_embeddings": 512}
    out.mkdir(parents=True, exist_ok=True)
    (out / "tokenizer.json").unlink(missing_ok=True)  # the directory is incomplete until this file is back
    if isinstance(parts.reader, Reader):
        tensors |= {f"reader.{name}": each for name, each in parts.reader.network.weights.items()}
        config["reader"] = asdict(parts.reader.sizes)
    if parts.pen is not None:
        writer = parts.pen.writer
        tensors |= {f"writer.{name}": each for name, each in writer.weights.items()}
        config |= {"writer": asdict(writer.sizes), "max_position_embeddings": writer.sizes.places - 2}
        write_whole(out / WRITER_TOKENIZER, parts.pen.tokenizer.file)
        for file, words in ((COMMON_FILE, parts.pen.common), (KNOWN_FILE, parts.pen.known)):
            write_whole(out / file, "\n".join(sorted(words)) + "\n")
    with whole_or_nothing(out / "model.safetensors") as partial:
        save_file({name: np.ascontiguousarray(each) for name, each in tensors.items()}, partial)
    write_whole(out / BOOK_FILE, write_book(parts.book.lines[number] for number in lines))
    write_whole(out / "config.json", json.dumps(config, indent=2) + "\n")
    facts.write(out)
    write_whole(out / "tokenizer.json", parts.reader.tokenizer_file)
    return Bundle.at(out)


def _reading_order(book: Book) -> Any:
    """Areas and topics in the order in which they first stand in the book, and their sentences likewise."""
    areas = {area: rank for rank, area in enumerate(dict.fromkeys(line.area for line in book.lines))}
    topics = {topic: rank for rank, topic in enumerate(dict.fromkeys(line.topic for line in book.lines))}
    return lambda number: (areas[book.lines[number].area], topics[book.lines[number].topic], number)


def load_code(folder: Path, line: ModelLine, size: CodeSize, *, use: BookUse, settings: CodeSettings) -> CodeModel:
    """The model of a directory, for codes of one size."""
    parts = Networks.load(folder, writes=size.worded)
    book = parts.book.part(use, model=line.name)
    if len(book.lines) < size.sentences or (size.worded and parts.pen is None):
        raise NotPrepared(f"the parts of '{folder}' do not fit its table of code sizes. Make the model again.")
    return join_sides(parts, book.first(size.sentences), line, size, settings)


@dataclass(frozen=True)
class CodeBookReader:
    """Reads texts as the codes of one place do."""

    reader: DocumentReader
    book: Book
    settings: CodeSettings

    def read(self, texts: Sequence[str]) -> Floats:
        """A unit vector for each whole text, (texts, vector); zeros if nothing could be read."""
        with one_thread():
            return self.reader.documents(texts, closely=self.settings.closely).whole


def join_sides(parts: Networks, book: Book, line: ModelLine, size: CodeSize, settings: CodeSettings) -> CodeModel:
    """Both sides of a model, from its parts."""
    _ = book.product
    if not size.worded or parts.pen is None or not isinstance(parts.reader, Reader):
        return CodeModel(line, CodeEncoder(parts.reader, book, size, settings), CodeDecoder(book, size))
    pen, bits = parts.pen, size.wording_bits
    spares_names = bits >= settings.names_from
    cutter = Cutter(parts.reader, pen.tokenizer, pen.writer, pen.common, pen.known, line.length, spares_names)
    wording = WordingReader(pen.writer, bits, line.length)
    encoder = CodeEncoder(parts.reader, book, size, settings, Fitter(cutter, bits))
    return CodeModel(line, encoder, CodeDecoder(book, size, pen.tokenizer, wording))


def chosen(kind: type[Sizes], values: dict[str, Any]) -> Sizes:
    """A dataclass from the values that it has fields for."""
    names = {each.name for each in fields(kind)}  # type: ignore[arg-type]
    return kind(**{name: value for name, value in values.items() if name in names})
