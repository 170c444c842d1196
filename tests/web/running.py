"""A real server, in a thread or in a process of its own, and a small client for it."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn

from dpbart.privacy.facts import Facts
from dpbart.rewrite.chosen import ChosenModel
from dpbart.rewrite.rewriter import Rewriter
from dpbart.web.app import make_app
from dpbart.web.guard import Access, Limits
from dpbart.web.job import Place
from dpbart.web.queue import Load
from dpbart.web.server import Listen, configured
from dpbart.web.service import Service

OPEN, USUAL = Access(), Limits()
PATIENCE = 180.0  # seconds; a busy machine is slow, not wrong


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Client:
    """Sends exactly what it is told to."""

    port: int

    def send(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            with suppress(BrokenPipeError, ConnectionResetError):  # refused before all of the body was sent
                connection.request(method, path, body, dict(headers or {}))
            answer = connection.getresponse()
            return Answer(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())
        finally:
            connection.close()

    def open(self) -> socket.socket:
        """A connection on which nothing is said yet."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE)

    def get(self, path: str, **headers: str) -> Answer:
        return self.send("GET", path, headers=headers)

    def post(self, path: str, value: object = None, headers: Mapping[str, str] | None = None) -> Answer:
        return self.send("POST", path, json.dumps(value).encode(), headers)

    def rewrite(self, *texts: str, key: str | None = None, **more: object) -> Answer:
        headers = {} if key is None else {"Idempotency-Key": key}
        return self.post("/v1/rewrite", {"texts": list(texts), "epsilon": 10, **more}, headers)

    def upload(
        self,
        name: str,
        content: bytes,
        options: object = None,
        headers: Mapping[str, str] | None = None,
        path: str = "/v1/jobs",
    ) -> Answer:
        quoted = name.replace('"', "%22")
        body = (
            b'--x\r\nContent-Disposition: form-data; name="options"\r\n\r\n'
            + json.dumps({"epsilon": 10} if options is None else options).encode()
            + f'\r\n--x\r\nContent-Disposition: form-data; name="file"; filename="{quoted}"\r\n'.encode()
            + b"Content-Type: application/octet-stream\r\n\r\n"
            + content
            + b"\r\n--x--\r\n"
        )
        form = {"Content-Type": "multipart/form-data; boundary=x", **(headers or {})}
        return self.send("POST", path, body, form)

    def wait_for(self, job: str, *states: str) -> Any:
        """The job, once it is in one of these states."""
        held: list[Any] = []

        def is_there() -> bool:
            held[:] = [self.get(f"/v1/jobs/{job}").json]
            return held[0]["status"] in states

        until(is_there)
        return held[0]


def until(is_so: Callable[[], bool]) -> None:
    """Wait for what another thread will do."""
    end = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < end, "it has not happened in time"
        time.sleep(0.05)


def reached(event: threading.Event) -> None:
    """Wait for the moment at which another thread stands."""
    assert event.wait(PATIENCE), "it has not happened in time"


def heard(connection: socket.socket) -> bytes:
    """All that comes until the server ends the connection."""
    said = b""
    try:
        while part := connection.recv(1 << 16):
            said += part
    except ConnectionResetError:
        pass
    return said


class Held:
    """Loads the real rewriter, which holds each batch until the test lets it go."""

    def __init__(self) -> None:
        self.entered, self.go = threading.Event(), threading.Event()

    def load(self, chosen: ChosenModel) -> Rewriter:
        real, entered, go = Rewriter.of(chosen), self.entered, self.go

        class Waiting(Rewriter):
            def _rewrite_batch(self, texts: Sequence[str]) -> tuple[list[str], Facts]:
                entered.set()
                reached(go)
                return super()._rewrite_batch(texts)

        return Waiting(real.model, real.channel, real.batch_size, real.entropy)


class Stepped:
    """Loads the real rewriter, which begins a batch only when the test lets it."""

    def __init__(self) -> None:
        self.go, self.batches = threading.Semaphore(0), list[int]()  # the number of texts of each

    def load(self, chosen: ChosenModel) -> Rewriter:
        real, go, batches = Rewriter.of(chosen), self.go, self.batches

        class Stepping(Rewriter):
            def _rewrite_batch(self, texts: Sequence[str]) -> tuple[list[str], Facts]:
                batches.append(len(texts))
                go.acquire(timeout=PATIENCE)
                return super()._rewrite_batch(texts)

        return Stepping(real.model, real.channel, real.batch_size, real.entropy)


@contextmanager
def in_thread(
    state: Path,
    *,
    limits: Limits = USUAL,
    access: Access = OPEN,
    ledger: Path | None = None,
    sign_key: Path | None = None,
    load: Load = Rewriter.of,
    models: Sequence[str] = (),
) -> Iterator[Client]:
    """A server in this process."""
    service = Service(Place(state, ledger, models, sign_key), limits, load=load)
    server = uvicorn.Server(configured(make_app(service, access), Listen(port=0), limits))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield Client(server.servers[0].sockets[0].getsockname()[1])
    finally:
        server.should_exit = True
        thread.join(PATIENCE)
        service.close()  # no thread of it works on when the next test begins


@dataclass(frozen=True)
class Process:
    client: Client
    running: subprocess.Popen[bytes]
    log: Path  # what it says on standard error; a pipe would be full some time

    def kill(self) -> None:
        """As by a power cut: the process has no say."""
        self.running.send_signal(signal.SIGKILL)
        self.running.wait()

    def stop(self, told: signal.Signals) -> tuple[int, str]:
        """Its status after a signal, and all that it has said."""
        self.running.send_signal(told)
        return self.running.wait(PATIENCE), self.log.read_text()

    def kill_during(self, job: str, *, rows: int) -> None:
        """The same, as soon as so many rows of a job are done."""
        until(lambda: self.client.get(f"/v1/jobs/{job}").json["done"] >= rows)
        self.kill()


def start(state: Path, *options: str) -> Process:
    """`dpbart serve` in a process of its own."""
    command = [sys.executable, "-m", "dpbart", "serve", "--port", "0", "--state", str(state), *options]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    log = state.with_name(f"{state.name}.log")
    with log.open("w") as said:
        running = subprocess.Popen(command, stderr=said, env=environment)
    until(lambda: listening(log) is not None or running.poll() is not None)
    port = listening(log)
    assert port is not None, f"the server did not start: {log.read_text()}"
    return Process(Client(port), running, log)


def listening(log: Path) -> int | None:
    """The port of a server, as soon as it has said it."""
    found = re.search(r"listens on https?://.*:(\d+)/", log.read_text())
    return None if found is None else int(found[1])


@contextmanager
def process(state: Path, *options: str) -> Iterator[Process]:
    """The same, and stopped in the end."""
    started = start(state, *options)
    try:
        yield started
    finally:
        started.kill()
