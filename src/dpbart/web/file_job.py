"""One file job: its files, where it stands, how it runs, and what a client hears about it."""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from dpbart.errors import DpbartError
from dpbart.privacy.card.recomputed import guarantee_of
from dpbart.rewrite import shuffle
from dpbart.rewrite.durable.stopping import Stopped
from dpbart.rewrite.engines.engine import Answers, Some, ended
from dpbart.rewrite.job import plan
from dpbart.rewrite.notices import notices
from dpbart.rewrite.rewriter import Rewriting
from dpbart.rewrite.settings import Settings
from dpbart.web.batching import Batcher
from dpbart.web.figures import guarantee_json
from dpbart.web.job_folder import CANCELLED, DONE, RUNNING, JobFolder, Record
from dpbart.web.job_options import request_of
from dpbart.web.limits import Limits
from dpbart.web.place import Place
from dpbart.web.problems import Problem
from dpbart.web.rewritten import ENGINE

_IN_FLIGHT = 2  # batches: one being rewritten, one waiting


@dataclass
class FileJob:
    """A job: its files, where it stands, and whether it should stop."""

    folder: JobFolder
    record: Record
    done: int = 0  # rows
    stop: threading.Event = field(default_factory=threading.Event)

    _saving: threading.Lock = field(default_factory=threading.Lock)
    _removed: bool = False

    def change(self, status: str, **more: Any) -> None:
        """Take the next step, and save it."""
        with self._saving:
            self.record = replace(self.record, status=status, **more)
            if not self._removed:
                self.folder.save(self.record)

    def cancel(self) -> None:
        """Stop after the current batch, also if the server is killed before the batch ends."""
        self.stop.set()
        with self._saving, suppress(DpbartError):  # a full disk; until a restart, memory knows it
            if self.record.status == RUNNING:
                self.folder.save(replace(self.record, status=CANCELLED, ended=time.time()))

    def remove(self) -> None:
        """Delete its files. Nothing is saved any more."""
        with self._saving:
            self._removed = True
            self.folder.remove()

    @property
    def result_name(self) -> str:
        """The name under which the result is saved, such as notes.private.csv."""
        return self.folder.result_name(self.record.name)

    def problem(self, error: DpbartError) -> Problem:
        """Why it failed, without any path of this server."""
        problem = Problem.of(error)
        return replace(problem, detail=self.folder.in_words(problem.detail, self.record.name))

    def expires(self, limits: Limits) -> float | None:
        """When its files are deleted; None while it waits or runs."""
        if self.record.ended is None:
            return None
        last = self.record.ended + limits.job_seconds
        return last if self.record.downloaded is None else min(last, self.record.downloaded + limits.downloaded_seconds)

    def check_going(self) -> None:
        """Raises Stopped if it was cancelled."""
        if self.stop.is_set():
            raise Stopped("cancelled")

    def rewrite(self, batcher: Batcher, place: Place, offered: Callable[[Settings], Settings], limits: Limits) -> None:
        """Rewrite the whole file, or what is left of it.

        Args:
            batcher: rewrites the texts.
            place: where they are recorded, and what signs the card.
            offered: refuses a model that the server does not offer.
            limits: what reading the file may cost.

        Raises:
            Stopped: It was cancelled.
        """
        request, settings = request_of(self.folder, self.record.options, place)
        request = replace(request, bounds=limits.bounds(self.check_going))
        settings = offered(shuffle.with_local_epsilon(request, offered(settings)))
        planned = plan(request, settings.described)
        read = [] if request.reading is None else [f"{self.record.name} is read as {request.reading}."]
        self.change(RUNNING, rows=planned.rows, notices=[*read, *notices(planned)])
        planned.run(Queued(batcher, settings, self))


@dataclass(frozen=True)
class Queued:
    """The engine of file jobs: their batches wait in the same queue as the texts of requests."""

    batcher: Batcher
    settings: Settings
    job: FileJob

    @property
    def name(self) -> str:
        return ENGINE

    def map(self, batches: Iterable[Some]) -> Answers[Some]:
        waiting: deque[tuple[Some, Future[Rewriting]]] = deque()
        for batch in ended(batches):
            self.job.check_going()
            if batch is not None:
                waiting.append((batch, self.batcher.submit_uncharged(self.settings, batch.texts())))
            while waiting and (batch is None or len(waiting) >= _IN_FLIGHT):
                first, answer = waiting.popleft()
                yield first, answer.result()
                self.job.done = waiting[0][0].first - 1 if waiting else self.job.record.rows or 0


def job_json(job: FileJob, limits: Limits) -> dict[str, Any]:
    """What a client hears about a job."""
    record, base = job.record, f"/v1/jobs/{job.record.id}"
    is_done = record.status == DONE
    return {
        "id": record.id,
        "name": record.name,
        "status": record.status,
        "rows": record.rows,
        "done": record.rows if is_done else job.done,
        "created": record.created,
        "ended": record.ended,
        "expires": job.expires(limits),
        "notices": list(record.notices),
        "problem": record.problem,
        **_guarantees(job.folder if is_done else None),
        "result": f"{base}/result" if is_done else None,
        "card": f"{base}/card.json" if is_done else None,
    }


def _guarantees(done: JobFolder | None) -> dict[str, Any]:
    """What the card of a finished job promises: for one text, and to those who see only a shuffled output."""
    told: dict[str, Any] = {"guarantee": None, "shuffled": None}
    with suppress(OSError, ValueError, KeyError):
        if done is not None:
            card = json.loads(done.card("json").read_text(encoding="utf-8"))
            told["guarantee"] = guarantee_json(guarantee_of(card["guarantee"]))
            if card["shuffled"] is not None:
                told["shuffled"] = guarantee_json(guarantee_of(card["shuffled"]["guarantee"]))
    return told
