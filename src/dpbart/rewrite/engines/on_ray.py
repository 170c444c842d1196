"""Batches on Ray: a local one by default, or a cluster by its address.

Actors of Ray's core, and not a Ray Data pipeline: the batches come one by one from a reader in the driver and must come
back in order, a few at a time, before the next is read. Ray Data takes its whole input first, and keeps blocks in an
object store that is spilled to disk when it is full: private text would get into temporary files. Small arguments of
an actor's call travel in the call itself, and are gone after it; large ones lie in the store, which a Ray of our own
never spills.

Ray starts a dead actor anew and gives it its batch again; the answer comes to the driver once.
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
from typing import Any

from dpbart.errors import EngineFailed, MissingExtra
from dpbart.rewrite.engines.engine import IN_FLIGHT, MOST_DEATHS, Answers, Make, ended, keeps_dying, usable_cores
from dpbart.rewrite.rewriter import Rewriting
from dpbart.tables.batch import Batch

SECONDS_TO_CONNECT = 10.0
_SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",  # a private job reports to nobody
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # else Ray warns of a change to come
    "RAY_worker_niceness": "0",  # at Ray's 15, workers get next to nothing of a machine that does other work too
}
_NEVER_SPILL = {"automatic_object_spilling_enabled": False}  # to disk; the few batches in flight fill little


class RayWorker:
    """What an actor does."""

    def __init__(self, make: Make, threads: int) -> None:
        import torch

        torch.set_num_threads(threads)
        self._rewriter = make()

    def rewrite(self, texts: Sequence[str]) -> Rewriting:
        return self._rewriter.rewrite(texts)


@dataclass(frozen=True)
class OnRay:
    """Actors of a Ray, each with its own model; with GPUs in the cluster, one each."""

    make: Make
    workers: int | None = None  # as many as the Ray has GPUs, or else CPUs
    address: str | None = None  # host:port of a cluster's head, or "auto"; None starts a Ray on this machine

    @property
    def name(self) -> str:
        return "ray, on this machine" if self.address is None else "ray, on a cluster"

    def map(self, batches: Iterable[Batch]) -> Answers:
        with _connected(self.address, self.workers) as ray:
            actors = self._actors(ray)
            waiting: deque[tuple[Batch, Any]] = deque()
            given = 0
            for batch in ended(batches):
                if batch is not None:
                    waiting.append((batch, actors[given % len(actors)].rewrite.remote(batch.texts())))
                    given += 1
                while waiting and (batch is None or len(waiting) >= IN_FLIGHT * len(actors)):
                    first, answer = waiting.popleft()
                    yield first, _get(ray, answer)

    def _actors(self, ray: Any) -> list[Any]:
        held = ray.cluster_resources()
        gpus, cpus = int(held.get("GPU", 0)), int(held.get("CPU", 1))
        count = self.workers or gpus or cpus
        threads = max(1, cpus // count)
        make_actor = ray.remote(max_restarts=-1, max_task_retries=MOST_DEATHS)(RayWorker)
        each = make_actor.options(num_cpus=_share(cpus, count), num_gpus=_share(gpus, count))
        return [each.remote(self.make, threads) for _ in range(count)]


def _share(held: int, workers: int) -> float:
    """What of a CPU or GPU one worker gets: a whole one, or an even part where there are more workers than that.

    An actor that asks for what is not there is never started, and Ray waits for it for ever.

    >>> _share(4, 2), _share(1, 2), _share(3, 4), _share(0, 2)
    (1.0, 0.5, 0.5, 0.0)
    """
    return 1 / math.ceil(workers / held) if held else 0.0


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
    quiet = {"log_to_driver": False, "logging_level": logging.ERROR, "configure_logging": False}
    try:
        if address is None:
            # "local" and not nothing, which would join whatever Ray runs here or RAY_ADDRESS names.
            cores = workers or usable_cores()
            ray.init(address="local", num_cpus=cores, include_dashboard=False, _system_config=_NEVER_SPILL, **quiet)
        else:
            ray.init(address=address, **quiet)
    except (ConnectionError, RuntimeError, ValueError, TimeoutError) as error:
        raise EngineFailed(f"Ray cannot be started or reached ({type(error).__name__}). Check --address.") from None
    try:
        yield ray
    finally:
        ray.shutdown()


def _check_reachable(address: str | None) -> None:
    """Knock first: Ray itself tries for minutes."""
    if address is None or address == "auto":
        return
    host, _, port = address.removeprefix("ray://").rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=SECONDS_TO_CONNECT).close()
    except (OSError, ValueError, OverflowError):
        raise EngineFailed(
            f"no Ray answers at {address!r}. Give the address of the cluster's head as host:port, such as "
            "10.0.0.5:6379, or leave --address out for a Ray on this machine."
        ) from None


def _get(ray: Any, answer: Any) -> Rewriting:
    try:
        done: Rewriting = ray.get(answer)
    except ray.exceptions.RayActorError:
        raise keeps_dying() from None
    except ray.exceptions.RayTaskError as error:  # its text may quote what the worker was given
        raise EngineFailed(f"a worker on Ray failed ({type(error.cause).__name__}). See Ray's own logs.") from None
    except ray.exceptions.RayError as error:  # a machine lost, or out of memory, too often
        raise EngineFailed(
            f"Ray lost a batch ({type(error).__name__}). What is done is safe, go on with --resume."
        ) from None
    return done
