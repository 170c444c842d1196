"""Wording: exact arithmetic coding, a reader that follows as far as the bits go, and a writer that is exact too."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from threadpoolctl import threadpool_limits

from dpbart.models.bundle import BUNDLED, Bundle
from dpbart.models.code import closely
from dpbart.models.code.graph import Graph
from dpbart.models.code.model import Networks
from dpbart.models.code.reader import Reader
from dpbart.models.code.weights import MOST, ONE, ZERO, Arrays, Table, WholeProduct, floats_of, rounded
from dpbart.models.code.wording import TextReader, WordingReader, code_of
from dpbart.models.code.writer import BEGIN, END, PAD, SCALE, Cache, Counts, Writer
from dpbart.prepare.code.networks import ReaderTraining, WriterTraining
from tests.conftest import made_up_texts


def counts_of(seed: int, tokens: int, rows: int) -> Counts:
    """Random whole numbers of at least 1 that add up to SCALE."""
    random = np.random.default_rng(seed)
    found = (random.dirichlet(np.full(tokens, 0.3), size=rows) * (SCALE - tokens)).astype(np.int32) + 1
    found[:, 0] += (SCALE - found.sum(1)).astype(np.int32)
    return found


def shares_of(counts: Counts, text: list[int]) -> npt.NDArray[np.int64]:
    return np.array([(row[:token].sum(), row[token]) for row, token in zip(counts, text, strict=True)], np.int64)


@settings(max_examples=60)
@given(st.integers(0, 2**32), st.integers(2, 60), st.integers(1, 12), st.integers(1, 1024))
def test_a_reader_follows_the_coder_as_far_as_the_bits_go(seed: int, tokens: int, length: int, bits: int) -> None:
    counts = counts_of(seed, tokens, length)
    text = np.random.default_rng(seed + 1).integers(tokens, size=length).tolist()
    shares = shares_of(counts, text)
    code = code_of(shares, bits)
    reader = TextReader(code, bits)
    read = [reader.read(counts[place]) for place in range(length)]
    if bits > sum(math.log2(SCALE / int(width)) for _, width in shares) + 2:
        assert read == text
    low, width = Fraction(0), Fraction(1)  # of the tokens so far
    piece = Fraction(code, 1 << bits)
    for place, token in enumerate(text):
        begin, share = (Fraction(int(each), SCALE) for each in shares[place])
        low, width = low + width * begin, width * share
        if not low <= piece <= piece + Fraction(1, 1 << bits) <= low + width:
            break
        assert read[place] == token  # the piece lies inside: the bits decide this token


@settings(max_examples=60)
@given(st.integers(0, 2**32), st.integers(2, 60), st.integers(1, 70))
def test_every_string_of_bits_can_be_read(seed: int, tokens: int, bits: int) -> None:
    reader = TextReader(seed % (1 << bits), bits)
    for counts in counts_of(seed, tokens, 12):
        assert 0 <= reader.read(counts) < tokens


def test_a_number_that_is_no_code_is_refused() -> None:
    with pytest.raises(ValueError, match="a code of 3 bits"):
        TextReader(8, 3)


# -- the writer -------------------------------------------------------------------------------------------------------


@pytest.fixture(params=["tiny", "mini-code"])
def parts(request: pytest.FixtureRequest, tiny_code: Bundle) -> Networks:
    return Networks.load(tiny_code.folder if request.param == "tiny" else BUNDLED / "mini-code")


def rows_of(parts: Networks, texts: list[str]) -> tuple[Writer, npt.NDArray[np.int64]]:
    """The writer, and the ids of texts with their END, padded."""
    assert parts.pen is not None
    writer, most = parts.pen.writer, parts.pen.writer.sizes.places - 2
    ids = np.full((len(texts), most), PAD)
    for number, found in enumerate(parts.pen.tokenizer.ids(texts)):
        row = [*found[: most - 1], END]
        ids[number, : len(row)] = row
    return writer, ids


def test_products_of_whole_numbers_are_exact_whatever_the_shape() -> None:
    """Random numbers, and the largest that can occur, with equal and with different signs."""
    random = np.random.default_rng(0)
    for inputs, outputs in ((1, 1), (16, 7), (255, 9), (256, 2501), (1024, 256), (4000, 3)):
        largest = random.choice([-1.0, 1.0], size=(outputs, inputs)).astype(np.float32)
        for weights in (largest, random.normal(size=(outputs, inputs)).astype(np.float32)):
            table = Table.of(weights)
            product, rows = WholeProduct(table), np.repeat(weights[:1], 9, 0)  # every term has the same sign
            rows[1], rows[2], rows[3:5] = -rows[1], 0, random.normal(size=(2, inputs))
            together, (whole, steps) = product(rows), rounded(rows)
            sums = (whole.astype(np.int64) - ZERO) @ table.whole.astype(np.int64).T
            assert (together == sums.astype(np.float32) * table.scale.astype(np.float32).T * steps).all()
            assert all((product(rows[[number]]) == together[number]).all() for number in range(9))
            assert product(rows[:0]).shape == (0, outputs)


@settings(max_examples=60)
@given(
    arrays(
        np.float32,
        st.tuples(st.integers(1, 5), st.integers(1, 40)),
        elements=st.floats(-(2.0**100), 2.0**100, width=32),
    )
)
def test_no_processor_can_cut_a_sum(rows: npt.NDArray[np.float32]) -> None:
    """Some kernels add pairs of products of a row's bytes, without a sign, and a weight in 16 bits with a sign."""
    whole, _ = rounded(rows)
    assert whole.max() <= ZERO + MOST
    assert whole.min() >= ZERO - MOST
    assert 2 * (ZERO + int(MOST)) * ONE < 1 << 15


_QUIET = """
import os
import numpy as np
from dpbart.models.code.weights import Table, WholeProduct

product = WholeProduct(Table.of(np.eye(8)))
assert product(np.ones((2, 8), np.float32)).shape == (2, 8)
assert len(os.listdir("/proc/self/task")) == 1, "a thread was started"
if os.fork() == 0:
    os._exit(int(product(np.ones((2, 8), np.float32)).shape != (2, 8)))
assert os.wait()[1] == 0, "a fork cannot compute"
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux shows its threads")
def test_a_product_starts_no_thread_and_survives_a_fork() -> None:
    """Not even the thread with which ONNX Runtime would report its use."""
    plain = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    plain.pop("ORT_DISABLE_TELEMETRY", None)
    subprocess.run([sys.executable, "-c", _QUIET], env=plain, check=True)


def test_threads_that_share_a_product_get_the_same_numbers() -> None:
    random = np.random.default_rng(1)
    product = WholeProduct(Table.of(random.normal(size=(768, 256))))
    several = [random.normal(size=(count, 256)).astype(np.float32) for count in (1, 40, 304, 7) * 4]
    alone = [product(rows) for rows in several]
    with ThreadPoolExecutor(2) as pool:
        for one, other in zip(alone, pool.map(product, several), strict=True):
            assert (one == other).all()


def test_a_text_is_spelled_alike_in_any_batch_at_once_or_token_by_token(parts: Networks) -> None:
    writer, ids = rows_of(parts, made_up_texts()[:40])
    together = writer.spell(ids, rare=ids.shape[1])
    for part in (slice(0, 1), slice(7, 8), slice(3, 20), slice(0, 40, 3), slice(None, None, -1)):
        assert (writer.spell(ids[part], rare=ids.shape[1]).shares == together.shares[part]).all()
    cache, before = Cache(writer.sizes, 5), np.concatenate([np.full((5, 1), BEGIN), ids[:5, :-1]], 1)
    whole = writer.read(before, Cache(writer.sizes, 5))
    for place in range(ids.shape[1]):
        assert (writer.read(before[:, [place]], cache)[:, 0] == whole[:, place]).all()


@pytest.mark.parametrize("bits", [24, 45, 66, 135, 277, 1000])
def test_a_code_is_read_alike_in_any_batch_and_at_any_place_in_it(parts: Networks, bits: int) -> None:
    writer, ids = rows_of(parts, made_up_texts()[:24])
    spelling = writer.spell(ids, rare=ids.shape[1])
    random = np.random.default_rng(bits)
    codes = [code_of(shares, bits) for shares in spelling.shares]
    codes += [int.from_bytes(random.bytes(bits // 8 + 1), "big") % (1 << bits) for _ in range(8)]
    reader = WordingReader(writer, bits, ids.shape[1])
    together = reader.read(codes)
    assert [reader.read([code])[0] for code in codes] == together
    assert reader.read(codes, at_once=5) == together
    assert reader.read(codes[::-1]) == together[::-1]
    for threads in (1, 2):
        with threadpool_limits(threads):
            assert reader.read(codes) == together
    for row, own, spent in zip(ids.tolist(), together, spelling.bits, strict=False):
        if spent < bits - 2:
            assert own == row[: row.index(END)]


def test_a_text_with_more_rare_tokens_than_allowed_does_not_fit(parts: Networks) -> None:
    writer, ids = rows_of(parts, made_up_texts()[:40])
    rare = ((writer.rank[ids] >= writer.sizes.frequent) & (ids != PAD)).sum(1)
    for most in (1, 3, 8):
        spelling = writer.spell(ids, rare=most)
        assert (spelling.fits == (rare <= most)).all()
        assert np.isfinite(spelling.bits[rare <= most]).all()


def test_whole_numbers_cost_no_more_bits_than_the_network_that_was_trained() -> None:
    """The bits of 1,000 texts under mini-code, with torch and single precision, and as they are really spelled."""
    parts = Networks.load(BUNDLED / "mini-code")
    writer, ids = rows_of(parts, [line.sentence for line in parts.book.lines[:1000]])
    network = WriterTraining(writer.sizes)
    order = {"order": torch.from_numpy(writer.order), "rank": torch.from_numpy(writer.rank)}
    network.load_state_dict(in_torch(writer.weights) | order)
    before = torch.from_numpy(np.concatenate([np.full((len(ids), 1), BEGIN), ids[:, :-1]], 1))
    mask = torch.ones(ids.shape[1], ids.shape[1], dtype=torch.bool).tril()
    bits = []
    with torch.inference_mode():
        for first in range(0, len(ids), 50):
            part = before[first : first + 50]
            hidden = network.hidden(part, torch.arange(part.shape[1]).expand(part.shape), mask)
            for row, states in zip(ids[first : first + 50], hidden, strict=True):
                there = torch.from_numpy(row[row != PAD])
                bits.append(float(network.loss(states[: len(there)], there)) / math.log(2))
    spelled = np.concatenate([writer.spell(ids[at : at + 50], rare=ids.shape[1]).bits for at in range(0, len(ids), 50)])
    assert np.corrcoef(bits, spelled)[0, 1] > 0.999
    assert spelled.mean() == pytest.approx(np.mean(bits), rel=0.01)


@pytest.mark.parametrize(("rounds", "least", "mean"), [(False, 0.99999, 0.99999), (True, 0.99, 0.997)])
def test_the_reader_gives_the_vectors_of_the_network_that_was_trained(
    rounds: bool, least: float, mean: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The vectors of 1,000 texts, with torch and with our graph, and with a graph whose products are not rounded."""
    if not rounds:
        monkeypatch.setattr(closely, "_product", in_floats)
    parts = Networks.load(BUNDLED / "mini-code")
    assert isinstance(parts.reader, Reader)
    ids = parts.reader.ids([line.sentence for line in parts.book.lines[:1000]])
    network = ReaderTraining(parts.reader.sizes)
    network.load_state_dict(in_torch(parts.reader.network.weights))
    near = []
    with torch.inference_mode():
        for first in range(0, len(ids), 50):
            part = ids[first : first + 50]
            theirs, words = (each(torch.from_numpy(part)).numpy() for each in (network.meaning, network.words))
            near += np.sum(theirs * parts.reader.network.meaning(part), axis=1).tolist()
            np.testing.assert_allclose(parts.reader.network.words(part), words, atol=1e-4)
    assert min(near) > least
    assert np.mean(near) > mean


def in_floats(graph: Graph, rows: str, weights: Arrays, *, twice: bool = False) -> str:
    return graph.node("MatMul", rows, graph.constant(np.ascontiguousarray(floats_of(weights, "weight").T)))


def in_torch(weights: Arrays) -> dict[str, torch.Tensor]:
    """The weights that are stored, in single precision."""
    names = [name for name in weights if name != "order" and not name.endswith(".scale")]
    return {name: torch.from_numpy(floats_of(weights, name)) for name in names}
