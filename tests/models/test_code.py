"""The code model: whole documents in one shape, codes that both sides agree on, and a text for every code."""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpbart import BadParameter, NotPrepared, Rewriter, Settings
from dpbart.channels.code import CodeChannel, CodeSize
from dpbart.models.bundle import Bundle
from dpbart.models.code import CODE
from dpbart.models.code.book import Book, BookUse, Line, load_book
from dpbart.models.code.encoder import FIRSTS, CodeEncoder
from dpbart.models.code.model import CodeModel
from dpbart.models.code.reader import Documents, Reader, ReaderNetwork
from dpbart.models.code.weights import Floats
from dpbart.models.code.writer import Writer
from dpbart.privacy.mechanisms import NonPrivate, Response
from dpbart.privacy.sampling import SystemEntropy
from dpbart.rewrite.chosen import ChosenModel
from tests.conftest import made_up_texts
from tests.models.tiny_code import book_lines

NASTY = [
    "",
    " ",
    "word " * 10_000,
    "😀🎉 parrot",
    "\x00\x07\x1b",
    "日本語のテキスト",
    "\ud800 lone",
    "line\nline. " * 99,
    "Our cow looks fine. Nobody wanted this ferry. Please bring the broth here. The old gate is gone.",
]
ONE, SETS, SEVERAL, BOTH = (
    CodeSize(8, 1, 8),
    CodeSize(6, 1, 6, near=3),
    CodeSize(14, 2, 7, near=2),
    CodeSize(25, 2, 8, worded=True),
)
PAIR = CodeSize(25, 2, 9, worded=True, second_bits=7, named=480)
SIZES = {
    "one": ONE,
    "sets": SETS,
    "several": SEVERAL,
    "both": BOTH,
    "pair": PAIR,
    "long": CodeSize(140, 5, 8, worded=True),
}
WHOLE_BOOK = BookUse()
every_size = pytest.mark.parametrize("size", SIZES.values(), ids=SIZES.keys())


def load(
    bundle: Bundle, size: CodeSize, *, use: BookUse = WHOLE_BOOK, length: int = 12
) -> tuple[CodeModel, CodeChannel]:
    """The model at one size of code, whatever its table says, and a channel that changes nothing."""
    channel = CodeChannel(size, NonPrivate())
    model = CODE.load(bundle, channel, length=length, beams=None, use=use, entropy=SystemEntropy())
    return model, channel


def decode(model: CodeModel, channel: CodeChannel, codes: Sequence[int]) -> list[str]:
    private = Response(1.0, 2, max(codes) + 1).privatize([], SystemEntropy())  # the seal, around codes of our own
    return model.decode(private.post_processed(tuple(codes), recipe="test"))


def test_a_text_is_rewritten_under_pure_epsilon(tiny_code: Bundle) -> None:
    done = Rewriter.load(str(tiny_code.folder), epsilon=10).rewrite(made_up_texts()[:7])
    assert len(done.texts) == 7
    assert (done.guarantee.epsilon, done.guarantee.delta) == (10, 0.0)
    assert done.recipe.startswith("mech:response|eps:10|delta:0|bits:8|form:book|len:12|model:tiny-code@")


def test_a_code_of_many_bits_brings_the_text_back(tiny_code: Bundle) -> None:
    """Coder and decoder agree: what was coded is what is read."""
    model, channel = load(tiny_code, CodeSize(1024, 1, 8, worded=True))
    encoder = replace(model.encoder, settings=replace(model.encoder.settings, margin=-3.0))  # always wording
    texts = made_up_texts()[:40]
    assert encoder.fitter is not None
    chosen = [form.text for form, _ in encoder.fitter.fit(texts, encoder.reader.documents(texts, closely=1).whole)]
    assert sum(form == text for form, text in zip(chosen, texts, strict=True)) > 10
    assert model.decode(channel.send(encoder.encode(texts), SystemEntropy())) == chosen


@every_size
def test_every_code_has_a_text(tiny_code: Bundle, size: CodeSize) -> None:
    model, channel = load(tiny_code, size)
    most = 1 << size.bits if size.worded else size.values**size.places
    texts = decode(model, channel, [0, most - 1, *(secrets.randbelow(most) for _ in range(14))])
    assert len(texts) == 16
    assert all(isinstance(text, str) for text in texts)


@every_size
def test_texts_of_every_length_take_the_same_shapes_and_steps(
    tiny_code: Bundle, size: CodeSize, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both forms of a code are computed for every text, whichever is sent."""
    model, _ = load(tiny_code, size)
    shapes: list[tuple[str, tuple[int, ...]]] = []

    def watch(kind: type, name: str) -> None:
        real = getattr(kind, name)

        def watched(self: Any, rows: Any, *others: Any, **named: Any) -> Any:
            shapes.append((name, tuple(rows.shape)))
            return real(self, rows, *others, **named)

        monkeypatch.setattr(kind, name, watched)

    watch(ReaderNetwork, "meaning")
    watch(ReaderNetwork, "words")
    watch(Writer, "bits")
    watch(Writer, "spell")
    watch(Writer, "near")
    watch(Writer, "far")
    watch(Book, "cosines")
    seen = []
    for text in NASTY:
        shapes.clear()
        (codes,) = model.encode([text])
        assert len(codes) == (1 if size.worded else size.places * size.near)
        seen.append(list(shapes))
    assert all(each == seen[0] for each in seen)
    assert seen[0][0] == ("words", (1, 32, 18))  # 512 tokens, always
    assert ("spell" in {name for name, _ in seen[0]}) is size.worded


@every_size
def test_unusual_texts_are_coded_within_bounds(tiny_code: Bundle, size: CodeSize) -> None:
    model, _ = load(tiny_code, size)
    bound = 1 << size.bits if size.worded else size.values
    codes = [[int(value) for value in values] for values in model.encode(NASTY)]
    assert all(0 <= value < bound for values in codes for value in values)
    if not size.worded:  # the response refuses a set with a value twice
        Response(1.0, 1 << size.bits, size.near, size.places).privatize(codes, SystemEntropy())


@every_size
def test_a_text_is_coded_and_written_alike_with_any_neighbours(tiny_code: Bundle, size: CodeSize) -> None:
    model, channel = load(tiny_code, size)
    texts = [*made_up_texts()[:9], *NASTY]
    alone = [np.array(model.encode([text])[0]).tolist() for text in texts]
    assert [np.array(values).tolist() for values in model.encode(texts)] == alone
    assert [np.array(values).tolist() for values in model.encode(texts[::-1])] == alone[::-1]
    sent = channel.send(model.encode(texts), SystemEntropy()).values
    assert decode(model, channel, sent) == [decode(model, channel, [code])[0] for code in sent]


def test_nothing_but_the_code_reaches_the_decoder(tiny_code: Bundle) -> None:
    """Two texts of equal code have equal outputs: what was read leaves no trace."""
    outputs = []
    for texts in (["the nurse found an apple ."], ["a child sold nine keys ."]):
        model, channel = load(tiny_code, BOTH)
        model.encode(texts)
        outputs.append(decode(model, channel, [77, 1 << 24 | 78]))
    assert outputs[0] == outputs[1]


def test_the_nearest_sentences_are_the_code_and_come_out_whole(tiny_code: Bundle) -> None:
    model, channel = load(tiny_code, SETS)
    book = model.encoder.book
    assert [line.sentence for line in book.lines] == [line.sentence for line in book_lines()[: 3 * 64]]  # the first
    texts = [line.sentence for line in book.lines[:20]]
    places = np.array(model.encode(texts))
    np.testing.assert_array_equal(places, book.nearest(model.encoder.reader.documents(texts, closely=1).whole, 3))
    assert np.mean(places[:, 0] == np.arange(20)) > 0.8  # itself, but for rounding
    assert decode(model, channel, places[:, 0].tolist()) == [book.lines[place].sentence for place in places[:, 0]]


def test_a_document_becomes_several_sentences_in_its_order(tiny_code: Bundle) -> None:
    """A book of sentences that have nothing in common, and a document whose three windows say three of them."""
    model, _ = load(tiny_code, SEVERAL)
    width, size = model.encoder.reader.width, CodeSize(16, 4, 4)
    axes = np.eye(width, dtype=np.float32)
    encoder = replace(model.encoder, book=Book.of(book_lines()[: size.sentences], axes[: size.sentences]), size=size)
    windows = axes[[7, 1, 3]]
    whole = (windows.sum(0) / np.sqrt(3)).astype(np.float32)

    def places(sender: CodeEncoder, document: Floats, parts: Floats) -> list[int]:
        return [int(place) for place in sender._several(Documents(document[None], parts[None]))[0]]

    assert places(encoder, whole, windows) == [7, 1, 3, 15]  # and silence
    assert places(encoder, axes[5], axes[[5]]) == [5, 15, 15, 15]
    pairs = replace(encoder, size=CodeSize(6, 2, 3, near=2), book=encoder.book.first(14))
    first, second = (set(places(pairs, whole, windows)[place : place + 2]) for place in (0, 2))
    assert len(first) == len(second) == 2
    assert places(pairs, axes[5], axes[[5]])[2:] == [14, 15]  # both values that say nothing


def test_a_short_text_leaves_places_silent(tiny_code: Bundle) -> None:
    size = CodeSize(40, 5, 8)
    model, channel = load(tiny_code, size)
    (places,) = model.encode(["Our cow looks fine."])
    assert sum(int(place) < size.sentences for place in places) <= 2  # one window: at most one sentence more
    silent = decode(model, channel, [sum((size.values - 1) * size.values**place for place in range(5))])
    assert silent == [""]


def test_a_sentence_that_is_drawn_twice_stands_once(tiny_code: Bundle) -> None:
    model, channel = load(tiny_code, SEVERAL)
    values = SEVERAL.values
    once, both = decode(model, channel, [7 * values + 7, 7 * values + 9])
    lines = model.encoder.book.lines
    assert (once, both) == (lines[7].sentence, f"{lines[7].sentence} {lines[9].sentence}")


@pytest.mark.parametrize("margin", [-3.0, 0.0, 3.0])
def test_each_text_gets_the_form_of_code_that_is_nearer(tiny_code: Bundle, margin: float) -> None:
    model, channel = load(tiny_code, BOTH)
    encoder = replace(model.encoder, settings=replace(model.encoder.settings, margin=margin))
    texts = made_up_texts()[:24]
    codes = [code for (code,) in encoder.encode(texts)]
    of_the_book = [bool(code >> 24) for code in codes]
    wholes = encoder.reader.documents(texts, closely=6)
    assert encoder.fitter is not None
    near = [each for _, each in encoder.fitter.fit(texts, wholes.whole)]
    by_book = np.sum(encoder._said(encoder._several(wholes)) * wholes.whole, axis=1)
    assert of_the_book == [not wording > book + margin for wording, book in zip(near, by_book, strict=True)]
    lines = {line.sentence for line in encoder.book.lines}
    for text, named in zip(decode(model, channel, codes), of_the_book, strict=True):
        if named:
            assert all(f"{part}." in lines for part in text.removesuffix(".").split(". "))


@pytest.mark.parametrize("epsilon", [1, 20, 50, 200])
def test_with_the_book_alone_every_random_code_is_sentences_of_the_book(tiny_code: Bundle, epsilon: float) -> None:
    rewriter = Rewriter.load(str(tiny_code.folder), epsilon=epsilon, book_only=True)
    model, channel = rewriter.model, rewriter.channel
    assert isinstance(model, CodeModel)
    assert isinstance(channel, CodeChannel)
    most = channel.size.values**channel.size.places
    lines = {line.sentence for line in book_lines()}
    for text in decode(model, channel, [secrets.randbelow(most) for _ in range(10_000)]):
        assert not text or all(f"{part}." in lines for part in text.removesuffix(".").split(". "))


def test_only_sentences_of_the_chosen_areas_come_out(tiny_code: Bundle) -> None:
    areas = {line.sentence: line.area for line in book_lines()}
    topics = {line.sentence: line.topic for line in book_lines()}
    farm = Rewriter.load(str(tiny_code.folder), epsilon=2, areas=["farm"]).rewrite(made_up_texts()[:50]).texts
    assert {areas[text] for text in farm} == {"farm"}
    soups = Rewriter.load(str(tiny_code.folder), epsilon=2, topics=["soups"], areas=["farm"])
    assert {topics[text] for text in soups.rewrite(made_up_texts()[:200]).texts} <= {
        "soups",
        *(line.topic for line in book_lines() if line.area == "farm"),
    }
    assert soups.model.line.sentences == 200
    with pytest.raises(BadParameter, match="'tiny-code' has no area 'sea'. It has: .*farm.* See all with"):
        Rewriter.load(str(tiny_code.folder), epsilon=2, areas=["sea"])
    with pytest.raises(BadParameter, match="has no topic 'farm'"):
        Rewriter.load(str(tiny_code.folder), epsilon=2, topics=["farm"])


def test_names_and_numbers_get_stand_ins_when_a_text_is_shortened(tiny_code: Bundle) -> None:
    model, _ = load(tiny_code, CodeSize(90, 2, 8, worded=True))
    fitter, said = model.encoder.fitter, ""
    assert fitter is not None
    texts = ["Anna never saw a better Skoda on 12 March", "please bring the 77 here now"]
    for form, _ in fitter.fit(texts, model.encoder.reader.documents(texts, closely=1).whole):
        said += f" {form.text}"  # the whole does not fit: every token here costs about 11 bits
    assert said.strip()
    assert not any(word in said for word in ("Anna", "Skoda", "12", "March", "77"))
    assert fitter.cutter.is_telling("Anna")
    assert fitter.cutter.is_telling("12")
    assert not fitter.cutter.is_telling("better")
    assert not fitter.cutter.is_telling("Better")
    assert not fitter.cutter.is_telling("Christmas's")
    assert not fitter.cutter.is_telling("park")
    assert fitter.cutter.is_telling("Park")  # known only as it is spelled


@pytest.mark.parametrize(("bits", "first"), [(90, True), (91, False)])
def test_names_go_first_only_where_there_are_fewer_than_90_bits(tiny_code: Bundle, bits: int, first: bool) -> None:
    fitter = load(tiny_code, CodeSize(bits, 2, 8, worded=True))[0].encoder.fitter
    assert fitter is not None
    (cut,) = fitter.cutter.cut(["Anna never saw a better Skoda"], np.zeros((1, 16), np.float32), longest=12)
    said = [unit.text.strip() for unit in cut.units]
    assert ("Anna" in said) is not first
    assert ("Someone" in said) is first


def test_what_lies_within_512_tokens_counts_and_what_lies_beyond_does_not(tiny_code: Bundle) -> None:
    model, _ = load(tiny_code, ONE)
    reader = model.encoder.reader
    head = "our cow looks " * 100
    vectors = reader.documents(
        [head + "goat " * 212 + "hen " * 2000, head + "goat " * 212, head + "hen " * 300], closely=2
    ).whole
    np.testing.assert_array_equal(vectors[0], vectors[1])
    assert not np.allclose(vectors[0], vectors[2])  # they differ within the first 512


def test_a_replay_writes_the_same_texts(tiny_code: Bundle) -> None:
    texts = made_up_texts()[:5]
    first, second = (
        Rewriter.load(str(tiny_code.folder), epsilon=10, replay_seed=9).rewrite(texts).texts for _ in range(2)
    )
    assert first == second


def test_the_size_follows_from_the_budget_by_the_table(tiny_code: Bundle) -> None:
    for epsilon, size in (
        (0.1, CodeSize(1, 1, 1, 2)),
        (3.99, CodeSize(1, 1, 1, 2)),
        (10, CodeSize(8, 1, 8)),
        (19, CodeSize(14, 2, 7)),
        (20, CodeSize(25, 2, 9, worded=True, second_bits=9, named=480)),  # all 480 sentences
    ):
        channel = ChosenModel(Settings(str(tiny_code.folder), epsilon=epsilon)).channel
        assert isinstance(channel, CodeChannel)
        assert channel.size == size
    assert ChosenModel(Settings(str(tiny_code.folder), epsilon=10)).described.reads == 512


def test_two_places_of_different_sizes_say_what_they_name_in_either_order(tiny_code: Bundle) -> None:
    model, channel = load(tiny_code, PAIR)
    book = model.decoder.book
    lines = [line.sentence for line in book.lines]
    unused = PAIR.wording_bits - PAIR.book_bits
    third = lines[book.neighbours(np.array([479]), 127)[0][0, 3]]

    def code(first: int, second: int, swapped: int) -> int:
        return (((2 | swapped) << 9 | first) << 7 | second) << unused

    pairs = [code(479, 3, 0), code(479, 3, 1), code(479, 127, 1), code(480, 127, 0)]
    assert decode(model, channel, pairs) == [
        f"{lines[479]} {third}",
        f"{third} {lines[479]}",
        lines[479],  # the last value of the second place says nothing
        lines[0],  # the first place always speaks: it wraps around
    ]


def test_what_a_pair_is_chosen_for_is_what_it_says(tiny_code: Bundle) -> None:
    model, channel = load(tiny_code, PAIR)
    encoder, sentences = model.encoder, {line.sentence: place for place, line in enumerate(model.decoder.book.lines)}
    unused = PAIR.wording_bits - PAIR.book_bits
    rows = np.array([[3, 0, 0], [3, 126, 1], [479, 5, 0], [7, 127, 0]])
    codes = [(((2 | swapped) << 9 | first) << 7 | second) << unused for first, second, swapped in rows.tolist()]
    for said, vector in zip(decode(model, channel, codes), encoder._said(rows), strict=True):
        spoken = [place for sentence, place in sentences.items() if sentence in said]
        together = encoder.book.rows(np.array(spoken)).sum(0)
        np.testing.assert_allclose(vector, together / np.linalg.norm(together), atol=1e-5)


@pytest.mark.parametrize("sentences", [2, 3, 5])
def test_a_pair_of_a_tiny_book_says_what_there_is(sentences: int) -> None:
    lines = [Line("", "", f"Sentence {number}.") for number in range(sentences)]
    book = Book.of(lines, np.eye(8, dtype=np.float32)[:sentences])
    found, _ = book.neighbours(np.arange(sentences), 127)
    assert [sorted([place, *row]) for place, row in enumerate(found.tolist())] == [list(range(sentences))] * sentences


@pytest.mark.parametrize(("count", "stride"), [(100, 4), (127, 3), (200, 2), (479, 1)])
def test_neighbours_are_every_few_of_the_nearest_and_never_the_sentence_itself(
    tiny_code: Bundle, count: int, stride: int
) -> None:
    book = load_book(tiny_code.folder)
    assert len(book.lines) == 480
    places = np.array([0, 7, 479])
    found, near = book.neighbours(places, count)
    assert found.shape == near.shape == (3, count)
    whole = book.coarse.astype(np.int64)
    for place, row, said in zip(places.tolist(), found.tolist(), near, strict=True):
        cosines = whole[place] @ whole.T
        others = sorted((number for number in range(480) if number != place), key=lambda each: -cosines[each])
        wanted = [cosines[others[rank]] for rank in range(0, stride * count, stride)]
        np.testing.assert_allclose(cosines[row], wanted, atol=2 * 127)
        assert place not in row
        assert len(set(row)) == count
        np.testing.assert_allclose(said, cosines[row] / 127**2, atol=2e-3)
    np.testing.assert_array_equal(found[1:2], book.neighbours(places[1:2], count)[0])  # whatever stands beside it


def test_sentences_of_one_vector_are_told_apart_by_their_place() -> None:
    lines = [Line("", "", f"Sentence {number}.") for number in range(64)]
    book = Book.of(lines, np.full((64, 16), 0.25, np.float32))
    assert book.neighbours(np.array([9]), 127)[0][0].tolist() == [number for number in range(64) if number != 9]


def test_a_document_is_told_by_the_nearest_pair_in_its_order(tiny_code: Bundle) -> None:
    """Compared with all pairs of a first sentence that comes into question and a second one."""
    model, _ = load(tiny_code, PAIR)
    encoder = model.encoder
    documents = encoder.reader.documents([" ".join(made_up_texts()[3:6]), made_up_texts()[7], ""], closely=6)
    vectors, chosen = encoder.book.vectors, encoder._several(documents)
    assert chosen.shape == (3, 3)
    for whole, windows, (first, second, swapped) in zip(documents.whole, documents.windows, chosen, strict=True):
        matches = (windows @ vectors.T)[windows.any(1)]

        def value(*said: int, whole: Floats = whole, matches: Floats = matches) -> float:
            together = vectors[list(said)].sum(0)
            points = matches[:, list(said)].max(1).mean() if len(matches) else 0.0
            return float(whole @ together / np.linalg.norm(together) + encoder.settings.points * points)

        firsts = sorted(range(480), key=value, reverse=True)[:FIRSTS]
        others, _ = encoder.book.neighbours(np.arange(480), 127)
        best = max(value(one, two) for one in firsts for two in others[one].tolist())
        said = [first] if second == 127 else [first, others[first, second]]
        least = max(best, value(firsts[0])) - encoder.settings.silence
        assert value(*said) >= least - 1e-4
        assert swapped in (0, 1)


def test_what_does_not_fit_is_refused(tiny_code: Bundle) -> None:
    name = str(tiny_code.folder)
    with pytest.raises(BadParameter, match="the mechanism of 'tiny-code' must be one of response, none"):
        _ = ChosenModel(Settings(name, epsilon=10, mechanism="gaussian")).channel
    with pytest.raises(BadParameter, match="length must be from 1 to 12 for 'tiny-code', got 13"):
        _ = ChosenModel(Settings(name, epsilon=10, length=13)).channel
    with pytest.raises(BadParameter, match="epsilon must be at most 200 for 'tiny-code', got 201"):
        _ = ChosenModel(Settings(name, epsilon=201)).channel
    with pytest.raises(BadParameter, match="does not search while it writes. Leave out --beams"):
        _ = ChosenModel(Settings(name, epsilon=10, beams=4)).described
    without = replace(tiny_code, facts=replace(tiny_code.facts, code=None))
    with pytest.raises(NotPrepared, match="without the facts of its code"):
        CODE.table(without)


def test_a_size_that_the_book_does_not_have_is_refused(tiny_code: Bundle) -> None:
    with pytest.raises(NotPrepared, match="do not fit its table of code sizes"):
        load(tiny_code, CodeSize(9, 1, 9))
    with pytest.raises(NotPrepared, match="do not fit its table of code sizes"):
        load(tiny_code, ONE, use=BookUse(areas=("farm",)))


WORDED = 50.0  # a budget at which texts are worded


def copied(bundle: Bundle, folder: Path) -> Path:
    for part in bundle.folder.iterdir():
        (folder / part.name).write_bytes(part.read_bytes())
    return folder


@pytest.mark.parametrize("missing", ["book.order", "book.coarse", "writer.order", "reader.embed.weight"])
def test_a_model_without_one_of_its_parts_is_refused(tiny_code: Bundle, tmp_path: Path, missing: str) -> None:
    """At a budget that needs it: where nothing is worded, what a model writes with is not loaded."""
    from safetensors.numpy import load_file, save_file

    tensors = load_file(copied(tiny_code, tmp_path) / "model.safetensors")
    del tensors[missing]
    save_file(tensors, tmp_path / "model.safetensors")
    with pytest.raises(NotPrepared, match="cannot be loaded"):
        Rewriter.load(str(tmp_path), epsilon=WORDED)


@pytest.mark.parametrize("missing", ["book.tsv", "common.txt", "known.txt", "writer_tokenizer.json"])
def test_a_model_without_one_of_its_files_is_refused(tiny_code: Bundle, tmp_path: Path, missing: str) -> None:
    (copied(tiny_code, tmp_path) / missing).unlink()
    with pytest.raises(NotPrepared, match="cannot be read|cannot be loaded"):
        Rewriter.load(str(tmp_path), epsilon=WORDED)


@pytest.mark.parametrize(
    "change",
    [
        lambda book: book.replace("crops\t", "crops "),
        lambda book: book + book.splitlines()[0] + "\n",
        lambda book: "",
        lambda book: "".join(book.splitlines(keepends=True)[1:]),
    ],
    ids=["columns", "twice", "empty", "short"],
)
def test_a_book_with_duplicates_or_that_is_not_whole_is_refused(tiny_code: Bundle, tmp_path: Path, change: Any) -> None:
    file = copied(tiny_code, tmp_path) / "book.tsv"
    file.write_text(change(file.read_text()))
    with pytest.raises(NotPrepared):
        Rewriter.load(str(tmp_path), epsilon=10)


def test_a_changed_book_is_another_model(tiny_code: Bundle, tmp_path: Path) -> None:
    file = copied(tiny_code, tmp_path) / "book.tsv"
    file.write_text(file.read_text().replace("our cow looks fine.", "our cow looks grand."))
    assert Bundle.at(tmp_path).files != tiny_code.files


def test_both_sides_share_only_public_parts(tiny_code: Bundle) -> None:
    model, _ = load(tiny_code, BOTH)
    assert isinstance(model.encoder, CodeEncoder)
    assert isinstance(model.encoder.reader, Reader)
    assert not hasattr(model.decoder, "reader")


def test_a_card_tells_the_code_in_words(tiny_code: Bundle, tmp_path: Path) -> None:
    from click.testing import CliRunner

    from dpbart.cli import cli

    (tmp_path / "in.csv").write_text("who,text\nanna,a child\nben,a song\nanna,a boat\n")
    args = ["rewrite", str(tmp_path / "in.csv"), str(tmp_path / "out.csv"), "-e", "10", "--person-column", "who"]
    done = CliRunner().invoke(cli, [*args, "--model", str(tiny_code.folder)])
    assert done.exit_code == 0, done.stderr
    text = (tmp_path / "out.csv.card.txt").read_text()
    assert (
        "of 100 texts, about 98.9 come through as meant; the others come out as unrelated texts, and a reader" in text
    )
    assert "names, numbers and rare words first in codes of up to 90 bits" in " ".join(text.split())
    card = json.loads((tmp_path / "out.csv.card.json").read_text())
    assert (card["noise"]["options_log2"], card["guarantee"]["delta"]) == (8, 0.0)
    assert card["person"]["guarantee"]["epsilon"] == 20
    assert CliRunner().invoke(cli, ["card", "verify", str(tmp_path / "out.csv.card.json")]).exit_code == 0
