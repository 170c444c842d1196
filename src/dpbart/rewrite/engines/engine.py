"""The engine protocol, and the engines on this machine: one process, or several.

An engine applies a rewriter to batches. It keeps their order, holds only a few in flight, and returns each batch once.
Workers load the model themselves, or share one that was loaded before they were forked (fork_server.py). They take
their randomness from their own operating system; no randomness and no budget is ever sent to them. Only the driver
records and saves results. If a worker dies, its batch goes to another worker. Nobody has seen what the dead worker
wrote.

Workers are processes, not threads: beam search is a Python loop over small tensors, so threads would block each other.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import Protocol, TypeVar

from dpbart.errors import BadParameter, DpbartError, EngineFailed
from dpbart.rewrite.engines.fork_server import loaded, start_server
from dpbart.rewrite.rewriter import Rewriter, Rewriting

Make = Callable[[], Rewriter]  # loads a rewriter; sent to the workers


class TextBatch(Protocol):
    """What an engine needs to know about a batch."""

    @property
    def first(self) -> int:
        """The number of its first row."""

    def texts(self) -> list[str]:
        """The texts to rewrite."""


Some = TypeVar("Some", bound=TextBatch)
Answers = Generator[tuple[Some, Rewriting], None, None]

IN_FLIGHT = 3  # batches per worker: one being rewritten, the others waiting, so that no worker idles
MOST_DEATHS = 3  # of workers in a row, without a finished batch in between

_worker: Rewriter | DpbartError | None = None  # in a worker process: its rewriter, or why it has none


class Engine(Protocol):
    """Rewrites batches, in order."""

    @property
    def name(self) -> str:
        """Its name on the card."""

    def map(self, batches: Iterable[Some]) -> Answers[Some]:
        """Each batch together with its new texts."""


def check_workers(workers: int, *, replayed: bool) -> None:
    """Refuse fewer than one worker, and more than one for a replay, which must use its seed in a fixed order."""
    if workers < 1:
        raise BadParameter(f"workers must be at least 1, got {workers}.")
    if workers > 1 and replayed:
        raise BadParameter(f"a replay must have one worker, got {workers}. Pass --workers 1.")


def usable_cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def limit_threads(threads: int) -> None:
    """So many threads for torch in this worker, if it has torch or imports it later. Code models use one thread."""
    os.environ["OMP_NUM_THREADS"] = str(threads)
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(threads)


def ended(batches: Iterable[Some]) -> Iterator[Some | None]:
    """The batches, then None at the end."""
    yield from batches
    yield None


def keeps_dying() -> EngineFailed:
    """The error after too many deaths of workers in a row."""
    return EngineFailed(
        f"workers died {MOST_DEATHS + 1} times without finishing a batch. They may be out of memory: "
        "pass fewer --workers. Finished texts are saved; continue with --resume."
    )


@dataclass(frozen=True)
class Inline:
    """Rewrites batches in this process."""

    make: Make
    name = "local, in one process"  # not a field

    def map(self, batches: Iterable[Some]) -> Answers[Some]:
        rewriter = self.make()
        for batch in batches:
            yield batch, rewriter.rewrite(batch.texts(), row=batch.first)


@dataclass(frozen=True)
class Processes:
    """Rewrites batches in several processes on this machine."""

    make: Make
    workers: int
    preload: tuple[str, ...] = ()  # modules that every worker needs
    order: str | None = None  # of a rewriter that all workers share; without one, each loads its own

    @property
    def name(self) -> str:
        return f"local, in {self.workers} processes"

    def map(self, batches: Iterable[Some]) -> Answers[Some]:
        pool, waiting, deaths = self._pool(), deque[tuple[Some, Future[Rewriting]]](), 0
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
                        waiting = deque((old, _again(pool, old, answer)) for old, answer in waiting)
                        continue
                    deaths = 0
                    waiting.popleft()
                    yield first, done
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    def _pool(self) -> ProcessPoolExecutor:
        threads = max(1, usable_cores() // self.workers)
        # The threads of torch and BLAS do not survive a fork, so workers are not forked from this process. They are
        # forked from a server that has imported everything and computed nothing, so that even replacement workers start
        # at once. A model that starts no threads is loaded there too.
        start_server(self.preload, self.order)
        context = multiprocessing.get_context("forkserver")
        given = (self.make, threads, self.order)
        return ProcessPoolExecutor(self.workers, context, initializer=_start, initargs=given)


def _start(make: Make, threads: int, order: str | None) -> None:
    global _worker
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the driver, which stops between batches
    threading.Thread(target=_end_with_the_driver, daemon=True).start()
    limit_threads(threads)
    try:
        _worker = loaded(order) or make()
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


def _submit(pool: ProcessPoolExecutor, batch: TextBatch) -> Future[Rewriting]:
    try:
        return pool.submit(_rewrite, batch.texts(), batch.first)
    except BrokenProcessPool as error:  # raised when it is this batch's turn
        broken: Future[Rewriting] = Future()
        broken.set_exception(error)
        return broken


def _again(pool: ProcessPoolExecutor, batch: TextBatch, answer: Future[Rewriting]) -> Future[Rewriting]:
    """Keep the answer of a finished batch; submit an unfinished batch to the new pool."""
    finished = answer.done() and not answer.cancelled() and answer.exception() is None
    return answer if finished else _submit(pool, batch)
