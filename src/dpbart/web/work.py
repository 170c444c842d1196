"""What a file job does, by its kind: rewrite each text of the file, or release the collection as a whole."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Protocol

from dpbart.collect.describe import ChosenBook
from dpbart.collect.synthesize import check_format, plan_collection
from dpbart.options.collecting import CollectionBudget, CollectionRequest
from dpbart.options.declare import from_flat
from dpbart.options.rewriting import Request
from dpbart.options.settings import Settings
from dpbart.privacy.guarantee import exactly
from dpbart.progress import hidden_progress
from dpbart.rewrite import shuffle
from dpbart.rewrite.account import Account
from dpbart.rewrite.chosen import ChosenModel
from dpbart.rewrite.engines.engine import Answers, Some, ended
from dpbart.rewrite.job import plan
from dpbart.rewrite.notices import notices
from dpbart.rewrite.plan import Outline
from dpbart.rewrite.rewriter import Rewriting
from dpbart.web.bodies import CollectionOptions, Expected, Fields, JobOptions
from dpbart.web.figures import worst_json
from dpbart.web.guard import Limits
from dpbart.web.job import ASKING, RUNNING, FileJob, JobFolder, Place
from dpbart.web.queue import Batcher
from dpbart.web.releases import ENGINE

_IN_FLIGHT = 2  # batches: one being rewritten, one waiting
_PERSON = "all texts of one person"


class Asking(Exception):
    """A job waits for somebody to say that it may go on."""


class Work(Protocol):
    """One kind of job."""

    def check(self, folder: JobFolder, options: Fields) -> None:
        """Refuse options that contradict each other or the server, before the file is there."""

    def run(self, job: FileJob) -> None:
        """Do the whole job, or what is left of it.

        Raises:
            Stopped: It was cancelled.
            Asking: Somebody should read something first. Nothing is spent yet.
        """


@dataclass(frozen=True)
class EachText:
    """Rewrites the texts of a file one by one. Their batches wait in the same queue as the texts of requests."""

    batcher: Batcher
    place: Place
    limits: Limits
    offered: Callable[[Settings], ChosenModel]  # refuses a model that the server does not offer

    def check(self, folder: JobFolder, options: Fields) -> None:
        request, settings = self._request(folder, options)
        Outline.of(request)  # refuses what contradicts the formats
        shuffle.check_budget(request, self.offered(settings).settings)

    def run(self, job: FileJob) -> None:
        request, settings = self._request(job.folder, job.record.options)
        bounds = self.limits.bounds(job.check_going)
        chosen = self.offered(shuffle.with_local_epsilon(request, self.offered(settings).settings, bounds))
        planned = plan(request, chosen.described, bounds=bounds)
        expected = from_flat(Expected, JobOptions(**job.record.options).given()).expected_epsilon
        is_weaker = expected is not None and planned.account.composed.epsilon > exactly(expected)
        told = {"rows": planned.rows, "worst": worst_json(planned.account)}
        _tell(job, notices(planned), told, planned.account, asks=is_weaker)
        planned.run(Queued(self.batcher, chosen, job))

    def _request(self, folder: JobFolder, options: Fields) -> tuple[Request, Settings]:
        given = JobOptions(**options).given()
        return from_flat(Request, {**given, **_files(folder, self.place)}), from_flat(Settings, given)


@dataclass(frozen=True)
class Whole:
    """Releases the collection in a file as a whole: noised counts, and new rows drawn from them."""

    place: Place
    limits: Limits
    offered: Callable[[CollectionBudget], ChosenBook]  # refuses a model that the server does not offer, or has no book

    def check(self, folder: JobFolder, options: Fields) -> None:
        request, budget = self._request(folder, options)
        check_format(request)
        self.offered(budget)

    def run(self, job: FileJob) -> None:
        request, budget = self._request(job.folder, job.record.options)
        self.offered(budget)
        planned = plan_collection(request, budget, bounds=self.limits.bounds(job.check_going))
        told = {"rows": planned.voters.rows, "worst": {**worst_json(planned.account), "words": _PERSON}}
        _tell(job, planned.notices, told, planned.account, asks=planned.terms.warning is not None)

        def reading(rows: int) -> None:
            job.done = rows
            job.check_going()

        with hidden_progress(reading):
            planned.run()

    def _request(self, folder: JobFolder, options: Fields) -> tuple[CollectionRequest, CollectionBudget]:
        given = CollectionOptions(**options).given()
        request = from_flat(CollectionRequest, {**given, **_files(folder, self.place)})
        return request, from_flat(CollectionBudget, given)


def _files(folder: JobFolder, place: Place) -> dict[str, object]:
    """The files of a job and of the server. A client names none of them."""
    own = {"source": folder.source, "target": folder.target, "resume": True}
    return {**own, "ledger": place.ledger, "sign_key": place.sign_key}


def _tell(job: FileJob, lines: Iterable[str], told: dict[str, Any], account: Account, *, asks: bool) -> None:
    """Say what a job will do. If it asks, it ends here until somebody has answered."""
    told["notices"] = [job.folder.in_words(line, job.record.name) for line in lines]
    if asks and not job.record.accepted:
        account.close()
        job.change(ASKING, ended=time.time(), **told)
        raise Asking
    job.change(RUNNING, **told)


@dataclass(frozen=True)
class Queued:
    """The engine of jobs that rewrite."""

    batcher: Batcher
    chosen: ChosenModel
    job: FileJob
    name: str = ENGINE

    def map(self, batches: Iterable[Some]) -> Answers[Some]:
        waiting: deque[tuple[Some, Future[Rewriting]]] = deque()
        try:
            for batch in ended(batches):
                self.job.check_going()
                if batch is not None:
                    waiting.append((batch, self.batcher.submit_uncharged(self.chosen, batch.texts())))
                while waiting and (batch is None or len(waiting) >= _IN_FLIGHT):
                    first, answer = waiting.popleft()
                    yield first, answer.result()
                    self.job.done = waiting[0][0].first - 1 if waiting else self.job.record.rows or 0
        finally:
            for _, answer in waiting:  # if the job has stopped, nobody wants them
                answer.cancel()
