"""When a driver is killed, its workers end too: each of them holds a model and a private batch."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from dpbart.rewrite.engines.engine import Processes
from dpbart.tables.batch import DictRows
from dpbart.testing import fake_rewriter


def named(texts: Sequence[str]) -> list[str]:
    """Returns the process id for every text."""
    return [str(os.getpid()) for _ in texts]


def drive(file: Path) -> None:
    """Write the process ids of two workers to `file`, then keep running."""
    endless = (DictRows(number, ("text",), [{"text": ""}]) for number in range(1, 1_000_000))
    workers: set[str] = set()
    for _, done in Processes(partial(fake_rewriter, named), 2).map(endless):
        workers.update(done.texts)
        if len(workers) == 2:
            file.with_suffix(".partial").write_text(" ".join(workers))
            file.with_suffix(".partial").rename(file)
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


def test_workers_end_when_their_driver_is_killed(tmp_path: Path) -> None:
    file = tmp_path / "workers"
    driver = multiprocessing.get_context("spawn").Process(target=drive, args=(file,))
    driver.start()
    assert wait_for(file.exists, 120)
    driver.kill()
    driver.join()
    workers = [int(each) for each in file.read_text().split()]
    assert wait_for(lambda: not any(map(is_alive, workers)), 120)
