"""A code model with small random weights, made in the test: every part is real, and nothing is learned."""

from __future__ import annotations

import string
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from dpbart.models.bundle import Bundle, ModelFacts
from dpbart.models.code.book import Book, Line
from dpbart.models.code.model import Networks, Pen, save_code
from dpbart.models.code.reader import Reader, ReaderSizes
from dpbart.models.code.tokens import BytePairs, WordPieces
from dpbart.models.code.writer import WriterSizes
from dpbart.prepare.code.networks import ReaderTraining, WriterTraining

# epsilon, bits, places, near
TABLE = [
    [0.5, 1, 1, 2],
    [4.0, 5, 1, 2],
    [10.0, 8, 1, 1],
    [15.0, 14, 2, 1],
    [20.0, 25, 2, 1],
    [50.0, 67, 5, 1],
    [100.0, 140, 5, 1],
    [200.0, 270, 5, 1],
]
WORDED_FROM = 24
SETTINGS = {"closely_for_several": 6}
LENGTH = 12  # tokens of a wording
AREAS = {
    "farm": {
        "animals": "cow goat hen pony",
        "crops": "barley wheat bean hop",
        "tools": "plough rake spade cart",
        "barns": "roof gate loft ladder",
    },
    "kitchen": {
        "bread": "loaf roll bun crust",
        "soups": "broth stew ladle bowl",
        "fruit": "apple plum pear fig",
        "pans": "kettle skillet lid oven",
    },
    "harbour": {
        "boats": "ferry barge mast anchor",
        "fishing": "net cod rod bait",
        "weather": "storm fog tide swell",
        "trade": "crate rope dock crane",
    },
}
_ABOUT = (
    "is the {} ready today",
    "our {} looks fine",
    "nobody wanted this {}",
    "please bring the {} here",
    "that {} was too small",
    "i never saw a better {}",
    "the old {} is gone",
    "we paid twice for one {}",
    "who left the {} outside",
    "keep every {} dry",
)


def book_lines() -> list[Line]:
    """480 sentences of 3 areas with 4 topics each, in the book's own order, which mixes them."""
    lines = [
        Line(area, topic, f"{about.format(thing)}.")
        for area, topics in AREAS.items()
        for topic, things in topics.items()
        for thing in things.split()
        for about in _ABOUT
    ]
    return [lines[number] for number in np.random.default_rng(0).permutation(len(lines)).tolist()]


def word_pieces(sentences: list[str]) -> WordPieces:
    """A tokenizer of BERT's kind: these words, and the letters of all others."""
    letters = string.ascii_lowercase + string.digits
    words = sorted({word for sentence in sentences for word in sentence.rstrip(".").lower().split()})
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *string.punctuation, *letters, *(f"##{each}" for each in letters)]
    vocabulary = {piece: number for number, piece in enumerate(dict.fromkeys([*pieces, *words]))}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return WordPieces(tokenizer.to_str())


def tiny_networks(tokenizer_file: Path) -> Networks:
    """All parts. The writer has the tokenizer of the file, the reader its own."""
    lines = book_lines()
    pieces, tokenizer = word_pieces([line.sentence for line in lines]), BytePairs(tokenizer_file.read_text())
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = ReaderTraining(
            ReaderSizes(
                vocabulary=pieces.size,
                width=16,
                layers=1,
                heads=2,
                head=8,
                inner=16,
                windows=32,
                window=18,  # 16 tokens without begin and end: 512 in all windows
                meaning=12,
                words=8,
            )
        )
        vocabulary = tokenizer.size
        sizes = WriterSizes(vocabulary, width=16, layers=1, heads=2, inner=32, places=LENGTH + 2, frequent=100)
        writer = WriterTraining(sizes)
        for weight in writer.parameters():
            torch.nn.init.normal_(weight, std=0.3)
        for table in (network.embed, network.bag):  # the layers begin small, so that other words give other vectors
            torch.nn.init.normal_(table.weight)
    reader = Reader(pieces, network.taught())
    common = frozenset(word for line in lines for word in line.sentence.rstrip(".").split())
    book = Book.of(lines, reader.sentences([line.sentence for line in lines]))
    return Networks(reader, book, Pen(tokenizer, writer.taught(), common, frozenset({"Christmas", "park"})))


def make_tiny_code(tokenizer_file: Path, out: Path) -> Bundle:
    """A complete model directory."""
    parts = tiny_networks(tokenizer_file)
    code = {"table": TABLE, "worded_from": WORDED_FROM, "settings": SETTINGS}
    facts = ModelFacts(
        variant="code", length=LENGTH, width=parts.reader.width, code=code, corpora=({"name": "made up"},)
    )
    return save_code(parts, facts, out)
