"""Whoever asks for too much, or too slowly, is answered in words. Others are served, and so is the next one."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from dpbart.web.guard import Limits
from dpbart.web.queue import Batcher, Pending
from tests.web.running import PATIENCE, Client, Held, Stepped, heard, in_thread, reached, until

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
    """A server that waits two seconds, for ten bytes per millisecond. It has a large result."""
    state = large_result(tmp_path_factory.mktemp("hasty") / "state")
    with in_thread(state, limits=Limits(wait_seconds=2, slowest=10_000)) as running:
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
        while not answer and time.monotonic() - began < PATIENCE:
            with suppress(BrokenPipeError, ConnectionResetError):  # it may be refused just now
                connection.sendall(b" ")
            with suppress(TimeoutError):
                answer = connection.recv(1 << 16)
    assert status(answer) == 408


def test_a_slow_body_that_keeps_the_pace_is_answered(tmp_path: Path) -> None:
    limits = Limits(wait_seconds=4, slowest=1_000)
    with in_thread(tmp_path / "state", limits=limits) as client, client.open() as connection:
        connection.sendall(POST % (len(TEXT) + 12_000))
        for _ in range(12):  # for longer than wait_seconds
            connection.sendall(b" " * 1_000)
            time.sleep(0.4)
        connection.sendall(TEXT)
        assert status(connection.recv(1 << 16)) == 200


def test_a_connection_that_is_idle_after_its_answer_ends(tmp_path: Path) -> None:
    with in_thread(tmp_path / "state", limits=Limits(idle_seconds=1)) as client, client.open() as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert status(heard(connection)) == 200


def test_a_download_that_breaks_off_does_not_count(hasty: Client) -> None:
    before = hasty.get(f"/v1/jobs/{JOB}").json["expires"]
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(PATIENCE)
        connection.connect(("127.0.0.1", hasty.port))
        connection.sendall(f"GET /v1/jobs/{JOB}/result HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        assert status(connection.recv(1 << 16)) == 200
    assert hasty.get(f"/v1/jobs/{JOB}").json["expires"] == before, "it was not downloaded"
    assert len(hasty.get(f"/v1/jobs/{JOB}/result").body) == LARGE
    assert hasty.get(f"/v1/jobs/{JOB}").json["expires"] < before


def test_a_request_on_one_connection_too_many_is_refused(tmp_path: Path) -> None:
    with in_thread(tmp_path / "state", limits=Limits(connections=3)) as client:
        several = [client.open() for _ in range(3)]
        until(lambda: client.get("/healthz").status == 503)
        for each in several:
            each.close()
        until(lambda: client.get("/healthz").status == 200)


@pytest.fixture
def queued(monkeypatch: pytest.MonkeyPatch) -> threading.Semaphore:
    """Is released each time that texts come into the queue."""
    put, queued = Batcher._put, threading.Semaphore(0)

    def watched(self: Batcher, work: Pending) -> Pending:
        try:
            return put(self, work)
        finally:
            queued.release()

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
            queued.acquire(timeout=PATIENCE)
        refused = client.get("/healthz")
        assert (refused.status, refused.json["detail"]) == (429, "2 requests are in progress. Try again later.")
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
        reached(held.entered)
        second = many.submit(client.rewrite, "a text", "another")
        for _ in range(2):
            queued.acquire(timeout=PATIENCE)
        refused = client.rewrite("a text", "another", key="a-key-that-is-refused")
        assert (refused.status, refused.json["detail"]) == (429, "2 texts are waiting. Try again later.")
        held.go.set()
        assert [first.result().status, second.result().status] == [200, 200]
        assert client.rewrite("a text", "another", key="a-key-that-is-refused").status == 200


def ask(client: Client, texts: int, *, key: str = "", people: bool = False) -> socket.socket:
    """Send a request for so many texts, and wait for no answer."""
    body = {"texts": ["a text"] * texts, "epsilon": 10, "beams": 10, "model": "mini-pr-plus"}
    body |= {"people": ["anna"] * texts} if people else {}
    sent = json.dumps(body).encode()
    connection = client.open()
    header = f"Idempotency-Key: {key}\r\n".encode() if key else b""
    connection.sendall((POST % len(sent)).replace(b"\r\n\r\n", b"\r\n" + header + b"\r\n") + sent)
    return connection


def test_one_text_waits_for_one_batch_of_a_thousand(tmp_path: Path, queued: threading.Semaphore) -> None:
    """The rest of a large request waits behind others: one batch is under way, and the next one is for the one text."""
    stepped = Stepped()
    with in_thread(tmp_path / "state", load=stepped.load) as client, ThreadPoolExecutor() as callers:
        with ask(client, 1_000) as large:
            until(lambda: stepped.batches == [32])
            second = callers.submit(client.rewrite, "one text", beams=10, model="mini-pr-plus")
            for _ in range(2):
                queued.acquire(timeout=PATIENCE)
            stepped.go.release(2)
            assert second.result().status == 200
            until(lambda: len(stepped.batches) == 3)
            assert stepped.batches == [32, 1, 32]
            large.setblocking(False)
            with pytest.raises(BlockingIOError):  # it has no answer yet
                large.recv(1)
        stepped.go.release(100)


def test_nothing_more_is_done_for_a_client_who_has_gone(tmp_path: Path, queued: threading.Semaphore) -> None:
    stepped, ledger = Stepped(), tmp_path / "l.db"
    with in_thread(tmp_path / "state", load=stepped.load, ledger=ledger) as client, ThreadPoolExecutor() as callers:
        with ask(client, 100, people=True), ask(client, 1_000, people=True):
            until(lambda: stepped.batches == [32])
            for _ in range(2):
                queued.acquire(timeout=PATIENCE)
        until(lambda: "dpbart_waiting_requests 0" in client.get("/metrics").body.decode())
        after = callers.submit(client.rewrite, "one text", people=["bert"], beams=10, model="mini-pr-plus")
        stepped.go.release(100)
        assert after.result().status == 200
        assert stepped.batches == [32, 1]
        assert [each["person"] for each in client.get("/v1/ledger").json["spending"]] == ["bert"]


def test_a_client_with_a_key_has_some_time_to_come_back(tmp_path: Path, queued: threading.Semaphore) -> None:
    stepped, key = Stepped(), "a-key-of-somebody-who-went"
    limits = Limits(return_seconds=0.2)
    with in_thread(tmp_path / "state", load=stepped.load, limits=limits) as client, ThreadPoolExecutor() as callers:
        with ask(client, 40, key=key):
            until(lambda: stepped.batches == [32])
        until(lambda: "dpbart_waiting_requests 0" in client.get("/metrics").body.decode())
        again = callers.submit(
            client.post,
            "/v1/rewrite",
            {"texts": ["a text"] * 40, "epsilon": 10, "beams": 10, "model": "mini-pr-plus"},
            {"Idempotency-Key": key},
        )
        stepped.go.release(100)
        assert again.result().status == 200
        assert "idempotency-replayed" not in again.result().headers, "what was dropped is drawn again"
        assert stepped.batches == [32, 32, 8]


def test_texts_times_beams_have_a_limit(client: Client) -> None:
    refused = client.rewrite(*["a text"] * 1_000, beams=100)
    assert (refused.status, refused.json["type"]) == (413, "urn:dpbart:too-many-texts")
    assert refused.json["detail"] == (
        "a request may have 10,000 texts times beams, got 1,000 times 100. Send several, lower beams, or send a file."
    )


def test_too_many_uploads_at_once_are_refused(tmp_path: Path) -> None:
    with in_thread(tmp_path / "state", limits=Limits(uploads=1)) as client:
        with client.open() as connection:
            connection.sendall(FORM % len(UPLOAD))
            assert status(connection.recv(1 << 16)) == 100  # the server has begun to read the body
            refused = client.upload("a.csv", b"text\nhello\n")
            assert (refused.status, refused.json["detail"]) == (429, "Another upload is in progress. Try again later.")
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
