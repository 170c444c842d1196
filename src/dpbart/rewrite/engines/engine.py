"""What an engine is: it maps a rewriter over batches.

Order is kept, a few batches are in flight and no more, and each is answered once. Workers load the model themselves and
draw their randomness from their own operating system: no randomness is ever sent to them, and no budget. Their answers
belong to the driver, which records and saves them. So the batch of a worker that died goes to another one, and nobody
ever saw what the dead one had written.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Protocol

from dpbart.errors import BadParameter, EngineFailed
from dpbart.rewrite.rewriter import Rewriter, Rewriting
from dpbart.tables.batch import Batch

Make = Callable[[], Rewriter]  # loads a rewriter; travels to the workers
Answers = Generator[tuple[Batch, Rewriting], None, None]

IN_FLIGHT = 3  # batches for each worker: one in work, and some so that it never waits for the driver
MOST_DEATHS = 3  # of workers in a row without a finished batch in between


class Engine(Protocol):
    """Rewrites batches, in order."""

    @property
    def name(self) -> str:
        """As the card has it."""

    def map(self, batches: Iterable[Batch]) -> Answers:
        """Every batch with its new texts."""


def check_workers(workers: int, *, replayed: bool) -> None:
    """Refuse a number that makes no sense; a replay goes through its seed in one order only."""
    if workers < 1:
        raise BadParameter(f"workers must be at least 1, got {workers}.")
    if workers > 1 and replayed:
        raise BadParameter(f"a replay must have one worker, got {workers}. Pass --workers 1.")


def usable_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def ended(batches: Iterable[Batch]) -> Iterator[Batch | None]:
    """The batches, and None when there are no more."""
    yield from batches
    yield None


def keeps_dying() -> EngineFailed:
    return EngineFailed(
        f"workers died {MOST_DEATHS + 1} times without finishing a batch. Is there too little memory? "
        "Pass fewer --workers. What is done is saved: continue with --resume."
    )
