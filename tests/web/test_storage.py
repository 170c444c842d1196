"""A ledger that is locked, a disk that is full, a clock that goes back: nothing is released that is not recorded."""

from __future__ import annotations

import os
import re
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path

import pytest

from dpbart.errors import BadLedger, BadTable, BudgetExceeded
from dpbart.ledger import database
from dpbart.ledger.ledger import Ledger
from dpbart.web.guard import Problem
from dpbart.web.releases import AnswerStore, Key, Stored, forget_unrecorded
from tests.web.running import Client, Held, in_thread, reached, until
from tests.web.test_budget import KEY, charge, drawn, opened, texts_of


def noting(waits: list[str], act: Callable[..., None]) -> Callable[..., None]:
    """The same act, which notes its name if the ledger was locked for as long as it could wait."""

    def noted(*args: object, **more: object) -> None:
        try:
            act(*args, **more)
        except BadLedger:
            waits.append(act.__name__)
            raise

    return noted


def test_a_locked_ledger_refuses_everybody_at_once_and_charges_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "SECONDS_TO_WAIT", 0.3)
    file, held, waits = tmp_path / "l.db", Held(), list[str]()
    for name in ("begin", "check", "record"):
        monkeypatch.setattr(Ledger, name, noting(waits, getattr(Ledger, name)))
    with in_thread(tmp_path / "state", ledger=file, load=held.load) as client, ThreadPoolExecutor(9) as callers:
        first = callers.submit(client.rewrite, "a text", people=["first"])
        reached(held.entered)
        others = [
            callers.submit(client.rewrite, "a", people=[f"p{number}"], key=f"number-{number:09}") for number in range(8)
        ]
        until(lambda: "dpbart_waiting_requests 9" in client.get("/metrics").body.decode())
        other = sqlite3.connect(file, isolation_level=None)
        other.execute("BEGIN EXCLUSIVE")
        held.go.set()
        answers = [each.result() for each in (first, *others)]
        assert waits == ["begin", "check"], "each of them has waited on its own"
        assert {answer.status for answer in answers} == {503}
        assert {answer.json["type"] for answer in answers} == {"urn:dpbart:bad-ledger"}
        assert "was held by another process" in answers[0].json["detail"]
        other.execute("ROLLBACK")
        other.close()
        again = [client.rewrite("a", people=[f"p{number}"], key=f"number-{number:09}") for number in range(8)]
        assert {answer.status for answer in again} == {200}
        assert not any("idempotency-replayed" in answer.headers for answer in again)
    assert texts_of(file, "first") == 0
    assert {texts_of(file, f"p{number}") for number in range(8)} == {1}


def test_an_answer_that_is_not_recorded_is_not_given_even_if_it_cannot_be_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a full disk: the ledger cannot be written, and neither can the stored answer be deleted."""
    file, answers, releases = opened(tmp_path)

    def full(*args: object, **more: object) -> None:
        raise BadLedger("database or disk is full")

    def stays(*args: object) -> None:
        raise Problem(503, "not-stored", "database or disk is full")

    monkeypatch.setattr(Ledger, "record", full)
    monkeypatch.setattr(AnswerStore, "forget", stays)
    refused = charge("anna", KEY)
    assert isinstance(releases.record([(refused, drawn("never sent"))])[refused], BadLedger)
    assert [each.body for each in answers.stored()] == ["never sent"]
    assert answers.find(KEY) is None
    monkeypatch.undo()
    releases.record([(charge("anna", KEY), drawn("sent"))])
    assert answers.find(KEY) == "sent"
    assert texts_of(file, "anna") == 1


def test_a_refused_answer_that_cannot_be_forgotten_is_not_given_after_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next server gives what the ledger has recorded, so another release must not take the refused one's row."""
    file, answers, releases = opened(tmp_path)
    ledger = Ledger(file)
    ledger.set_limit(Decimal(10), "anna")
    ledger.close()

    def stays(*args: object) -> None:
        raise Problem(503, "not-stored", "database or disk is full")

    releases.record([(charge("anna"), drawn("1"))])
    monkeypatch.setattr(AnswerStore, "forget", stays)
    refused = charge("anna", KEY)
    assert isinstance(releases.record([(refused, drawn("never sent"))])[refused], BudgetExceeded)
    monkeypatch.undo()
    releases.record([(charge("bert"), drawn("2"))])
    forget_unrecorded(file, answers)
    assert answers.stored() == []


def test_a_full_disk_refuses_an_answer_in_words_and_charges_nothing(tmp_path: Path) -> None:
    file, answers, releases = opened(tmp_path)
    pages = answers._connection.execute("PRAGMA page_count").fetchone()[0]
    answers._connection.execute(f"PRAGMA max_page_count = {pages}")  # SQLite's own way to be full
    small, large = charge("bert", budget="50"), charge("anna", KEY)
    outcomes = releases.record([(small, drawn("small")), (large, drawn("x" * 100_000))])
    refused = outcomes[large]
    assert isinstance(refused, Problem)
    assert refused.status == 503
    assert refused.detail.endswith("database or disk is full. Nothing was released or charged.")
    assert (answers.find(KEY), texts_of(file, "anna")) == (None, 0)
    assert (outcomes[small], texts_of(file, "bert")) == ("small", 1), "who is charged gets the answer"
    answers._connection.execute("PRAGMA max_page_count = 1000000")
    releases.record([(charge("anna", KEY), drawn("x" * 100_000))])
    assert texts_of(file, "anna") == 1


def test_a_ledger_that_has_recorded_and_failed_refuses_one_answer_and_not_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, _, releases = opened(tmp_path)
    record = Ledger.record

    def failed(*args: object, **more: object) -> None:
        record(*args, **more)  # type: ignore[arg-type]
        raise BadLedger("the disk failed after the commit")

    monkeypatch.setattr(Ledger, "record", failed)
    lost = charge("anna")
    assert isinstance(releases.record([(lost, drawn("lost"))])[lost], BadLedger)
    monkeypatch.undo()
    answered = charge("anna")
    assert releases.record([(answered, drawn("sent"))]) == {answered: "sent"}
    assert texts_of(file, "anna") == 2, "what may have been released stays spent"


FULL = """
import resource, sys
from dpbart.cli import cli
resource.setrlimit(resource.RLIMIT_FSIZE, (90_000, 90_000))
cli()
"""


def test_a_server_on_a_full_disk_goes_on_and_answers_nothing_uncharged(tmp_path: Path) -> None:
    ledger = tmp_path / "l.db"
    Ledger(ledger, create=True).close()
    command = [
        sys.executable,
        "-c",
        FULL,
        "serve",
        "--port",
        "0",
        "--state",
        str(tmp_path / "s"),
        "--ledger",
        str(ledger),
    ]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    running = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        assert running.stderr is not None
        found = re.search(r":(\d+)/", running.stderr.readline())
        assert found is not None
        client = Client(int(found[1]))
        keys = [f"request-{number:012}" for number in range(8)]
        answers = [client.rewrite("the food was cold", people=[key], key=key, card=True) for key in keys]
        answered = [key for key, answer in zip(keys, answers, strict=True) if answer.status == 200]
        assert {answer.status for answer in answers} == {200, 503}
        assert {key: texts_of(ledger, key) for key in keys} == {key: int(key in answered) for key in keys}
        refused = client.upload("a.csv", b"text\n" + b"a" * 3_000_000)
        assert (refused.status, refused.json["type"]) == (507, "urn:dpbart:not-saved")
        assert client.get("/v1/jobs").json == {"jobs": []}
        assert client.rewrite("a text", people=["anna"]).status == 200
        again = [client.rewrite("the food was cold", people=[key], key=key, card=True).status for key in answered]
        assert set(again) == {200}
        assert {texts_of(ledger, key) for key in answered} == {1}
    finally:
        running.kill()
        said = running.communicate()[1]
    assert "Traceback" not in said
    assert "food" not in said


def test_what_was_stored_before_the_clock_went_back_does_not_stay_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers, real = AnswerStore(tmp_path / "answers.db", seconds=100), time.time
    monkeypatch.setattr(time, "time", lambda: real() + 1_000_000)
    answers.put([Stored(KEY, None, 0, "body")])
    answers.confirm([Stored(KEY, None, 0, "body")])
    monkeypatch.setattr(time, "time", real)
    answers.sweep()
    assert answers.find(KEY) == "body", "a clock that goes back makes nobody pay twice"
    monkeypatch.setattr(time, "time", lambda: real() + 101)
    answers.sweep()
    assert answers.stored() == []


@pytest.mark.parametrize("forgotten", [False, True])
def test_a_deleted_answer_is_overwritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forgotten: bool) -> None:
    answers, real = AnswerStore(tmp_path / "answers.db", seconds=100), time.time
    answers.put([Stored(KEY, None, 0, "marmalade " * 2_000)])
    if forgotten:
        answers.forget([KEY])
    else:
        monkeypatch.setattr(time, "time", lambda: real() + 101)
        answers.sweep()
    assert not [file.name for file in tmp_path.iterdir() if b"marmalade" in file.read_bytes()]


def test_a_change_that_fails_is_taken_back_and_the_next_one_works(tmp_path: Path) -> None:
    answers = AnswerStore(tmp_path / "answers.db", seconds=100)
    impossible = Stored(Key.of("k" * 16, b""), None, 0, None)  # type: ignore[arg-type]
    with pytest.raises(Problem, match="503"):
        answers.put([Stored(KEY, None, 0, "with another one that fails"), impossible])
    assert answers.stored() == []
    answers.put([Stored(KEY, None, 0, "body")])
    assert [each.body for each in answers.stored()] == ["body"]


def test_a_folder_with_other_files_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    thesis = tmp_path / "home" / "jobs" / "thesis" / "chapter"
    thesis.parent.mkdir(parents=True)
    thesis.write_text("precious")
    (tmp_path / "home").chmod(0o755)
    with pytest.raises(BadTable, match="holds other files"), in_thread(tmp_path / "home"):
        pass
    assert stat.S_IMODE((tmp_path / "home").stat().st_mode) == 0o755
    assert [path.name for path in (tmp_path / "home").iterdir()] == ["jobs"]
    assert thesis.read_text() == "precious"


def test_only_what_a_server_has_made_is_deleted_when_the_next_one_starts(tmp_path: Path) -> None:
    with in_thread(tmp_path / "state"):
        pass
    upload, other = (tmp_path / "state" / "jobs" / name for name in ("0" * 32, "other"))
    upload.mkdir()
    other.mkdir()
    (tmp_path / "state" / "lock").unlink()  # a server in this process keeps it
    with in_thread(tmp_path / "state"):
        assert [path.name for path in (tmp_path / "state" / "jobs").iterdir()] == ["other"]
