"""One thread does the work of all requests: it takes what is waiting for the same model and budget as one batch.

So many callers with one text each are as fast as one caller with many texts. A batch of a few texts often takes as long
as a full one, so callers who were just answered get a moment to come back. The models are used by this thread only.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from dpbart.errors import BadLedger, DpbartError
from dpbart.rewrite.rewriter import Rewriter, Rewriting
from dpbart.rewrite.settings import Settings
from dpbart.web.problems import Problem, busy
from dpbart.web.releases import Charge, Releases

LOADED = 4  # rewriters that are kept in memory
STOP_SECONDS = 20.0  # that the end of the server waits for a batch
_MOMENT = 0.1  # of the time of the last batch: how long the next one may wait for callers to come back

Load = Callable[[Settings], Rewriter]


@dataclass(frozen=True, eq=False)
class Work:
    """Texts that wait for one rewriter. Whoever waits gets the new texts, the body of an answer, or the error."""

    settings: Settings
    texts: Sequence[str] = field(repr=False)
    charge: Charge | None = None  # recorded before the answer; None if somebody else records it
    answer: Future[Any] = field(default_factory=Future)  # a body if there is a charge, or else a Rewriting


@dataclass(frozen=True)
class _Last:
    """The last batch.

    Attributes:
        settings: of its rewriter.
        callers: those whom it answered, and those who waited for the same rewriter when it ended. All may wait soon.
        until: how long the next batch may wait for them, by the clock of `time.monotonic`.
    """

    settings: Settings
    callers: int
    until: float


class Batcher:
    """A queue, and the thread that empties it."""

    def __init__(self, releases: Releases, *, load: Load = Rewriter.of, most_waiting: int = 4_000) -> None:
        self._releases, self._load, self._most = releases, load, most_waiting
        self._waiting: deque[Work] = deque()
        self._changed = threading.Condition()
        self._rewriters: OrderedDict[Settings, Rewriter] = OrderedDict()
        self._texts = 0  # that wait
        self._last: _Last | None = None
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="dpbart-rewriter", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread after its batch. A process that ends in the middle of a batch is aborted by torch."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join(STOP_SECONDS)

    def submit(self, settings: Settings, texts: Sequence[str], charge: Charge) -> Future[str]:
        """Put the texts of a request into the queue. They are recorded before they are answered.

        Returns:
            The body of the answer, when it is there.

        Raises:
            Problem: 429, because too many texts wait already.
        """
        with self._changed:
            if self._texts and self._texts + len(texts) > self._most:
                raise busy(f"{self._texts:,} texts are waiting.")
            return self._put(Work(settings, texts, charge)).answer

    def submit_uncharged(self, settings: Settings, texts: Sequence[str]) -> Future[Rewriting]:
        """Put public texts into the queue, or a batch of a file job, which records its texts itself."""
        with self._changed:
            return self._put(Work(settings, texts)).answer

    def _put(self, work: Work) -> Work:
        self._waiting.append(work)
        self._texts += len(work.texts)
        self._changed.notify()
        return work

    def _run(self) -> None:
        while not self._closed:
            batch = [work for work in self._take() if work.answer.set_running_or_notify_cancel()]
            try:
                if batch:
                    self._rewrite(batch)
            except BaseException as error:  # the thread must go on: others wait
                for work in batch:
                    if not work.answer.done():
                        work.answer.set_exception(error)

    def _take(self) -> list[Work]:
        """The oldest work, and what else is waiting for the same rewriter, up to a batch of texts; none at the end."""
        with self._changed:
            while not self._waiting and not self._closed:
                self._changed.wait()
            self._gather()
            if self._closed:
                return []
            first = self._waiting.popleft()
            taken, left, texts = [first], deque[Work](), len(first.texts)
            for work in self._waiting:
                if work.settings == first.settings and texts + len(work.texts) <= first.settings.batch_size:
                    taken.append(work)
                    texts += len(work.texts)
                else:
                    left.append(work)
            self._waiting, self._texts = left, self._texts - texts
            return taken

    def _gather(self) -> None:
        """Wait a moment for callers who were just answered, unless there is a batch of texts already."""
        last = self._last
        if last is None or not self._waiting or self._waiting[0].settings != last.settings:
            return
        while not self._closed and not self._is_enough(last) and time.monotonic() < last.until:
            self._changed.wait(last.until - time.monotonic())

    def _is_enough(self, last: _Last) -> bool:
        """Whether everybody is back, or a batch is full."""
        waiting = self._waiting_for(last.settings)
        return len(waiting) >= last.callers or sum(len(work.texts) for work in waiting) >= last.settings.batch_size

    def _remember(self, batch: Sequence[Work], *, seconds: float) -> None:
        """Before it is answered: whoever comes back must not count twice. One caller may have had many batches."""
        settings, texts = batch[0].settings, sum(len(work.texts) for work in batch)
        with self._changed:
            callers = len(batch) + len(self._waiting_for(settings))
        share = _MOMENT * min(1.0, settings.batch_size / texts)
        self._last = _Last(settings, callers, time.monotonic() + share * seconds)

    def _waiting_for(self, settings: Settings) -> list[Work]:
        return [work for work in self._waiting if work.settings == settings]

    def _rewrite(self, batch: Sequence[Work]) -> None:
        """Check, rewrite, record, release."""
        batch = [work for work in batch if self._is_paid(work)]
        if not batch:
            return
        rewriter, began = self._rewriter(batch[0].settings), time.monotonic()
        rewriting = rewriter.rewrite([text for work in batch for text in work.texts])
        new = iter(rewriting.texts)
        parts = [replace(rewriting, texts=tuple(islice(new, len(work.texts)))) for work in batch]
        charged = [(work.charge, part) for work, part in zip(batch, parts, strict=True) if work.charge is not None]
        outcomes = self._releases.record(charged)
        self._remember(batch, seconds=time.monotonic() - began)
        for work, part in zip(batch, parts, strict=True):
            outcome = part if work.charge is None else outcomes[work.charge]
            if isinstance(outcome, DpbartError | Problem):
                work.answer.set_exception(outcome)
            else:
                work.answer.set_result(outcome)

    def _is_paid(self, work: Work) -> bool:
        """Whether the budget allows it, as far as is known now. If not, whoever waits is told."""
        try:
            if work.charge is not None:
                self._releases.check(work.charge)
        except BadLedger:
            raise  # for the whole batch: to ask again for each of them could take a minute each
        except DpbartError as error:
            work.answer.set_exception(error)
            return False
        return True

    def _rewriter(self, settings: Settings) -> Rewriter:
        if settings not in self._rewriters:
            self._rewriters[settings] = self._load(settings)
        self._rewriters.move_to_end(settings)
        while len(self._rewriters) > LOADED:
            self._rewriters.popitem(last=False)
        return self._rewriters[settings]
