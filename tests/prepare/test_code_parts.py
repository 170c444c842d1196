"""The parts of a code model in the making: lessons, tree, pairs of tokens, packed texts, writer, and table."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dpbart.channels.code import CodeSize, CodeTable
from dpbart.models.bundle import Bundle
from dpbart.models.code.model import Networks
from dpbart.models.code.sentence import SentenceSizes
from dpbart.models.code.tree import unit
from dpbart.models.code.writer import BEGIN, CUT, END
from dpbart.prepare.code import book as book_module
from dpbart.prepare.code import pieces, table
from dpbart.prepare.code.bag import start_bag
from dpbart.prepare.code.book import Scribe
from dpbart.prepare.code.growing import TreeShape, make_tree
from dpbart.prepare.code.muon import Muon
from dpbart.prepare.code.packing import cut, pack, packed_loss, with_end
from dpbart.prepare.code.pairs import PairFit, count_pairs
from dpbart.prepare.code.recipe import WriterPlan
from dpbart.prepare.code.rows import Rows, to_rows
from dpbart.prepare.code.table import Gauge, Measured, candidates, choose, unmeasured
from dpbart.prepare.code.teaching import Student, make_lessons
from dpbart.prepare.code.texts import PublicText
from dpbart.prepare.code.vectors import vectors_of
from dpbart.prepare.code.writing import Author
from dpbart.prepare.fresh import fresh_sentence
from tests.conftest import made_up_texts

pytestmark = pytest.mark.usefixtures("no_wait_for_the_disk")


@pytest.fixture
def random() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.fixture
def parts(tiny_code: Bundle) -> Networks:
    return Networks.load(tiny_code.folder)


@pytest.fixture
def text(parts: Networks) -> PublicText:
    lines = to_rows(made_up_texts(), parts.tokenizer)
    return PublicText(lines, Rows.of([]), np.zeros(0, np.int64), {})


# -- sentence encoder -------------------------------------------------------------------------------------------------


def test_lessons_are_single_texts_and_windows_of_documents() -> None:
    rows = [np.full(5, n) for n in range(8)]
    lessons = make_lessons(rows, [range(2, 6), range(6, 8)], window=12, seed=0)
    assert [(each.first, each.last) for each in lessons[:8]] == [(n, n + 1) for n in range(8)]
    assert len(lessons) == 8 + 2  # a document of two sentences gives none
    for each in lessons[8:]:
        assert 2 <= each.first < each.last <= 6
        assert each.ids.tolist() == np.concatenate(rows[each.first : each.last])[:12].tolist()


def test_an_encoder_begins_with_the_tokens_and_learns_more(text: PublicText, random: np.random.Generator) -> None:
    encoder = fresh_sentence(SentenceSizes(400, width=16, layers=1, heads=2, inner=16, vector=8), seed=0)
    rows = text.lines.picked(range(0, len(text.lines), 5))
    tokens, pairs = random.normal(size=(400, 8)), random.normal(size=(400, 8))
    bags = [tokens[row].mean(0) + pairs[(row[:-1] * 7 + row[1:]) % 400].mean(0) for row in rows]
    wanted = unit(np.stack(bags).astype(np.float32))

    def near() -> float:
        return float((vectors_of(encoder, rows) * wanted).sum(1).mean())

    before = near()
    start_bag(encoder, rows, wanted)
    begun = near()
    assert begun > before + 0.3
    student = Student(encoder, make_lessons(rows, [], window=64, seed=0), wanted, seed=0)
    for step in range(60):
        student.take_step(step, 60)
    assert near() > begun + 0.01


def test_vectors_of_public_text_are_those_of_the_product(tiny_code: Bundle, parts: Networks) -> None:
    from dpbart.models.code.sentence import to_windows

    rows = to_rows(["a song .", "an apple " * 30, "nine keys " * 900], parts.tokenizer)
    every = rows.picked(range(3))
    with torch.inference_mode():
        ids = to_windows([row.tolist() for row in every], parts.sentence.sizes)
        product = parts.sentence(torch.from_numpy(ids)).numpy()
    np.testing.assert_allclose(vectors_of(parts.sentence, every), product, atol=1e-5)


# -- tree -------------------------------------------------------------------------------------------------------------


def test_a_tree_is_as_deep_as_the_text_permits() -> None:
    assert TreeShape.fitting(300_000, most=14) == TreeShape(14, 12)
    assert TreeShape.fitting(1000, most=14) == TreeShape(9, 8)
    assert TreeShape.fitting(2, most=14) == TreeShape(1, 0)


@pytest.mark.parametrize("texts", [5, 300])
def test_a_tree_has_the_shape_asked_for_even_with_little_text(
    tmp_path: Path, texts: int, random: np.random.Generator
) -> None:
    vectors = unit(random.normal(size=(texts, 6)).astype(np.float32))
    shape = TreeShape(5, 3)
    tree = make_tree(vectors, shape, tmp_path / "tree.npz", seed=0)
    assert tree.depth == 5
    near = [(tree.vectors(tree.nearest(vectors, bits), bits) * vectors).sum(1).mean() for bits in (1, 3, 5)]
    assert near == sorted(near)
    for depth in (1, 3):
        np.testing.assert_allclose(tree.cut(4).level(depth), tree.level(depth), atol=1e-6)
    assert (tree.cut(4).depth, tree.cut(9).depth) == (4, 5)
    again = make_tree(vectors[:1], shape, tmp_path / "tree.npz", seed=0)  # read, not grown
    np.testing.assert_array_equal(again.level(5), tree.level(5))


# -- writer -----------------------------------------------------------------------------------------------------------


def test_pairs_are_counted_within_lines() -> None:
    counts = count_pairs(Rows.of([[5, 6], [6]]), 8)
    assert {(a, b): int(counts[a, b]) for a, b in counts.nonzero().tolist()} == {
        (BEGIN, 5): 1,
        (5, 6): 1,
        (6, END): 2,
        (BEGIN, 6): 1,
    }


def test_a_fit_of_pairs_says_what_follows_and_puts_frequent_tokens_first(text: PublicText) -> None:
    counts = count_pairs(text.lines, 400)
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
        sizes = torch.linalg.svdvals(square)
        assert float(sizes.max() / sizes.min()) < 3
        assert float(sizes.min()) > 0.3
        assert float(sizes.max()) < 1.5


@given(st.lists(st.integers(1, 20), min_size=1, max_size=40), st.integers(1, 6), st.integers(20, 40))
def test_packed_rows_hold_every_text_whole_or_leave_it(lengths: list[int], rows: int, width: int) -> None:
    texts = [np.arange(10 * n, 10 * n + size) + 5 for n, size in enumerate(lengths)]
    packed = pack(texts, rows, width)
    for number, tokens in enumerate(texts):
        at = packed.text == number
        assert packed.targets[at].tolist() == ([] if number in packed.left else tokens.tolist())
        assert packed.places[at].tolist() == ([] if number in packed.left else list(range(len(tokens))))
    assert (packed.targets[packed.text < 0] == -1).all()


def test_texts_of_one_row_do_not_see_each_other(parts: Networks, random: np.random.Generator) -> None:
    texts = [random.integers(5, 300, size=size) for size in (9, 7, 4)]
    vectors = unit(random.normal(size=(3, 8)).astype(np.float32))
    depths = np.array([8, 0, 2])
    with torch.no_grad():
        together, tokens = packed_loss(parts.writer, pack(texts, 1, 20), vectors, depths)
        each = [
            packed_loss(parts.writer, pack([texts[n]], 1, 20), vectors[n : n + 1], depths[n : n + 1])[0]
            for n in range(3)
        ]
    assert tokens == 20
    assert float(together) == pytest.approx(float(sum(each)), rel=1e-5)


def test_long_texts_are_cut_and_say_so() -> None:
    draw, row = np.random.default_rng(0), np.arange(5, 105)
    found = {(len(each) - 1, int(each[-1])) for each in (with_end(row, 38, draw) for _ in range(50))}
    assert found == {(18, CUT), (38, CUT)}
    assert with_end(row[:7], 38, draw)[-1] == END
    assert cut(row[:38], 38)[-1] == END


def test_the_rate_rises_stays_and_falls() -> None:
    plan = WriterPlan(warmup=10, decay=0.4)
    rates = [plan.rate_at(step, 100) for step in range(100)]
    assert rates[0] == pytest.approx(0.1)
    assert set(rates[10:60]) == {1.0}
    assert rates[99] == pytest.approx(0.025)


def test_a_writer_learns_the_text_with_every_line_once_in_an_epoch(parts: Networks, text: PublicText) -> None:
    plan = WriterPlan(steps=40, rows=8, row_tokens=32, warmup=5)
    author = Author(parts.writer, parts.sentence, parts.tree, text, plan)
    assert set(author.depths) == {0, 2, 4, 6, 7, 8}  # those that the tree has
    notes = [author.take_step(step, 40) for step in range(40)]
    bits = [float(note.split()[0]) for note in notes]
    assert bits[-1] < 0.75 * bits[0]
    author.taken = 0
    lines = {tuple(author._next_line().tolist()) for _ in range(len(text.lines))}
    assert len(lines) == len(text.lines)


# -- book -------------------------------------------------------------------------------------------------------------


def test_a_book_is_written_leaf_by_leaf_and_not_twice(
    parts: Networks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pieces, "PIECE", 16)
    scribe = Scribe(parts.tokenizer, parts.sentence, parts.tree.cut(5), parts.writer)
    book = scribe.write(tmp_path, seed=0)
    assert book.bits == 6  # two texts for each of 32 leaves
    assert all(4 <= len(book.row(place)) <= 12 for place in range(64))
    (tmp_path / "0001.npy").unlink()  # as if stopped after the first piece
    again = scribe.write(tmp_path, seed=0)
    np.testing.assert_array_equal(again.tokens, book.tokens)
    np.testing.assert_array_equal(again.coarse, book.coarse)
    other = scribe.write(tmp_path / "other", seed=1)
    assert not np.array_equal(other.tokens, book.tokens)


def test_a_book_has_no_offensive_text_even_where_a_leaf_has_no_other(
    parts: Networks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scribe = Scribe(parts.tokenizer, parts.sentence, parts.tree.cut(4), parts.writer)
    first = scribe.write(tmp_path, seed=0)
    unfit = {scribe._texts([first.row(place)])[0] for place in (0, 1)}
    monkeypatch.setattr(book_module, "is_offensive", lambda text: text in unfit)
    book = scribe.write(tmp_path, seed=0)  # the pieces are there already: nothing is sampled again
    texts = scribe._texts([book.row(place) for place in range(32)])
    assert not unfit & set(texts)
    assert texts[2:] == scribe._texts([first.row(place) for place in range(2, 32)])


# -- table ------------------------------------------------------------------------------------------------------------


def test_the_size_with_the_largest_gain_is_chosen() -> None:
    """p(bits) bits at epsilon 10: 9.56 with 10 bits, 10.06 with 11, 10.12 with 12, 9.48 with 13."""

    def measure(size: CodeSize) -> Measured:
        return Measured(near=0.1 + 0.02 * size.bits, unrelated=0.1)

    sizes = [CodeSize(bits, bits) for bits in range(1, 20)]
    assert choose(10.0, sizes, measure).size.bits == 12
    assert choose(2.0, sizes, measure).size.bits < 5
    row = choose(10.0, [CodeSize(10, 10)], measure)
    assert row.similarity == pytest.approx(0.1 + 0.9556 * 0.2, abs=1e-3)
    assert row.figures() == {"epsilon": 10.0, "kept": 0.956, "similarity": 0.291, "unrelated": 0.1}


@pytest.mark.parametrize(("book_bits", "gist_bits"), [(15, 11), (6, 5), (2, 1), (9, 8)])
def test_every_budget_has_sizes_that_fit_the_tree_and_the_book(book_bits: int, gist_bits: int) -> None:
    for epsilon in table.EPSILONS:
        sizes = candidates(epsilon, book_bits=book_bits, gist_bits=gist_bits)
        assert sizes
        assert all(size.gist_bits <= gist_bits for size in sizes if size.wording_bits)
        assert all(size.near << size.bits == 1 << book_bits for size in sizes if not size.wording_bits)
    assert CodeSize(9, 9, 64) in candidates(10, book_bits=15, gist_bits=11)
    assert CodeSize(68, 11) in candidates(50, book_bits=15, gist_bits=11)


def test_a_table_that_is_not_measured_fits_every_tree() -> None:
    assert unmeasured(15, gist_bits=11).size(10) == CodeSize(11, 11, 16)
    assert unmeasured(15, gist_bits=11).size(50) == CodeSize(68, 8)
    assert unmeasured(4, gist_bits=3).size(50) == CodeSize(68, 3)
    assert isinstance(unmeasured(2, gist_bits=1), CodeTable)


def test_what_was_measured_is_not_measured_again(
    parts: Networks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def to_vectors(texts: list[str]) -> np.ndarray:
        rows = to_rows(texts, parts.tokenizer)
        return vectors_of(parts.sentence, rows.picked(range(len(rows))))

    def gauge(model: str) -> Gauge:
        texts = made_up_texts()[:3]
        return Gauge(parts, texts, to_vectors, tmp_path / "measured.json", length=12, model=model)  # type: ignore[arg-type]

    worded = gauge("one").measure(CodeSize(200, 8))
    assert worded.near == pytest.approx(1, abs=1e-3)  # 200 bits bring these texts back
    assert worded.unrelated < 0.999
    monkeypatch.setattr(Gauge, "_written", lambda self, size: ["other"] * 3)
    assert gauge("one").measure(CodeSize(200, 8)) == worded
    assert gauge("two").measure(CodeSize(200, 8)) != worded
