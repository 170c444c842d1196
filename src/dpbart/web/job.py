"""One file job: its folder, where it stands, and what a client hears about it."""

from __future__ import annotations

import json
import re
import shutil
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from dpbart.card.card import read_card
from dpbart.collect.topics import read_topics
from dpbart.errors import BadTable, DpbartError, one_line
from dpbart.files import OWN, write_whole
from dpbart.options.declare import from_flat
from dpbart.options.rewriting import Dialect, Request
from dpbart.options.topics import TopicsQuestion
from dpbart.rewrite.durable.folder import folder_of
from dpbart.rewrite.durable.unfinished import Stopped
from dpbart.rewrite.figures import guarantee_json
from dpbart.rewrite.plan import Outline
from dpbart.tables.formats.registry import format_of
from dpbart.tables.table import columns_of
from dpbart.web.bodies import ColumnsOptions, Fields
from dpbart.web.guard import Limits, Problem

WAITING, RUNNING, ASKING = "waiting", "running", "asking"
CANCELLED, FAILED, DONE = "cancelled", "failed", "done"
TEXTS, COLLECTION = "texts", "collection"  # kinds of jobs
_ENDING = re.compile(r"(\.[A-Za-z0-9]{1,8}){1,2}$")
_NO_ENDING = ".none"  # a name without an ending would be that of a folder
_LONGEST_NAME = 200  # characters
_MOST = 1_000  # columns in one answer
_LONGEST = 100_000  # characters of all their names


@dataclass(frozen=True)
class JobRecord:
    """Where a job stands, as it is saved after each change. Times are seconds since 1970."""

    id: str  # 32 hexadecimal digits, random or from an Idempotency-Key
    name: str  # of the uploaded file, as its owner calls it; never used as a path
    options: Mapping[str, Any]  # as they came
    status: str
    created: float
    ended: float | None = None  # when it was cancelled, failed or done, or began to ask
    downloaded: float | None = None  # when its result was first sent in full
    rows: int | None = None  # of the output, once they are counted
    notices: Sequence[str] = ()  # what the run said before anything was released
    problem: Mapping[str, Any] | None = None  # why it failed
    file_hmac: str | None = None  # of the uploaded file under its Idempotency-Key; None without a key
    worst: Mapping[str, Any] | None = None  # the weakest promise that anybody gets, once it is known
    accepted: bool = False  # whether somebody has answered that it may go on
    kind: str = TEXTS  # what is released: each text, or the collection as a whole


@dataclass(frozen=True)
class JobFolder:
    """The files of one job."""

    path: Path
    ending: str  # of the input and the output, such as ".csv.gz"

    @classmethod
    def create(cls, jobs: Path, id: str, name: str) -> JobFolder:
        """A new folder for an uploaded file. Raises FileExistsError if there is a job with this id."""
        ending = ending_of(name)
        (jobs / id).mkdir(mode=0o700)
        return cls(jobs / id, ending)

    @classmethod
    def open(cls, path: Path) -> tuple[JobFolder, JobRecord]:
        """The folder of a job that a former server has left. Raises if its upload was never complete."""
        held = JobRecord(**json.loads((path / "job.json").read_text(encoding="utf-8")))
        return cls(path, ending_of(held.name)), held

    @property
    def source(self) -> Path:
        return self.path / f"input{self.ending}"

    @property
    def target(self) -> Path:
        return self.path / f"output{self.ending}"

    def card(self, kind: str) -> Path:
        """The card as json, txt or html."""
        return self.path / f"output{self.ending}.card.{kind}"

    @property
    def finished(self) -> bool:
        """Whether the output is complete, and nothing is left to do for its run."""
        return self.target.exists() and not folder_of(self.target).exists()

    def save(self, record: JobRecord) -> None:
        write_whole(self.path / "job.json", json.dumps(asdict(record)), mode=OWN)

    def in_words(self, words: str, name: str) -> str:
        """The words of an error about the files of this job, which its owner calls `name`, without any path of ours."""
        for path in (self.path, self.path.resolve()):
            for folder in (str(path), repr(str(path))[1:-1], one_line(str(path))):
                words = words.replace(f"{folder}/{self.source.name}", name)
                words = words.replace(f"{folder}/{self.target.name}", self.result_name(name))
                words = words.replace(f"{folder}/", "")
        return words

    def result_name(self, name: str) -> str:
        """The name under which the result is saved, such as notes.private.csv."""
        return f"{name[: -len(self.ending)]}.private{self.ending}"

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)


def ending_of(name: str) -> str:
    """The ending of a file's name. The rest is not used. Raises BadTable if it is not that of a table.

    >>> ending_of("../../etc/<b>notes</b>.csv.GZ")
    '.csv.gz'
    """
    found = _ENDING.search(name)
    ending = _NO_ENDING if found is None else found.group().lower()
    try:
        format_of(Path(f"upload{ending}"))
    except BadTable as error:
        words = str(error).replace(f"upload{ending}", shown_name(name))
        raise BadTable(words.replace(_NO_ENDING, "") if found is None else words) from None
    return ending


def shown_name(name: str) -> str:
    """The last part of a file's name, for people."""
    return one_line(name.replace("\\", "/").rpartition("/")[2])[-_LONGEST_NAME:]


@dataclass(frozen=True)
class Place:
    """The files of a server."""

    state: Path  # a folder for jobs and answers, for its owner alone; one server uses it at a time
    ledger: Path | None = None  # what each person has spent; None if nobody is counted
    models: Sequence[str] = ()  # model directories that are offered besides the bundled models
    sign_key: Path | None = None  # an ed25519 private key that signs each card; None if cards are not signed


def columns_json(folder: JobFolder, name: str, options: Fields, limits: Limits) -> dict[str, Any]:
    """The columns of a file, and how it is read if users may expect something else."""
    dialect = from_flat(Dialect, ColumnsOptions(**options).given())
    reading = Outline.of(Request(folder.source, folder.target, dialect=dialect)).reading
    until = time.monotonic() + limits.wait_seconds

    def going() -> None:
        if time.monotonic() > until:
            raise BadTable(f"'{name}' takes too long to look into. Send it as a job.")

    try:
        columns = columns_of(folder.source, dialect, limits.bounds(going))
    except BadTable as error:
        raise BadTable(folder.in_words(str(error), name)) from None
    if len(columns) > _MOST or sum(map(len, columns)) > _LONGEST:
        words = f"'{name}' has more than {_MOST:,} columns, or their names have more than {_LONGEST:,} characters. "
        raise Problem(413, "too-many-columns", f"{words}Make sure that it begins with names, or send it as a job.")
    return {"columns": columns, "reading": reading}


@dataclass
class FileJob:
    """A job: its files, where it stands, and whether it should stop."""

    folder: JobFolder
    record: JobRecord
    done: int = 0  # rows
    stop: threading.Event = field(default_factory=threading.Event)

    _saving: threading.Lock = field(default_factory=threading.Lock)
    _removed: bool = False

    def change(self, status: str, **more: Any) -> None:
        """Change the status, and save it."""
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
        return self.folder.result_name(self.record.name)

    def problem(self, error: DpbartError) -> Problem:
        """Why it failed, without any path of this server."""
        problem = Problem.of(error)
        return replace(problem, detail=self.folder.in_words(problem.detail, self.record.name))

    def expires(self, limits: Limits) -> float | None:
        """When its files are deleted; None while it waits or runs."""
        if self.record.ended is None:
            return None
        last, downloaded = self.record.ended + limits.job_seconds, self.record.downloaded
        return last if downloaded is None else min(last, downloaded + limits.downloaded_seconds)

    def check_going(self) -> None:
        """Raises Stopped if it was cancelled."""
        if self.stop.is_set():
            raise Stopped("cancelled")


def topics_json(job: FileJob, asked: Mapping[str, Any]) -> dict[str, Any]:
    """What the output of a job says, by topic or area of the book."""
    model, card = job.record.options.get("model"), job.folder.card("json")
    question = TopicsQuestion(job.folder.target, card, model=model, **asked)
    try:
        found = read_topics(question.private, card=card, by=question.by, areas=question.areas, model=question.model)
    except DpbartError as error:
        raise job.problem(error) from None
    return found.as_dict()


def job_json(job: FileJob, limits: Limits) -> dict[str, Any]:
    """What a client hears about a job."""
    record, base = job.record, f"/v1/jobs/{job.record.id}"
    is_done = record.status == DONE
    return {
        "id": record.id,
        "name": record.name,
        "kind": record.kind,
        "status": record.status,
        "rows": record.rows,
        "done": record.rows if is_done else job.done,
        "created": record.created,
        "ended": record.ended,
        "expires": job.expires(limits),
        "notices": list(record.notices),
        "problem": record.problem,
        "worst": record.worst,
        **_guarantees(job.folder if is_done else None),
        "result": f"{base}/result" if is_done else None,
        "card": f"{base}/card.json" if is_done else None,
    }


def _guarantees(done: JobFolder | None) -> dict[str, Any]:
    """What the card of a finished job promises: for one text, and to those who see only a shuffled output."""
    told: dict[str, Any] = {"guarantee": None, "shuffled": None}
    with suppress(BadTable):
        if done is not None:
            card = read_card(done.card("json"))
            told["guarantee"] = guarantee_json(card.guarantee)
            if card.shuffled is not None:
                told["shuffled"] = guarantee_json(card.shuffled.guarantee)
    return told
