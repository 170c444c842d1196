"""Files are written whole or not at all; standard output is written batch by batch."""

from __future__ import annotations

import errno
import gc
import io
import os
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from dpbart.errors import BadTable
from dpbart.tables.table import open_table
from tests.tables.plain_tables import (
    COLUMNS,
    ENDINGS,
    SECRET,
    copy,
    copy_refusal,
    names,
    open_writer,
    read_plainly,
    write_plainly,
)

pytestmark = pytest.mark.usefixtures("no_wait_for_the_disk")


class Pipe(io.BytesIO):
    """Remembers what a reader of the pipe could see after each flush."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[bytes] = []

    def flush(self) -> None:
        self.seen.append(self.getvalue())


def test_standard_output_gets_one_text_per_line_after_each_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Standard:
        buffer = Pipe()

    source = write_plainly(tmp_path / "in.jsonl", [["1", "é\nb", ""], ["2", "c", ""], ["3", "d", ""]])
    monkeypatch.setattr(sys, "stdout", Standard)
    copy(source, "-")
    assert list(dict.fromkeys(Standard.buffer.seen)) == ["é b\nc\n".encode(), "é b\nc\nd\n".encode()]


def test_a_broken_pipe_is_left_to_the_caller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Closed:
        class buffer:
            @staticmethod
            def write(_: bytes) -> None:
                raise BrokenPipeError

    source = write_plainly(tmp_path / "in.csv", [["1", "a", ""]])
    monkeypatch.setattr(sys, "stdout", Closed)
    with pytest.raises(BrokenPipeError):
        copy(source, "-")


@pytest.mark.parametrize("ending", [*ENDINGS, ".txt"])
@pytest.mark.parametrize("stop", [RuntimeError("the model failed"), KeyboardInterrupt(), OSError(5, "not our file")])
def test_after_an_error_the_target_is_unchanged_and_no_other_file_is_left(
    tmp_path: Path, ending: str, stop: BaseException
) -> None:
    table = open_table(write_plainly(tmp_path / "in.csv", [["1", "a", ""], ["2", "b", ""]]))
    target = tmp_path / f"out{ending}"
    target.write_text("before")
    with (  # noqa: PT012
        pytest.raises(type(stop)) as caught,
        open_writer(target, like=table, columns=table.columns, overwrite=True) as writer,
    ):
        writer.write(next(table.batches(1)))
        assert len(names(tmp_path)) == 3
        assert target.read_text() == "before"
        raise stop
    assert caught.value is stop
    assert target.read_text() == "before"
    assert names(tmp_path) == ["in.csv", target.name]


def test_no_file_has_the_name_until_everything_is_written(tmp_path: Path) -> None:
    table = open_table(write_plainly(tmp_path / "in.csv", [["1", "a", ""], ["2", "b", ""]]))
    with open_writer(tmp_path / "out.csv", like=table, columns=table.columns) as writer:
        for batch in table.batches(1):
            writer.write(batch)
            assert not (tmp_path / "out.csv").exists()
    assert names(tmp_path) == ["in.csv", "out.csv"]


def test_a_file_is_synced_before_it_gets_its_name_and_the_name_is_synced_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write_plainly(tmp_path / "in.csv", [["1", "a", ""]])
    synced: list[tuple[int, bool]] = []  # which file or folder, and whether the output had its name then
    target = tmp_path / "out.csv"
    monkeypatch.setattr(os, "fsync", lambda handle: synced.append((os.fstat(handle).st_ino, target.exists())))
    copy(source, target)
    assert list(dict.fromkeys(synced)) == [(target.stat().st_ino, False), (tmp_path.stat().st_ino, True)]


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_full_disk_is_reported_in_one_line_and_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    source = write_plainly(tmp_path / "in.csv", [["1", SECRET, ""]])

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    assert copy_refusal(source, tmp_path / f"out{ending}") == (
        f"'out{ending}' cannot be written: No space left on device. Nothing half-written was left behind."
    )


@pytest.mark.parametrize("ending", [*ENDINGS, ".txt"])
def test_a_disk_that_fills_up_in_the_middle_leaves_no_file(tmp_path: Path, ending: str) -> None:
    source = write_plainly(tmp_path / "in.csv", [[str(n), f"{SECRET} {n * n}", ""] for n in range(3000)])
    with at_most_bytes(10_000):
        assert copy_refusal(source, tmp_path / f"out{ending}") == (
            f"'out{ending}' cannot be written: File too large. Nothing half-written was left behind."
        )


@pytest.mark.parametrize("stop", [False, True], ids=["the disk fails", "the caller stops"])
def test_an_abandoned_parquet_writer_raises_nothing_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop: bool
) -> None:
    said: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", said.append)  # where Python reports errors in destructors
    table = open_table(write_plainly(tmp_path / "in.csv", [[str(n), str(n * n), ""] for n in range(3000)]))
    target = tmp_path / "out.parquet"
    with (
        suppress(BadTable, InterruptedError),
        at_most_bytes(10_000),
        open_writer(target, like=table, columns=table.columns) as writer,
    ):
        writer.write(next(table.batches(3000)))
        if stop:
            raise InterruptedError
    assert not target.exists()
    del writer
    gc.collect()
    assert said == []


@contextmanager
def at_most_bytes(size: int) -> Iterator[None]:
    """Limit the size of every file of this process, which comes close to a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_table_without_batches_is_a_header(tmp_path: Path) -> None:
    table = open_table(write_plainly(tmp_path / "in.csv", [["1", "a", ""]]))
    for ending in (".csv", ".parquet"):
        with open_writer(tmp_path / f"out{ending}", like=table, columns=table.columns):
            pass
        assert read_plainly(tmp_path / f"out{ending}") == [list(COLUMNS)]


def test_the_new_file_has_the_usual_permissions(tmp_path: Path) -> None:
    source = write_plainly(tmp_path / "in.csv", [["1", "a", ""]])
    copy(source, tmp_path / "out.csv")
    assert (tmp_path / "out.csv").stat().st_mode == source.stat().st_mode


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    source = write_plainly(tmp_path / "in.csv", [["1", "a", ""]])
    (tmp_path / "there").mkdir()
    (tmp_path / "out.csv").symlink_to(tmp_path / "there" / "real.csv")
    copy(source, tmp_path / "out.csv")
    assert (tmp_path / "out.csv").is_symlink()
    assert read_plainly(tmp_path / "there" / "real.csv")[1] == ["1", "a", ""]
