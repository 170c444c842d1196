"""Errors as problem details (RFC 9457), in the same words as on the command line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from starlette.responses import JSONResponse

from dpbart.errors import (
    BadLedger,
    BadParameter,
    BadTable,
    BudgetExceeded,
    DpbartError,
    EngineFailed,
    MissingExtra,
    NotPrepared,
    NotResumable,
    one_line,
)

MEDIA_TYPE = "application/problem+json"
_KINDS: Mapping[type[DpbartError], tuple[int, str]] = {
    BudgetExceeded: (409, "budget-exceeded"),
    NotResumable: (409, "not-resumable"),
    NotPrepared: (422, "no-such-model"),
    BadTable: (422, "bad-table"),
    BadParameter: (422, "bad-parameter"),
    MissingExtra: (501, "missing-extra"),
    BadLedger: (503, "bad-ledger"),
    EngineFailed: (503, "engine-failed"),
}


@dataclass(eq=False)  # not frozen: Python itself adds a traceback to an exception
class Problem(Exception):
    """An answer that is an error. Its detail never holds a text.

    Attributes:
        status: the HTTP status.
        kind: the last part of the problem's type, such as "budget-exceeded".
        detail: what is wrong, what was given, and the remedy.
        more: further members of the JSON object.
        headers: further headers.
    """

    status: int
    kind: str
    detail: str
    more: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, error: DpbartError, **more: object) -> Problem:
        """The problem that an error of the package is."""
        status, kind = next((known for type_, known in _KINDS.items() if isinstance(error, type_)), (500, "error"))
        return cls(status, kind, one_line(str(error)), more)

    def as_json(self) -> dict[str, Any]:
        """The JSON object."""
        return {
            "type": f"urn:dpbart:{self.kind}",
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "detail": self.detail,
            **self.more,
        }

    def response(self) -> JSONResponse:
        """The HTTP response."""
        return JSONResponse(self.as_json(), self.status, headers=dict(self.headers), media_type=MEDIA_TYPE)


def busy(why: str) -> Problem:
    """Too much is waiting."""
    return Problem(429, "busy", f"{why} Try again later.", headers={"Retry-After": "5"})
