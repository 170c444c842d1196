"""What an upload can ask for: everything that `dpbart rewrite` offers for a file."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from dpbart.cli import cli
from dpbart.errors import BadTable
from dpbart.web import work
from tests.languages import texts_in
from tests.web.running import Client, in_thread, process, start

VISITS = b"id,complaint,finding,ill\n" + b"".join(
    b"%d,my knee hurts on day %d,nothing was found,%s\n" % (row, row, b"yes" if row % 2 else b"no") for row in range(40)
)


def rewritten(client: Client, options: dict[str, object], content: bytes = VISITS, name: str = "v.csv") -> Any:
    """The job, once it is done."""
    answer = client.upload(name, content, options)
    assert answer.status == 202, answer.json
    done = client.wait_for(answer.json["id"], "done", "failed")
    assert done["problem"] is None
    return done


def rows_of(client: Client, job: Any) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(client.get(job["result"]).body.decode())))


def verified(client: Client, job: Any, folder: Path) -> Any:
    """The card of a job, once `dpbart card verify` has checked it against the output."""
    output, card = folder / "out.csv", folder / "out.csv.card.json"
    output.write_bytes(client.get(job["result"]).body)
    card.write_bytes(client.get(job["card"]).body)
    done = CliRunner().invoke(cli, ["card", "verify", str(card), "--output", str(output)])
    assert done.exit_code == 0, done.output
    return json.loads(card.read_text())


def test_every_text_column_is_a_release_of_its_own(client: Client, tmp_path: Path) -> None:
    job = rewritten(client, {"epsilon": 2, "text_column": ["complaint", "finding"], "keep_all": True})
    rows = rows_of(client, job)
    assert [row["id"] for row in rows] == [str(row) for row in range(40)]
    assert list(rows[0]) == ["id", "complaint", "finding", "ill"]
    assert "my knee hurts on day 7" not in {row["complaint"] for row in rows}
    card = verified(client, job, tmp_path)
    assert (card["row"]["columns"], card["row"]["texts"]) == (["complaint", "finding"], 2)
    assert job["guarantee"]["epsilon"] == 2
    assert job["shuffled"] is None
    assert any("Each row is 2 releases" in notice for notice in job["notices"])


def test_text_columns_can_be_joined(client: Client) -> None:
    joined = rewritten(client, {"epsilon": 2, "text_column": ["complaint", "finding"], "join_columns": True})
    assert list(rows_of(client, joined)[0]) == ["complaint"]
    assert not any("releases" in notice for notice in joined["notices"])


def test_only_columns_that_are_named_are_released(client: Client, tmp_path: Path) -> None:
    all_others = ["id", "finding", "ill"]
    for options, kept in (({"keep_columns": ["id"]}, ["id"]), ({}, []), ({"keep_all": True}, all_others)):
        job = rewritten(client, {"epsilon": 2, "text_column": "complaint", **options})
        assert sorted(rows_of(client, job)[0]) == sorted([*kept, "complaint"])
        assert verified(client, job, tmp_path)["other_columns"] == kept
        released = next(notice for notice in job["notices"] if notice.startswith("Released: "))
        assert all(f"'{name}'" in released for name in kept)


def test_the_notices_of_a_job_name_its_files_as_their_owner_does(tmp_path: Path) -> None:
    with in_thread(tmp_path / "server") as client:
        told = rewritten(client, {"epsilon": 2}, b"text\nhello\n", "my notes.csv")["notices"]
    assert told[0].startswith("Reads: my notes.csv, 1 text in the column 'text'. ")
    assert told[1].startswith("Writes: my notes.private.csv, ")
    assert told[1].endswith(", and the card my notes.private.csv.card.json.")
    assert not any(str(tmp_path) in notice for notice in told)


def test_labels_are_randomised(client: Client, tmp_path: Path) -> None:
    labels = {"label_column": "ill", "labels": "randomize:0.5", "label_set": ["yes", "no"]}
    job = rewritten(client, {"epsilon": 2, "text_column": "complaint", **labels})
    given = [row["ill"] for row in csv.DictReader(io.StringIO(VISITS.decode()))]
    told = [row["ill"] for row in rows_of(client, job)]
    assert set(told) == {"yes", "no"}
    assert told != given  # by chance in less than 1 of 10^8 runs: 0.62 to the power of 40
    assert verified(client, job, tmp_path)["label_epsilon"] == 0.5


def test_a_shuffled_job_releases_texts_alone_and_says_both_guarantees(client: Client, tmp_path: Path) -> None:
    options = {"epsilon": 2, "text_column": "complaint", "person_column": "id", "shuffle": True}
    job = rewritten(client, options)
    rows = rows_of(client, job)
    assert len(rows) == 40
    assert set(rows[0]) == {"complaint"}
    card = verified(client, job, tmp_path)
    stated = card["shuffled"]["guarantee"]
    assert job["guarantee"]["epsilon"] == 2
    assert (job["shuffled"]["epsilon"], job["shuffled"]["delta"]) == (stated["epsilon"], stated["delta"])
    assert job["shuffled"]["epsilon"] < 2
    assert "seconds" not in card["run"]


def test_the_local_epsilon_follows_from_a_central_one(client: Client, tmp_path: Path) -> None:
    job = rewritten(client, {"central_epsilon": 0.5, "text_column": "complaint", "shuffle": True})
    card = verified(client, job, tmp_path)
    assert job["shuffled"]["epsilon"] <= 0.5 < job["guarantee"]["epsilon"] == card["guarantee"]["epsilon"]


def test_nothing_that_shows_the_order_stays_with_a_shuffled_job(tmp_path: Path) -> None:
    with in_thread(tmp_path / "state") as client:
        job = rewritten(client, {"epsilon": 2, "text_column": "complaint", "shuffle": True})
        left = sorted(path.name for path in (tmp_path / "state" / "jobs" / job["id"]).rglob("*"))
        cards = [f"output.csv.card.{kind}" for kind in ("html", "json", "txt")]
        assert left == ["job.json", "output.csv", *cards]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"epsilon": 1, "text_column": 7}, "text column must be a list, got int."),
        ({"epsilon": 1, "text_column": ["a", 7]}, "text column, item 2, must be a string, got int."),
        ({"epsilon": 1, "text_column": []}, "each text column must be named once"),
        ({"epsilon": 1, "delta": 0.3}, "a delta of 0.3 would have no effect: the mechanism 'response' is pure"),
        ({"epsilon": 1, "text_column": "complaint", "sheet": "1"}, "--sheet is for Excel workbooks"),
        ({"epsilon": 1, "keep_columns": "id"}, "keep columns must be a list, got str."),
        ({"epsilon": 1, "keep_columns": ["id"], "shuffle": True}, "a shuffled output has no other columns"),
        ({"epsilon": 1, "text_column": ["a", "a"]}, "each text column must be named once"),
        ({"epsilon": 1, "join_columns": True}, "--join-columns joins several text columns"),
        ({"epsilon": 1, "split": "sentences"}, "and has 1 more"),
        ({"epsilon": 1, "ledger": "/etc/passwd", "overwrite": True}, "and has 2 more"),
        ({"epsilon": 1, "shuffle": "yes"}, "shuffle must be true or false"),
        ({"epsilon": 1, "central_epsilon": 1}, "Pass --shuffle with --central-epsilon"),
        ({"epsilon": 1, "shuffle": True, "central_epsilon": 1}, "Pass --epsilon or --central-epsilon"),
        ({"shuffle": True}, "epsilon"),
        ({"shuffle": True, "central_epsilon": -1}, "the central epsilon must be greater than 0"),
        ({"shuffle": True, "central_epsilon": 1, "model": "mini"}, "--shuffle needs a mechanism of pure epsilon"),
        ({"shuffle": True, "epsilon": 1, "model": "mini"}, "--shuffle needs a mechanism of pure epsilon"),
        ({"shuffle": True, "mechanism": "none"}, "--shuffle needs private texts"),
        ({"shuffle": True, "epsilon": 1, "mechanism": "gaussian"}, "the mechanism of 'mini-code' must be"),
    ],
)
def test_what_contradicts_itself_is_refused_before_the_file_is_read(
    client: Client, options: dict[str, object], words: str
) -> None:
    before = client.get("/v1/jobs").json
    refused = client.upload("a.csv", b"this file is never read", options)
    assert (refused.status, refused.json["type"]) == (422, "urn:dpbart:bad-parameter")
    assert words in refused.json["detail"]
    assert client.get("/v1/jobs").json == before


def test_an_unknown_ending_is_named_as_it_came(client: Client) -> None:
    assert "the ending of 'holiday.jpg' must be" in client.upload("holiday.jpg", b"x").json["detail"]
    assert "the ending of 'notes' must be one of .csv" in client.upload("/home/me/notes", b"x").json["detail"]


def test_no_path_of_the_server_is_in_any_problem_of_a_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = tmp_path / "it's a \\state"

    def fails(request: Any, described: Any, **more: Any) -> None:
        run = request.target.with_name(f".{request.target.name}.run")
        raise BadTable(f"{str(request.source)!r}, {request.target} and {str(run)!r} cannot be used.")

    monkeypatch.setattr(work, "plan", fails)
    with in_thread(state) as client:
        failed = client.wait_for(client.upload("a.csv", b"text\nhello\n").json["id"], "failed")
        detail = failed["problem"]["detail"]
        assert "a.csv" in detail
        assert "a.private.csv" in detail
        assert "state" not in detail
        assert failed["id"] not in detail


def test_plain_text_is_one_text_per_line_unless_told_otherwise(client: Client) -> None:
    job = rewritten(client, {"epsilon": 2}, b"One text.\nAnother text.\n", "my notes.txt")
    assert job["rows"] == 2
    assert job["notices"][5] == "my notes.txt is read as one text per line. To rewrite it as one text, pass --document."
    job = rewritten(client, {"epsilon": 2, "document": True}, b"One text.\nThe same text.\n", "my notes.txt")
    assert job["rows"] == 1
    assert not any("is read as" in notice for notice in job["notices"])


def test_a_server_never_says_in_which_language_texts_are(
    client: Client, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Clients may see all jobs. `dpbart rewrite` tells the operator."""
    german = rewritten(client, {"epsilon": 10}, "\n".join(texts_in("German") * 3).encode(), "n.txt")
    english = rewritten(client, {"epsilon": 10}, "\n".join(texts_in("English") * 3).encode(), "n.txt")
    assert german["notices"] == english["notices"] != []
    card = client.get(german["card"]).body.decode()
    logged = "".join(capfd.readouterr()) + caplog.text
    assert "German" not in json.dumps(german) + card + logged


def test_the_notices_of_a_job_outlive_the_server(tmp_path: Path) -> None:
    with in_thread(tmp_path / "state") as client:
        job = rewritten(client, {"epsilon": 2}, b"text\nhello\n")
    (tmp_path / "state").rename(tmp_path / "moved")
    (tmp_path / "moved" / "lock").unlink()  # held by the first server of this process
    with in_thread(tmp_path / "moved") as client:
        assert client.get(f"/v1/jobs/{job['id']}").json["notices"] == job["notices"] != []


def test_a_shuffled_job_of_a_killed_server_is_continued(tmp_path: Path) -> None:
    people = 96
    rows = "id,text,ill\n" + "".join(f"{number},the food was cold,no\n" for number in range(people))
    labels = {"label_column": "ill", "labels": "randomize:1", "label_set": ["yes", "no"]}
    options = {"central_epsilon": 2, "shuffle": True, "person_column": "id", **labels}
    key = {"Idempotency-Key": "a-shuffled-job-and-a-kill"}
    running = start(tmp_path / "state", "--ledger", str(tmp_path / "l.db"))
    job = running.client.upload("a.csv", rows.encode(), options, key).json["id"]
    running.kill_during(job, rows=32)
    with process(tmp_path / "state", "--ledger", str(tmp_path / "l.db")) as again:
        asked = again.client.upload("a.csv", rows.encode(), options, key)
        assert (asked.json["id"], asked.headers["idempotency-replayed"]) == (job, "true")
        done = again.client.wait_for(job, "done")
        assert [each["id"] for each in again.client.get("/v1/jobs").json["jobs"]] == [job]
        assert done["shuffled"]["epsilon"] <= 2
        written = rows_of(again.client, done)
        assert (len(written), set(written[0])) == (people, {"text", "ill"})
        assert verified(again.client, done, tmp_path)["rows"] == people
        told = again.client.get("/v1/ledger").json
        assert (told["people"], told["texts"]) == (people, people)
