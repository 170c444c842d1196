"""Loads the rewriter of a run once, in the server that workers are forked from, so that they share its memory.

`multiprocessing` tells its server which modules to import, and nothing else. So it is the import of this module that
loads a rewriter, if the environment holds an order. The driver sets the order only while it starts the server.

A rewriter that was loaded before a fork is the same in all workers, but for its randomness: that comes from the
operating system, word by word, and nothing of it is kept in a process (`SystemEntropy`). Its model must have started no
threads, because they do not survive a fork (`Family.forks`).

If nothing can be loaded here, or if a later run of the same driver needs another model, each worker loads its own.
"""

from __future__ import annotations

import gc
import json
import multiprocessing.forkserver
import os
from collections.abc import Sequence

from dpbart.errors import DpbartError
from dpbart.options.settings import Settings
from dpbart.rewrite.chosen import ChosenModel
from dpbart.rewrite.rewriter import Rewriter

ORDER = "DPBART_FORK_SERVER"  # in the environment


def order_of(chosen: ChosenModel) -> str:
    """What to load, and which version of its files: other files are another order."""
    return json.dumps([chosen.settings.model_dump(), chosen.bundle.stamps])


def start_server(preload: Sequence[str], order: str | None) -> None:
    """Start the server that forks the workers, unless it runs already.

    Args:
        preload: modules that every worker needs.
        order: of the rewriter that it loads; None if workers load their own.
    """
    multiprocessing.get_context("forkserver").set_forkserver_preload([__name__, *preload])
    if order is not None:
        os.environ[ORDER] = order
    try:
        multiprocessing.forkserver.ensure_running()
    finally:
        os.environ.pop(ORDER, None)


def loaded(order: str | None) -> Rewriter | None:
    """The rewriter that was loaded before this process was forked, if it was this one."""
    return _rewriter if order is not None and order == _order else None


def _load(order: str) -> Rewriter | None:
    settings, _ = json.loads(order)
    lists = {name: tuple(value) for name, value in settings.items() if isinstance(value, list)}
    try:
        rewriter = Rewriter.of(ChosenModel(Settings(**{**settings, **lists})))
    except DpbartError:  # workers will try again, and say why
        return None
    gc.freeze()  # the garbage collector writes to what it looks at, and written memory is no longer shared
    return rewriter


_order = os.environ.pop(ORDER, None)
_rewriter = None if _order is None else _load(_order)
