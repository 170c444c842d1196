"""Interruptions, for the tests of every training."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest

from dpbart.prepare import training
from dpbart.prepare.training import Ids, TextOrder

Stop = Callable[[int], AbstractContextManager[None]]


@contextmanager
def _stopped_at(number: int) -> Iterator[None]:
    real, asked = TextOrder.rows, list[int]()

    def rows(self: TextOrder, step: int) -> Ids:
        asked.append(step)
        if len(asked) == number:
            raise KeyboardInterrupt
        return real(self, step)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(training, "STEPS_BETWEEN_SAVES", 2)
        patched.setattr(TextOrder, "rows", rows)
        with pytest.raises(KeyboardInterrupt):
            yield


@pytest.fixture
def stopped_at() -> Stop:
    """Interrupts a training at the given step of its run, counted from 1. The state is saved every 2 steps."""
    return _stopped_at
