"""A code model: both sides, and how it is loaded."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer

from dpbart.channels.code import Codes, CodeSize
from dpbart.errors import NotPrepared
from dpbart.files import whole_or_nothing, write_whole
from dpbart.models.bundle import Bundle, ModelFacts
from dpbart.models.code import CODE
from dpbart.models.code.book import Book, Places
from dpbart.models.code.decoder import CodeDecoder
from dpbart.models.code.encoder import CodeEncoder
from dpbart.models.code.sentence import SentenceEncoder, SentenceSizes
from dpbart.models.code.settings import CodeSettings
from dpbart.models.code.steps import Steps
from dpbart.models.code.tree import GistTree
from dpbart.models.code.writer import Writer, WriterSizes
from dpbart.models.code.writing import Writing
from dpbart.models.config import read_config
from dpbart.models.text import reach_of
from dpbart.privacy.card.card import ModelLine
from dpbart.privacy.private import Private
from dpbart.privacy.sampling import Entropy

Sizes = TypeVar("Sizes")


@dataclass(frozen=True)
class CodeModel:
    """Texts to codes, and codes to texts."""

    line: ModelLine
    encoder: CodeEncoder
    decoder: CodeDecoder

    @property
    def recipe(self) -> str:
        return f"len:{self.line.length}|endings:{self.decoder.steps.settings.endings}|model:{self.line.identity}"

    def encode(self, texts: Sequence[str]) -> Places | list[tuple[int]]:
        """The codes of each text that mean the same for it; see `CodeEncoder`."""
        return self.encoder.encode(texts)

    def read(self, texts: Sequence[str]) -> list[str]:
        """The texts as far as the model can write them: their first tokens."""
        rows = [row[: self.line.length] for row in self.encoder.tokens(texts)]
        return [text.strip() for text in self.encoder.tokenizer.decode_batch(rows, skip_special_tokens=True)]

    def decode(self, private: Private[Codes]) -> list[str]:
        """A text for every code, whatever it is."""
        return self.decoder.decode(private)


@dataclass(frozen=True)
class Networks:
    """The parts of a code model that are learned, and its tokenizer."""

    tokenizer: Tokenizer
    sentence: SentenceEncoder
    tree: GistTree
    writer: Writer
    book: Book

    @classmethod
    def load(cls, folder: Path) -> Networks:
        """All parts of a model directory.

        Raises:
            NotPrepared: A part is missing or does not fit.
        """
        try:
            config = read_config(folder)
            tensors = load_file(folder / "model.safetensors")
            tensors = {name: each.float() if each.is_floating_point() else each for name, each in tensors.items()}
            sentence = SentenceEncoder(chosen(SentenceSizes, config["sentence"]))
            writer = Writer(chosen(WriterSizes, config["writer"]))
            order = tensors.pop("writer.order").long()
            tensors |= {"writer.order": order, "writer.rank": torch.argsort(order)}
            sentence.load_state_dict(_below(tensors, "sentence."))
            writer.load_state_dict(_below(tensors, "writer."))
            tree = GistTree(*(tensors[f"tree.{each}"].numpy() for each in ("leaves", "refined")))
            book = Book(*(tensors[f"book.{each}"].numpy() for each in ("tokens", "ends", "coarse")))
            tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        except (OSError, ValueError, KeyError, TypeError, RuntimeError, SafetensorError) as error:
            raise NotPrepared(f"the code model in '{folder}' cannot be loaded: {_short(error)}.") from error
        if reach_of(tokenizer) > min(sentence.sizes.vocabulary, writer.sizes.vocabulary):
            raise NotPrepared(f"the tokenizer in '{folder}' must fit its weights. They belong to different models.")
        tokenizer.no_truncation()
        tokenizer.no_padding()
        return cls(tokenizer, sentence.eval(), tree, writer.eval(), book)


def save_code(parts: Networks, facts: ModelFacts, out: Path) -> Bundle:
    """Write a model directory in half precision; stopped on the way, it leaves no model."""
    tensors = {
        **{f"sentence.{name}": each for name, each in parts.sentence.state_dict().items()},
        **{f"writer.{name}": each for name, each in parts.writer.state_dict().items() if name != "rank"},
        **{f"tree.{name}": torch.from_numpy(each) for name, each in parts.tree.stored.items()},
        **{f"book.{each.name}": torch.from_numpy(getattr(parts.book, each.name)) for each in fields(Book)},
    }
    tensors["writer.order"] = tensors["writer.order"].int()
    half = {name: (each.half() if each.is_floating_point() else each) for name, each in tensors.items()}
    config = {
        "model_type": CODE.name,
        "d_model": parts.writer.sizes.width,
        "max_position_embeddings": parts.writer.sizes.places - 2,  # begin and end take a place each
        "sentence": asdict(parts.sentence.sizes),
        "writer": asdict(parts.writer.sizes),
    }
    out.mkdir(parents=True, exist_ok=True)
    (out / "tokenizer.json").unlink(missing_ok=True)  # without it there is no model, until the rest is whole
    with whole_or_nothing(out / "model.safetensors") as partial:
        save_file({name: each.contiguous() for name, each in half.items()}, partial)
    write_whole(out / "config.json", json.dumps(config, indent=2) + "\n")
    facts.write(out)
    write_whole(out / "tokenizer.json", parts.tokenizer.to_str())
    return Bundle.at(out)


def load_code(folder: Path, line: ModelLine, size: CodeSize, *, settings: CodeSettings, entropy: Entropy) -> CodeModel:
    """The model of a directory, for codes of one size."""
    parts = Networks.load(folder)
    if size.wording_bits and size.gist_bits > parts.tree.depth:
        raise NotPrepared(f"the tree of '{folder}' has no gist of {size.gist_bits} bits. It does not fit its table.")
    if not size.wording_bits and size.near << size.bits != 1 << parts.book.bits:
        raise NotPrepared(f"the book of '{folder}' has 2^{parts.book.bits} texts. It does not fit its table.")
    return join_sides(parts, line, size, settings=settings, entropy=entropy)


def join_sides(
    parts: Networks, line: ModelLine, size: CodeSize, *, settings: CodeSettings, entropy: Entropy
) -> CodeModel:
    """Both sides of a model, from its parts."""
    steps = Steps(parts.writer, parts.tree, size, line.length, settings, parts.book.bits)
    writing = Writing(steps, parts.sentence)
    encoder = CodeEncoder(parts.tokenizer, parts.book, writing)
    return CodeModel(line, encoder, CodeDecoder(parts.tokenizer, parts.book, writing, entropy))


def chosen(kind: type[Sizes], values: dict[str, Any]) -> Sizes:
    """A dataclass from those of the values that are its fields."""
    names = {each.name for each in fields(kind)}  # type: ignore[arg-type]
    return kind(**{name: value for name, value in values.items() if name in names})


def _below(tensors: dict[str, torch.Tensor], prefix: str) -> dict[str, torch.Tensor]:
    """The tensors of one part, by the rest of their names."""
    return {name.removeprefix(prefix): each for name, each in tensors.items() if name.startswith(prefix)}


def _short(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0][:200]
