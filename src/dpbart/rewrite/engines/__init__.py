"""The engines: they rewrite batches in this process, in several processes, or on Ray."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from dpbart.errors import BadParameter
from dpbart.rewrite.engines.engine import Engine, check_workers, usable_cores
from dpbart.rewrite.engines.inline import Inline
from dpbart.rewrite.engines.on_ray import OnRay
from dpbart.rewrite.engines.processes import Processes
from dpbart.rewrite.rewriter import Rewriter
from dpbart.rewrite.settings import Settings

WORTH_WORKERS = 2000  # rows; below this, loading the model in every worker takes longer than the work itself
MOST_WORKERS = 8  # by default: each worker holds the whole model in memory

Choose = Callable[[Settings, int | None, int | None, str | None], Engine]


def _local(settings: Settings, workers: int | None, rows: int | None, address: str | None) -> Engine:
    """The given number of processes, or by default as many as pay off."""
    if address is not None:
        raise BadParameter(f"an address needs the Ray engine, got {address!r}. Pass --engine ray with it.")
    make, replayed = partial(Rewriter.of, settings), settings.replay_seed is not None
    if workers is None:
        small = replayed or rows is None or rows < WORTH_WORKERS
        workers = 1 if small or _has_gpu() else min(usable_cores(), MOST_WORKERS)
    check_workers(workers, replayed=replayed)
    return Inline(make) if workers == 1 else Processes(make, workers, (settings.bundle.family.network,))


def _on_ray(settings: Settings, workers: int | None, rows: int | None, address: str | None) -> Engine:
    if settings.replay_seed is not None and workers is None:
        workers = 1
    check_workers(1 if workers is None else workers, replayed=settings.replay_seed is not None)
    return OnRay(partial(Rewriter.of, settings), workers, address)


ENGINES: Mapping[str, Choose] = {"local": _local, "ray": _on_ray}


def choose_engine(
    name: str, settings: Settings, *, workers: int | None = None, rows: int | None = None, address: str | None = None
) -> Engine:
    """The engine of that name.

    Args:
        name: "local" or "ray".
        settings: of the rewriter, which each worker loads itself.
        workers: number of processes or Ray actors; chosen by the number of rows if left out.
        rows: of the input; None if unknown.
        address: the address of a Ray cluster.

    Raises:
        BadParameter: There is no such engine, or it does not accept the other arguments.
    """
    if name not in ENGINES:
        raise BadParameter(f"engine must be one of {', '.join(ENGINES)}, got {name!r}.")
    return ENGINES[name](settings, workers, rows, address)


def _has_gpu() -> bool:
    import torch

    return torch.cuda.is_available()
