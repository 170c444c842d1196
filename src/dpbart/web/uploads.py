"""An upload: its options and its file, written to the folder of its job as it arrives."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path

from starlette.datastructures import UploadFile
from starlette.requests import Request

from dpbart.files import OWN, create
from dpbart.web.bodies import read_object
from dpbart.web.job_folder import shown_name
from dpbart.web.jobs import FileJob, Jobs
from dpbart.web.problems import Problem

_HOW = 'Send a form with the field "options" (JSON) and the field "file".'


async def receive_job(request: Request, jobs: Jobs) -> FileJob:
    """Read the form, and put a new job into the queue.

    A part of the form that does not fit into memory is a file without a name, which nobody else can open.

    Raises:
        Problem: The form cannot be read, or too many jobs wait.
        DpbartError: The options contradict each other.
    """
    if not request.headers.get("content-type", "").startswith("multipart/form-data"):
        raise Problem(415, "not-a-form", f"a job needs multipart/form-data. {_HOW}")
    async with request.form(max_files=1, max_fields=1) as form:
        upload, options = form.get("file"), form.get("options", "{}")
        if not isinstance(upload, UploadFile) or not isinstance(options, str):
            raise Problem(422, "bad-parameter", f"a job needs a file. {_HOW}")
        given = read_object(options.encode())
        job = jobs.create(shown_name(upload.filename or ""), given)
        try:
            await asyncio.to_thread(_save, upload, job.folder.source)
            jobs.start(job)
        except BaseException:
            job.folder.remove()
            raise
    return job


def _save(upload: UploadFile, file: Path) -> None:
    with os.fdopen(create(file, mode=OWN), "wb") as written:
        shutil.copyfileobj(upload.file, written)
        written.flush()
        os.fsync(written.fileno())
