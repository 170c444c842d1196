"""The engine protocol: an engine applies a rewriter to batches.

An engine keeps the order of the batches, holds only a few in flight, and returns each batch once. Workers load the
model themselves and take their randomness from their own operating system; no randomness and no budget is ever sent to
them. Only the driver records and saves results. If a worker dies, its batch goes to another worker. Nobody has seen
what the dead worker wrote.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Protocol, TypeVar

from dpbart.errors import BadParameter, EngineFailed
from dpbart.rewrite.rewriter import Rewriter, Rewriting

Make = Callable[[], Rewriter]  # loads a rewriter; sent to the workers


class Texts(Protocol):
    """What an engine needs to know of a batch."""

    @property
    def first(self) -> int:
        """The number of its first row."""

    def texts(self) -> list[str]:
        """The texts to rewrite."""


Some = TypeVar("Some", bound=Texts)
Answers = Generator[tuple[Some, Rewriting], None, None]

IN_FLIGHT = 3  # batches per worker: one being rewritten, the others waiting, so that no worker idles
MOST_DEATHS = 3  # of workers in a row, without a finished batch in between


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


def ended(batches: Iterable[Some]) -> Iterator[Some | None]:
    """The batches, then None at the end."""
    yield from batches
    yield None


def keeps_dying() -> EngineFailed:
    return EngineFailed(
        f"workers died {MOST_DEATHS + 1} times without finishing a batch. They may be out of memory: "
        "pass fewer --workers. Finished texts are saved; continue with --resume."
    )
