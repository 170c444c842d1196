"""What operators see: a line in the log for each request, and figures for Prometheus.

Both hold how often and how fast, and nothing about a person: no text, id, name of a file, query or address. Of an
address only the route is told, and of a request only a step in which its number of texts lies.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import accumulate

from starlette.routing import compile_path
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dpbart.version import __version__
from dpbart.web.guard import logger

TEXT, JSON = "text", "json"
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
OTHER = "other"  # a route or a method that is not ours: its name may be anything
GONE = 499  # the client went before its answer, as nginx counts it
_METHODS = ("GET", "HEAD", "POST", "DELETE", "OPTIONS", "PUT", "PATCH")
_STEPS = ((1, "1"), (10, "2-10"), (100, "11-100"), (1_000, "101-1000"))
_SECONDS = (0.01, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)  # upper ends of the steps of a histogram


def in_steps(texts: int) -> str:
    """A number of texts, told in steps.

    >>> [in_steps(texts) for texts in (1, 2, 10, 11, 1_000, 1_001)]
    ['1', '2-10', '2-10', '11-100', '101-1000', 'over 1000']
    """
    return next((words for most, words in _STEPS if texts <= most), f"over {_STEPS[-1][0]}")


@dataclass
class _Histogram:
    """How many seconds something took."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(_SECONDS) + 1))
    total: float = 0.0

    def add(self, seconds: float) -> None:
        self.counts[bisect_left(_SECONDS, seconds)] += 1
        self.total += seconds

    def lines(self, name: str, labels: Mapping[str, str]) -> list[str]:
        upto = list(accumulate(self.counts))
        ends = [*(f"{end:g}" for end in _SECONDS), "+Inf"]
        return [
            *(_line(f"{name}_bucket", {**labels, "le": end}, count) for end, count in zip(ends, upto, strict=True)),
            _line(f"{name}_sum", labels, round(self.total, 3)),
            _line(f"{name}_count", labels, upto[-1]),
        ]


class Tally:
    """Counts requests and batches since the server was started."""

    def __init__(self) -> None:
        self._lock, self._began = threading.Lock(), time.time()
        self._requests: Counter[tuple[str, str, int]] = Counter()
        self._texts: Counter[str] = Counter()
        self._answers: dict[str, _Histogram] = {}
        self._batches = _Histogram()

    def request(self, method: str, route: str, status: int, *, seconds: float, texts: int | None) -> None:
        """Count a request, and write it into the log. Without `texts`, none were read."""
        told: dict[str, object] = {"method": method, "route": route, "status": status}
        told["milliseconds"] = round(1000 * seconds)
        with self._lock:
            self._requests[method, route, status] += 1
            self._answers.setdefault(route, _Histogram()).add(seconds)
            if texts is not None:
                told["texts"] = in_steps(texts)
                self._texts[in_steps(texts)] += 1
        logger.log(logging.WARNING if status >= 500 else logging.INFO, "request", extra={"told": told})

    def batch(self, texts: int, seconds: float) -> None:
        """Count a batch."""
        with self._lock:
            self._batches.add(seconds)
        told = {"milliseconds": round(1000 * seconds), "texts": in_steps(texts)}
        logger.debug("batch", extra={"told": told})

    def page(self, *, waiting: int, jobs: Mapping[str, int]) -> str:
        """All figures in the text format of Prometheus. `jobs` has the number of file jobs in each state."""
        with self._lock:
            requests = [
                _line("dpbart_requests_total", {"method": method, "route": route, "status": str(status)}, count)
                for (method, route, status), count in sorted(self._requests.items())
            ]
            texts = [_line("dpbart_rewrites_total", {"texts": step}, count) for step, count in self._texts.items()]
            answers = [
                line
                for route, held in sorted(self._answers.items())
                for line in held.lines("dpbart_request_seconds", {"route": route})
            ]
            batches = self._batches.lines("dpbart_batch_seconds", {})
        states = [_line("dpbart_jobs", {"status": status}, count) for status, count in jobs.items()]
        parts = (
            ("dpbart_info", "gauge", "The version.", [_line("dpbart_info", {"version": __version__}, 1)]),
            ("dpbart_requests_total", "counter", "Requests that were answered.", requests),
            ("dpbart_rewrites_total", "counter", "Requests to rewrite texts, by how many texts they had.", texts),
            ("dpbart_request_seconds", "histogram", "Seconds until a request was answered.", answers),
            ("dpbart_batch_seconds", "histogram", "Seconds that a batch took.", batches),
            (
                "dpbart_waiting_requests",
                "gauge",
                "Requests and batches of jobs in the queue.",
                [_line("dpbart_waiting_requests", {}, waiting)],
            ),
            ("dpbart_jobs", "gauge", "File jobs.", states),
            (
                "process_start_time_seconds",
                "gauge",
                "When the server was started, in seconds since 1970.",
                [_line("process_start_time_seconds", {}, round(self._began))],
            ),
            (
                "process_cpu_seconds_total",
                "counter",
                "Processor time.",
                [_line("process_cpu_seconds_total", {}, round(time.process_time(), 2))],
            ),
        )
        lines = [
            line
            for name, kind, words, held in parts
            for line in (f"# HELP {name} {words}", f"# TYPE {name} {kind}", *held)
        ]
        return "\n".join([*lines, ""])


def _line(name: str, labels: Mapping[str, str], value: float) -> str:
    """One figure. No label needs to be escaped: all of them are ours."""
    shown = ",".join(f'{label}="{words}"' for label, words in labels.items())
    return f"{name}{{{shown}}} {value}" if shown else f"{name} {value}"


class Watch:
    """Tells the tally about each request, whatever becomes of it."""

    def __init__(self, app: ASGIApp, tally: Tally, *, routes: Iterable[str], files: Sequence[str]) -> None:
        """`routes` may have parameters in braces; `files` are the paths of the page."""
        self._app, self._tally, self._files = app, tally, frozenset(files)
        self._routes = [(compile_path(route)[0], route) for route in routes]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        method = scope["method"] if scope["method"] in _METHODS else OTHER
        route, status, began = self._route_of(scope["path"]), GONE, time.monotonic()

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, watched)
        finally:
            texts = scope.get("state", {}).get("texts")
            self._tally.request(method, route, status, seconds=time.monotonic() - began, texts=texts)

    def _route_of(self, path: str) -> str:
        found = next((route for pattern, route in self._routes if pattern.match(path)), None)
        return found or ("page" if path in self._files else OTHER)


class _Lines(logging.Formatter):
    """One line for each record. A traceback could hold a text, so there is none."""

    def format(self, record: logging.LogRecord) -> str:
        told = getattr(record, "told", {})
        words = record.getMessage() if not told else f"{record.getMessage()} {' '.join(map(_named, told.items()))}"
        return f"{_when(record.created)} {record.levelname.lower()} {words}"


class _Objects(logging.Formatter):
    """One JSON object for each record, likewise."""

    def format(self, record: logging.LogRecord) -> str:
        head = {"time": _when(record.created), "level": record.levelname.lower(), "message": record.getMessage()}
        return json.dumps({**head, **getattr(record, "told", {})})


def _when(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def _named(told: tuple[str, object]) -> str:
    name, value = told
    return str(value) if name in ("method", "route", "status") else f"{name}={value}"


@contextmanager
def log_to_stderr(style: str, level: str) -> Iterator[Callable[[str], None]]:
    """Send the log to standard error. Gives a function for lines that are written at every level."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Objects() if style == JSON else _Lines())
    loggers = {logging.getLogger("dpbart"): level.upper(), logging.getLogger("uvicorn"): "ERROR"}
    for each, least in loggers.items():
        each.addHandler(handler)
        each.setLevel(least)
        each.propagate = False

    def tell(line: str) -> None:
        if style == TEXT:
            print(line, file=sys.stderr, flush=True)
        else:
            handler.emit(logging.makeLogRecord({"msg": line, "levelname": "INFO"}))

    try:
        yield tell
    finally:
        for each in loggers:
            each.removeHandler(handler)
            each.setLevel(logging.NOTSET)
            each.propagate = True
