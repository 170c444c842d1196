"""File jobs: one after the other, in a thread of their own, and durable: a killed server continues them.

Another thread deletes what is too old, however long a job takes.
"""

from __future__ import annotations

import hmac
import re
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace

from dpbart.errors import BadTable, DpbartError, one_line
from dpbart.progress import hidden_progress
from dpbart.rewrite.durable.unfinished import Stopped
from dpbart.web.bodies import Fields
from dpbart.web.guard import Limits, Problem, busy, logger
from dpbart.web.job import (
    ASKING,
    CANCELLED,
    DONE,
    FAILED,
    RUNNING,
    WAITING,
    FileJob,
    JobFolder,
    JobRecord,
    Place,
)
from dpbart.web.queue import STOP_SECONDS
from dpbart.web.releases import reused
from dpbart.web.work import Asking, Work

_ID = re.compile(r"[0-9a-f]{32}")


class Jobs:
    """All jobs of a server."""

    def __init__(
        self,
        kinds: Mapping[str, Work],
        *,
        place: Place,
        limits: Limits,
        sweep: Callable[[], None],
    ) -> None:
        """Take up the jobs that a former server has left.

        `kinds` do the work; `sweep` deletes whatever else is too old.
        """
        self._folder, self._kinds, self._limits = place.state / "jobs", kinds, limits
        self._folder.mkdir(mode=0o700, exist_ok=True)
        self._sweep_others = sweep
        self._changed = threading.Condition()
        self._jobs: dict[str, FileJob] = {}
        self._queue: deque[FileJob] = deque()
        self._closed = False
        self._left: set[str] = set()  # ids of jobs that the next server continues
        self._take_up()
        self._thread = threading.Thread(target=self._run, name="dpbart-jobs", daemon=True)
        self._thread.start()
        threading.Thread(target=self._sweep_on, name="dpbart-sweep", daemon=True).start()

    def stop(self) -> None:
        """Stop the running job after its batch, and leave all jobs to the next server."""
        with self._changed:
            if self._closed:
                return
            self._closed = True
            self._left = {id for id, job in self._jobs.items() if not job.stop.is_set()}
            for job in self._jobs.values():
                job.stop.set()
            self._changed.notify()

    def close(self) -> None:
        """Stop, and wait for the end of the batch."""
        self.stop()
        self._thread.join(STOP_SECONDS)

    def _take_up(self) -> None:
        found = []
        ours = [path for path in self._folder.iterdir() if _ID.fullmatch(path.name)]  # anything else is not touched
        for path in ours:
            try:
                found.append(FileJob(*JobFolder.open(path)))
            except (OSError, ValueError, TypeError, DpbartError):  # an upload that was never complete
                JobFolder(path, "").remove()
        for job in sorted(found, key=lambda each: each.record.created):
            self._jobs[job.record.id] = job
            if job.record.status in (WAITING, RUNNING):
                self._queue.append(job)

    def known(self, id: str, kind: str, name: str, options: Fields, file_hmac: str | None) -> FileJob | None:
        """The job of an earlier request with this Idempotency-Key. Raises Problem if it had another kind, name, file
        or options."""
        job = self._jobs.get(id)
        if job is None:
            return None
        same_file = hmac.compare_digest(job.record.file_hmac or "", file_hmac or "")
        if not same_file or (job.record.kind, job.record.name, job.record.options) != (kind, name, options):
            raise reused()
        return job

    def create(self, id: str, kind: str, name: str, options: Fields, file_hmac: str | None) -> FileJob:
        """A folder for a new job; `start` it when its input is there. Raises Problem 429 if there are too many."""
        with self._changed:
            if len(self._queue) >= self._limits.jobs or len(self._jobs) >= self._limits.kept_jobs:
                raise busy(f"{len(self._queue)} file jobs are waiting, and {len(self._jobs)} are kept.")
        try:
            folder = JobFolder.create(self._folder, id, name)
        except FileExistsError:
            raise Problem(409, "job-arriving", "another request with this Idempotency-Key is being answered.") from None
        try:
            self._kinds[kind].check(folder, options)
        except BaseException:
            folder.remove()
            raise
        return FileJob(folder, JobRecord(id, name, options, WAITING, time.time(), file_hmac=file_hmac, kind=kind))

    def start(self, job: FileJob, *, accepted: bool = False) -> None:
        """Put a job into the queue. Raises Problem 507 if it cannot be saved, perhaps because the disk is full."""
        before = job.record
        try:
            job.change(WAITING, ended=None, problem=None, accepted=accepted or before.accepted)
        except BadTable:  # its words name a path of this server
            job.record = before
            raise Problem(507, "not-saved", "the server cannot save the job. Try again later.") from None
        job.stop.clear()
        with self._changed:
            self._jobs[job.record.id] = job
            self._queue.append(job)
            self._changed.notify()

    def find(self, name: str) -> FileJob:
        """The job with this id. Raises Problem 404 if there is none."""
        if name not in self._jobs:
            raise Problem(404, "no-such-job", "there is no such job. Its files may have been deleted after their time.")
        return self._jobs[name]

    def all(self) -> list[FileJob]:
        """All jobs, the newest first."""
        return sorted(self._jobs.values(), key=lambda job: job.record.created, reverse=True)

    def cancel(self, name: str) -> FileJob:
        """Stop a job after its current batch. What is saved stays saved, and what is charged stays charged."""
        job = self.find(name)
        with self._changed:
            job.cancel()
            if job in self._queue:
                self._queue.remove(job)
                job.change(CANCELLED, ended=time.time())
        return job

    def resume(self, name: str) -> FileJob:
        """Continue a job that was cancelled, has failed or asks: then, what it asked about is accepted."""
        with self._changed:
            job = self.find(name)
            if job.record.status not in (ASKING, CANCELLED, FAILED):
                words = f"only an asking, cancelled or failed job can resume; this one is {job.record.status}."
                raise Problem(409, "not-resumable", words)
            self.start(job, accepted=job.record.status == ASKING)
        return job

    def delete(self, name: str) -> None:
        """Delete a job and its files."""
        with self._changed:  # until it is not in the queue any more: otherwise it could begin to run in between
            job = self.find(name)
            if job.record.status == RUNNING:
                raise Problem(409, "job-running", "a running job cannot be deleted. Cancel it first.")
            self.cancel(name)
            self._jobs.pop(name)
        job.remove()

    def result(self, name: str) -> FileJob:
        """A job that is done. Raises Problem 409 if it is not."""
        job = self.find(name)
        if job.record.status != DONE:
            raise Problem(409, "not-done", f"the job has no result yet: it is {job.record.status}.")
        return job

    def downloaded(self, job: FileJob) -> None:
        """The result was sent in full. Its files stay for a while, in case it did not arrive."""
        if job.record.downloaded is None:
            with suppress(DpbartError):  # a full disk must not cut the download; until a restart, memory knows it
                job.change(DONE, downloaded=time.time())

    @contextmanager
    def lent(self, name: str) -> Iterator[JobFolder]:
        """A folder for an uploaded file that does not become a job. It goes in the end.

        If the server is killed before, the next one deletes it like any upload that was never complete.
        """
        folder = JobFolder.create(self._folder, secrets.token_hex(16), name)
        try:
            yield folder
        finally:
            folder.remove()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._queue and not self._closed:
                    self._changed.wait()
                if self._closed:
                    return
                job = self._queue.popleft()
                job.record = replace(job.record, status=RUNNING)
            try:
                with hidden_progress():
                    self._run_job(job)
            except DpbartError as error:  # where it stands cannot be saved, perhaps because the disk is full
                logger.error("A job cannot be saved: %s", one_line(str(error)))

    def _run_job(self, job: FileJob) -> None:
        try:
            if not job.folder.finished:
                self._kinds[job.record.kind].run(job)
            job.folder.source.unlink(missing_ok=True)  # the originals
            job.change(DONE, ended=time.time())
        except Asking:
            pass  # until it is resumed or deleted
        except Stopped:
            if job.record.id not in self._left:
                job.change(CANCELLED, ended=time.time())
        except DpbartError as error:
            job.change(FAILED, ended=time.time(), problem=job.problem(error).as_json())
        except Exception as error:  # its words could hold a text
            problem = Problem(500, "error", f"the job failed with an unexpected error ({type(error).__name__}).")
            job.change(FAILED, ended=time.time(), problem=problem.as_json())

    def _sweep_on(self) -> None:
        while True:
            for sweep in (self._sweep, self._sweep_others):
                try:
                    sweep()
                except Exception as error:  # perhaps a full disk; the thread must go on
                    logger.error("Old files cannot be deleted (%s).", type(error).__name__)
            time.sleep(self._limits.sweep_seconds)

    def _sweep(self) -> None:
        now = time.time()
        for job in self.all():
            with self._changed:  # until it is not there any more: otherwise somebody could resume it in between
                if job.record.ended is not None and job.record.ended > now:  # the clock was set back
                    job.change(job.record.status, ended=now)
                expires = job.expires(self._limits)
                is_old = expires is not None and expires < now
                if is_old:
                    self._jobs.pop(job.record.id, None)
            if is_old:
                job.remove()
