"""The folder of a file job, which only its owner can read: the input, the output with its card, and where it stands."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from dpbart.errors import BadParameter, one_line
from dpbart.files import OWN, write_whole
from dpbart.rewrite.durable.folder import folder_of
from dpbart.rewrite.request import Request
from dpbart.rewrite.settings import Settings
from dpbart.tables.dialect import Dialect
from dpbart.tables.formats.registry import format_of
from dpbart.web.bodies import SETTINGS, Fields, number, refuse_unknown, settings_of, string, truth

WAITING, RUNNING, CANCELLED, FAILED, DONE = "waiting", "running", "cancelled", "failed", "done"
_ENDING = re.compile(r"(\.[A-Za-z0-9]{1,8}){1,2}$")
_ID = re.compile(r"[0-9a-f]{32}")
_LONGEST_NAME = 200  # characters
_STRINGS = ("text_column", "label_column", "labels", "person_column", "id_column", "missing_person")
_OTHERS = ("label_set", "person_budget", "join_documents", "delimiter", "encoding", "document")
_FIELDS = (*SETTINGS, *_STRINGS, *_OTHERS)


@dataclass(frozen=True)
class Record:
    """Where a job stands, as it is saved after each change.

    Attributes:
        id: 32 random hexadecimal digits.
        name: of the uploaded file, as its owner calls it. It is never used as a path.
        options: as they came.
        status: waiting, running, cancelled, failed or done.
        created: seconds since 1970, like all times here.
        ended: when it was cancelled, failed or done.
        downloaded: when its result was first sent in full.
        rows: of the output, once they are counted.
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
            ValueError: It is not one.
        """
        if not _ID.fullmatch(path.name):
            raise ValueError("not a job")
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

    def remove_input(self) -> None:
        """The originals go as soon as the output is complete."""
        self.source.unlink(missing_ok=True)

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)


def ending_of(name: str) -> str:
    """The ending of a file's name, if it is that of a table. The rest of the name is not used.

    Raises:
        BadTable: It is not.

    >>> ending_of("../../etc/<b>notes</b>.csv.GZ")
    '.csv.gz'
    """
    found = _ENDING.search(name)
    ending = ".none" if found is None else found.group().lower()
    format_of(Path(f"upload{ending}"))
    return ending


def shown_name(name: str) -> str:
    """The last part of a file's name, for people."""
    return one_line(name.replace("\\", "/").rpartition("/")[2])[-_LONGEST_NAME:]


def request_of(folder: JobFolder, options: Fields, ledger: Path | None) -> tuple[Request, Settings]:
    """What a job has to do. Contradictory options are refused here, before the file is read."""
    refuse_unknown(options, _FIELDS)
    label_set = options.get("label_set", [])
    if not isinstance(label_set, list) or not all(isinstance(each, str) for each in label_set):
        raise BadParameter("label_set must be a list of strings.")
    named = {name: string(options, name) for name in _STRINGS}
    dialect = Dialect(string(options, "delimiter"), string(options, "encoding"), None, truth(options, "document"))
    request = Request(
        folder.source,
        folder.target,
        text_column=named["text_column"] or "text",
        label_column=named["label_column"],
        labels=named["labels"],
        label_set=tuple(label_set),
        resume=True,
        person_column=named["person_column"],
        join_documents=truth(options, "join_documents"),
        id_column=named["id_column"],
        missing_person=named["missing_person"] or "refuse",
        person_budget=number(options, "person_budget"),
        ledger=ledger,
        dialect=dialect,
    )
    return request, settings_of(options)
