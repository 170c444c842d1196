"""A file as a collection: released as a whole, charged once, continued by the next server, and read by topic."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from dpbart.cli import cli
from dpbart.collect import synthesize
from dpbart.collect.votes import Poll
from dpbart.rewrite.durable.folder import COUNTS
from dpbart.tables.batch import Batch
from tests.web.running import Answer, Client, Held, in_thread, process, reached, start, until

TOLD = {"yes": "The nurse was kind and helped me.", "no": "The bill was wrong and nobody answered the phone."}
NOTES = "who,note,again\n" + "".join(
    f"p{person},{TOLD[label]},{label}\n" for person in range(300) for label in (("yes", "no")[person % 2],)
)
OPTIONS = {
    "epsilon": 1,
    "text_column": "note",
    "person_column": "who",
    "label_column": "again",
    "label_values": ["yes", "no"],
    "rows": 50,
}
FEW = "who,note\nanna,The nurse was kind.\nanna,I was in pain.\nbert,The bill was wrong.\n"


def send(client: Client, content: str = NOTES, *, key: str | None = None, **options: Any) -> Any:
    headers = {} if key is None else {"Idempotency-Key": key}
    given = {name: value for name, value in {**OPTIONS, **options}.items() if value is not None}
    return client.upload("notes.csv", content.encode(), given, headers, path="/v1/collections")


def spent(client: Client) -> tuple[int, int, set[str]]:
    """People, charges, and what each of the first hundred has spent."""
    told = client.get("/v1/ledger").json
    return told["people"], told["texts"], {each["spent"] for each in told["spending"]}


def test_a_collection_is_released_charged_once_verified_and_read(tmp_path: Path) -> None:
    with in_thread(tmp_path / "state", ledger=tmp_path / "l.db") as client:
        job = send(client).json
        assert (job["kind"], job["name"]) == ("collection", "notes.csv")
        done = client.wait_for(job["id"], "done", "failed", "asking")
        assert done["status"] == "done", done
        assert done["guarantee"]["words"] == "(epsilon 1, delta 0)"
        assert done["worst"]["words"] == "all texts of one person"
        assert (done["rows"], done["done"]) == (300, 300)
        assert any("Trusted: you, who hold all texts." in line for line in done["notices"])
        assert not any(str(tmp_path) in line for line in done["notices"])
        assert spent(client) == (300, 300, {"1"})
        output, card = tmp_path / "out.csv", tmp_path / "out.csv.card.json"
        output.write_bytes(client.get(done["result"]).body)
        card.write_bytes(client.get(done["card"]).body)
        topics = client.get(f"/v1/jobs/{job['id']}/topics?areas=true").json
        compared = client.get(f"/v1/jobs/{job['id']}/topics?by=again").json
        refused = client.get(f"/v1/jobs/{job['id']}/topics?by=who")
    lines = output.read_text().splitlines()
    assert (lines[0], len(lines)) == ("note,again", 51)
    verified = CliRunner().invoke(cli, ["card", "verify", str(card), "--output", str(output)])
    assert verified.exit_code == 0, verified.output
    assert json.loads(card.read_text())["collection"]["people"] == 300
    assert (topics["release"], topics["counted"], topics["parts"]) == ("synthesised", "people", "areas")
    told = CliRunner().invoke(cli, ["topics", str(output), "--areas", "--json"])
    assert json.loads(told.output) == topics, "as on the command line"
    assert [group["name"] for group in compared["groups"]] == ["yes", "no"]
    assert (refused.status, refused.json["type"]) == (422, "urn:dpbart:bad-parameter")


def test_a_rewritten_file_is_read_too_unless_it_has_own_words(client: Client) -> None:
    def topics_at(epsilon: float, texts: int) -> Answer:
        rows = b"text\n" + b"the food was cold\n" * texts
        job = client.wait_for(client.upload("a.csv", rows, {"epsilon": epsilon}).json["id"], "done")
        assert job["kind"] == "texts"
        return client.get(f"/v1/jobs/{job['id']}/topics")

    told = topics_at(8, texts=40).json
    assert (told["release"], told["groups"][0]["counted"]) == ("rewritten", 40)
    refused = topics_at(150, texts=1)
    assert refused.status == 422
    assert "own words have no topic" in refused.json["detail"]


def test_topics_need_a_result(tmp_path: Path) -> None:
    held = Held()
    with in_thread(tmp_path / "state", load=held.load) as client:
        job = client.upload("a.csv", b"text\nhello\n").json["id"]
        reached(held.entered)
        assert client.get(f"/v1/jobs/{job}/topics").status == 409
        assert client.get("/v1/jobs/none/topics").status == 404
        held.go.set()
        client.wait_for(job, "done")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"epsilon": None}, "epsilon must be given"),
        ({"epsilon": 0}, "epsilon must be greater than 0"),
        ({"label_values": None}, "a label column needs the labels"),
        ({"person_column": None}, "a ledger or a person budget needs ids"),
        ({"model": "mini-pr"}, "has no book"),
        ({"model": "/etc"}, "no model named"),
        ({"areas": ["nowhere"]}, "nowhere"),
        ({"rows": 0}, "rows must be at least 1"),
        ({"shuffle": True}, "and has 1 more"),
        ({"ledger": "/tmp/l.db"}, "and has 1 more"),
    ],
)
def test_wrong_options_are_refused_at_once_and_leave_nothing(
    tmp_path: Path, options: dict[str, Any], words: str
) -> None:
    with in_thread(tmp_path / "state", ledger=tmp_path / "l.db") as client:
        refused = send(client, **options)
        assert refused.status == 422
        assert words in refused.json["detail"]
        assert client.get("/v1/jobs").json == {"jobs": []}
    assert list((tmp_path / "state" / "jobs").iterdir()) == []


def test_a_budget_that_is_used_up_is_refused_before_anything_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limited = CliRunner().invoke(cli, ["budget", "limit", str(tmp_path / "l.db"), "1.5"])
    assert limited.exit_code == 0, limited.output
    with in_thread(tmp_path / "state", ledger=tmp_path / "l.db") as client:
        client.wait_for(send(client).json["id"], "done")
        monkeypatch.setattr(synthesize, "read_book", None)  # whoever reads the texts fails in another way
        failed = client.wait_for(send(client).json["id"], "failed", "done")
        assert failed["problem"]["type"] == "urn:dpbart:budget-exceeded"
        assert spent(client) == (300, 300, {"1"})


def test_too_few_people_are_told_before_anything_is_spent(tmp_path: Path) -> None:
    few = {"label_column": None, "label_values": None}
    with in_thread(tmp_path / "state", ledger=tmp_path / "l.db") as client:
        job = send(client, FEW, **few).json["id"]
        asking = client.wait_for(job, "asking", "done")
        assert asking["status"] == "asking"
        assert asking["notices"][0].startswith("Warning: TOO FEW PEOPLE: 2 at epsilon 1.")
        assert client.get("/v1/ledger").json["people"] == 0
        assert client.post(f"/v1/jobs/{job}/resume").status == 202
        assert client.wait_for(job, "asking", "done")["status"] == "done", "it asks once"
        assert spent(client) == (2, 2, {"1"})


def test_a_key_names_one_job_of_one_kind(client: Client) -> None:
    key = "a-key-for-one-collection"
    first, again = (send(client, key=key) for _ in range(2))
    assert (again.json["id"], again.headers["idempotency-replayed"]) == (first.json["id"], "true")
    other = client.upload("notes.csv", NOTES.encode(), OPTIONS, {"Idempotency-Key": key})
    assert other.json["type"] == "urn:dpbart:idempotency-key-reused"


def test_a_collection_is_cancelled_while_it_is_read_and_resumes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, add = Held(), Poll.add

    def slowly(poll: Poll, batch: Batch) -> None:
        add(poll, batch)
        if batch.first + len(batch) > 300:  # the last moment before noise is drawn and paid for
            held.entered.set()
            reached(held.go)

    monkeypatch.setattr(Poll, "add", slowly)
    with in_thread(tmp_path / "state", ledger=tmp_path / "l.db") as client:
        job = send(client).json["id"]
        reached(held.entered)
        running = client.get(f"/v1/jobs/{job}").json
        assert (running["status"], running["rows"]) == ("running", 300)
        assert 0 < running["done"] < 300
        client.post(f"/v1/jobs/{job}/cancel")
        held.go.set()
        assert client.wait_for(job, "cancelled", "done")["status"] == "cancelled"
        assert client.get("/v1/ledger").json["people"] == 0, "nothing was released"
        client.post(f"/v1/jobs/{job}/resume")
        client.wait_for(job, "done")
        assert spent(client) == (300, 300, {"1"})


def test_a_collection_of_a_killed_server_is_continued_and_charged_once(tmp_path: Path) -> None:
    notes = "who,note\n" + "".join(f"p{number},The nurse was kind.\n" for number in range(1_000))
    options = {"label_column": None, "label_values": None, "rows": None}
    running = start(tmp_path / "state", "--ledger", str(tmp_path / "l.db"))
    job = send(running.client, notes, **options).json["id"]
    until(lambda: running.client.get(f"/v1/jobs/{job}").json["done"] > 0)
    running.kill()
    with process(tmp_path / "state", "--ledger", str(tmp_path / "l.db")) as again:
        done = again.client.wait_for(job, "done")
        assert len(again.client.get(done["result"]).body.splitlines()) == 1_001
        assert spent(again.client) == (1_000, 1_000, {"1"})


def test_what_was_charged_and_drawn_is_written_by_the_next_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = tmp_path / "state"
    with in_thread(state, ledger=tmp_path / "l.db") as client, monkeypatch.context() as broken:
        broken.setattr(synthesize, "written_rows", None)
        job = send(client).json["id"]
        assert client.wait_for(job, "failed", "done")["status"] == "failed"
        assert spent(client) == (300, 300, {"1"})
    drawn = json.loads(next(state.rglob(COUNTS)).read_text())
    moved = state.rename(tmp_path / "moved")
    (moved / "lock").unlink()  # held by the first server of this process
    with in_thread(moved, ledger=tmp_path / "l.db") as client:
        client.post(f"/v1/jobs/{job}/resume")
        done = client.wait_for(job, "done", "failed")
        assert done["status"] == "done", done
        assert client.get(done["card"]).json["collection"]["counts"] == drawn, "no second draw"
        assert spent(client) == (300, 300, {"1"})


def test_what_to_expect_is_told_in_the_words_of_the_command_line(client: Client) -> None:
    asked = "epsilon=1&people=400&labels=7&areas=health"
    told = client.get(f"/v1/collections/noise?{asked}")
    assert told.status == 200, told.body
    command = "noise --collection --epsilon 1 --people 400 --labels 7 --areas health --json"
    assert told.json == json.loads(CliRunner().invoke(cli, command.split()).output)
    assert told.json["enough"] is False
    assert client.get("/v1/collections/noise?epsilon=1").status == 422
    assert client.get("/v1/collections/noise?epsilon=1&people=400&model=mini-pr").status == 422
