"""Who may ask, and how much: checked before anything of a request is read.

A page of another site can make a browser send requests here. So the Host must be one of ours (DNS rebinding), and
the Origin, if there is one, must be this server. There are no cookies: a token is sent by the program or page itself.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import re
import time
from dataclasses import dataclass, field
from ipaddress import ip_address

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dpbart.web.limits import Limits
from dpbart.web.problems import Problem, busy

logger = logging.getLogger("dpbart.web")

API = "/v1/"
UPLOADS = ("/v1/jobs", "/v1/columns")
_OWN_SITES = (None, "none", "same-origin")  # Sec-Fetch-Site of programs, of typed addresses, and of our page
ABORT = "abort"  # in the state of a request: cuts its connection
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


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


@dataclass(frozen=True)
class Access:
    """Who may ask.

    Attributes:
        names: the host names under which the server may be asked, besides those of loopback.
        token: what a client has to send; None if nothing.
        addresses: whether any IP address will do as a host name. Nobody can rebind an address.
    """

    names: frozenset[str] = frozenset()
    token: str | None = field(default=None, repr=False)
    addresses: bool = False

    def check(self, headers: Headers, path: str) -> None:
        """Refuse a request that no client of ours would send.

        Raises:
            Problem: 421 for another Host, 403 for another Origin, 401 without the token.
        """
        hosts = headers.getlist("host")
        name = _name_of(hosts[0]) if len(hosts) == 1 else ""
        if name not in LOOPBACK_NAMES | self.names and not (self.addresses and _is_address(name)):
            raise Problem(
                421,
                "foreign-host",
                "this server is not known under the name in the Host header. Use its address, or start it with "
                "--allow-host NAME.",
            )
        self._check_origin(headers, hosts[0].lower(), path)
        if self.token is not None and path.startswith(API):
            self._check_token(headers)

    def _check_origin(self, headers: Headers, host: str, path: str) -> None:
        """A page's own requests name this host as their origin; a proxy in front of the server may add TLS."""
        own, site = (f"http://{host}", f"https://{host}"), headers.get("sec-fetch-site")
        foreign = any(each.lower() not in own for each in headers.getlist("origin"))
        if foreign or (path.startswith(API) and site not in _OWN_SITES):
            raise Problem(403, "foreign-origin", "requests from pages of other sites are refused.")

    def _check_token(self, headers: Headers) -> None:
        sent = headers.getlist("authorization")
        scheme, _, given = (sent[0] if len(sent) == 1 else "").partition(" ")
        same = hmac.compare_digest(given.strip().encode(), (self.token or "").encode())
        if scheme.lower() != "bearer" or not same:
            raise Problem(
                401,
                "token-needed",
                "this server requires a token. Send the one that it printed when it started, or that of its "
                "--token-file, as 'Authorization: Bearer TOKEN'.",
                headers={"WWW-Authenticate": "Bearer"},
            )


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
            await self._app(scope, receive, send)  # the start and the end of the server
            return
        upload = scope["path"] in UPLOADS and scope["method"] == "POST"
        body, send = _Body(receive, self._limits, upload), self._paced(scope, _with_headers(send))
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
            raise too_large(body.most)
        alike = sum(each.upload == body.upload for each in self._open)
        if alike >= (self._limits.uploads if body.upload else self._limits.requests):
            raise busy(f"{alike} {'uploads' if body.upload else 'requests'} are being answered.")

    def _paced(self, scope: Scope, send: Send) -> Send:
        """Cut the connection of a client that does not take its answer."""
        pace, abort = _Pace(self._limits), scope["state"][ABORT]

        async def paced(message: Message) -> None:
            began = time.monotonic()
            timer = asyncio.get_running_loop().call_later(pace.left, abort)
            try:
                await send(message)
            finally:
                timer.cancel()
                pace.moved(len(message.get("body", b"")), seconds=time.monotonic() - began)

        return paced

    async def _receive(self, body: _Body) -> Message:
        message = await body.receive()
        if sum(each.seen for each in self._open if not each.upload) > self._limits.memory:
            raise busy("too many large requests are being answered.")
        return message


class _Pace:
    """The time that a client may take: some seconds, which it gets back as bytes arrive."""

    def __init__(self, limits: Limits) -> None:
        self._most, self._slowest = limits.wait_seconds, limits.slowest
        self.left = self._most  # seconds

    def moved(self, parts: int, *, seconds: float) -> None:
        """So many bytes took so long."""
        self.left = min(self._most, self.left - seconds + parts / self._slowest)


class _Body:
    """The body of a request. It ends at its limit, whatever its header has said, and must not take forever."""

    def __init__(self, receive: Receive, limits: Limits, upload: bool) -> None:
        self._receive, self._pace, self.upload = receive, _Pace(limits), upload
        self.most = limits.upload if upload else limits.body
        self.seen, self._complete = 0, False

    async def receive(self) -> Message:
        if self._complete:
            return await self._receive()  # waits for the end of the connection
        began = time.monotonic()
        try:
            message = await asyncio.wait_for(self._receive(), self._pace.left)
        except asyncio.TimeoutError:
            words = "the body of the request did not arrive in time."
            raise Problem(408, "too-slow", words, headers={"Connection": "close"}) from None
        part = len(message.get("body", b""))
        self._pace.moved(part, seconds=time.monotonic() - began)
        self._complete = not message.get("more_body", False)
        self.seen += part
        if self.seen > self.most:
            raise too_large(self.most)
        return message


def _with_headers(send: Send) -> Send:
    async def with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in SECURITY_HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return with_headers


def too_large(most: int) -> Problem:
    """The body has too many bytes."""
    return Problem(
        413,
        "too-large",
        f"a request may have {most:,} bytes. Send fewer texts at once, or split the file.",
        headers={"Connection": "close"},
    )
