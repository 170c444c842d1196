"""Where batches are rewritten: in this process, in several processes, or on Ray.

An engine maps a rewriter over batches: order kept, a few batches in flight and no more, each answered once. Workers
load the model themselves and draw their own noise from their own operating system: no randomness is ever shipped, and
no budget. What they give back belongs to the driver, which records it and makes it safe; so a batch whose worker died
is given to another one, and what the dead one had drawn was never seen by anybody.

Processes and not threads: beam search is a loop in Python around small tensors, and threads would wait for each other.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import Protocol

from dpbart.errors import BadParameter, EngineFailed
from dpbart.rewrite.rewriter import Rewriter, Rewriting
from dpbart.tables.batch import Batch

Make = Callable[[], Rewriter]  # loads a rewriter; goes to the workers
Answers = Generator[tuple[Batch, Rewriting], None, None]

IN_FLIGHT = 3  # batches for each worker: one in work, and some so that it never waits for the driver
MOST_DEATHS = 3  # of workers in a row without a batch done between
WORTH_WORKERS = 2000  # rows; below, loading a model in every worker takes longer than the work
MOST_WORKERS = 8  # unless told: every one holds the model


class Engine(Protocol):
    """Rewrites batches, in order."""

    @property
    def name(self) -> str:
        """As the card tells it."""

    def map(self, batches: Iterable[Batch]) -> Answers:
        """Every batch with its new texts."""


@dataclass(frozen=True)
class Inline:
    """In this process, one batch after the other."""

    rewriter: Rewriter

    @property
    def name(self) -> str:
        return "local, in one process"

    def map(self, batches: Iterable[Batch]) -> Answers:
        for batch in batches:
            yield batch, self.rewriter.rewrite(batch.texts())


@dataclass(frozen=True)
class Processes:
    """In several processes of this machine."""

    make: Make
    workers: int

    @property
    def name(self) -> str:
        return f"local, in {self.workers} processes"

    def map(self, batches: Iterable[Batch]) -> Answers:
        pool, waiting = self._pool(), deque[tuple[Batch, Future[Rewriting]]]()
        deaths = 0
        try:
            for batch in ended(batches):
                if batch is not None:
                    waiting.append((batch, _submit(pool, batch)))
                while waiting and (batch is None or len(waiting) >= IN_FLIGHT * self.workers):
                    first, future = waiting[0]
                    try:
                        done = future.result()
                    except BrokenProcessPool:
                        deaths += 1
                        if deaths > MOST_DEATHS:
                            raise keeps_dying() from None
                        pool.shutdown(wait=False, cancel_futures=True)
                        pool = self._pool()
                        waiting = deque((each, _again(pool, each, held)) for each, held in waiting)
                        continue
                    deaths = 0
                    waiting.popleft()
                    yield first, done
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    def _pool(self) -> ProcessPoolExecutor:
        threads = max(1, usable_cores() // self.workers)
        # Not forked from here, since torch's own threads do not outlive a fork; but from a server that has imported all
        # and computed nothing, so that workers, and those that replace dead ones, start at once.
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([Rewriter.__module__])
        return ProcessPoolExecutor(self.workers, context, initializer=_start, initargs=(self.make, threads))


def choose_local(rewriter: Rewriter, make: Make, *, workers: int | None, rows: int | None) -> Engine:
    """The local engine: as many workers as asked for, or as are worth it."""
    if workers is None:
        small = rows is None or rows < WORTH_WORKERS
        workers = 1 if small or rewriter.halves.device.type != "cpu" else min(usable_cores(), MOST_WORKERS)
    check_workers(workers, rewriter)
    return Inline(rewriter) if workers == 1 else Processes(make, workers)


def check_workers(workers: int, rewriter: Rewriter) -> None:
    """Refuse a number that makes no sense; a replay goes through its seed in one order only."""
    if workers < 1:
        raise BadParameter(f"workers must be at least 1, got {workers}.")
    if workers > 1 and not rewriter.entropy.private:
        raise BadParameter(f"a replay must have one worker, got {workers}. Leave --workers out.")


def usable_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def ended(batches: Iterable[Batch]) -> Iterator[Batch | None]:
    """The batches, and None when there are no more."""
    yield from batches
    yield None


def keeps_dying() -> EngineFailed:
    return EngineFailed(
        f"workers died {MOST_DEATHS + 1} times without a batch done between. Is there too little memory? "
        "Pass fewer --workers; what is done is safe, go on with --resume."
    )


_worker: Rewriter | None = None  # of this process, where it is a worker


def _start(make: Make, threads: int) -> None:
    global _worker
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the driver, which stops in its own time
    threading.Thread(target=_end_with_the_driver, daemon=True).start()
    import torch

    torch.set_num_threads(threads)
    _worker = make()


def _end_with_the_driver() -> None:
    """A driver that is killed cannot tell its workers, which would wait for the next batch for ever, model and all."""
    driver = multiprocessing.parent_process()
    if driver is not None:
        driver.join()
        os._exit(1)


def _rewrite(texts: Sequence[str]) -> Rewriting:
    if _worker is None:
        raise EngineFailed("a worker has no model. This is a fault of dpbart.")
    return _worker.rewrite(texts)


def _submit(pool: ProcessPoolExecutor, batch: Batch) -> Future[Rewriting]:
    try:
        return pool.submit(_rewrite, batch.texts())
    except BrokenProcessPool as error:  # met when its turn comes, in order
        broken: Future[Rewriting] = Future()
        broken.set_exception(error)
        return broken


def _again(pool: ProcessPoolExecutor, batch: Batch, held: Future[Rewriting]) -> Future[Rewriting]:
    """What is done stays done; all else goes to the new pool."""
    whole = held.done() and not held.cancelled() and held.exception() is None
    return held if whole else _submit(pool, batch)
