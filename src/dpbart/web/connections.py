"""Connections: how many there may be, and how long one may stay open without a request."""

from __future__ import annotations

import asyncio
import socket
from typing import ClassVar

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from dpbart.web.guard import ABORT, SECURITY_HEADERS
from dpbart.web.limits import Limits
from dpbart.web.problems import Problem, busy

_SENT_AHEAD = 1 << 17  # bytes that the system takes for a client
_NOTHING = object()


class Connection(H11Protocol):
    """One connection to a client.

    uvicorn itself waits forever for the head of a request, and for a client that does not take its last answer.
    """

    limits: ClassVar[Limits]
    _timer: asyncio.TimerHandle
    _finished: object = _NOTHING  # the request that was answered when somebody last looked; None before the first one

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.app_state = {**self.app_state, ABORT: transport.abort}
        # Otherwise the system buffers megabytes for each client, and nobody notices for minutes that one is slow.
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SENT_AHEAD)
        if len(self.connections) > self.limits.connections:
            self._refuse(busy(f"{self.limits.connections:,} connections are open."))
        self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._timer.cancel()

    def _look(self) -> None:
        """Cut the connection if it has no request, and had none when somebody last looked."""
        waiting = self.cycle is None or self.cycle.response_complete
        if waiting and self._finished is self.cycle:
            self.transport.abort()
            return
        self._finished = self.cycle if waiting else _NOTHING
        self._timer = self.loop.call_later(self.limits.wait_seconds, self._look)

    def send_400_response(self, msg: str) -> None:
        """Answer what is not HTTP, unless the answer to its beginning is on its way already."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self._refuse(Problem(400, "not-http", "the request is not valid HTTP/1.1, or its headers are too long."))
        else:
            self.transport.close()

    def _refuse(self, problem: Problem) -> None:
        answer = problem.response()
        headers = [*answer.headers.items(), *SECURITY_HEADERS.items(), ("Connection", "close")]
        body = bytes(answer.body)
        for event in (h11.Response(status_code=problem.status, headers=headers), h11.Data(data=body)):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()


def connection_of(limits: Limits) -> type[Connection]:
    """The connections of a server with these limits."""
    return type("LimitedConnection", (Connection,), {"limits": limits})
