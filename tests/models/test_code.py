"""The code model: whole documents in one shape, codes that both sides agree on, and a text for every code."""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from dpbart import BadParameter, NotPrepared, Rewriter, Settings
from dpbart.channels.code import CodeChannel, CodeSize, CodeTable
from dpbart.models.bundle import Bundle
from dpbart.models.code import CODE
from dpbart.models.code.model import CodeModel
from dpbart.models.code.sentence import SentenceEncoder
from dpbart.models.code.writer import Writer
from dpbart.privacy.mechanisms import NonPrivate, Response
from dpbart.privacy.sampling import ReplaySeed, SystemEntropy
from tests.conftest import made_up_texts
from tests.models.tiny_code import BOOK_BITS

NASTY = [
    "",
    " ",
    "word " * 10_000,
    "😀🎉 parrot",
    "\x00\x07\x1b",
    "日本語のテキスト",
    "\ud800 lone",
    "line\nline. " * 99,
]


def size_of(bits: int, gist_bits: int) -> CodeSize:
    return CodeSize(bits, gist_bits, 1 << BOOK_BITS - bits if bits == gist_bits else 1)


def load(bundle: Bundle, *, bits: int, gist_bits: int, replay_seed: int | None = None) -> tuple[CodeModel, CodeChannel]:
    """The model at one size of code, whatever its table says, and a channel that changes nothing."""
    channel = CodeChannel(size_of(bits, gist_bits), NonPrivate())
    entropy = SystemEntropy() if replay_seed is None else ReplaySeed(replay_seed)
    return CODE.load(bundle, channel, length=bundle.facts.length, beams=None, entropy=entropy), channel


def decode(model: CodeModel, channel: CodeChannel, codes: Sequence[int]) -> list[str]:
    return model.decode(channel.send([(code,) for code in codes], SystemEntropy()))


def test_a_text_is_rewritten_under_pure_epsilon(tiny_code: Bundle) -> None:
    done = Rewriter.load(str(tiny_code.folder), epsilon=10).rewrite(made_up_texts()[:7])
    assert len(done.texts) == 7
    assert (done.guarantee.epsilon, done.guarantee.delta) == (10, 0.0)
    assert done.recipe.startswith("mech:response|eps:10|delta:0|bits:8|near:2|gist:8|len:12|endings:3|model:tiny-code@")


def test_a_code_of_many_bits_brings_the_text_back(tiny_code: Bundle) -> None:
    """Coder and decoder agree: what was coded is what is read."""
    model, channel = load(tiny_code, bits=1024, gist_bits=8)
    texts = made_up_texts()[:9]
    assert model.decode(channel.send(model.encode(texts), SystemEntropy())) == model.read(texts)


@pytest.mark.parametrize(
    ("bits", "gist_bits"), [(1, 1), (5, 5), (8, 8), (9, 9), (9, 8), (20, 8), (25, 8), (140, 8), (40, 0)]
)
def test_every_code_has_a_text(tiny_code: Bundle, bits: int, gist_bits: int) -> None:
    model, channel = load(tiny_code, bits=bits, gist_bits=gist_bits)
    most = channel.size.near << bits
    codes = [0, most - 1, *(secrets.randbelow(most) for _ in range(14))]
    texts = decode(model, channel, codes)
    assert len(texts) == 16
    assert all(isinstance(text, str) for text in texts)


@pytest.mark.parametrize(
    ("bits", "gist_bits", "calls"),
    [(8, 8, 1), (40, 8, 2 + 12), (25, 8, 2 + 12 + 12 + 2)],
    ids=["book", "wording", "both"],
)
def test_texts_of_every_length_take_the_same_shapes_and_steps(
    tiny_code: Bundle, bits: int, gist_bits: int, calls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a code may name a text of the book, what the wording says is read too, and the two are compared."""
    model, channel = load(tiny_code, bits=bits, gist_bits=gist_bits)
    shapes: list[tuple[str, tuple[int, ...]]] = []
    windows, step = SentenceEncoder.read_windows, Writer.step

    def watch_windows(self: SentenceEncoder, ids: torch.Tensor) -> torch.Tensor:
        shapes.append(("windows", tuple(ids.shape)))
        return windows(self, ids)

    def watch_step(self: Writer, ids: torch.Tensor, topics: torch.Tensor, cache: object) -> torch.Tensor:
        shapes.append(("step", tuple(ids.shape)))
        return step(self, ids, topics, cache)  # type: ignore[arg-type]

    monkeypatch.setattr(SentenceEncoder, "read_windows", watch_windows)
    monkeypatch.setattr(Writer, "step", watch_step)
    seen = []
    for text in NASTY:
        shapes.clear()
        (codes,) = model.encode([text])
        assert len(codes) == channel.size.near
        assert all(0 <= code < channel.size.near << bits for code in codes)
        seen.append(list(shapes))
    assert all(each == seen[0] for each in seen)
    assert seen[0][0] == ("windows", (32, 16))  # 512 tokens, always
    assert len(seen[0]) == calls


def test_unusual_texts_spend_the_same(tiny_code: Bundle) -> None:
    done = Rewriter.load(str(tiny_code.folder), epsilon=20).rewrite(NASTY)
    assert len(done.texts) == len(NASTY)
    assert done.guarantee.epsilon == 20


def test_nothing_but_the_code_reaches_the_decoder(tiny_code: Bundle) -> None:
    """Two texts of equal code have equal outputs, with the same draws: what was read leaves no trace."""
    outputs = []
    for texts in (["the nurse found an apple ."], ["a child sold nine keys ."]):
        model, channel = load(tiny_code, bits=8, gist_bits=8, replay_seed=5)
        model.encode(texts)
        outputs.append(decode(model, channel, [77]))
    assert outputs[0] == outputs[1]


def test_texts_of_equal_code_come_out_equally_often(tiny_code: Bundle) -> None:
    """A text and the same text in other blanks have one code; so does a text that is read the same in 512 tokens."""
    model, _ = load(tiny_code, bits=1, gist_bits=1)
    long = "an apple and nine keys " * 200
    first, same = model.encode([long + "the nurse", long + "a child sold a boat"])
    assert list(first) == list(same)
    channel = CodeChannel(size_of(1, 1), Response(1.0, 2, 1 << BOOK_BITS - 1))
    assert channel.send([first], ReplaySeed(3)).values == channel.send([same], ReplaySeed(3)).values


def test_a_code_of_few_bits_may_name_a_text_of_the_book(tiny_code: Bundle) -> None:
    """Both kinds of codes occur, each text gets the one that comes out nearer, and the decoder tells them apart."""
    model, channel = load(tiny_code, bits=25, gist_bits=4)
    steps, book, texts = model.encoder.steps, model.encoder.book, made_up_texts()[:60]
    assert (steps.string_bits, steps.wording_bits) == (24, 20)
    codes = [code for (code,) in model.encode(texts)]
    places = [steps.place_in_book(code) for code in codes]
    assert {place is None for place in places} == {True, False}
    written = model.decode(channel.send([(code,) for code in codes], SystemEntropy()))
    for place, text in zip(places, written, strict=True):
        if place is not None:
            assert text == model.decoder._texts([book.row(place)[:12]])[0]
    assert [steps.place_in_book(steps.of_the_book(place)) for place in (0, 77, 511)] == [0, 77, 511]
    longer, _ = load(tiny_code, bits=31, gist_bits=4)  # more bits than `choice`: wording alone
    assert longer.encoder.steps.wording_bits == 27
    assert all(longer.encoder.steps.place_in_book(code) is None for (code,) in longer.encode(texts))


def test_each_text_gets_the_kind_of_code_that_comes_out_nearer(tiny_code: Bundle) -> None:
    model, _ = load(tiny_code, bits=25, gist_bits=4)
    encoder, texts = model.encoder, made_up_texts()[:24]
    steps, writing, book = encoder.steps, encoder.writing, encoder.book
    vectors = encoder.vectors(encoder.tokens(texts))
    never = replace(steps, settings=replace(steps.settings, margin=3.0))  # no two cosines are so far apart
    worded = [code for (code,) in replace(encoder, writing=replace(writing, steps=never)).encode(texts)]
    assert all(steps.place_in_book(code) is None for code in worded)
    nearest = (vectors @ book._vectors.T).argmax(1).tolist()
    for first in range(0, 24, 4):  # a batch
        part = slice(first, first + 4)
        wordings = [code & ((1 << steps.wording_bits) - 1) for code in worded[part]]
        rows, _ = writing.read(wordings, np.array([code >> steps.wording_bits for code in worded[part]]))
        by_wording = writing.nearness(rows, vectors[part])
        by_book = writing.nearness([book.row(place) for place in nearest[part]], vectors[part])
        expected = [
            steps.of_the_book(place) if gain > 0.1 else code  # the margin of this model
            for place, code, gain in zip(nearest[part], worded[part], by_book - by_wording, strict=True)
        ]
        assert [code for (code,) in encoder.encode(texts[part])] == expected


@pytest.mark.parametrize(("bits", "gist_bits"), [(9, 9), (25, 8)])
def test_a_text_of_the_book_is_no_longer_than_asked(tiny_code: Bundle, bits: int, gist_bits: int) -> None:
    channel = CodeChannel(size_of(bits, gist_bits), NonPrivate())
    model = CODE.load(tiny_code, channel, length=3, beams=None, entropy=SystemEntropy())
    book, steps = model.encoder.book, model.encoder.steps
    codes = [place if bits == gist_bits else steps.of_the_book(place) for place in (0, 77, 511)]
    rows = [book.row(place) for place in (0, 77, 511)]
    assert min(map(len, rows)) > 3
    assert decode(model, channel, codes) == model.decoder._texts([row[:3] for row in rows])


@pytest.mark.parametrize(("bits", "named"), [(9, False), (10, True), (30, True), (31, False)])
def test_a_code_names_a_text_if_it_has_more_bits_than_the_book_and_few_enough(
    tiny_code: Bundle, bits: int, named: bool
) -> None:
    """The book has 9 bits, and `choice` is 30."""
    model, _ = load(tiny_code, bits=bits, gist_bits=4)
    steps = model.encoder.steps
    assert (steps.may_name_a_text, steps.wording_bits) == (named, bits - 4 - named)
    every = [steps.of_the_book(place) for place in range(1 << BOOK_BITS)] if named else []
    assert [steps.place_in_book(code) for code in every] == list(range(len(every)))
    assert all(code < 1 << bits for code in every)
    assert {steps.place_in_book(code) for code in (0, (1 << bits - 1) - 1)} == {None}


def test_what_lies_within_512_tokens_counts_and_what_lies_beyond_does_not(tiny_code: Bundle) -> None:
    model, _ = load(tiny_code, bits=9, gist_bits=9)
    rows = model.encoder.tokens(["an apple " * 200 + "nine keys " * 2000, "an apple " * 200 + "a song " * 2000])
    same = [row[:512] for row in rows]
    vectors = model.encoder.vectors([rows[0], same[0], rows[1]])
    np.testing.assert_array_equal(vectors[0], vectors[1])
    assert not np.allclose(vectors[0], vectors[2])  # they differ within the first 512


def test_a_replay_writes_the_same_texts(tiny_code: Bundle) -> None:
    texts = made_up_texts()[:5]
    first, second = (
        Rewriter.load(str(tiny_code.folder), epsilon=10, replay_seed=9).rewrite(texts).texts for _ in range(2)
    )
    assert first == second


def test_the_size_follows_from_the_budget_by_the_table(tiny_code: Bundle) -> None:
    for epsilon, bits, gist in ((0.1, 1, 1), (0.5, 1, 1), (3.99, 1, 1), (10, 8, 8), (19, 8, 8), (99, 25, 8)):
        channel = Settings(str(tiny_code.folder), epsilon=epsilon).channel
        assert isinstance(channel, CodeChannel)
        assert channel.size == size_of(bits, gist)
    assert Settings(str(tiny_code.folder), epsilon=10).described.reads == 512
    for rows in ((), ((2.0, 3, 3), (1.0, 2, 2)), ((1.0, 2, 2), (1.0, 3, 3))):
        with pytest.raises(BadParameter, match="epsilons ascending"):
            CodeTable(rows, 15)
    with pytest.raises(BadParameter, match="at most the 15 bits of the book"):
        CodeTable(((20.0, 16, 16),), 15)
    with pytest.raises(BadParameter, match="from 1 to 1024 bits"):
        CodeSize(5, 6)


def test_what_does_not_fit_is_refused(tiny_code: Bundle, tmp_path: Path) -> None:
    name = str(tiny_code.folder)
    with pytest.raises(BadParameter, match="the mechanism of 'tiny-code' must be one of response, none"):
        _ = Settings(name, epsilon=10, mechanism="gaussian").channel
    with pytest.raises(BadParameter, match="length must be from 1 to 12 for 'tiny-code', got 13"):
        _ = Settings(name, epsilon=10, length=13).channel
    without = replace(tiny_code, facts=replace(tiny_code.facts, code=None))
    with pytest.raises(NotPrepared, match="without the facts of its code"):
        CODE.table(without)


@pytest.mark.parametrize(
    ("size", "message"),
    [
        (CodeSize(8, 8, 4), r"the book of '.+' has 2\^9 texts. It does not fit its table"),
        (CodeSize(20, 9), "the tree of '.+' has no gist of 9 bits. It does not fit its table"),
    ],
    ids=["book", "tree"],
)
def test_a_size_that_the_book_or_the_tree_does_not_have_is_refused(
    tiny_code: Bundle, size: CodeSize, message: str
) -> None:
    """Sets that do not fill the book would leave values that no text can mean, and texts that no value stands for."""
    channel = CodeChannel(size, NonPrivate())
    with pytest.raises(NotPrepared, match=message):
        CODE.load(tiny_code, channel, length=12, beams=None, entropy=SystemEntropy())


@pytest.mark.parametrize("missing", ["tree.leaves", "book.ends", "writer.order", "sentence.embed.weight"])
def test_a_model_without_one_of_its_parts_is_refused(tiny_code: Bundle, tmp_path: Path, missing: str) -> None:
    from safetensors.torch import load_file, save_file

    for part in tiny_code.folder.iterdir():
        (tmp_path / part.name).write_bytes(part.read_bytes())
    tensors = load_file(tmp_path / "model.safetensors")
    del tensors[missing]
    save_file(tensors, tmp_path / "model.safetensors")
    with pytest.raises(NotPrepared, match="cannot be loaded"):
        Rewriter.load(str(tmp_path), epsilon=10)


def test_a_card_tells_the_code_in_words(tiny_code: Bundle, tmp_path: Path) -> None:
    from click.testing import CliRunner

    from dpbart.cli import cli

    (tmp_path / "in.csv").write_text("who,text\nanna,a child\nben,a song\nanna,a boat\n")
    args = ["rewrite", str(tmp_path / "in.csv"), str(tmp_path / "out.csv"), "-e", "10", "--person-column", "who"]
    done = CliRunner().invoke(cli, [*args, "--model", str(tiny_code.folder)])
    assert done.exit_code == 0, done.stderr
    text = (tmp_path / "out.csv.card.txt").read_text()
    assert "of 100 texts, about 98.9 come through as meant; the others come out as unrelated texts" in text
    card = json.loads((tmp_path / "out.csv.card.json").read_text())
    assert (card["noise"]["options_log2"], card["guarantee"]["delta"]) == (8, 0.0)
    assert card["person"]["guarantee"]["epsilon"] == 20
    assert CliRunner().invoke(cli, ["card", "verify", str(tmp_path / "out.csv.card.json")]).exit_code == 0
