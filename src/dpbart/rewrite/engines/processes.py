"""The engine that rewrites batches in several processes on this machine.

It uses processes, not threads: beam search is a Python loop over small tensors, so threads would block each other.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass

from dpbart.errors import DpbartError, EngineFailed
from dpbart.rewrite.engines.engine import (
    IN_FLIGHT,
    MOST_DEATHS,
    Answers,
    Make,
    Some,
    Texts,
    ended,
    keeps_dying,
    usable_cores,
)
from dpbart.rewrite.rewriter import Rewriter, Rewriting


@dataclass(frozen=True)
class Processes:
    """Rewrites batches in several processes on this machine."""

    make: Make
    workers: int
    preload: tuple[str, ...] = ()  # modules that every worker needs

    @property
    def name(self) -> str:
        return f"local, in {self.workers} processes"

    def map(self, batches: Iterable[Some]) -> Answers[Some]:
        pool, waiting = self._pool(), deque[tuple[Some, Future[Rewriting]]]()
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
        # Torch's threads do not survive a fork, so workers are not forked from this process. They are forked from a
        # server that has imported everything and computed nothing, so that even replacement workers start at once.
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([Rewriter.__module__, *self.preload])
        return ProcessPoolExecutor(self.workers, context, initializer=_start, initargs=(self.make, threads))


_worker: Rewriter | DpbartError | None = None  # the rewriter of this worker process, or why it has none


def _start(make: Make, threads: int) -> None:
    global _worker
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the driver, which stops between batches
    threading.Thread(target=_end_with_the_driver, daemon=True).start()
    import torch

    torch.set_num_threads(threads)
    try:
        _worker = make()
    except DpbartError as error:  # raised with the first batch: an error here would only break the pool
        _worker = error


def _end_with_the_driver() -> None:
    """End this worker when the driver dies. A killed driver cannot stop its workers, and they would wait forever."""
    driver = multiprocessing.parent_process()
    if driver is not None:
        driver.join()
        os._exit(1)


def _rewrite(texts: Sequence[str], row: int) -> Rewriting:
    if isinstance(_worker, DpbartError):
        raise _worker
    if _worker is None:
        raise EngineFailed("a worker has no model. This is a bug in dpbart: please report it.")
    return _worker.rewrite(texts, row=row)


def _submit(pool: ProcessPoolExecutor, batch: Texts) -> Future[Rewriting]:
    try:
        return pool.submit(_rewrite, batch.texts(), batch.first)
    except BrokenProcessPool as error:  # raised when its turn comes, in order
        broken: Future[Rewriting] = Future()
        broken.set_exception(error)
        return broken


def _again(pool: ProcessPoolExecutor, batch: Texts, held: Future[Rewriting]) -> Future[Rewriting]:
    """Keep a finished batch; submit an unfinished one to the new pool."""
    whole = held.done() and not held.cancelled() and held.exception() is None
    return held if whole else _submit(pool, batch)
