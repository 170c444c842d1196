"""A server that is killed loses no budget record, charges nothing twice, and continues its jobs."""

from __future__ import annotations

import http.client
import signal
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from click.testing import CliRunner

from dpbart.cli import cli
from dpbart.ledger.ledger import Ledger
from tests.web.running import Answer, Client, Process, process, start, until

REQUESTS, CALLERS = 30, 8


def ask(client: Client, number: int) -> Answer | None:
    """The answer, or None if the server has died."""
    try:
        return client.rewrite(f"the food was cold {number}", people=[f"p{number}"], key=f"request-number-{number:06}")
    except (OSError, http.client.HTTPException):
        return None


def texts_by_person(file: Path) -> dict[str, int]:
    ledger = Ledger(file)
    try:
        people = [f"p{number}" for number in range(REQUESTS)]
        return {person: sum(entry.texts for entry in ledger.entries(person)) for person in people}
    finally:
        ledger.close()


def ask_and_kill(running: Process) -> Sequence[Answer | None]:
    """The answers to all requests. Whoever gets the last of a third kills the server before anybody asks again."""
    turn, answered = threading.Lock(), 0

    def one(number: int) -> Answer | None:
        nonlocal answered
        answer = ask(running.client, number)
        with turn:
            answered += answer is not None
            if answered >= REQUESTS // 3:
                running.kill()
        return answer

    with ThreadPoolExecutor(CALLERS) as callers:
        return list(callers.map(one, range(REQUESTS)))


def test_nothing_is_charged_twice_and_nothing_is_answered_uncharged(tmp_path: Path) -> None:
    ledger = tmp_path / "l.db"
    before = ask_and_kill(start(tmp_path / "state", "--ledger", str(ledger)))
    charged = texts_by_person(ledger)
    answered = [number for number, answer in enumerate(before) if answer is not None and answer.status == 200]
    assert 0 < len(answered) < REQUESTS
    assert all(charged[f"p{number}"] == 1 for number in answered)
    with process(tmp_path / "state", "--ledger", str(ledger)) as again:
        after = [ask(again.client, number) for number in range(REQUESTS)]
    assert all(answer is not None and answer.status == 200 for answer in after)
    assert [after[number].body for number in answered] == [before[number].body for number in answered]  # type: ignore[union-attr]
    assert set(texts_by_person(ledger).values()) == {1}


def test_a_job_of_a_killed_server_is_continued(tmp_path: Path) -> None:
    rows = "id,text\n" + "".join(f"{number},the food was cold\n" for number in range(96))
    options = {"epsilon": 10, "id_column": "id"}
    running = start(tmp_path / "state", "--ledger", str(tmp_path / "l.db"))
    job = running.client.upload("a.csv", rows.encode(), options).json["id"]
    running.kill_during(job, rows=32)
    with process(tmp_path / "state", "--ledger", str(tmp_path / "l.db")) as again:
        done = again.client.wait_for(job, "done")
        assert len(again.client.get(done["result"]).body.splitlines()) == 97
        told = again.client.get("/v1/ledger").json
        assert (told["people"], told["texts"]) == (96, 96)


def test_a_second_server_does_not_use_the_same_folder(tmp_path: Path) -> None:
    with process(tmp_path / "state"):
        refused = CliRunner().invoke(cli, ["serve", "--port", "0", "--state", str(tmp_path / "state")])
    assert refused.exit_code == 1
    assert "another server uses the folder" in refused.output


@pytest.mark.parametrize(("told", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_server_that_is_told_to_stop_ends_cleanly_and_leaves_its_job_to_the_next(
    tmp_path: Path, told: signal.Signals, code: int
) -> None:
    rows = "text\n" + "the food was cold\n" * 160
    running = start(tmp_path / "state")
    job = running.client.upload("a.csv", rows.encode()).json["id"]
    until(lambda: running.client.get(f"/v1/jobs/{job}").json["done"] >= 32)
    status, said = running.stop(told)
    assert status == code, said
    assert "terminate" not in said
    assert ("continues unfinished jobs" in said) == (told == signal.SIGINT)
    with process(tmp_path / "state") as again:
        assert again.client.get(f"/v1/jobs/{job}").json["status"] in ("waiting", "running", "done")
        done = again.client.wait_for(job, "done")
        assert len(again.client.get(done["result"]).body.splitlines()) == 161
