"""The engine that rewrites batches on Ray: a local instance by default, or a cluster given by its address.

This uses plain Ray actors, not a Ray Data pipeline. The driver reads batches one by one, and they must come back in
order, a few at a time, before the next is read. Ray Data would take the whole input first and keep it in an object
store that spills to disk when full, so private text would end up in temporary files. Small arguments of an actor call
are sent with the call and then dropped. Large ones go to the object store, which our own Ray instance never spills.

Ray restarts a dead actor and sends its batch again. The driver gets each result once.
"""

from __future__ import annotations

import logging
import math
import os
import socket
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import cycle
from typing import Any

from dpbart.errors import EngineFailed, MissingExtra
from dpbart.rewrite.engines.engine import (
    IN_FLIGHT,
    MOST_DEATHS,
    Answers,
    Make,
    Some,
    ended,
    keeps_dying,
    limit_threads,
    usable_cores,
)
from dpbart.rewrite.rewriter import Rewriting

SECONDS_TO_CONNECT = 10.0
_SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",  # a private job sends no statistics
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # avoids a warning about a future change in Ray
    "RAY_worker_niceness": "0",  # Ray's default of 15 starves workers on a busy machine
}
_NEVER_SPILL = {"automatic_object_spilling_enabled": False}  # to disk; the few batches in flight need little memory


class RayWorker:
    """The code of one Ray actor."""

    def __init__(self, make: Make, threads: int) -> None:
        limit_threads(threads)
        self._rewriter = make()

    def rewrite(self, texts: Sequence[str], row: int) -> Rewriting:
        return self._rewriter.rewrite(texts, row=row)


@dataclass(frozen=True)
class OnRay:
    """Rewrites batches in Ray actors, each with its own model and, if the cluster has GPUs, its own GPU."""

    make: Make
    workers: int | None = None  # by default one per GPU or, without GPUs, one per CPU
    address: str | None = None  # host:port of the head node, or "auto"; None starts Ray on this machine

    @property
    def name(self) -> str:
        return "ray, on this machine" if self.address is None else "ray, on a cluster"

    def map(self, batches: Iterable[Some]) -> Answers[Some]:
        with _connected(self.address, self.workers) as ray:
            actors, waiting = self._actors(ray), deque[tuple[Some, Any]]()
            for batch, actor in zip(ended(batches), cycle(actors)):
                if batch is not None:
                    waiting.append((batch, actor.rewrite.remote(batch.texts(), batch.first)))
                while waiting and (batch is None or len(waiting) >= IN_FLIGHT * len(actors)):
                    first, answer = waiting.popleft()
                    yield first, _get(ray, answer)

    def _actors(self, ray: Any) -> list[Any]:
        resources = ray.cluster_resources()
        gpus, cpus = int(resources.get("GPU", 0)), int(resources.get("CPU", 1))
        count = self.workers or gpus or cpus
        make_actor = ray.remote(max_restarts=-1, max_task_retries=MOST_DEATHS)(RayWorker)
        actor = make_actor.options(num_cpus=_share(cpus, count), num_gpus=_share(gpus, count))
        return [actor.remote(self.make, max(1, cpus // count)) for _ in range(count)]


def _share(units: int, workers: int) -> float:
    """The share of a CPU or GPU for one worker: a whole one, or an equal part if there are more workers.

    Ray never starts an actor that requests more than exists; it would wait forever.

    >>> _share(4, 2), _share(1, 2), _share(3, 4), _share(0, 2)
    (1.0, 0.5, 0.5, 0.0)
    """
    return 1 / math.ceil(workers / units) if units else 0.0


@contextmanager
def _connected(address: str | None, workers: int | None) -> Iterator[Any]:
    for name, value in _SETTINGS.items():
        os.environ.setdefault(name, value)
    try:
        import ray
    except ImportError:
        raise MissingExtra(
            "running on Ray needs an extra package. Install it with: pip install 'dpbart[ray]'"
        ) from None
    _check_reachable(address)
    logging.getLogger("ray").setLevel(logging.ERROR)  # `quiet` comes too late for what Ray says while it starts
    quiet = {"log_to_driver": False, "logging_level": logging.ERROR, "configure_logging": False}
    try:
        if address is None:
            # "local", because None would join any Ray that runs here or that RAY_ADDRESS names.
            cores = workers or usable_cores()
            ray.init(address="local", num_cpus=cores, include_dashboard=False, _system_config=_NEVER_SPILL, **quiet)
        else:
            ray.init(address=address, **quiet)
    except Exception as error:  # Ray raises bare Exceptions too, such as for a node that starts too slowly
        raise EngineFailed(f"Ray cannot be started or reached ({type(error).__name__}). Check --address.") from None
    try:
        yield ray
    finally:
        ray.shutdown()


def _check_reachable(address: str | None) -> None:
    """Test the connection first: Ray itself keeps trying for minutes."""
    if address is None or address == "auto":
        return
    host, _, port = address.removeprefix("ray://").rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=SECONDS_TO_CONNECT).close()
    except (OSError, ValueError, OverflowError):
        raise EngineFailed(
            f"no Ray cluster answers at {address!r}. Give the address of its head node as host:port, such as "
            "10.0.0.5:6379, or leave out --address to start Ray on this machine."
        ) from None


def _get(ray: Any, answer: Any) -> Rewriting:
    try:
        done: Rewriting = ray.get(answer)
    except ray.exceptions.RayActorError:
        raise keeps_dying() from None
    except ray.exceptions.RayTaskError as error:  # its message may quote private text
        raise EngineFailed(f"a worker on Ray failed ({type(error.cause).__name__}). See Ray's own logs.") from None
    except ray.exceptions.RayError as error:  # lost machines, or out of memory
        raise EngineFailed(
            f"Ray lost a batch ({type(error).__name__}). Finished texts are saved; continue with --resume."
        ) from None
    return done
