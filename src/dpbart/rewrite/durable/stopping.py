"""Ctrl-C between two batches: what is done is made safe first."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Stopped(KeyboardInterrupt):
    """The user stopped the work; the message says what is safe and how to go on."""


@contextmanager
def asked_to_stop() -> Iterator[Callable[[], bool]]:
    """Whether Ctrl-C was pressed. Pressed a second time, it stops at once."""
    if threading.current_thread() is not threading.main_thread():  # others cannot set a handler, nor get the signal
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
