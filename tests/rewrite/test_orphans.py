"""A driver that is killed takes its workers along: each of them holds a model, and a private batch."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from dpbart.rewrite.engines.processes import Processes
from dpbart.tables.batch import Rows
from dpbart.testing import fake_rewriter


def named(texts: Sequence[str]) -> list[str]:
    """The number of this process for every text."""
    return [str(os.getpid()) for _ in texts]


def drive(told: Path) -> None:
    """Write down the numbers of two workers, and go on for ever."""
    endless = (Rows(number, "text", [{"text": ""}]) for number in range(1, 1_000_000))
    workers: set[str] = set()
    for _, done in Processes(partial(fake_rewriter, named), 2).map(endless):
        workers.update(done.texts)
        if len(workers) == 2:
            told.with_suffix(".partial").write_text(" ".join(workers))
            told.with_suffix(".partial").rename(told)
        time.sleep(0.01)


def is_alive(process: int) -> bool:
    stat = Path(f"/proc/{process}/stat")
    try:
        return stat.read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_for(what: Callable[[], bool], seconds: float) -> bool:
    end = time.monotonic() + seconds
    while not what() and time.monotonic() < end:
        time.sleep(0.05)
    return what()


def test_workers_end_with_a_killed_driver(tmp_path: Path) -> None:
    told = tmp_path / "workers"
    driver = multiprocessing.get_context("spawn").Process(target=drive, args=(told,))
    driver.start()
    assert wait_for(told.exists, 120)
    driver.kill()
    driver.join()
    workers = [int(each) for each in told.read_text().split()]
    assert wait_for(lambda: not any(map(is_alive, workers)), 10)
