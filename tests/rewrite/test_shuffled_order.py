"""The order of a shuffled output: uniform, drawn once for a run, and gone when the run is over. Real kills."""

from __future__ import annotations

import itertools
import math
import multiprocessing
import os
import signal
import stat
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from dpbart.errors import NotResumable
from dpbart.privacy.mechanisms import Response
from dpbart.privacy.sampling import SystemEntropy, Words
from dpbart.rewrite import shuffle as shuffled
from dpbart.rewrite.durable import commit
from dpbart.rewrite.durable.folder import BUCKET, NewTexts, SavedTexts, folder_of
from dpbart.rewrite.durable.unfinished import UnfinishedRun
from dpbart.rewrite.rewriter import Rewriter
from dpbart.rewrite.shuffle import draw_order
from dpbart.tables import writer as table_writer
from tests.card.cards import FakeCodes, code_rewriter
from tests.rewrite.jobs import run, shuffle_request

ROWS = 40
DOUBT = 1e-9  # chance that a uniform order fails a test


@pytest.fixture
def unsynced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of files, and no power cut to survive."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


def save(folder: Path, rows: int, part: int) -> SavedTexts:
    saved = SavedTexts(folder)
    for first in range(0, rows, part):
        numbers = range(first, min(first + part, rows))
        saved.add(NewTexts([[str(n)] for n in numbers], [f"label {n}" for n in numbers]), recipe="a recipe")
    return saved


def is_uniform(seen: Counter[tuple[int, ...]], rows: int) -> bool:
    counts = [seen[order] for order in itertools.permutations(range(rows))]
    return float(stats.chisquare(counts).pvalue) > DOUBT


def orders(times: int) -> Iterator[tuple[int, ...]]:
    for _ in range(times):
        yield tuple(draw_order(4, SystemEntropy()).tolist())


def test_every_order_of_a_bucket_is_equally_likely() -> None:
    assert is_uniform(Counter(orders(12_000)), 4)


@pytest.mark.usefixtures("unsynced")
@pytest.mark.parametrize("bucket_rows", [1, 4])
def test_every_order_is_equally_likely_with_several_buckets_and_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bucket_rows: int
) -> None:
    monkeypatch.setattr(shuffled, "BUCKET_ROWS", bucket_rows)
    saved, seen = save(tmp_path, rows=4, part=3), Counter[tuple[int, ...]]()
    for _ in range(480):
        seen[tuple(int(cells[0]) for cells, _ in shuffled.shuffled(tmp_path, saved))] += 1
        (tmp_path / "order").unlink()
    assert is_uniform(seen, 4)


@pytest.mark.usefixtures("unsynced")
def test_buckets_without_an_order_of_their_own_would_be_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A control for the test above."""
    monkeypatch.setattr(shuffled, "BUCKET_ROWS", 1)
    monkeypatch.setattr(shuffled, "draw_order", lambda count, _: np.arange(count, dtype=np.uint32))
    saved, seen = save(tmp_path, rows=4, part=3), Counter[tuple[int, ...]]()
    for _ in range(960):
        seen[tuple(int(cells[0]) for cells, _ in shuffled.shuffled(tmp_path, saved))] += 1
        (tmp_path / "order").unlink()
    assert not is_uniform(seen, 4)


def test_words_that_would_make_a_remainder_too_likely_are_drawn_again() -> None:
    class Biased:
        """First words in the last, incomplete multiple of 3; then zeros."""

        private = True
        calls = 0

        def words(self, count: int) -> Words:
            self.calls += 1
            return np.full(count, (1 << 64) - 1 if self.calls == 1 else 0, np.uint64)

    entropy = Biased()
    # For 3, the largest word is left over: 2^64 = 1 (mod 3). For 2, there is no remainder.
    assert draw_order(3, entropy).tolist() == [2, 1, 0]
    assert entropy.calls == 2


def test_a_label_stays_with_its_text_and_no_row_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shuffled, "BUCKET_ROWS", 16)
    rows = list(shuffled.shuffled(tmp_path, save(tmp_path, rows=500, part=70)))
    assert sorted(int(cells[0]) for cells, _ in rows) == list(range(500))
    assert all(label == f"label {cells[0]}" for cells, label in rows)
    assert [int(cells[0]) for cells, _ in rows] != list(range(500))


def test_the_buckets_of_a_killed_process_are_replaced(tmp_path: Path) -> None:
    saved = save(tmp_path, rows=20, part=7)
    (tmp_path / f"{BUCKET}0000").write_bytes(b"half a bucket")
    assert sorted(int(cells[0]) for cells, _ in shuffled.shuffled(tmp_path, saved)) == list(range(20))


def test_the_order_is_drawn_once_and_only_its_owner_may_read_it(tmp_path: Path) -> None:
    saved = save(tmp_path, rows=ROWS, part=7)
    first = list(shuffled.shuffled(tmp_path, saved))
    assert list(shuffled.shuffled(tmp_path, saved)) == first
    for file in [tmp_path / "order", *tmp_path.glob("bucket-*")]:
        assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.parametrize("name", ["order", "bucket-0000"])
def test_a_damaged_order_is_refused_in_one_line(tmp_path: Path, name: str) -> None:
    saved = save(tmp_path, rows=ROWS, part=7)
    list(shuffled.shuffled(tmp_path, saved))
    (tmp_path / name).write_bytes((tmp_path / name).read_bytes()[:40])
    with pytest.raises(NotResumable, match="is damaged"):
        list(shuffled.shuffled(tmp_path, saved))


class Numbers(FakeCodes):
    """Returns the number in each text."""

    def decode(self, private: object) -> list[str]:
        return [text.split()[-1] for text in self._texts]


def rewriter() -> Rewriter:
    made = code_rewriter(Response(2.0, 1 << 11))
    return Rewriter(Numbers(), made.channel, 4, SystemEntropy())


def work_in(folder: Path, die: str) -> None:
    """Run the job in its own process, until it ends or is killed."""
    commit.PART_ROWS, commit.PART_SECONDS, shuffled.BUCKET_ROWS = 8, math.inf, 8
    places: dict[str, tuple[object, str]] = {
        "while drawing": (shuffled, "draw_order"),
        "before the output is written": (table_writer, "put_in_place"),
        "before the folder is deleted": (UnfinishedRun, "remove"),
    }
    if die:
        owner, name = places[die]
        setattr(owner, name, lambda *_: os.kill(os.getpid(), signal.SIGKILL))
    run(shuffle_request(folder, resume=True), rewriter())


def live(folder: Path, die: str = "") -> int | None:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["dpbart.rewrite.job"])
    process = context.Process(target=work_in, args=(folder, die))
    process.start()
    process.join()
    return process.exitcode


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "in.csv").write_text("who,text\n" + "".join(f"p{n},text {n}\n" for n in range(ROWS)))
    return tmp_path


def drawn(folder: Path) -> list[str]:
    """The order of an unfinished run; nothing if none is drawn yet."""
    work = folder_of(folder / "out.csv")
    if not (work / "order").exists():
        return []
    return [text for (text,), _ in shuffled.shuffled(work, SavedTexts(work))]


@pytest.mark.parametrize("die", ["while drawing", "before the output is written", "before the folder is deleted"])
def test_a_resumed_run_has_one_order(folder: Path, die: str) -> None:
    assert live(folder, die) == -signal.SIGKILL
    before = drawn(folder)
    assert bool(before) is (die != "while drawing")
    assert live(folder, "before the folder is deleted") == -signal.SIGKILL
    first = (folder / "out.csv").read_text().split("\n")[1:-1]
    assert not before or first == before
    assert live(folder) == 0
    assert (folder / "out.csv").read_text().split("\n")[1:-1] == first
    assert sorted(map(int, first)) == list(range(ROWS))
    assert not folder_of(folder / "out.csv").exists()
    assert [file.name for file in folder.iterdir() if file.name.startswith(".")] == []


@pytest.mark.usefixtures("unsynced")
def test_orders_are_uniform_whatever_the_kills(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that dies while it draws leaves buckets behind. They must not decide anything later."""
    monkeypatch.setattr(shuffled, "BUCKET_ROWS", 1)
    real, dies, seen = shuffled.draw_order, itertools.cycle([True, False]), Counter[tuple[int, ...]]()

    def sometimes(count: int, entropy: SystemEntropy) -> object:
        if next(dies):
            raise KeyboardInterrupt
        return real(count, entropy)

    saved = save(tmp_path, rows=3, part=2)
    for _ in range(180):
        monkeypatch.setattr(shuffled, "draw_order", sometimes)
        with pytest.raises(KeyboardInterrupt):
            list(shuffled.shuffled(tmp_path, saved))
        monkeypatch.setattr(shuffled, "draw_order", real)
        seen[tuple(int(cells[0]) for cells, _ in shuffled.shuffled(tmp_path, saved))] += 1
        (tmp_path / "order").unlink()
    assert is_uniform(seen, 3)
