"""The parts of a code model in the making: reader, pairs of tokens, packed texts, writer, order, and table."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dpbart.errors import BadParameter
from dpbart.models.bundle import Bundle
from dpbart.models.code.model import Networks, Pen
from dpbart.models.code.reader import Reader, ReaderSizes, unit
from dpbart.models.code.writer import BEGIN, CUT, END
from dpbart.options.recipes import CodeRecipe
from dpbart.prepare.code.book import EPSILONS, bits_at, code_table
from dpbart.prepare.code.cover import cover, covered, different, vectors_of
from dpbart.prepare.code.networks import WriterTraining
from dpbart.prepare.code.reading import (
    Student,
    Taught,
    changed,
    fresh_network,
    load_teacher,
    pace,
    reader_tokenizer,
    start_from,
    widest,
    with_guesses,
)
from dpbart.prepare.code.texts import TokenRows, to_rows
from dpbart.prepare.code.writer import Author, PairFit, count_pairs, pack, packed_loss, with_end
from dpbart.prepare.training import Muon
from tests.conftest import made_up_texts
from tests.prepare.tiny_teacher import make_static, make_teacher

pytestmark = pytest.mark.usefixtures("no_wait_for_the_disk")


@pytest.fixture
def random() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.fixture
def parts(tiny_code: Bundle) -> Networks:
    return Networks.load(tiny_code.folder)


@pytest.fixture
def pen(parts: Networks) -> Pen:
    assert parts.pen is not None
    return parts.pen


@pytest.fixture
def writer(pen: Pen) -> WriterTraining:
    """One that has learned nothing, of the same sizes."""
    fresh = WriterTraining(pen.writer.sizes)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        for weight in fresh.parameters():
            torch.nn.init.normal_(weight, std=0.3)
    return fresh


@pytest.fixture
def lines(pen: Pen) -> TokenRows:
    return to_rows(made_up_texts(), pen.tokenizer)


# -- reader -----------------------------------------------------------------------------------------------------------


def sizes(vocabulary: int, **more: int) -> ReaderSizes:
    given = {"width": 16, "layers": 2, "heads": 1, "head": 8, "inner": 12, "window": 12, "meaning": 10, "words": 6}
    return ReaderSizes(vocabulary=vocabulary, **{**given, **more})


def test_widest_directions_keep_most_of_the_vectors(random: np.random.Generator) -> None:
    vectors = (random.normal(size=(500, 6)) * [1, 5, 0.1, 3, 0.1, 0.1]).astype(np.float32)
    kept = widest(vectors, 2)
    assert np.abs(kept).argmax(0).tolist() == [1, 3]
    np.testing.assert_allclose(kept.T @ kept, np.eye(2), atol=1e-5)


def test_a_reader_begins_with_its_teacher(tmp_path: Path) -> None:
    """With all heads, columns and layers, and all directions, it gives the vectors of the teacher."""
    texts = made_up_texts()
    teacher = load_teacher(str(make_teacher(tmp_path / "teacher", layers=2, texts=texts)))
    tokenizer = reader_tokenizer(teacher, texts, tmp_path / "t.json", pieces=300)
    vectors = teacher.vectors(texts)
    whole = sizes(tokenizer.size, heads=2, inner=16, meaning=16)
    network = fresh_network(whole, seed=0)
    assert start_from(teacher, network, widest(vectors, 16))
    ids = Reader(tokenizer, network.eval().taught()).ids(texts)
    with torch.inference_mode():
        found = network.meaning(torch.from_numpy(ids)).numpy()
    np.testing.assert_allclose(found, unit(vectors @ widest(vectors, 16)), atol=1e-4)
    pruned = fresh_network(sizes(tokenizer.size), seed=0)
    assert start_from(teacher, pruned, widest(vectors, 10))


def test_a_reader_begins_from_nothing_where_its_teacher_does_not_fit(tmp_path: Path) -> None:
    texts = made_up_texts()
    narrow = load_teacher(str(make_teacher(tmp_path / "narrow", width=8, texts=texts)))
    static = load_teacher(str(make_static(tmp_path / "static", texts=texts)))
    for teacher in (narrow, static):
        network = fresh_network(sizes(300), seed=0)
        before = {name: each.clone() for name, each in network.state_dict().items()}
        assert not start_from(teacher, network, widest(teacher.vectors(texts), 8))
        assert all(each.equal(before[name]) for name, each in network.state_dict().items())


def test_a_skimmed_window_is_guessed_to_mean_what_its_words_mean(tiny_code: Bundle) -> None:
    reader = Networks.load(tiny_code.folder).reader
    assert isinstance(reader, Reader)
    texts = made_up_texts()
    blind = changed(reader, {"guess": np.zeros((reader.sizes.words, reader.sizes.meaning), np.float32)})
    knowing = with_guesses(blind, texts)
    ids = reader.ids(texts)
    close, guessed = reader.network.meaning(ids), knowing.network.guessed(unit(reader.network.words(ids)))
    same = np.eye(len(texts), dtype=bool)
    near = guessed @ close.T
    assert near[same].mean() > near[~same].mean() + 0.1


def test_a_long_document_means_what_was_read_and_a_little_what_was_skimmed(tiny_code: Bundle) -> None:
    known = Networks.load(tiny_code.folder).reader
    assert isinstance(known, Reader)
    reader, meaning = with_guesses(known, made_up_texts()), known.sizes.meaning
    blind = changed(reader, {"guess": np.zeros((reader.sizes.words, meaning), np.float32)})
    short, long = "A goat sings.", " ".join(made_up_texts()[:9])
    assert [each.any(1).sum() > 1 for each in reader.windows([short, long])] == [False, True]
    with_guess, without = (each.documents([short, long], closely=1) for each in (reader, blind))
    np.testing.assert_array_equal(with_guess.whole[0], without.whole[0])  # nothing of a short text is only skimmed
    read, whole = (unit(each[:, :meaning]) for each in (without.windows[:, 0], with_guess.whole))
    np.testing.assert_allclose(unit(without.whole[:, :meaning]), read, atol=1e-6)
    assert 0.2 < read[1] @ whole[1] < 0.9999
    alone = reader.documents([long], closely=1).whole[0]
    np.testing.assert_array_equal(alone, with_guess.whole[1])  # whatever stands beside it


def test_the_book_is_compared_with_as_its_teacher_reads_it(tmp_path: Path, tiny_code: Bundle) -> None:
    texts = made_up_texts()
    teacher = load_teacher(str(make_teacher(tmp_path / "teacher", layers=2, texts=texts)))
    reader = Networks.load(tiny_code.folder).reader
    assert isinstance(reader, Reader)
    sizes, read = reader.sizes, teacher.vectors(texts)
    taught = Taught(reader, widest(read, sizes.meaning))
    own = reader.public_sentences(texts)
    aims = taught.aims(own, read)
    np.testing.assert_allclose(np.linalg.norm(aims, axis=1), 1, atol=1e-5)
    np.testing.assert_allclose(aims[:, sizes.meaning :], own[:, sizes.meaning :], atol=1e-5)
    np.testing.assert_allclose(unit(aims[:, : sizes.meaning]), unit(read @ taught.directions), atol=1e-4)


@pytest.mark.parametrize("kind", ["bert", "static"])
def test_a_reader_learns_the_angles_of_its_teacher(tmp_path: Path, kind: str) -> None:
    texts = made_up_texts()
    make = make_teacher if kind == "bert" else make_static
    teacher = load_teacher(str(make(tmp_path / "teacher", texts=texts)))
    tokenizer = reader_tokenizer(teacher, texts, tmp_path / "t.json", pieces=300)
    vectors = teacher.vectors(texts)
    directions = widest(vectors, 10)
    network = fresh_network(sizes(tokenizer.size, layers=1), seed=0)
    start_from(teacher, network, directions)
    ids = Reader(tokenizer, network.taught()).ids(texts)
    recipe = CodeRecipe(batch=32, reader_rate=0.01, bag_rate=0.05)
    student = Student(network, tokenizer, ids, unit(vectors @ directions), recipe)

    def likeness() -> float:
        own = Reader(tokenizer, network.taught()).public_sentences(texts[::5])
        among = np.triu_indices(len(own), 1)
        return float(np.corrcoef((own @ own.T)[among], (vectors[::5] @ vectors[::5].T)[among])[0, 1])

    before = likeness()
    for step in range(120):
        student.take_step(step, 120)
    assert 1 - likeness() < min(0.2, (1 - before) / 2)


def test_the_pace_rises_stays_and_falls() -> None:
    rates = [pace(step, 1000) for step in range(1000)]
    assert rates[0] == pytest.approx(1 / 200)
    assert set(rates[200:300]) == {1.0}
    assert all(first >= second for first, second in pairwise(rates[300:]))
    assert rates[-1] == pytest.approx(0.02, abs=1e-3)


def test_vectors_of_public_text_are_those_of_the_product(parts: Networks) -> None:
    texts = ["a song .", "an apple " * 30, *made_up_texts()[:100]]
    found = vectors_of(parts.reader, texts, title="Reading")
    np.testing.assert_allclose(found, parts.reader.sentences(texts), atol=1e-5)


# -- writer -----------------------------------------------------------------------------------------------------------


def test_pairs_are_counted_within_lines() -> None:
    counts = count_pairs(TokenRows.of([[5, 6], [6]]), 8)
    assert {(a, b): int(counts[a, b]) for a, b in counts.nonzero().tolist()} == {
        (BEGIN, 5): 1,
        (5, 6): 1,
        (6, END): 2,
        (BEGIN, 6): 1,
    }


def test_a_fit_of_pairs_says_what_follows_and_puts_frequent_tokens_first(lines: TokenRows) -> None:
    counts = count_pairs(lines, 400)
    fit = PairFit(counts, 16, seed=0)
    for step in range(100):
        fit.take_step(step, 100)
    tables = fit.tables
    seen = counts.sum(0)[tables.order]
    assert (seen[:-1] >= seen[1:]).all()
    row = counts[BEGIN][tables.order] / counts[BEGIN].sum()
    states = torch.nn.functional.rms_norm(tables.before[BEGIN], (16,))
    guess = torch.softmax(tables.after @ states + tables.bias, 0)
    alone = torch.softmax(tables.bias, 0)
    assert float((row - guess).abs().sum()) < 0.5 * float((row - alone).abs().sum())


def test_muon_takes_steps_of_nearly_equal_size_in_all_directions() -> None:
    weight = torch.nn.Parameter(torch.zeros(12, 6))  # tall: two squares
    weight.grad = torch.cat([torch.diag(torch.tensor([20.0, 10, 5, 3, 2, 1])), 1000 * torch.eye(6)])
    Muon([weight], rate=1.0).step()
    for square in (weight.detach()[:6], weight.detach()[6:]):
        found = torch.linalg.svdvals(square)
        assert float(found.max() / found.min()) < 3
        assert float(found.min()) > 0.3
        assert float(found.max()) < 1.5


@given(st.lists(st.integers(1, 20), min_size=1, max_size=40), st.integers(1, 6), st.integers(20, 40))
def test_packed_rows_hold_every_text_whole_or_leave_it(lengths: list[int], rows: int, width: int) -> None:
    texts = [np.arange(10 * n, 10 * n + size) + 5 for n, size in enumerate(lengths)]
    packed = pack(texts, rows, width)
    for number, tokens in enumerate(texts):
        at = packed.text == number
        assert packed.targets[at].tolist() == ([] if number in packed.left else tokens.tolist())
        assert packed.places[at].tolist() == ([] if number in packed.left else list(range(len(tokens))))
    assert (packed.targets[packed.text < 0] == -1).all()


def test_texts_of_one_row_do_not_see_each_other(writer: WriterTraining, random: np.random.Generator) -> None:
    texts = [random.integers(5, 300, size=size) for size in (9, 7, 4)]
    with torch.no_grad():
        together, tokens = packed_loss(writer, pack(texts, 1, 20))
        each = [packed_loss(writer, pack([text], 1, 20))[0] for text in texts]
    assert tokens == 20
    assert float(together) == pytest.approx(float(sum(each)), rel=1e-5)


def test_a_long_text_is_cut_and_says_so() -> None:
    row = np.arange(5, 105)
    assert with_end(row, 38).tolist() == [*range(5, 43), CUT]
    assert with_end(row[:38], 38).tolist() == [*range(5, 43), END]


def test_the_rate_rises_stays_and_falls() -> None:
    recipe = CodeRecipe(warmup=10, decay=0.4)
    rates = [recipe.rate_at(step, 100) for step in range(100)]
    assert rates[0] == pytest.approx(0.1)
    assert set(rates[10:60]) == {1.0}
    assert rates[99] == pytest.approx(0.025)


def test_a_writer_learns_the_text_with_every_line_once_in_an_epoch(writer: WriterTraining, lines: TokenRows) -> None:
    author = Author(writer, lines, CodeRecipe(steps=40, rows=8, row_tokens=40, warmup=5))
    notes = [author.take_step(step, 40) for step in range(40)]
    bits = [float(note.split()[0]) for note in notes]
    assert bits[-1] < 0.75 * bits[0]
    author.taken = 0
    assert len({tuple(author._next_line().tolist()) for _ in range(len(lines))}) == len(lines)


# -- the order of a book ----------------------------------------------------------------------------------------------


def test_the_next_sentence_is_the_one_that_covers_most(random: np.random.Generator) -> None:
    """Against the plain greedy search, which computes every gain in every step."""
    sentences, texts = (unit(random.normal(size=(size, 5)).astype(np.float32)) for size in (60, 200))
    near = (sentences @ texts.T).astype(np.float16).astype(np.float32)
    best, expected = np.full(200, 0.15, np.float32), list[int]()
    for _ in range(30):
        gains = np.maximum(near - best, 0).sum(1)
        gains[expected] = -1
        expected.append(int(gains.argmax()))
        best = np.maximum(best, near[expected[-1]])
    found = cover(sentences, texts, count=30)
    assert found.tolist() == expected
    assert covered(sentences[found[:8]], texts) > covered(sentences[:8], texts)


def test_every_sentence_has_its_place_even_where_it_covers_nothing_more(random: np.random.Generator) -> None:
    sentences = unit(random.normal(size=(50, 4)).astype(np.float32))
    assert sorted(cover(sentences, sentences[:3], count=50).tolist()) == list(range(50))


def test_an_odd_sentence_is_not_chosen_for_covering_itself(random: np.random.Generator) -> None:
    crowd = unit((np.eye(8)[0] + 0.4 * random.normal(size=(40, 8)) * (np.arange(8) < 6)).astype(np.float32))
    sentences = np.concatenate([crowd, np.eye(8, dtype=np.float32)[7:]])  # the last is unlike all others
    own = np.arange(41)
    assert cover(sentences, sentences, count=41, own=own).tolist().index(40) > 30
    assert cover(sentences, sentences, count=41).tolist().index(40) < 10
    own[40] = -1  # a public text, which any sentence covers
    assert cover(sentences, sentences, count=41, own=own).tolist().index(40) < 10


def test_of_near_duplicates_the_first_stays(random: np.random.Generator) -> None:
    vectors = unit(random.normal(size=(2000, 40)).astype(np.float32))
    vectors[[7, 1500, 1999]] = unit(vectors[3] + 0.01 * random.normal(size=(3, 40)).astype(np.float32))
    assert set(range(2000)) - set(different(vectors).tolist()) == {7, 1500, 1999}


# -- table ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("worded", [True, False])
@pytest.mark.parametrize("bits", [6, 8, 11, 15])
def test_a_table_fits_its_book_at_every_budget(bits: int, worded: bool) -> None:
    table = code_table(bits, worded=worded)
    for sentences in (1 << bits, 40):  # the whole book, and an area of it
        before = 0
        for epsilon in EPSILONS:
            size = table.size(epsilon, sentences=sentences)
            assert size.sentences <= sentences
            assert size.bits <= max(2, bits_at(epsilon))
            assert size.worded == (worded and size.bits >= 24)
            assert size.bits >= before
            before = size.bits
    assert (table.worded_from is None) != worded
    last = table.largest(sentences=1 << bits)
    assert last.worded or last.bits == 8 * bits  # where all places are used


def test_several_places_name_most_of_the_book() -> None:
    rows = code_table(15, worded=True).rows
    assert all((bits - 1) // places >= 14 for _, bits, places, _ in rows if places > 2)
    short = [[row for row in code_table(6, worded=worded).rows if row[1] < 24] for worded in (True, False)]
    assert short[0] == short[1]  # there is no bit that says the form


def test_bits_are_near_the_best_ones() -> None:
    """Bits times the probability that a code is kept."""
    for epsilon in EPSILONS[2:16]:
        gains = [bits / (1 + (2**bits - 1) * np.exp(-epsilon)) for bits in range(1, 60)]
        assert gains[bits_at(epsilon) - 1] > 0.9 * max(gains)


def test_a_recipe_says_what_is_public() -> None:
    from dpbart.options.recipes import BookRecipe

    with pytest.raises(BadParameter, match="pass --public"):
        BookRecipe(encoder="mini-code").require_public()
    BookRecipe(encoder="mini-code", public=True).require_public()
