"""Files come and go: an upload with its options, and the download of an output."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import quote

from starlette.datastructures import UploadFile
from starlette.requests import Request
from starlette.responses import FileResponse
from starlette.types import Message, Receive, Scope, Send

from dpbart.files import OWN, create, reason
from dpbart.web import bodies
from dpbart.web.guard import Problem
from dpbart.web.job import FileJob, shown_name

logging.getLogger("python_multipart").setLevel(logging.CRITICAL)  # its warnings quote characters of a form

_OPEN_FILES = Path("/dev/fd")  # the open files of this process; a deleted one can still be read there
_FORM = 'Send a form with the field "options" (JSON) and the field "file".'


@asynccontextmanager
async def received(request: Request) -> AsyncIterator[tuple[UploadFile, str, bodies.Fields]]:
    """The file of a form, its name and its options.

    A part of the form that does not fit into memory is a file without a name, which nobody else can open.
    """
    if not request.headers.get("content-type", "").startswith("multipart/form-data"):
        raise Problem(415, "not-a-form", f"an upload needs multipart/form-data. {_FORM}")
    try:
        async with request.form(max_files=1, max_fields=1) as form:
            upload, options = form.get("file"), form.get("options", "{}")
            if not isinstance(upload, UploadFile) or not isinstance(options, str):
                raise Problem(422, "bad-parameter", f"an upload needs a file. {_FORM}")
            yield upload, shown_name(upload.filename or ""), bodies.read_object(options.encode())
    except OSError as error:  # perhaps the disk is full
        raise Problem(507, "not-saved", f"the server cannot save the file: {reason(error)}.") from None


def save(upload: UploadFile, file: Path) -> None:
    with os.fdopen(create(file, mode=OWN), "wb") as written:
        shutil.copyfileobj(upload.file, written)
        written.flush()
        os.fsync(written.fileno())


def saved_as(name: str) -> dict[str, str]:
    """A header that makes a browser save a file, whatever characters its name has (RFC 6266)."""
    return {"Content-Disposition": f"attachment; filename*=UTF-8''{quote(name, safe='')}"}


class Download(FileResponse):
    """The output of a job. `sent` is called when the client has taken all of it."""

    def __init__(self, job: FileJob, sent: Callable[[], None] | None) -> None:
        super().__init__(job.folder.target, headers=saved_as(job.result_name), media_type="application/octet-stream")
        self._sent = sent

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def watched(message: Message) -> None:
            last = message["type"] == "http.response.body" and not message.get("more_body", False)
            # Asked before the last part: afterwards, a connection counts as closed in any case.
            if last and self._sent is not None and not await Request(scope, receive).is_disconnected():
                self._sent()
            await send(message)

        with open(self.path, "rb") as held:  # before the headers: whoever deletes the job now cuts no answer short
            if _OPEN_FILES.is_dir():
                self.path = _OPEN_FILES / str(held.fileno())
            await super().__call__(scope, receive, watched)
