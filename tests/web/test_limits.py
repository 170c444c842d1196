"""Whoever asks for too much, or too slowly, is answered in words. Others are served, and so is the next one."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dpbart.web.batching import Batcher, Work
from dpbart.web.limits import Limits
from tests.web.running import Client, Held, heard, in_thread, until

POST = b"POST /v1/rewrite HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n"
TEXT = b'{"texts": ["a text"], "epsilon": 10}'
FORM = (
    b"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary=x\r\n"
    b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n"
)
UPLOAD = (
    b'--x\r\nContent-Disposition: form-data; name="options"\r\n\r\n{"epsilon": 10}\r\n'
    b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.csv"\r\n\r\ntext\nhello\n\r\n--x--\r\n'
)
JOB = "0" * 32
LARGE = 30_000_000  # bytes: more than the buffers of both ends


def large_result(state: Path) -> Path:
    """The folder of a server with a large result."""
    folder = state / "jobs" / JOB
    folder.mkdir(parents=True)
    done = {"id": JOB, "name": "a.csv", "options": {}, "status": "done", "created": time.time(), "ended": time.time()}
    (folder / "job.json").write_text(json.dumps(done))
    (folder / "output.csv").write_bytes(b"a" * LARGE)
    (state / "lock").touch()  # a server was here
    return state


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A server that waits half a second, for ten bytes per millisecond. It has a large result."""
    state = large_result(tmp_path_factory.mktemp("hasty") / "state")
    with in_thread(state, limits=Limits(wait_seconds=0.5, slowest=10_000)) as running:
        yield running


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


def test_a_body_that_does_not_come_is_answered_and_the_connection_ends(hasty: Client) -> None:
    with hasty.open() as connection:
        connection.sendall(POST % 100 + b"{")
        answer = heard(connection)
    assert status(answer) == 408
    assert b"did not arrive in time" in answer
    assert b"content-security-policy" in answer.lower()
    assert hasty.rewrite("a text").status == 200


def test_a_body_in_drops_does_not_last_forever(hasty: Client) -> None:
    with hasty.open() as connection:
        connection.sendall(POST % 1_000)
        connection.settimeout(0.05)
        answer, began = b"", time.monotonic()
        while not answer and time.monotonic() - began < 10:
            connection.sendall(b" ")
            try:
                answer = connection.recv(1 << 16)
            except TimeoutError:
                continue
    assert status(answer) == 408


def test_a_slow_body_that_keeps_the_pace_is_answered(tmp_path: Path) -> None:
    limits = Limits(wait_seconds=1.5, slowest=1_000)
    with in_thread(tmp_path / "state", limits=limits) as client, client.open() as connection:
        connection.sendall(POST % (len(TEXT) + 12_000))
        for _ in range(12):  # for longer than wait_seconds
            connection.sendall(b" " * 1_000)
            time.sleep(0.15)
        connection.sendall(TEXT)
        assert status(connection.recv(1 << 16)) == 200


@pytest.mark.parametrize(
    "drop", [None, b"", b"GET / HTTP/1.1\r\nX-", b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"]
)
def test_a_connection_without_a_whole_request_ends(hasty: Client, drop: bytes | None) -> None:
    with hasty.open() as connection:
        connection.settimeout(0.05)
        if drop is not None:
            connection.sendall(drop)
        began = time.monotonic()
        while time.monotonic() - began < 10:
            try:
                if not connection.recv(1 << 16):
                    break
            except TimeoutError:
                if drop is not None:
                    connection.sendall(b"a")
            except (ConnectionResetError, BrokenPipeError):
                break
        assert time.monotonic() - began < 5


def test_a_client_that_does_not_take_its_answer_is_cut_off(hasty: Client) -> None:
    before = hasty.get(f"/v1/jobs/{JOB}").json["expires"]
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(20)
        connection.connect(("127.0.0.1", hasty.port))
        connection.sendall(f"GET /v1/jobs/{JOB}/result HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        time.sleep(1.5)
        assert len(heard(connection)) < LARGE
    assert hasty.get(f"/v1/jobs/{JOB}").json["expires"] == before, "it was not downloaded"
    assert len(hasty.get(f"/v1/jobs/{JOB}/result").body) == LARGE
    assert hasty.get(f"/v1/jobs/{JOB}").json["expires"] < before


@pytest.mark.parametrize(("slowest", "arrives"), [(1_000, True), (5_000_000, False)])
def test_an_answer_that_is_taken_bit_by_bit_must_keep_the_pace(tmp_path: Path, slowest: int, arrives: bool) -> None:
    limits = Limits(wait_seconds=0.8, slowest=slowest)
    with in_thread(large_result(tmp_path / "state"), limits=limits) as client, client.open() as connection:
        head = f"GET /v1/jobs/{JOB}/result HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        connection.sendall(head.encode())
        taken = 0
        for _ in range(18):  # each wait is shorter than wait_seconds; all together are longer
            taken += len(connection.recv(100_000))
            time.sleep(0.1)
        taken += len(heard(connection))
        assert (taken > LARGE) == arrives


def test_one_connection_too_many_is_told_so(tmp_path: Path) -> None:
    with in_thread(tmp_path / "state", limits=Limits(connections=3)) as client:
        several = [client.open() for _ in range(3)]
        with client.open() as connection:
            answer = heard(connection)
        assert status(answer) == 429
        assert b"3 connections are open. Try again later." in answer
        assert b"content-security-policy" in answer.lower()
        for each in several:
            each.close()
        until(lambda: client.get("/healthz").status == 200)


@pytest.fixture
def queued(monkeypatch: pytest.MonkeyPatch) -> threading.Semaphore:
    """Is released each time that texts come into the queue."""
    put, queued = Batcher._put, threading.Semaphore(0)

    def watched(self: Batcher, work: Work) -> Work:
        queued.release()
        return put(self, work)

    monkeypatch.setattr(Batcher, "_put", watched)
    return queued


def test_too_many_requests_at_once_are_refused_and_the_others_answered(
    tmp_path: Path, queued: threading.Semaphore
) -> None:
    held = Held()
    with (
        in_thread(tmp_path / "state", load=held.load, limits=Limits(requests=2)) as client,
        ThreadPoolExecutor() as many,
    ):
        answers = [many.submit(client.rewrite, "a text") for _ in range(2)]
        for _ in answers:
            queued.acquire(timeout=20)
        refused = client.get("/healthz")
        assert (refused.status, refused.json["detail"]) == (429, "2 requests are being answered. Try again later.")
        assert refused.headers["retry-after"] == "5"
        held.go.set()
        assert [each.result().status for each in answers] == [200, 200]
        assert client.get("/healthz").status == 200


def test_too_many_waiting_texts_are_refused_and_the_others_answered(
    tmp_path: Path, queued: threading.Semaphore
) -> None:
    held = Held()
    with (
        in_thread(tmp_path / "state", load=held.load, limits=Limits(waiting=3)) as client,
        ThreadPoolExecutor() as many,
    ):
        first = many.submit(client.rewrite, "a text")
        held.entered.wait(20)
        second = many.submit(client.rewrite, "a text", "another")
        for _ in range(2):
            queued.acquire(timeout=20)
        refused = client.rewrite("a text", "another", key="a-key-that-is-refused")
        assert (refused.status, refused.json["detail"]) == (429, "2 texts are waiting. Try again later.")
        held.go.set()
        assert [first.result().status, second.result().status] == [200, 200]
        assert client.rewrite("a text", "another", key="a-key-that-is-refused").status == 200


def test_too_many_uploads_at_once_are_refused(tmp_path: Path) -> None:
    with in_thread(tmp_path / "state", limits=Limits(uploads=1)) as client:
        with client.open() as connection:
            connection.sendall(FORM % len(UPLOAD))
            assert status(connection.recv(1 << 16)) == 100  # the server has begun to read the body
            refused = client.upload("a.csv", b"text\nhello\n")
            assert (refused.status, refused.json["detail"]) == (429, "1 uploads are being answered. Try again later.")
            assert client.rewrite("a text").status == 200, "other requests have a limit of their own"
            connection.sendall(UPLOAD)
            assert status(connection.recv(1 << 16)) == 202
        assert client.upload("a.csv", b"text\nhello\n").status == 202


def test_all_bodies_together_have_a_limit(tmp_path: Path) -> None:
    padded = TEXT + b" " * 8_000
    with in_thread(tmp_path / "state", limits=Limits(memory=12_000)) as client:
        with client.open() as connection:
            connection.sendall(POST % len(padded) + padded[:7_000])
            until(lambda: client.send("POST", "/v1/rewrite", padded).status == 429)
            connection.sendall(padded[7_000:])
            assert status(connection.recv(1 << 16)) == 200
        assert client.send("POST", "/v1/rewrite", padded).status == 200


def test_too_many_waiting_jobs_are_refused(tmp_path: Path) -> None:
    held = Held()
    with in_thread(tmp_path / "state", load=held.load, limits=Limits(jobs=1)) as client:
        first = client.upload("a.csv", b"text\nhello\n").json["id"]
        client.wait_for(first, "running")
        second = client.upload("b.csv", b"text\nhello\n").json["id"]
        refused = client.upload("c.csv", b"text\nhello\n")
        assert (refused.status, refused.json["type"]) == (429, "urn:dpbart:busy")
        assert len(list((tmp_path / "state" / "jobs").iterdir())) == 2, "nothing is left of the refused one"
        held.go.set()
        for job in (first, second):
            client.wait_for(job, "done")
        assert client.upload("c.csv", b"text\nhello\n").status == 202
