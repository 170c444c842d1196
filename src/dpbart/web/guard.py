"""Who may ask, and how much: checked before anything of a request is read. Errors as problem details (RFC 9457).

A page of another site can make a browser send requests here. So the Host must be one of ours (DNS rebinding), and
the Origin, if there is one, must be this server. There are no cookies: a token is sent by the program or page itself.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import re
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from ipaddress import ip_address
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dpbart import errors
from dpbart.tables.streams import FileBounds

logger = logging.getLogger("dpbart.web")

API, METRICS = "/v1/", "/metrics"
UPLOADS = ("/v1/jobs", "/v1/collections", "/v1/columns", "/v1/advice")
_OWN_SITES = (None, "none", "same-origin")  # Sec-Fetch-Site of programs, of typed addresses, and of our page
_HOST = re.compile(r"(\[(?P<address>[^\[\]]+)\]|(?P<name>[^\[\]:@/]+))(:[0-9]{0,5})?")
LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
SECURITY_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cache-Control": "no-store",
}
MEDIA_TYPE = "application/problem+json"
_KINDS: Mapping[type[errors.DpbartError], tuple[int, str]] = {
    errors.BudgetExceeded: (409, "budget-exceeded"),
    errors.NotResumable: (409, "not-resumable"),
    errors.NotPrepared: (422, "no-such-model"),
    errors.BadTable: (422, "bad-table"),
    errors.BadParameter: (422, "bad-parameter"),
    errors.MissingExtra: (501, "missing-extra"),
    errors.BadLedger: (503, "bad-ledger"),
    errors.EngineFailed: (503, "engine-failed"),
}


@dataclass(eq=False)  # not frozen: Python itself adds a traceback to an exception
class Problem(Exception):
    """An answer that is an error."""

    status: int
    kind: str  # the last part of the problem's type, such as "budget-exceeded"
    detail: str  # what is wrong, what was given, and the remedy; never a text
    more: Mapping[str, Any] = field(default_factory=dict)  # further members of the JSON object
    headers: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, error: errors.DpbartError, **more: object) -> Problem:
        """The problem that an error of the package is."""
        status, kind = next((known for type_, known in _KINDS.items() if isinstance(error, type_)), (500, "error"))
        return cls(status, kind, errors.one_line(str(error)), more)

    def as_json(self) -> dict[str, Any]:
        title = HTTPStatus(self.status).phrase
        told = {"type": f"urn:dpbart:{self.kind}", "title": title, "status": self.status, "detail": self.detail}
        return {**told, **self.more}

    def response(self) -> JSONResponse:
        return JSONResponse(self.as_json(), self.status, headers=dict(self.headers), media_type=MEDIA_TYPE)


def busy(why: str) -> Problem:
    """Too much is waiting."""
    return Problem(429, "busy", f"{why} Try again later.", headers={"Retry-After": "5"})


@dataclass(frozen=True)
class Limits:
    """Beyond these, a request is answered with 413 or 429 and takes no memory."""

    body: int = 4 << 20  # bytes of a request, other than an upload
    upload: int = 100 << 20  # bytes of an uploaded file with its options
    unpacked: int = 1 << 30  # bytes that an uploaded file may unpack to
    row: int = 1 << 19  # characters of one of its rows
    texts: int = 1_000  # in one request
    searched: int = 10_000  # texts times beams in one request
    characters: int = 100_000  # of one text
    waiting: int = 4_000  # texts that wait to be rewritten, over all requests
    requests: int = 500  # that are answered at the same time, other than uploads
    memory: int = 64 << 20  # bytes of all their bodies together
    uploads: int = 4  # that arrive at the same time
    connections: int = 800  # of 1,024 files that a process may usually open; a request on one more is answered with 503
    return_seconds: float = 30.0  # after which the work for a client with an Idempotency-Key who has gone is dropped
    idle_seconds: int = 15  # that a connection may stay open after an answer
    wait_seconds: float = 60.0  # for the next part of a body
    slowest: int = 4_000  # bytes per second; a body that is slower for longer than `wait_seconds` is refused
    jobs: int = 20  # file jobs that wait or run
    kept_jobs: int = 100  # file jobs whose files are on disk
    answer_seconds: int = 24 * 3600  # that the answer to an Idempotency-Key is kept
    job_seconds: int = 24 * 3600  # that the files of a job are kept after it ended
    downloaded_seconds: int = 600  # that they are kept after the result was downloaded
    drain_seconds: int = 30  # that a server which is told to stop still has for the requests in progress
    sweep_seconds: float = 15.0  # between two looks for what is too old

    def bounds(self, going: Callable[[], object]) -> FileBounds:
        """What reading an uploaded file may cost; `going` raises to stop it."""
        return FileBounds(self.unpacked, self.row, going)


def is_guarded(path: str) -> bool:
    """Whether a path needs the token, if there is one. The page and /healthz do not."""
    return path.startswith(API) or path == METRICS


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _is_address(name: str) -> bool:
    with suppress(ValueError):
        ip_address(name)
        return True
    return False


@dataclass(frozen=True)
class Access:
    """Who may ask."""

    names: frozenset[str] = frozenset()  # of hosts under which the server may be asked, besides those of loopback
    token: str | None = field(default=None, repr=False)  # what a client has to send; None if nothing
    addresses: bool = False  # whether any IP address will do as a host name: nobody can rebind an address

    def check(self, headers: Headers, path: str) -> None:
        """Raises Problem: 421 for another Host, 403 for another Origin, 401 without the token."""
        hosts = headers.getlist("host")
        name = _name_of(hosts[0]) if len(hosts) == 1 else ""
        if name not in LOOPBACK_NAMES | self.names and not (self.addresses and _is_address(name)):
            words = "this server is not known under the name in the Host header. Use its address, or start it with "
            raise Problem(421, "foreign-host", f"{words}--allow-host NAME.")
        self._check_origin(headers, hosts[0].lower(), path)
        if self.token is not None and is_guarded(path):
            self._check_token(headers)

    def _check_origin(self, headers: Headers, host: str, path: str) -> None:
        """A page's own requests name this host as their origin; a proxy in front of the server may add TLS."""
        own, site = (f"http://{host}", f"https://{host}"), headers.get("sec-fetch-site")
        foreign = any(each.lower() not in own for each in headers.getlist("origin"))
        if foreign or (is_guarded(path) and site not in _OWN_SITES):
            raise Problem(403, "foreign-origin", "requests from pages of other sites are refused.")

    def _check_token(self, headers: Headers) -> None:
        sent = headers.getlist("authorization")
        scheme, _, given = (sent[0] if len(sent) == 1 else "").partition(" ")
        same = hmac.compare_digest(given.strip().encode(), (self.token or "").encode())
        if scheme.lower() != "bearer" or not same:
            words = (
                "this server requires a token. Send the one that it printed when it started, or that of its "
                "--token-file, as 'Authorization: Bearer TOKEN'."
            )
            raise Problem(401, "token-needed", words, headers={"WWW-Authenticate": "Bearer"})


def _name_of(host: str) -> str:
    """The name in a Host header, without its port; an address of IPv6 without its brackets. Empty if it is neither.

    >>> _name_of("localhost:8000"), _name_of("[::1]:8000"), _name_of("LOCALHOST"), _name_of("localhost:80@evil.example")
    ('localhost', '::1', 'localhost', '')
    """
    found = _HOST.fullmatch(host.lower())
    return "" if found is None else found["address"] or found["name"]


class Guard:
    """Checks each request, limits its size, and adds the security headers to each answer."""

    def __init__(self, app: ASGIApp, access: Access, limits: Limits) -> None:
        self._app, self._access, self._limits = app, access, limits
        self._open: list[_Body] = []  # of the requests that are being answered

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            asyncio.get_running_loop().set_exception_handler(_log_type)
            await self._app(scope, receive, send)  # the start and the end of the server
            return
        upload = scope["path"] in UPLOADS and scope["method"] == "POST"
        body = _Body(receive, Headers(scope=scope), self._limits, upload)
        send = _with_headers(send, body)
        try:
            self._check(scope, body)
            self._open.append(body)
            await self._app(scope, lambda: self._receive(body), send)
        except Problem as problem:
            await problem.response()(scope, receive, send)
        except ClientDisconnect:
            pass  # nobody waits for an answer
        except Exception as error:  # its words, and those of its traceback, could hold a text
            logger.error("A request failed with an unexpected error (%s).", type(error).__name__)
        finally:
            if body in self._open:
                self._open.remove(body)

    def _check(self, scope: Scope, body: _Body) -> None:
        headers = Headers(scope=scope)
        self._access.check(headers, scope["path"])
        stated = headers.get("content-length", "0")
        if not stated.isdecimal() or int(stated) > body.most:
            raise _too_large(body.most)
        alike = sum(each.upload == body.upload for each in self._open)
        if alike >= (self._limits.uploads if body.upload else self._limits.requests):
            what = "upload" if body.upload else "request"
            raise busy(f"Another {what} is in progress." if alike == 1 else f"{alike} {what}s are in progress.")

    async def _receive(self, body: _Body) -> Message:
        message = await body.receive()
        if sum(each.seen for each in self._open if not each.upload) > self._limits.memory:
            raise busy("too many large requests are in progress.")
        return message


def _log_type(loop: asyncio.AbstractEventLoop, context: Mapping[str, Any]) -> None:
    """Log that a connection failed. The words of the error, and its traceback, could hold a text."""
    logger.error("A connection failed with an unexpected error (%s).", type(context.get("exception")).__name__)


class _Body:
    """The body of a request. It ends at its limit, whatever its header has said, and must not take forever.

    A client may take `wait_seconds` for the next part, and gets time back as bytes arrive.
    """

    def __init__(self, receive: Receive, headers: Headers, limits: Limits, upload: bool) -> None:
        self._receive, self._limits, self.upload = receive, limits, upload
        self._left = limits.wait_seconds
        self.most = limits.upload if upload else limits.body
        self.seen, self._complete = 0, False
        self._chunked = "transfer-encoding" in headers

    @property
    def may_be_malformed(self) -> bool:
        """Whether chunks are still to come. uvicorn cannot refuse a bad one after the answer, and would log it."""
        return self._chunked and not self._complete

    async def receive(self) -> Message:
        if self._complete:
            return await self._receive()  # waits for the end of the connection
        began = time.monotonic()
        try:
            message = await asyncio.wait_for(self._receive(), self._left)
        except asyncio.TimeoutError:
            words = "the body of the request did not arrive in time."
            raise Problem(408, "too-slow", words, headers={"Connection": "close"}) from None
        part = len(message.get("body", b""))
        earned = part / self._limits.slowest - (time.monotonic() - began)
        self._left = min(self._limits.wait_seconds, self._left + earned)
        self._complete = not message.get("more_body", False)
        self.seen += part
        if self.seen > self.most:
            raise _too_large(self.most)
        return message


def _with_headers(send: Send, body: _Body) -> Send:
    async def with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in SECURITY_HEADERS.items():
                headers.setdefault(name, value)
            if body.may_be_malformed:
                headers["Connection"] = "close"
        await send(message)

    return with_headers


def _too_large(most: int) -> Problem:
    words = f"a request may have {most:,} bytes. Send fewer texts at once, or split the file."
    return Problem(413, "too-large", words, headers={"Connection": "close"})
