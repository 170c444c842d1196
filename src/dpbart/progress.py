"""Progress on standard error: a bar with the rate and the remaining time.

If standard error is not a terminal (a log file, a batch system), a plain line is printed every 30 seconds. The first
one comes 2 seconds after the first piece of work is done, and says how long the rest will take.

Only counts and times are shown. What a code model does with a text takes the same time whatever the text says.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

SECONDS_BETWEEN_LINES = 30.0
SECONDS_TO_FIRST_LINE = 2.0  # after the first piece of work; start-up is over by then and no longer counts
Tell = Callable[[int], None]
_hidden: ContextVar[Tell | None] = ContextVar("hidden", default=None)  # who hears of the work instead of a terminal
_shown_now: ContextVar[Progress | None] = ContextVar("shown_now", default=None)  # a terminal has room for one


@dataclass
class Bar:
    """Counts the work done. `note` adds something short, such as the loss."""

    title: str
    total: int | None
    unit: str
    shown: Progress | None
    line: TaskID | None = None  # of this bar in `shown`
    hidden: Tell | None = None  # hears of the work instead
    start: int = 0  # work done by an earlier, interrupted run
    done: int = 0
    began: float = field(default_factory=time.monotonic)
    last_line: float = field(default_factory=time.monotonic)
    first: tuple[float, int] | None = None  # when the first piece was done, and what was done then
    estimated: bool = False  # whether a line has said how long the rest will take

    def advance(self, amount: int, note: str = "") -> None:
        self.done += amount
        if self.hidden is not None:
            self.hidden(self.done)
            return
        now = time.monotonic()
        self.first = self.first or (now, self.done)
        rate = self._rate(now)
        early = not self.estimated and now - self.first[0] >= SECONDS_TO_FIRST_LINE
        if self.shown is not None and self.line is not None:
            self.shown.update(self.line, completed=self.done, note=note, rate=f"{rate:,.1f} {self.unit}/s")
        elif early or now - self.last_line >= SECONDS_BETWEEN_LINES or self.done == self.total:
            self.last_line, self.estimated = now, True
            print(self._line(rate, note), file=sys.stderr, flush=True)

    def _rate(self, now: float) -> float:
        """Pieces a second: since the first one, as soon as that is long enough ago."""
        since, done = self.first or (now, self.done)
        if now - since < SECONDS_TO_FIRST_LINE:
            since, done = self.began, self.start
        return (self.done - done) / max(now - since, 1e-9)

    def _line(self, rate: float, note: str) -> str:
        of_total = f" of {self.total:,}" if self.total is not None else ""
        left = "" if self.total is None else f", {duration((self.total - self.done) / max(rate, 1e-9))} left"
        return f"{self.title}: {self.done:,}{of_total} {self.unit}, {rate:,.1f}/s{left}{', ' + note if note else ''}"


def duration(seconds: float) -> str:
    """A time in the unit that suits it.

    >>> [duration(seconds) for seconds in (0.2, 45, 450, 40_000, 400_000, 1e9)]
    ['0 s', '45 s', '7.5 min', '11.1 hours', '4.6 days', '31.7 years']
    """
    units = ((60, "s", 1), (3_600, "min", 60), (86_400, "hours", 3_600), (86_400 * 365, "days", 86_400))
    for most, unit, size in units:
        if seconds < most:
            return f"{seconds / size:.{int(size > 1)}f} {unit}"
    return f"{seconds / (86_400 * 365):,.1f} years"


@contextmanager
def hidden_progress(tell: Tell = lambda done: None) -> Iterator[None]:
    """Show no progress inside: a server has its own log, in which no file is counted.

    `tell` hears how much is done, and may raise to stop the work.
    """
    before = _hidden.set(tell)
    try:
        yield
    finally:
        _hidden.reset(before)


@contextmanager
def progress(title: str, *, total: int | None, unit: str, start: int = 0) -> Iterator[Bar]:
    """A bar over `total` pieces of work (None if unknown). Inside another bar, it is a second line."""
    hidden = _hidden.get()
    if hidden is not None:
        yield Bar(title, total, unit, shown=None, hidden=hidden, start=start, done=start)
        return
    # Imported here because it is slow: a mistake in a command is reported sooner.
    from rich import progress as bars
    from rich.console import Console

    console, outer = Console(stderr=True), _shown_now.get()
    if not console.is_terminal:
        yield Bar(title, total, unit, shown=None, start=start, done=start)
        return
    columns = (
        bars.TextColumn("{task.description}"),
        bars.BarColumn(),
        bars.MofNCompleteColumn(),
        bars.TextColumn("{task.fields[rate]}"),
        bars.TimeElapsedColumn(),
        bars.TimeRemainingColumn(),
        bars.TextColumn("{task.fields[note]}"),
    )
    with bars.Progress(*columns, console=console) if outer is None else nullcontext(outer) as shown:
        line, before = shown.add_task(title, total=total, completed=start, note="", rate=""), _shown_now.set(shown)
        try:
            yield Bar(title, total, unit, shown=shown, line=line, start=start, done=start)
        finally:
            _shown_now.reset(before)
            if outer is not None:
                shown.remove_task(line)
