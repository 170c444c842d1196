"""Files that come and go: an upload becomes a job or shows its columns, and a result is downloaded."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from starlette.datastructures import UploadFile
from starlette.requests import Request
from starlette.responses import FileResponse
from starlette.types import Message, Receive, Scope, Send

from dpbart.files import OWN, create, reason
from dpbart.web.answers import job_id
from dpbart.web.bodies import Fields, read_object
from dpbart.web.columns import columns_json
from dpbart.web.file_job import FileJob
from dpbart.web.job_folder import shown_name
from dpbart.web.jobs import Jobs
from dpbart.web.problems import Problem

logging.getLogger("python_multipart").setLevel(logging.CRITICAL)  # its warnings quote characters of a form

_HOW = 'Send a form with the field "options" (JSON) and the field "file".'


async def receive_job(request: Request, jobs: Jobs) -> tuple[FileJob, bool]:
    """Read the form, and put a new job into the queue.

    Returns:
        The job, and whether it was there before: an Idempotency-Key creates one job only.

    Raises:
        Problem: The form cannot be read or saved, or too many jobs wait.
        DpbartError: The options contradict each other.
    """
    async with _received(request) as (upload, name, given):
        id = job_id(request.headers.get("idempotency-key"))
        known = jobs.known(id, name, given)
        if known is not None:
            return known, True
        job = jobs.create(id, name, given)
        try:
            await asyncio.to_thread(_save, upload, job.folder.source)
            jobs.start(job)
        except BaseException:
            job.folder.remove()
            raise
    return job, False


async def receive_columns(request: Request, jobs: Jobs) -> dict[str, Any]:
    """Read the form, and answer with the columns of its file. The file does not stay.

    Raises:
        Problem: The form cannot be read, or the file has too many columns.
        DpbartError: The file cannot be read.
    """

    def answer(upload: UploadFile, name: str, given: Fields) -> dict[str, Any]:
        with jobs.lent(name) as folder:
            _save(upload, folder.source)
            return columns_json(folder, name, given, jobs.limits)

    async with _received(request) as received:
        return await asyncio.to_thread(answer, *received)


@asynccontextmanager
async def _received(request: Request) -> AsyncIterator[tuple[UploadFile, str, Fields]]:
    """The file of a form, its name and its options.

    A part of the form that does not fit into memory is a file without a name, which nobody else can open.
    """
    if not request.headers.get("content-type", "").startswith("multipart/form-data"):
        raise Problem(415, "not-a-form", f"an upload needs multipart/form-data. {_HOW}")
    try:
        async with request.form(max_files=1, max_fields=1) as form:
            upload, options = form.get("file"), form.get("options", "{}")
            if not isinstance(upload, UploadFile) or not isinstance(options, str):
                raise Problem(422, "bad-parameter", f"an upload needs a file. {_HOW}")
            yield upload, shown_name(upload.filename or ""), read_object(options.encode())
    except OSError as error:  # perhaps the disk is full
        raise Problem(507, "not-saved", f"the server cannot save the file: {reason(error)}.") from None


def _save(upload: UploadFile, file: Path) -> None:
    with os.fdopen(create(file, mode=OWN), "wb") as written:
        shutil.copyfileobj(upload.file, written)
        written.flush()
        os.fsync(written.fileno())


class Download(FileResponse):
    """A file for the client to save. `sent` is called when the client has taken all of it."""

    def __init__(self, file: Path, headers: dict[str, str], sent: Callable[[], None] | None) -> None:
        super().__init__(file, headers=headers, media_type="application/octet-stream")
        self._sent = sent

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def watched(message: Message) -> None:
            last = message["type"] == "http.response.body" and not message.get("more_body", False)
            # Asked before the last part: afterwards, a connection counts as closed in any case.
            if last and self._sent is not None and not await Request(scope, receive).is_disconnected():
                self._sent()
            await send(message)

        await super().__call__(scope, receive, watched)
