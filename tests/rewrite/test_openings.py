"""How often a run opens its input, as the kernel counts it: three times to parse it, and twice for the keyed digest."""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

from dpbart.errors import BadTable
from dpbart.options.rewriting import Dialect, Request
from dpbart.options.settings import Settings
from dpbart.rewrite.chosen import ChosenModel
from dpbart.rewrite.job import rewrite_file
from dpbart.tables.table import columns_of, open_table
from dpbart.tables.writer import plan_writer
from dpbart.testing import described, fake_rewriter
from tests.rewrite.jobs import inline
from tests.tables.plain_tables import ENDINGS, write_plainly

pytestmark = [
    pytest.mark.usefixtures("no_wait_for_the_disk"),
    pytest.mark.skipif(sys.platform != "linux", reason="inotify counts the openings"),
]

OPENED, READ, CLOSED = 0x20, 0x01, 0x10  # inotify(7): IN_OPEN, IN_ACCESS, IN_CLOSE_NOWRITE
ROWS = [[f"person {n}", f"text {n}", "x"] for n in range(3000)]


@contextmanager
def opened(file: Path) -> Iterator[list[int]]:
    """The openings of a file, filled in at the end. Also those of Arrow, which Python does not see."""
    libc, openings = ctypes.CDLL(None, use_errno=True), list[int]()
    watch = libc.inotify_init1(os.O_NONBLOCK)
    # The kernel merges an event with an equal one just before it. Reading or closing the file keeps openings apart.
    assert libc.inotify_add_watch(watch, os.fsencode(file), OPENED | READ | CLOSED) > 0
    try:
        yield openings
        events = b""
        while True:
            try:
                events += os.read(watch, 1 << 16)
            except BlockingIOError:
                break
        while events:
            _, mask, _, length = struct.unpack_from("iIII", events)
            openings += [1] if mask & OPENED else []
            events = events[16 + length :]
    finally:
        os.close(watch)


@pytest.fixture
def settings(monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Settings of a fake model."""
    rewriter = fake_rewriter(epsilon=500)
    monkeypatch.setattr(ChosenModel, "described", described(rewriter))
    monkeypatch.setattr("dpbart.rewrite.job.choose_engine", lambda *_, **__: inline(rewriter))
    return Settings("mini", epsilon=500)


def test_every_opening_is_counted_also_those_of_arrow(tmp_path: Path) -> None:
    file = write_plainly(tmp_path / "in.csv", ROWS[:1])
    with opened(file) as openings:
        for _ in range(3):
            file.open("rb").close()
        pa.OSFile(str(file)).close()
    assert len(openings) == 4


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_run_opens_its_input_five_times(tmp_path: Path, settings: Settings, ending: str) -> None:
    file = write_plainly(tmp_path / f"in{ending}", ROWS)
    with opened(file) as openings:
        rewrite_file(Request(file, tmp_path / f"out{ending}", person_column="id"), settings)
    assert len(openings) == 5


@pytest.mark.parametrize("ending", ENDINGS)
def test_looking_at_a_table_and_its_first_pass_are_one_opening(tmp_path: Path, ending: str) -> None:
    file = write_plainly(tmp_path / f"in{ending}", ROWS)
    with opened(file) as openings:
        table = open_table(file)
        assert "text" in table.columns
        assert table.visit() == 3000
    assert len(openings) == 1
    with opened(file) as openings:
        assert table.visit() == table.visit() == 3000
    assert len(openings) == 2
    with opened(file) as openings:
        assert columns_of(file, Dialect()) == table.columns
    assert len(openings) == 1


@pytest.mark.parametrize("ending", ENDINGS)
def test_an_input_that_is_replaced_after_the_look_is_noticed(
    tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    """The first pass reads the file that was looked at. The run notices that another one has its name now."""
    file, other = write_plainly(tmp_path / f"in{ending}", ROWS), write_plainly(tmp_path / f"other{ending}", ROWS[:9])

    def replaced(*arguments: object, **options: object) -> object:
        os.replace(other, file)
        return plan_writer(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr("dpbart.rewrite.job.plan_writer", replaced)
    with pytest.raises(BadTable, match="has changed since it was checked"):
        rewrite_file(Request(file, tmp_path / f"out{ending}"), settings)
    assert not (tmp_path / f"out{ending}").exists()


def test_a_table_that_is_never_read_leaves_no_file_open(tmp_path: Path) -> None:
    file = write_plainly(tmp_path / "in.csv", ROWS[:3])
    for _ in range(5):
        open_table(file)
    assert [link for link in map(linked, Path("/proc/self/fd").iterdir()) if link == file] == []


def linked(handle: Path) -> Path | None:
    """Where an open file is; None if it is closed by now."""
    try:
        return handle.readlink()
    except OSError:
        return None
