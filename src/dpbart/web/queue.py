"""One thread does the work of all requests: it takes what is waiting for the same model and budget as one batch.

So many callers with one text each are as fast as one caller with many texts. A batch of a few texts often takes as long
as a full one, so callers who were just answered get a moment to come back. The models are used by this thread only.

A request with more texts than a batch is cut: after each batch, the rest of it waits behind all others. It is recorded
and answered as a whole, after its last batch. Until then its future can be cancelled, and then nothing more is done for
it and nobody is charged.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import islice
from typing import Any

from dpbart.errors import BadLedger, DpbartError
from dpbart.options.settings import Settings
from dpbart.rewrite.chosen import ChosenModel
from dpbart.rewrite.rewriter import Rewriter, Rewriting
from dpbart.web.guard import Problem, busy
from dpbart.web.releases import Charge, Recorder

LOADED = 4  # rewriters that are kept in memory
STOP_SECONDS = 20.0  # that the end of the server waits for a batch
_MOST_SEARCHED = 320  # texts times beams in a batch: memory and time grow with both
_MOMENT = 0.1  # of the time of the last batch: how long the next one may wait for callers to come back

Load = Callable[[ChosenModel], Rewriter]


@dataclass(eq=False)
class Pending:
    """Texts in the queue. Their future gets the new texts, the body of an answer, or the error."""

    chosen: ChosenModel
    texts: Sequence[str] = field(repr=False)
    charge: Charge | None = None  # recorded before the answer; None if somebody else records it
    answer: Future[Any] = field(default_factory=Future)  # a body if there is a charge, or else a Rewriting
    taken: int = 0  # texts that are or were in a batch
    done: list[Rewriting] = field(default_factory=list, repr=False)  # of each batch so far

    @property
    def left(self) -> int:
        """The number of texts that are still to be taken."""
        return len(self.texts) - self.taken

    def take(self, most: int) -> Sequence[str]:
        """The next texts, at most so many."""
        before, self.taken = self.taken, min(self.taken + most, len(self.texts))
        return self.texts[before : self.taken]

    def whole(self) -> Rewriting:
        """All its new texts."""
        return replace(self.done[-1], texts=tuple(text for part in self.done for text in part.texts))

    def fail(self, error: BaseException) -> None:
        """Tell whoever waits, if anybody still does."""
        if not self.answer.done() and (self.answer.running() or self.answer.set_running_or_notify_cancel()):
            self.answer.set_exception(error)


Batch = Sequence[tuple[Pending, Sequence[str]]]  # all or some texts of each


def texts_of_a_batch(settings: Settings) -> int:
    """How many texts are rewritten at once. With many beams, a text is as much work as several."""
    if settings.beams is None:
        return settings.batch_size
    return max(1, min(settings.batch_size, _MOST_SEARCHED // settings.beams))


@dataclass(frozen=True)
class _Last:
    """The last batch."""

    chosen: ChosenModel
    callers: int  # whom it answered, or who waited for the same rewriter when it ended: all may wait soon
    until: float  # when the next batch waits for them no more, by the clock of `time.monotonic`


class Batcher:
    """A queue, and the thread that empties it."""

    def __init__(
        self,
        releases: Recorder,
        *,
        load: Load = Rewriter.of,
        most_waiting: int = 4_000,
        tell: Callable[[int, float], None] = lambda texts, seconds: None,
    ) -> None:
        """`tell` hears of each batch: how many texts it had, and how many seconds it took."""
        self._releases, self._most, self._tell = releases, most_waiting, tell
        self._rewriter = lru_cache(LOADED)(load)
        self._waiting: deque[Pending] = deque()
        self._batch: Batch = ()  # that is being rewritten
        self._changed = threading.Condition()
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

    def submit(self, chosen: ChosenModel, texts: Sequence[str], charge: Charge) -> Future[str]:
        """Put the texts of a request into the queue. They are recorded before the body of the answer is there.

        Raises Problem 429 if too many texts wait already.
        """
        with self._changed:
            waiting = sum(work.left for work in self._unanswered())
            if waiting and waiting + len(texts) > self._most:
                raise busy(f"{waiting:,} texts are waiting.")
            return self._put(Pending(chosen, texts, charge)).answer

    def submit_uncharged(self, chosen: ChosenModel, texts: Sequence[str]) -> Future[Rewriting]:
        """Put public texts into the queue, or a batch of a file job, which records its texts itself."""
        with self._changed:
            return self._put(Pending(chosen, texts)).answer

    def waiting(self) -> int:
        """How many requests, and batches of file jobs, are not answered yet."""
        with self._changed:
            return len(self._unanswered())

    def _unanswered(self) -> list[Pending]:
        taken = [work for work, _ in self._batch]
        return [work for work in (*self._waiting, *taken) if not work.answer.done()]

    def _put(self, work: Pending) -> Pending:
        self._waiting.append(work)
        self._changed.notify()
        return work

    def _run(self) -> None:
        while not self._closed:
            batch = self._take()
            try:
                if batch:
                    self._rewrite(batch)
            except BaseException as error:  # the thread must go on: others wait
                for work, _ in batch:
                    work.fail(error)
            self._put_back()

    def _take(self) -> Batch:
        """The oldest work, and what else is waiting for the same rewriter, up to a batch of texts; none at the end."""
        with self._changed:
            while not self._is_work_waiting() and not self._closed:
                self._changed.wait()
            self._gather()
            if self._closed or not self._is_work_waiting():
                return ()
            first = self._waiting[0].chosen
            room, taken, left = (
                texts_of_a_batch(first.settings),
                list[tuple[Pending, Sequence[str]]](),
                deque[Pending](),
            )
            for work in self._waiting:
                # Only the oldest is cut. The others are answered sooner if they are not.
                if work.chosen == first and (work.left <= room or not taken):
                    taken.append((work, work.take(room)))
                    room -= len(taken[-1][1])
                else:
                    left.append(work)
            self._waiting, self._batch = left, taken
            return taken

    def _is_work_waiting(self) -> bool:
        """Whether anything is to be done. What nobody waits for any more is dropped."""
        self._waiting = deque(work for work in self._waiting if not work.answer.done())
        return bool(self._waiting)

    def _put_back(self) -> None:
        """What is left of the work of the last batch waits behind all others."""
        with self._changed:
            self._waiting.extend(work for work, _ in self._batch if work.left and not work.answer.done())
            self._batch = ()

    def _gather(self) -> None:
        """Wait briefly for callers who were just answered, unless a batch is full."""
        last = self._last
        if last is None or not self._waiting or self._waiting[0].chosen != last.chosen:
            return
        while not self._closed and not self._is_enough(last) and time.monotonic() < last.until:
            self._changed.wait(last.until - time.monotonic())

    def _is_enough(self, last: _Last) -> bool:
        """Whether everybody is back, or a batch is full."""
        waiting = [work for work in self._waiting if work.chosen == last.chosen]
        most = texts_of_a_batch(last.chosen.settings)
        return len(waiting) >= last.callers or sum(work.left for work in waiting) >= most

    def _remember(self, chosen: ChosenModel, *, seconds: float) -> None:
        """Before anybody is answered: whoever comes back must not count twice."""
        with self._changed:
            callers = sum(work.chosen == chosen for work in self._unanswered())
        self._last = _Last(chosen, callers, time.monotonic() + _MOMENT * seconds)

    def _rewrite(self, batch: Batch) -> None:
        """Check, rewrite and, if it is the last of a request, record and release."""
        batch = [(work, texts) for work, texts in batch if self._is_paid(work)]
        if not batch:
            return
        chosen, began = batch[0][0].chosen, time.monotonic()
        rewriting = self._rewriter(chosen).rewrite([text for _, texts in batch for text in texts])
        new = iter(rewriting.texts)
        for work, texts in batch:
            work.done.append(replace(rewriting, texts=tuple(islice(new, len(texts)))))
        # From here on it cannot be cancelled: whoever is charged is answered.
        ended = [work for work, _ in batch if not work.left and work.answer.set_running_or_notify_cancel()]
        outcomes = self._releases.record([(work.charge, work.whole()) for work in ended if work.charge is not None])
        seconds = time.monotonic() - began
        self._remember(chosen, seconds=seconds)
        self._tell(len(rewriting.texts), seconds)
        for work in ended:
            outcome = work.whole() if work.charge is None else outcomes[work.charge]
            if isinstance(outcome, DpbartError | Problem):
                work.fail(outcome)
            else:
                work.answer.set_result(outcome)

    def _is_paid(self, work: Pending) -> bool:
        """Whether the budget allows it, as far as is known now. If not, whoever waits is told."""
        try:
            if work.charge is not None and not work.done:
                self._releases.check(work.charge)
        except BadLedger:
            raise  # for the whole batch: to ask again for each of them could take a minute each
        except DpbartError as error:
            work.fail(error)
            return False
        return True
