"""Two things at the same time: each has one outcome, and what is charged is what was released."""

from __future__ import annotations

import gzip
import json
import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path

import pytest

from dpbart.errors import BadTable
from dpbart.ledger.ledger import Ledger
from dpbart.web.guard import Limits
from dpbart.web.job import DONE, WAITING, FileJob, JobFolder, JobRecord, columns_json
from dpbart.web.releases import AnswerStore
from tests.web.running import PATIENCE, Client, Held, in_thread, reached, until
from tests.web.test_budget import texts_of
from tests.web.test_limits import JOB, LARGE, large_result

KEY = "a-key-for-one-request"
ROWS = b"id,text\n" + b"".join(b"%d,the food was cold\n" % number for number in range(40))
BY_ID = {"epsilon": 10, "id_column": "id"}


def test_two_requests_with_one_key_are_drawn_and_charged_once(tmp_path: Path) -> None:
    ledger, held = tmp_path / "l.db", Held()
    with in_thread(tmp_path / "state", ledger=ledger, load=held.load) as client, ThreadPoolExecutor() as callers:
        first = callers.submit(client.rewrite, "a text", people=["anna"], key=KEY, epsilon=1)
        reached(held.entered)
        second = callers.submit(client.rewrite, "a text", people=["anna"], key=KEY, epsilon=1)
        other = client.rewrite("another text", people=["anna"], key=KEY, epsilon=1)
        assert (other.status, other.json["type"]) == (422, "urn:dpbart:idempotency-key-reused")
        held.go.set()
        assert first.result().body == second.result().body
        assert "idempotency-replayed" not in first.result().headers
        assert second.result().headers["idempotency-replayed"] == "true"
    assert texts_of(ledger, "anna") == 1


def test_a_client_that_has_gone_gets_its_answer_when_it_comes_back(tmp_path: Path) -> None:
    ledger, held = tmp_path / "l.db", Held()
    with in_thread(tmp_path / "state", ledger=ledger, load=held.load) as client:
        body = json.dumps({"texts": ["a text"], "epsilon": 10, "people": ["anna"]}).encode()
        with client.open() as connection:
            head = f"POST /v1/rewrite HTTP/1.1\r\nHost: localhost\r\nIdempotency-Key: {KEY}\r\n"
            connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            reached(held.entered)
        held.go.set()
        again = client.send("POST", "/v1/rewrite", body, {"Idempotency-Key": KEY})
        assert (again.status, again.headers["idempotency-replayed"]) == (200, "true")
    assert texts_of(ledger, "anna") == 1


def test_a_limit_that_is_set_while_the_server_runs_holds_at_once(tmp_path: Path) -> None:
    file = tmp_path / "l.db"
    with in_thread(tmp_path / "state", ledger=file) as client:
        assert client.rewrite("a text", people=["anna"]).status == 200
        ledger = Ledger(file)
        ledger.set_limit(Decimal(15))
        ledger.close()
        assert client.rewrite("a text", people=["anna"]).status == 409
        assert client.rewrite("a text", people=["bert"]).status == 200
        assert [client.get(f"/v1/ledger?start={'9' * digits}").status for digits in (12, 13)] == [200, 422]


def test_one_key_creates_one_job_however_many_ask_at_once(tmp_path: Path) -> None:
    with in_thread(tmp_path / "state") as client, ThreadPoolExecutor(4) as callers:
        asked = [callers.submit(client.upload, "a.csv", ROWS, None, {"Idempotency-Key": KEY}) for _ in range(4)]
        answers = [each.result() for each in asked]
        assert {answer.status for answer in answers} <= {202, 409}
        assert len({answer.json["id"] for answer in answers if answer.status == 202}) == 1
        assert len(client.get("/v1/jobs").json["jobs"]) == 1


def test_a_job_that_is_resumed_twice_at_once_runs_and_pays_once(tmp_path: Path) -> None:
    held = Held()
    with in_thread(tmp_path / "state", ledger=tmp_path / "l.db", load=held.load) as client:
        job = client.upload("a.csv", ROWS, BY_ID).json["id"]
        reached(held.entered)
        client.post(f"/v1/jobs/{job}/cancel")
        held.go.set()
        client.wait_for(job, "cancelled")
        with ThreadPoolExecutor(4) as callers:
            resumed = [callers.submit(client.post, f"/v1/jobs/{job}/resume") for _ in range(4)]
            assert sorted(each.result().status for each in resumed) == [202, 409, 409, 409]
        client.wait_for(job, "done")
        client.post(f"/v1/jobs/{job}/cancel")
        assert client.get(f"/v1/jobs/{job}").json["status"] == "done", "what is done cannot be cancelled"
        told = client.get("/v1/ledger").json
        assert (told["people"], told["texts"]) == (40, 40)


def test_a_cancelled_job_is_not_continued_by_the_next_server(tmp_path: Path) -> None:
    held, jobs = Held(), tmp_path / "state" / "jobs"
    with in_thread(tmp_path / "state", load=held.load) as client:
        job = client.upload("a.csv", ROWS, BY_ID).json["id"]
        reached(held.entered)
        assert client.post(f"/v1/jobs/{job}/cancel").json["status"] == "running", "until the end of its batch"
        left = json.loads((jobs / job / "job.json").read_text())  # if it were killed now
        held.go.set()
        ended = client.wait_for(job, "cancelled")
    assert left["status"] == "cancelled"
    assert left["rows"] == ended["rows"] == 40


def test_jobs_that_are_deleted_while_they_begin_leave_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "state" / "jobs"
    with in_thread(tmp_path / "state") as client:
        for number in range(12):
            job = client.upload("a.csv", b"text\nhello\n").json["id"]
            time.sleep(number / 1_000)
            assert client.send("DELETE", f"/v1/jobs/{job}").status in (204, 409)
        client.wait_for(client.upload("a.csv", b"text\nhello\n").json["id"], "done")
        kept = {each["id"] for each in client.get("/v1/jobs").json["jobs"]}
        assert {path.name for path in folder.iterdir()} == kept


def test_a_removed_job_is_not_saved_again(tmp_path: Path) -> None:
    """Saving would make a new folder, which others could read and nobody would delete."""
    job = FileJob(JobFolder.create(tmp_path, JOB, "a.csv"), JobRecord(JOB, "a.csv", {}, WAITING, 0.0))
    job.change(WAITING)
    job.remove()
    job.change(DONE, downloaded=1.0)
    assert not (tmp_path / JOB).exists()


def test_a_job_that_is_deleted_while_it_is_downloaded_arrives_and_leaves_nothing(tmp_path: Path) -> None:
    large_result(tmp_path / "state")
    with in_thread(tmp_path / "state") as client, client.open() as connection:
        head = f"GET /v1/jobs/{JOB}/result HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        connection.sendall(head.encode())
        arrived = connection.recv(1_000)
        assert client.send("DELETE", f"/v1/jobs/{JOB}").status == 204
        while part := connection.recv(1 << 20):
            arrived += part
        assert arrived.endswith(b"a" * LARGE)
        assert client.get(f"/v1/jobs/{JOB}").status == 404
    assert list((tmp_path / "state" / "jobs").iterdir()) == []


def test_a_job_can_be_cancelled_while_its_rows_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check = FileJob.check_going

    def waits(self: FileJob) -> None:
        """The count is as slow as the test needs it to be."""
        self.stop.wait(PATIENCE)
        check(self)

    monkeypatch.setattr(FileJob, "check_going", waits)
    with in_thread(tmp_path / "state") as client:
        job = client.upload("a.csv.gz", gzip.compress(b"text\n" + b"hello\n" * 100_000)).json["id"]
        assert client.wait_for(job, "running")["rows"] is None
        client.post(f"/v1/jobs/{job}/cancel")
        assert client.wait_for(job, "cancelled")["rows"] is None


def test_an_upload_that_unpacks_to_too_much_fails_in_words(tmp_path: Path) -> None:
    limits = Limits(unpacked=100_000, row=1_000)
    with in_thread(tmp_path / "state", limits=limits) as client:
        assert client.get("/healthz").json["limits"]["unpacked"] == 100_000
        bomb = gzip.compress(b"text\n" + b"hello\n" * 100_000)
        failed = client.wait_for(client.upload("a.csv.gz", bomb).json["id"], "failed")
        words = "'a.csv.gz' unpacks to more than 100,000 bytes. Split it into smaller files."
        assert (failed["problem"]["status"], failed["problem"]["detail"]) == (422, words)
        long = gzip.compress(b"text\n" + b"a" * 2_000)
        failed = client.wait_for(client.upload("a.csv.gz", long).json["id"], "failed")
        assert "a line longer than 1000 characters" in failed["problem"]["detail"]
        header = client.upload("a.csv.gz", gzip.compress(b"a" * 2_000))
        assert "a line longer than 1000 characters" in client.wait_for(header.json["id"], "failed")["problem"]["detail"]


def test_a_server_that_cannot_delete_answers_deletes_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a full disk, where a deleted job makes room."""

    full = threading.Event()

    def broken(self: AnswerStore) -> None:
        if full.is_set():
            raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(AnswerStore, "sweep", broken)
    large_result(tmp_path / "state")
    limits, real = Limits(sweep_seconds=0.1), time.time
    full.set()
    with in_thread(tmp_path / "state", limits=limits) as client:
        assert client.get(f"/v1/jobs/{JOB}").status == 200
        monkeypatch.setattr(time, "time", lambda: real() + limits.job_seconds + 1)
        until(lambda: client.get(f"/v1/jobs/{JOB}").status == 404)
    full.clear()  # its thread goes on


def test_a_download_arrives_although_the_disk_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: JobFolder, record: JobRecord) -> None:
        raise BadTable("no space left on device")

    large_result(tmp_path / "state")
    with in_thread(tmp_path / "state") as client:
        before = client.get(f"/v1/jobs/{JOB}").json["expires"]
        monkeypatch.setattr(JobFolder, "save", full)
        assert client.get(f"/v1/jobs/{JOB}/result").body == b"a" * LARGE
        assert client.get(f"/v1/jobs/{JOB}").json["expires"] < before


def test_a_job_that_cannot_be_saved_is_refused_in_words_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: JobFolder, record: JobRecord) -> None:
        raise BadTable(f"'{self.path}' cannot be written: No space left on device.")

    with in_thread(tmp_path / "state") as client:
        failed = client.upload("a.csv", b"review\nhello\n").json["id"]
        before = client.wait_for(failed, "failed")
        monkeypatch.setattr(JobFolder, "save", full)
        for refused in (client.upload("a.csv", ROWS), client.post(f"/v1/jobs/{failed}/resume")):
            assert (refused.status, refused.json["type"]) == (507, "urn:dpbart:not-saved")
            assert str(tmp_path) not in refused.json["detail"]
        assert [path.name for path in (tmp_path / "state" / "jobs").iterdir()] == [failed]
        assert client.get(f"/v1/jobs/{failed}").json == before


def test_a_job_that_cannot_be_saved_at_its_end_does_not_keep_the_next_one_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(self: JobFolder, record: JobRecord) -> None:
        raise BadTable("No space left on device.")

    held = Held()
    with in_thread(tmp_path / "state", load=held.load) as client:
        client.upload("a.csv", b"text\nhello\n")
        reached(held.entered)
        with monkeypatch.context() as disk:
            disk.setattr(JobFolder, "save", full)
            held.go.set()
            until(lambda: "A job cannot be saved: No space left on device." in caplog.messages)
        client.wait_for(client.upload("b.csv", b"text\nhello\n").json["id"], "done")


def test_a_job_from_the_future_is_kept_no_longer_than_others(tmp_path: Path) -> None:
    """The clock was wrong when it ended, and is right now."""
    large_result(tmp_path / "state")
    record = tmp_path / "state" / "jobs" / JOB / "job.json"
    record.write_text(json.dumps({**json.loads(record.read_text()), "ended": time.time() + 1_000_000}))
    with in_thread(tmp_path / "state", limits=Limits(job_seconds=100)) as client:
        until(lambda: client.get(f"/v1/jobs/{JOB}").json["expires"] < time.time() + 101)


def upload_columns(client: Client, name: str, content: bytes) -> int:
    body = (
        f'--x\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'.encode()
        + content
        + b"\r\n--x--\r\n"
    )
    return client.send("POST", "/v1/columns", body, {"Content-Type": "multipart/form-data; boundary=x"}).status


def test_looking_into_a_file_has_the_same_limits(tmp_path: Path) -> None:
    with in_thread(tmp_path / "state", limits=Limits(unpacked=100_000, row=1_000)) as client:
        assert upload_columns(client, "a.csv.gz", gzip.compress(b"text,id\n1,2\n")) == 200
        assert upload_columns(client, "a.csv.gz", gzip.compress(b"a," * 2_000)) == 422
        assert upload_columns(client, "a.json.gz", gzip.compress(b" " * 1_000_000 + b"[]")) == 422


def test_looking_into_a_file_does_not_take_forever(tmp_path: Path) -> None:
    folder = JobFolder.create(tmp_path, JOB, "a.csv")
    folder.source.write_bytes(b"text\nhello\n")
    with pytest.raises(BadTable, match="'a.csv' takes too long to look into. Send it as a job."):
        columns_json(folder, "a.csv", {}, Limits(wait_seconds=-1))
