"""The folder of a file job, which only its owner can read: the input, the output with its card, and where it stands."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from dpbart.errors import BadTable, one_line
from dpbart.files import OWN, write_whole
from dpbart.rewrite.durable.folder import folder_of
from dpbart.tables.formats.registry import format_of

WAITING, RUNNING, CANCELLED, FAILED, DONE = "waiting", "running", "cancelled", "failed", "done"
_ENDING = re.compile(r"(\.[A-Za-z0-9]{1,8}){1,2}$")
_ID = re.compile(r"[0-9a-f]{32}")
_NO_ENDING = ".none"  # a name without an ending would be that of a folder
_LONGEST_NAME = 200  # characters


@dataclass(frozen=True)
class Record:
    """Where a job stands, as it is saved after each change.

    Attributes:
        id: 32 hexadecimal digits, random or from an Idempotency-Key.
        name: of the uploaded file, as its owner calls it. It is never used as a path.
        options: as they came.
        status: waiting, running, cancelled, failed or done.
        created: seconds since 1970, like all times here.
        ended: when it was cancelled, failed or done.
        downloaded: when its result was first sent in full.
        rows: of the output, once they are counted.
        notices: what the run said before anything was released.
        problem: why it failed.
    """

    id: str
    name: str
    options: Mapping[str, Any]
    status: str
    created: float
    ended: float | None = None
    downloaded: float | None = None
    rows: int | None = None
    notices: Sequence[str] = ()
    problem: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class JobFolder:
    """The files of one job."""

    path: Path
    ending: str  # of the input and the output, such as ".csv.gz"

    @classmethod
    def create(cls, jobs: Path, id: str, name: str) -> JobFolder:
        """A new folder for an uploaded file.

        Raises:
            BadTable: The ending of the file is unknown.
            FileExistsError: There is a job with this id.
        """
        ending = ending_of(name)
        (jobs / id).mkdir(mode=0o700)
        return cls(jobs / id, ending)

    @classmethod
    def open(cls, path: Path) -> tuple[JobFolder, Record]:
        """The folder of a job that a former server has left.

        Raises:
            ValueError: Its upload was never complete.
        """
        held = Record(**json.loads((path / "job.json").read_text(encoding="utf-8")))
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

    def save(self, record: Record) -> None:
        write_whole(self.path / "job.json", json.dumps(asdict(record)), mode=OWN)

    def in_words(self, words: str, name: str) -> str:
        """Words about the files of this job as their owner calls them, without any path of this server.

        Args:
            words: of an error.
            name: of the uploaded file.
        """
        for path in (self.path, self.path.resolve()):
            for folder in (str(path), repr(str(path))[1:-1], one_line(str(path))):
                words = words.replace(f"{folder}/{self.source.name}", name)
                words = words.replace(f"{folder}/{self.target.name}", self.result_name(name))
                words = words.replace(f"{folder}/", "")
        return words

    def result_name(self, name: str) -> str:
        """The name under which the result is saved, such as notes.private.csv."""
        return f"{name[: -len(self.ending)]}.private{self.ending}"

    def remove_input(self) -> None:
        """The originals go as soon as the output is complete."""
        self.source.unlink(missing_ok=True)

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)


def is_job(path: Path) -> bool:
    """Whether a folder has the name of one that a server has made. Anything else is not touched."""
    return _ID.fullmatch(path.name) is not None


def ending_of(name: str) -> str:
    """The ending of a file's name, if it is that of a table. The rest of the name is not used.

    Raises:
        BadTable: It is not.

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
