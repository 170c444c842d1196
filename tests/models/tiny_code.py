"""A code model with small random weights, made in the test: every part is real, and nothing is learned."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer

from dpbart.models.bundle import Bundle, ModelFacts
from dpbart.models.code.book import Book
from dpbart.models.code.model import Networks, save_code
from dpbart.models.code.sentence import SentenceEncoder, SentenceSizes
from dpbart.models.code.tree import GistTree, unit
from dpbart.models.code.writer import Writer, WriterSizes

BOOK_BITS = 9
TABLE = [[0.5, 1, 1], [4.0, 5, 5], [10.0, 8, 8], [20.0, 25, 8], [100.0, 140, 8], [700.0, 1000, 8]]


def tiny_networks(tokenizer_file: Path) -> Networks:
    tokenizer = Tokenizer.from_file(str(tokenizer_file))
    size = tokenizer.get_vocab_size()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        sentence = SentenceEncoder(
            SentenceSizes(vocabulary=size, width=16, layers=1, heads=2, inner=16, windows=32, window=16, vector=8)
        )
        writer = Writer(
            WriterSizes(vocabulary=size, width=16, layers=1, heads=2, inner=32, places=14, gist=8, frequent=100)
        )
        for weight in (*sentence.parameters(), *writer.parameters()):
            torch.nn.init.normal_(weight, std=0.3)
    random = np.random.default_rng(0)
    leaves = unit(random.normal(size=(256, 8)).astype(np.float32))
    refined = unit(random.normal(size=(2**5 - 2, 8)).astype(np.float32))
    rows = [random.integers(5, size, random.integers(4, 11)).tolist() for _ in range(1 << BOOK_BITS)]
    book = Book.of(rows, unit(random.normal(size=(len(rows), 8)).astype(np.float32)))
    return Networks(tokenizer, sentence, GistTree(leaves, refined), writer, book)


def make_tiny_code(tokenizer_file: Path, out: Path) -> Bundle:
    """A complete model directory."""
    settings = {"batch": 4, "endings": 3, "top_k": 20, "sentences": 4, "whole": 20, "choice": 30, "margin": 0.1}
    code = {"table": TABLE, "book_bits": BOOK_BITS, "settings": settings}
    facts = ModelFacts(variant="code", length=12, width=16, code=code, corpora=({"name": "made up"},))
    return save_code(tiny_networks(tokenizer_file), facts, out)
