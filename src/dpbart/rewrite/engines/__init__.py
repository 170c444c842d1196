"""The engines by name: "local" rewrites in one or several processes on this machine, "ray" on a cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from dpbart.errors import BadParameter
from dpbart.models.families import family_of
from dpbart.rewrite.chosen import ChosenModel
from dpbart.rewrite.engines.engine import Engine, Inline, Processes, check_workers, usable_cores
from dpbart.rewrite.engines.fork_server import order_of
from dpbart.rewrite.engines.on_ray import OnRay
from dpbart.rewrite.rewriter import Rewriter

WORTH_WORKERS = 500  # rows; below this, starting workers takes about as long as the work itself
MOST_WORKERS = 8  # by default: workers of most models hold the whole model in memory

Choose = Callable[[ChosenModel, int | None, int | None, str | None], Engine]


def _local(chosen: ChosenModel, workers: int | None, rows: int | None, address: str | None) -> Engine:
    """The given number of processes or, by default, as many as are worth their start."""
    if address is not None:
        raise BadParameter(f"an address needs the Ray engine, got {address!r}. Pass --engine ray with it.")
    make, replayed = partial(Rewriter.of, chosen), chosen.settings.replay_seed is not None
    family = family_of(chosen.bundle)
    if workers is None and (replayed or rows is None or rows < WORTH_WORKERS):
        workers = 1
    elif workers is None:
        workers = 1 if family.on_gpu(chosen.bundle, chosen.settings.device) else min(usable_cores(), MOST_WORKERS)
    check_workers(workers, replayed=replayed)
    if workers == 1:
        return Inline(make)
    order = order_of(chosen) if family.forks(chosen.bundle) else None
    return Processes(make, workers, (family.network,), order)


def _on_ray(chosen: ChosenModel, workers: int | None, rows: int | None, address: str | None) -> Engine:
    replayed = chosen.settings.replay_seed is not None
    workers = 1 if replayed and workers is None else workers
    check_workers(1 if workers is None else workers, replayed=replayed)
    return OnRay(partial(Rewriter.of, chosen), workers, address)


ENGINES: Mapping[str, Choose] = {"local": _local, "ray": _on_ray}


def choose_engine(
    name: str, chosen: ChosenModel, *, workers: int | None = None, rows: int | None = None, address: str | None = None
) -> Engine:
    """The engine of that name. The number of rows decides how many workers are worth it, unless `workers` does."""
    if name not in ENGINES:
        raise BadParameter(f"engine must be one of {', '.join(ENGINES)}, got {name!r}.")
    return ENGINES[name](chosen, workers, rows, address)
