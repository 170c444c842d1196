"""Ctrl-C stops a run between two batches, after the finished texts are saved."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from dpbart.tables.standard import STANDARD


class Stopped(KeyboardInterrupt):
    """The user stopped the run; the message says what is saved and how to continue."""


@contextmanager
def asked_to_stop() -> Iterator[Callable[[], bool]]:
    """A function that says whether Ctrl-C was pressed. A second Ctrl-C stops at once."""
    if threading.current_thread() is not threading.main_thread():  # other threads cannot set a handler
        yield lambda: False
        return
    pressed = False

    def press(*_: object) -> None:
        nonlocal pressed
        if pressed:
            raise KeyboardInterrupt
        pressed = True

    before = signal.signal(signal.SIGINT, press)
    try:
        yield lambda: pressed
    finally:
        signal.signal(signal.SIGINT, before)


def how_to_resume(done: int, rows: int | None, source: Path) -> str:
    """What is saved when a run is stopped, and how to continue."""
    if source == STANDARD:
        return "Stopped. Standard input cannot be read again: nothing was written."
    of = "" if rows is None else f" of {rows:,}"
    return f"Stopped. {done:,}{of} texts are saved. To continue, give the same command with --resume."
