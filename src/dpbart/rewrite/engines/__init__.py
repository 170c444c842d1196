"""Where batches are rewritten: in this process, in several, or on Ray."""

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

WORTH_WORKERS = 2000  # rows; below, loading a model in every worker takes longer than the work
MOST_WORKERS = 8  # by default: every one holds the model

Choose = Callable[[Settings, int | None, int | None, str | None], Engine]


def _local(settings: Settings, workers: int | None, rows: int | None, address: str | None) -> Engine:
    """As many processes as asked for, or as are worth it."""
    if address is not None:
        raise BadParameter(f"an address must be one of a Ray cluster, got {address!r}. Pass --engine ray with it.")
    make, replayed = partial(Rewriter.of, settings), settings.replay_seed is not None
    if workers is None:
        small = replayed or rows is None or rows < WORTH_WORKERS
        workers = 1 if small or _has_gpu() else min(usable_cores(), MOST_WORKERS)
    check_workers(workers, replayed=replayed)
    return Inline(make) if workers == 1 else Processes(make, workers)


def _on_ray(settings: Settings, workers: int | None, rows: int | None, address: str | None) -> Engine:
    check_workers(workers or 2, replayed=settings.replay_seed is not None)
    return OnRay(partial(Rewriter.of, settings), workers, address)


ENGINES: Mapping[str, Choose] = {"local": _local, "ray": _on_ray}


def choose_engine(
    name: str, settings: Settings, *, workers: int | None = None, rows: int | None = None, address: str | None = None
) -> Engine:
    """The engine of that name.

    Args:
        name: "local" or "ray".
        settings: of the rewriter, which every worker loads for itself.
        workers: processes or actors; what is worth it by default.
        rows: of the input; None where the number is not known.
        address: of a Ray cluster.

    Raises:
        BadParameter: There is no such engine, or the other arguments do not fit it.
    """
    if name not in ENGINES:
        raise BadParameter(f"engine must be one of {', '.join(ENGINES)}, got {name!r}.")
    return ENGINES[name](settings, workers, rows, address)


def _has_gpu() -> bool:
    import torch

    return torch.cuda.is_available()
