"""The columns of an uploaded file: their names, which the output has too, and nothing else of the file."""

from __future__ import annotations

import time
from typing import Any

from dpbart.errors import BadTable
from dpbart.rewrite.request import Request
from dpbart.tables.table import columns_of
from dpbart.web.bodies import Fields, refuse_unknown
from dpbart.web.job_folder import JobFolder
from dpbart.web.job_options import DIALECT, dialect_of
from dpbart.web.limits import Limits
from dpbart.web.problems import Problem

_MOST = 1_000  # columns in one answer
_LONGEST = 100_000  # characters of all their names


def columns_json(folder: JobFolder, name: str, options: Fields, limits: Limits) -> dict[str, Any]:
    """The columns of a file, and how it is read if users may expect something else.

    Raises:
        Problem: They are too many to be listed.
        DpbartError: The options contradict each other, or the file cannot be read.
    """
    refuse_unknown(options, DIALECT)
    request = Request(folder.source, folder.target, dialect=dialect_of(options))
    until = time.monotonic() + limits.wait_seconds

    def going() -> None:
        if time.monotonic() > until:
            raise BadTable(f"'{name}' takes too long to look into. Send it as a job.")

    try:
        columns = columns_of(request.source, request.dialect, limits.bounds(going))
    except BadTable as error:
        raise BadTable(folder.in_words(str(error), name)) from None
    if len(columns) > _MOST or sum(map(len, columns)) > _LONGEST:
        raise Problem(
            413,
            "too-many-columns",
            f"'{name}' has more than {_MOST:,} columns, or their names have more than {_LONGEST:,} characters. "
            "Make sure that it begins with names, or send it as a job.",
        )
    return {"columns": columns, "reading": request.reading}
