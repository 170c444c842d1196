"""A code model: the receiving side, both sides joined, and its files.

The receiving side sees whole numbers and public parts, and nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer

from dpbart.card.record import ModelLine
from dpbart.channels.code import Codes, CodeSize
from dpbart.errors import NotPrepared
from dpbart.files import whole_or_nothing, write_whole
from dpbart.models.bundle import Bundle, ModelFacts
from dpbart.models.code.book import BOOK_FILE, Book, BookUse, Floats, Places, load_book, write_book
from dpbart.models.code.encoder import CodeEncoder
from dpbart.models.code.fitting import Fitter
from dpbart.models.code.foreign import ENCODER_FOLDER, ForeignReader
from dpbart.models.code.reader import DocumentReader, Reader, ReaderNetwork, ReaderSizes
from dpbart.models.code.settings import MODEL_TYPE, CodeSettings
from dpbart.models.code.writer import Penmanship, Writer, WriterSizes
from dpbart.models.hub import foreign_errors, read_config
from dpbart.models.text import reach_of
from dpbart.privacy.facts import Private

WRITER_TOKENIZER = "writer_tokenizer.json"
COMMON_FILE, KNOWN_FILE = "common.txt", "known.txt"
_QUANTISED = 1 << 16  # entries: larger tables are stored in whole numbers from -127 to 127, with a scale for each row
_SCALE = ".scale"
Sizes = TypeVar("Sizes")


@dataclass(frozen=True)
class CodeDecoder:
    """The receiving side of one model."""

    book: Book
    size: CodeSize
    tokenizer: Tokenizer | None = None  # of the writer
    pen: Penmanship | None = None

    def decode(self, private: Private[Codes]) -> list[str]:
        """A text for each code. Every code has one."""
        size = self.size
        if self.pen is None or self.tokenizer is None:
            return [self._from_book(code, size.values) for code in private.values]
        strings = [code & (1 << size.wording_bits) - 1 for code in private.values]
        rows = self.pen.read(strings)  # of every code, so that all take the same work
        worded = [text.strip() for text in self.tokenizer.decode_batch(rows, skip_special_tokens=True)]
        unused = size.wording_bits - size.places * size.place_bits
        return [
            self._from_book(string >> unused, 1 << size.place_bits) if code >> size.wording_bits else text
            for code, string, text in zip(private.values, strings, worded, strict=True)
        ]

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
        return self.encoder.encode(texts)

    def read(self, texts: Sequence[str]) -> list[str]:
        """The texts as far as the model can write them: the first tokens of a wording, or all of them."""
        fitter = self.encoder.fitter
        if fitter is None:
            return list(texts)
        rows = [row[: self.line.length] for row in fitter.tokens(texts)]
        return [text.strip() for text in fitter.tokenizer.decode_batch(rows, skip_special_tokens=True)]

    def decode(self, private: Private[Codes]) -> list[str]:
        """A text for each code."""
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

    tokenizer: Tokenizer
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
            tensors = _unpacked(load_file(folder / "model.safetensors"))
            reader = _load_reader(folder, config, tensors)
            pen = _load_pen(folder, config, tensors) if writes and "writer" in config else None
        if book.coarse.shape[1] != reader.width:
            raise NotPrepared(f"the book of '{folder}' does not fit its encoder. They belong to different models.")
        return cls(reader, book, pen)


def _load_reader(folder: Path, config: dict[str, Any], tensors: dict[str, torch.Tensor]) -> DocumentReader:
    if "reader" not in config:
        return ForeignReader.load(folder / ENCODER_FOLDER)
    network = ReaderNetwork(chosen(ReaderSizes, config["reader"]))
    network.load_state_dict(_below(tensors, "reader."))
    tokenizer = _load_tokenizer(folder / "tokenizer.json", network.sizes.vocabulary)
    return Reader(tokenizer, network.eval())


def _load_pen(folder: Path, config: dict[str, Any], tensors: dict[str, torch.Tensor]) -> Pen:
    writer = Writer(chosen(WriterSizes, config["writer"]))
    order = tensors.pop("writer.order").long()
    writer.load_state_dict(_below(tensors, "writer.") | {"order": order, "rank": torch.argsort(order)})
    tokenizer = _load_tokenizer(folder / WRITER_TOKENIZER, writer.sizes.vocabulary)
    common, known = (
        frozenset((folder / file).read_text(encoding="utf-8").split()) for file in (COMMON_FILE, KNOWN_FILE)
    )
    return Pen(tokenizer, writer.eval(), common, known)


def _load_tokenizer(file: Path, vocabulary: int) -> Tokenizer:
    tokenizer = Tokenizer.from_file(str(file))
    if reach_of(tokenizer) > vocabulary:
        raise NotPrepared(f"'{file}' must fit the weights beside it. They belong to different models.")
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def save_code(parts: Networks, facts: ModelFacts, out: Path) -> Bundle:
    """Write a model directory, compactly. If interrupted, it leaves no complete model.

    A book is written by area and topic, for people to read. Its own order is stored with the weights.
    """
    lines = sorted(range(len(parts.book.lines)), key=_reading_order(parts.book))
    place = {number: row for row, number in enumerate(lines)}
    tensors: dict[str, torch.Tensor] = {
        "book.order": torch.tensor([place[number] for number in range(len(lines))], dtype=torch.int32),
        "book.coarse": torch.from_numpy(parts.book.coarse),
    }
    config: dict[str, Any] = {"model_type": MODEL_TYPE, "d_model": parts.reader.width, "max_position_embeddings": 512}
    out.mkdir(parents=True, exist_ok=True)
    (out / "tokenizer.json").unlink(missing_ok=True)  # the directory is incomplete until this file is back
    if isinstance(parts.reader, Reader):
        tensors |= _packed({f"reader.{name}": each for name, each in parts.reader.network.state_dict().items()})
        config["reader"] = asdict(parts.reader.sizes)
    if parts.pen is not None:
        writer = parts.pen.writer
        tensors |= _packed({f"writer.{name}": each for name, each in writer.state_dict().items() if name != "rank"})
        config |= {"writer": asdict(writer.sizes), "max_position_embeddings": writer.sizes.places - 2}
        write_whole(out / WRITER_TOKENIZER, parts.pen.tokenizer.to_str())
        for file, words in ((COMMON_FILE, parts.pen.common), (KNOWN_FILE, parts.pen.known)):
            write_whole(out / file, "\n".join(sorted(words)) + "\n")
    with whole_or_nothing(out / "model.safetensors") as partial:
        save_file({name: each.contiguous() for name, each in tensors.items()}, partial)
    write_whole(out / BOOK_FILE, write_book(parts.book.lines[number] for number in lines))
    write_whole(out / "config.json", json.dumps(config, indent=2) + "\n")
    facts.write(out)
    write_whole(out / "tokenizer.json", parts.reader.tokenizer.to_str())
    return Bundle.at(out)


def _reading_order(book: Book) -> Any:
    """Areas and topics in the order in which they first stand in the book, and their sentences likewise."""
    areas = {area: rank for rank, area in enumerate(dict.fromkeys(line.area for line in book.lines))}
    topics = {topic: rank for rank, topic in enumerate(dict.fromkeys(line.topic for line in book.lines))}
    return lambda number: (areas[book.lines[number].area], topics[book.lines[number].topic], number)


def load_code(folder: Path, line: ModelLine, size: CodeSize, *, use: BookUse, settings: CodeSettings) -> CodeModel:
    """The model of a directory, for codes of one size."""
    parts = Networks.load(folder)
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
        return self.reader.documents(texts, closely=self.settings.closely).whole


def join_sides(parts: Networks, book: Book, line: ModelLine, size: CodeSize, settings: CodeSettings) -> CodeModel:
    """Both sides of a model, from its parts."""
    if not size.worded or parts.pen is None or not isinstance(parts.reader, Reader):
        return CodeModel(line, CodeEncoder(parts.reader, book, size, settings), CodeDecoder(book, size))
    pen, tokenizer = parts.pen, parts.pen.tokenizer
    penmanship = Penmanship(pen.writer, size.wording_bits, line.length, settings.batch)
    fitter = Fitter(
        parts.reader, tokenizer, pen.writer, pen.common, pen.known, size.wording_bits, line.length, settings
    )
    encoder = CodeEncoder(parts.reader, book, size, settings, fitter, penmanship)
    return CodeModel(line, encoder, CodeDecoder(book, size, tokenizer, penmanship))


def chosen(kind: type[Sizes], values: dict[str, Any]) -> Sizes:
    """A dataclass from the values that it has fields for."""
    names = {each.name for each in fields(kind)}  # type: ignore[arg-type]
    return kind(**{name: value for name, value in values.items() if name in names})


def _packed(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Large tables as whole numbers with a scale for each row, other floats in half precision."""
    packed: dict[str, torch.Tensor] = {}
    for name, each in tensors.items():
        if each.is_floating_point() and each.dim() == 2 and each.numel() >= _QUANTISED:
            scale = each.abs().amax(1, keepdim=True).clamp(min=1e-8).half().float() / 127
            packed[name], packed[name + _SCALE] = (each / scale).round().clamp(-127, 127).to(torch.int8), scale.half()
        else:
            packed[name] = each.half() if each.is_floating_point() else each.int()
    return packed


def _unpacked(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """In single precision, as they are computed with. The vectors of a book stay as they are."""
    found = {}
    for name, each in tensors.items():
        if name.endswith(_SCALE):
            continue
        scale = tensors.get(name + _SCALE)
        found[name] = (
            each.float() * scale.float() if scale is not None else each.float() if each.is_floating_point() else each
        )
    return found


def _below(tensors: dict[str, torch.Tensor], prefix: str) -> dict[str, torch.Tensor]:
    """The tensors of one part, by the rest of their names."""
    return {name.removeprefix(prefix): each for name, each in tensors.items() if name.startswith(prefix)}
