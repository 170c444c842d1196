"""Files as jobs: progress, cancel, resume, download, and what is left on disk."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from dpbart.cli import cli
from dpbart.web.guard import Limits
from tests.web.running import Client, Held, Stepped, in_thread, until

ROWS = b"id,text\n" + b"".join(b"%d,the food was cold %d\n" % (number, number) for number in range(96))


def test_a_file_is_rewritten_and_its_card_verifies(client: Client, tmp_path: Path) -> None:
    job = client.upload("Notes.CSV", ROWS[:200].rpartition(b"\n")[0] + b"\n").json
    assert job["name"] == "Notes.CSV"
    done = client.wait_for(job["id"], "done")
    assert done["done"] == done["rows"] > 3
    assert done["guarantee"]["words"] == "(epsilon 10, delta 0)"
    assert "The model mini-code reads" in done["notices"][0]
    result = client.get(done["result"])
    assert result.headers["content-disposition"] == "attachment; filename*=UTF-8''Notes.private.csv"
    (tmp_path / "out.csv").write_bytes(result.body)
    (tmp_path / "out.csv.card.json").write_bytes(client.get(done["card"]).body)
    verify = ["card", "verify", str(tmp_path / "out.csv.card.json"), "--output", str(tmp_path / "out.csv")]
    verified = CliRunner().invoke(cli, verify)
    assert verified.exit_code == 0, verified.output
    page = client.get(f"/v1/jobs/{job['id']}/card.html")
    assert page.headers["content-type"].startswith("text/html")
    assert client.get(f"/v1/jobs/{job['id']}/card.txt").status == 200
    assert client.get(f"/v1/jobs/{job['id']}/card.exe").status == 404


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("my notes.csv", b"id,review\n1,hello\n", "'my notes.csv' has no column 'text'. It has: id, review."),
        ("my notes.xlsx", b"not a sheet", "'my notes.xlsx' is not a whole Excel workbook."),
        ("my notes.csv", b"", "'my notes.csv' has no rows"),
        ("my notes.csv.gz", b"no gzip", "'my notes.csv.gz'"),
    ],
)
def test_a_wrong_file_fails_with_a_reason_that_names_it_as_its_owner_does(
    client: Client, name: str, content: bytes, words: str
) -> None:
    failed = client.wait_for(client.upload(name, content).json["id"], "failed")
    assert failed["problem"]["status"] == 422
    assert words in failed["problem"]["detail"]
    assert os.sep not in failed["problem"]["detail"]
    assert failed["result"] is None
    assert client.get(f"/v1/jobs/{failed['id']}/result").status == 409


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("a.exe", {"epsilon": 10}, "must be one of .csv"),
        ("a", {"epsilon": 10}, "must be one of .csv"),
        ("a.csv", {"epsilon": -1}, "epsilon must be greater than 0"),
        ("a.csv", {}, "epsilon"),
        ("a.csv", {"epsilon": 10, "labels": "drop"}, "a label column needs a policy"),
        ("a.csv", {"epsilon": 10, "model": "/etc"}, "no model named"),
        ("a.csv", {"epsilon": 10, "ledger": "/tmp/l.db"}, "and has 1 more"),
    ],
)
def test_wrong_options_are_refused_at_once_and_leave_nothing(
    client: Client, name: str, options: object, words: str
) -> None:
    before = client.get("/v1/jobs").json
    refused = client.upload(name, b"text\nhello\n", options)
    assert refused.status == 422
    assert words in refused.json["detail"]
    assert client.get("/v1/jobs").json == before


def test_what_is_not_a_form_is_refused(client: Client) -> None:
    assert client.post("/v1/jobs", {"epsilon": 10}).status == 415
    broken = client.send("POST", "/v1/jobs", b"nonsense", {"Content-Type": "multipart/form-data; boundary=x"})
    assert broken.status in (400, 422)


def test_the_same_key_creates_one_job(client: Client) -> None:
    key = {"Idempotency-Key": "a-key-for-one-upload"}
    first, again = (client.upload("a.csv", b"text\nhello\n", headers=key) for _ in range(2))
    assert first.json["id"] == again.json["id"]
    assert again.headers["idempotency-replayed"] == "true"
    assert client.upload("b.csv", b"text\nhello\n", headers=key).json["type"] == "urn:dpbart:idempotency-key-reused"


def test_the_same_key_with_another_file_is_refused(tmp_path: Path) -> None:
    """Otherwise a client would take another person's rewriting for its own."""
    key, state = {"Idempotency-Key": "a-key-for-one-upload"}, tmp_path / "state"
    first, other = (b"text\n" + each * 200_000 for each in (b"a", b"b"))  # alike in name, options and size
    with in_thread(state) as client:
        job = client.upload("a.csv", first, headers=key).json["id"]
        for status in ("waiting", "done"):
            client.wait_for(job, status, "done")
            refused = client.upload("a.csv", other, headers=key)
            assert (refused.status, refused.json["type"]) == (422, "urn:dpbart:idempotency-key-reused")
            again = client.upload("a.csv", first, headers=key)
            assert (again.json["id"], again.headers["idempotency-replayed"]) == (job, "true")
        assert len(client.get("/v1/jobs").json["jobs"]) == 1
    moved = state.rename(tmp_path / "moved")
    (moved / "lock").unlink()  # held by the first server of this process
    with in_thread(moved) as client:
        assert client.upload("a.csv", other, headers=key).status == 422, "the next server knows it too"
        assert client.upload("a.csv", first, headers=key).json["id"] == job
    kept = (moved / "jobs" / job / "job.json").read_text()
    for digest in (hashlib.sha256(first), hmac.new(job.encode(), first, "sha256")):
        assert digest.hexdigest() not in kept, "without the key, nothing can be told about the file"


def test_a_job_shows_progress_is_cancelled_and_resumes(tmp_path: Path) -> None:
    slow = Stepped()
    with in_thread(tmp_path / "state", load=slow.load, ledger=tmp_path / "l.db") as client:
        job = client.upload("a.csv", ROWS, {"epsilon": 10, "id_column": "id"}).json["id"]
        client.wait_for(job, "running")
        other = client.upload("b.csv", ROWS, {"epsilon": 10, "id_column": "id"}).json["id"]
        assert client.get(f"/v1/jobs/{other}").json["status"] == "waiting"
        assert client.post(f"/v1/jobs/{other}/cancel").json["status"] == "cancelled"
        assert client.send("DELETE", f"/v1/jobs/{other}").status == 204
        assert client.get(f"/v1/jobs/{other}").status == 404
        slow.go.release()
        until(lambda: client.get(f"/v1/jobs/{job}").json["done"] == 32)
        assert client.get(f"/v1/jobs/{job}").json["rows"] == 96
        assert client.post(f"/v1/jobs/{job}/resume").status == 409
        assert client.send("DELETE", f"/v1/jobs/{job}").status == 409
        client.post(f"/v1/jobs/{job}/cancel")
        slow.go.release()
        assert client.wait_for(job, "cancelled")["result"] is None
        assert client.post(f"/v1/jobs/{job}/resume").status == 202
        slow.go.release(10)
        done = client.wait_for(job, "done")
        assert len(client.get(done["result"]).body.splitlines()) == 97
        told = client.get("/v1/ledger").json
        assert (told["people"], told["texts"]) == (96, 96)


OFTEN = b"id,text\n" + b"anna,it was cold\n" * 11 + b"bert,it rained\n"


def test_a_job_that_promises_less_than_expected_asks_before_anything_is_spent(tmp_path: Path) -> None:
    options = {"epsilon": 10, "person_column": "id", "expected_epsilon": 10}
    with in_thread(tmp_path / "state", ledger=tmp_path / "l.db") as client:
        job = client.upload("a.csv", OFTEN, options).json["id"]
        asking = client.wait_for(job, "asking", "done")
        assert asking["status"] == "asking"
        assert asking["worst"]["guarantee"]["epsilon"] == 110
        assert asking["worst"]["guarantee"]["level"] == "almost none"
        assert (asking["worst"]["texts"], asking["worst"]["words"]) == (11, "all 11 texts of one person")
        assert (asking["rows"], asking["result"]) == (12, None)
        assert client.get("/v1/ledger").json["people"] == 0, "nothing is spent"
        assert client.get(f"/v1/jobs/{job}/result").status == 409
        assert client.post(f"/v1/jobs/{job}/resume").status == 202
        assert client.wait_for(job, "asking", "done")["status"] == "done", "it asks once"
        assert client.get("/v1/ledger").json["texts"] == 12
        other = client.upload("a.csv", OFTEN, options).json["id"]
        client.wait_for(other, "asking")
        assert client.send("DELETE", f"/v1/jobs/{other}").status == 204
        assert client.get("/v1/ledger").json["texts"] == 12


@pytest.mark.parametrize(
    ("more", "status", "words"),
    [
        ({"expected_epsilon": 110}, "done", "all 11 texts of one person"),
        ({}, "done", "all 11 texts of one person"),
        ({"expected_epsilon": 10, "join_documents": True}, "done", "one text"),
        ({"expected_epsilon": 10, "person_column": None}, "done", "one text"),
        (
            {"expected_epsilon": 10, "person_column": None, "label_column": "id", "labels": "randomize:1"},
            "asking",
            "one text with its label",
        ),
        (
            {"expected_epsilon": 10, "person_column": None, "text_column": ["id", "text"]},
            "asking",
            "all 2 texts of a row",
        ),
    ],
)
def test_whether_a_job_asks_depends_on_the_worst_promise(
    client: Client, more: dict[str, object], status: str, words: str
) -> None:
    labels = {"label_set": ["anna", "bert"]} if "label_column" in more else {}
    job = client.upload("a.csv", OFTEN, {"epsilon": 10, "person_column": "id", **more, **labels}).json["id"]
    told = client.wait_for(job, "asking", "failed", "done")
    assert (told["status"], told["worst"]["words"]) == (status, words), told["problem"]


def test_a_job_still_asks_after_a_restart(tmp_path: Path) -> None:
    with in_thread(tmp_path / "state") as client:
        options = {"epsilon": 10, "person_column": "id", "expected_epsilon": 10}
        job = client.upload("a.csv", OFTEN, options).json["id"]
        client.wait_for(job, "asking")
    moved = (tmp_path / "state").rename(tmp_path / "moved")
    (moved / "lock").unlink()  # held by the first server of this process
    with in_thread(moved) as client:
        assert client.get(f"/v1/jobs/{job}").json["status"] == "asking"
        assert client.post(f"/v1/jobs/{job}/resume").status == 202
        client.wait_for(job, "done")


def test_the_input_goes_with_the_end_of_the_job_and_the_rest_after_its_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits, state, held, real = Limits(sweep_seconds=0.1), tmp_path / "state", Held(), time.time
    held.go.set()
    with in_thread(state, limits=limits, load=held.load) as client:
        job = client.upload("a.csv", b"text\nhello\n").json["id"]
        done = client.wait_for(job, "done")
        assert not list(state.rglob("input*"))
        assert done["expires"] == pytest.approx(done["ended"] + limits.job_seconds)
        client.get(done["result"], Range="bytes=0-1")
        client.send("HEAD", done["result"])
        assert client.get(f"/v1/jobs/{job}").json["expires"] == done["expires"], "nobody has downloaded all of it"
        client.get(done["result"])
        assert client.get(f"/v1/jobs/{job}").json["expires"] < done["expires"]
        held.go.clear()
        long = client.upload("b.csv", b"text\nhello\n").json["id"]
        client.wait_for(long, "running")
        monkeypatch.setattr(time, "time", lambda: real() + limits.downloaded_seconds + 1)
        until(lambda: not (state / "jobs" / job).exists())
        assert client.get(f"/v1/jobs/{job}").status == 404
        assert client.get(f"/v1/jobs/{long}").json["status"] == "running", "others do not wait for its end"
        held.go.set()


def test_a_new_server_takes_up_what_an_old_one_has_left(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with in_thread(state) as client:
        job = client.upload("a.csv", b"text\nhello\n").json["id"]
        client.wait_for(job, "done")
    record = state / "jobs" / job / "job.json"
    record.write_text(json.dumps({**json.loads(record.read_text()), "status": "running", "ended": None}))
    (state / "jobs" / ("0" * 32)).mkdir()  # an upload that was never complete
    moved = tmp_path / "moved"
    state.rename(moved)
    (moved / "lock").unlink()  # held by the first server of this process
    with in_thread(moved) as client:
        assert client.wait_for(job, "done")["rows"] == 1
        assert [each["id"] for each in client.get("/v1/jobs").json["jobs"]] == [job]
        assert not (moved / "jobs" / ("0" * 32)).exists()
