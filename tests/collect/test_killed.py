"""A release that is killed at any moment spends once, and its noise is drawn once for anybody to see. Real kills."""

from __future__ import annotations

import json
import multiprocessing
import os
import secrets
import shutil
import signal
import stat
from collections.abc import Callable
from decimal import Decimal
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from dpbart.card.card import Card, read_card
from dpbart.cli import cli
from dpbart.collect import synthesize, votes
from dpbart.collect.synthesize import CollectionPlan, how_to_resume, synthesize_file
from dpbart.errors import BadTable, NotResumable
from dpbart.ledger.ledger import Ledger
from dpbart.models.bundle import Bundle
from dpbart.options.collecting import CollectionBudget, CollectionRequest
from dpbart.rewrite.durable.folder import COUNTS, folder_of
from dpbart.rewrite.durable.unfinished import Stopped, UnfinishedRun

PEOPLE = 150
STEPS: dict[str, tuple[Any, str, bool]] = {  # where to die, and whether after the call
    "before it is recorded": (Ledger, "record", False),
    "after it is recorded": (Ledger, "record", True),
    "before the counts are saved": (synthesize, "write_whole", False),
    "after the counts are saved": (synthesize, "write_whole", True),
    "before the ledger knows": (Ledger, "advance", False),
    "while rows are written": (synthesize, "draw_rows", True),
    "after the card": (Card, "write", True),
    "after the output": (UnfinishedRun, "remove", False),
}


def a_request(folder: Path, **changed: Any) -> CollectionRequest:
    asked = {"person_column": "who", "ledger": folder / "l.db", "resume": True, **changed}
    return CollectionRequest(**{"source": folder / "in.csv", "target": folder / "out.csv", **asked})


def work_in(folder: Path, model: str, die: str, begun: Event) -> None:
    """Release the collection in a process of its own, until it ends or is killed."""
    os.environ["OMP_NUM_THREADS"] = "1"
    if die:
        _die_at(*STEPS[die])
    begun.set()
    synthesize_file(a_request(folder), CollectionBudget(model, 1.0))


def _die_at(owner: Any, name: str, after: bool) -> None:
    real: Callable[..., object] = getattr(owner, name)

    def deadly(*args: object, **kwargs: object) -> object:
        if not after:
            os.kill(os.getpid(), signal.SIGKILL)
        real(*args, **kwargs)
        os.kill(os.getpid(), signal.SIGKILL)
        return None

    setattr(owner, name, deadly)


def live(folder: Path, model: str, *, die: str = "", seconds: float | None = None) -> int | None:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["dpbart.collect.synthesize", "dpbart.models.code.model"])
    begun = context.Event()
    process = context.Process(target=work_in, args=(folder, model, die, begun))
    process.start()
    if seconds is not None:
        assert begun.wait(600)
    process.join(seconds)
    if process.is_alive():
        process.kill()
    process.join()
    return process.exitcode


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = "".join(f"p{number % PEOPLE},is the cow number {number} ready\n" for number in range(2 * PEOPLE))
    (tmp_path / "in.csv").write_text("who,text\n" + rows)
    return tmp_path


@pytest.fixture(scope="module")
def model(tiny_code: Bundle) -> str:
    return str(tiny_code.folder)


def saved_counts(folder: Path) -> object:
    """The noised counts that somebody may have seen; None if there are none."""
    file = folder_of(folder / "out.csv") / COUNTS
    return json.loads(file.read_text()) if file.is_file() else None


def released_counts(folder: Path) -> object:
    card = read_card(folder / "out.csv.card.json")
    assert card.collection is not None
    return [list(row) for row in card.collection.counts]


def check_the_end(folder: Path, seen: object) -> None:
    """Each person has paid once, and counts that may have been seen were not drawn again."""
    ledger = Ledger(folder / "l.db")
    assert {ledger.spent(f"p{number}") is not None for number in range(PEOPLE)} == {True}
    assert {entry.texts for number in range(PEOPLE) for entry in ledger.entries(f"p{number}")} == {1}
    most = ledger.summary().most
    assert most is not None
    assert most[1].epsilon == Decimal(1)
    assert seen in (None, released_counts(folder))
    assert len((folder / "out.csv").read_text().splitlines()) == PEOPLE + 1
    assert not folder_of(folder / "out.csv").exists()
    asked = ["card", "verify", str(folder / "out.csv.card.json"), "--output", str(folder / "out.csv")]
    assert CliRunner().invoke(cli, asked).exit_code == 0


@pytest.mark.parametrize("die", STEPS)
def test_a_release_resumes_after_a_kill_at_each_step(folder: Path, model: str, die: str) -> None:
    assert live(folder, model, die=die) == -signal.SIGKILL
    seen = saved_counts(folder)
    late = ("after the counts", "while rows", "after the card", "after the output")
    assert (seen is not None) == die.startswith(late)
    again = die in ("after it is recorded", "before the counts are saved")  # die there once more
    if again:
        assert live(folder, model, die="before the counts are saved") == -signal.SIGKILL
    if die == "after the output" and not (folder_of(folder / "out.csv") / "run.json").exists():
        return
    assert live(folder, model) == 0
    check_the_end(folder, seen)


def test_a_release_resumes_after_kills_at_random_moments(folder: Path, model: str) -> None:
    seen: object = None
    for _ in range(5):
        live(folder, model, seconds=secrets.randbelow(60) / 100)
        if (folder / "out.csv").exists() and not (folder_of(folder / "out.csv") / "run.json").exists():
            shutil.rmtree(folder_of(folder / "out.csv"), ignore_errors=True)  # killed while it was deleted
            break
        now = saved_counts(folder)
        assert seen in (None, now)
        seen = now
    else:
        assert live(folder, model) == 0
    check_the_end(folder, seen)


@pytest.fixture
def dead(folder: Path, model: str) -> Path:
    """A killed run whose counts are saved."""
    assert live(folder, model, die="after the counts are saved") == -signal.SIGKILL
    return folder


def test_the_folder_of_a_killed_run_holds_noised_counts_for_its_owner_alone(dead: Path) -> None:
    work = folder_of(dead / "out.csv")
    file = work / COUNTS
    assert (stat.S_IMODE(work.stat().st_mode), stat.S_IMODE(file.stat().st_mode)) == (0o700, 0o600)
    held = [each for each in work.iterdir() if each.name != "secret"]  # random bytes, which may be anything
    content = b"".join(each.read_bytes() for each in held)
    assert b"number" not in content  # a word of every text
    assert b"p17" not in content
    counts = json.loads(file.read_text())
    assert any(count % 720_720 for row in counts for count in row)  # not the votes, which are whole here


def test_the_same_command_again_is_refused_until_somebody_decides(dead: Path, model: str) -> None:
    budget, seen = CollectionBudget(model, 1.0), saved_counts(dead)
    with pytest.raises(BadTable, match="has an unfinished run with its counts drawn and saved. Pass --resume"):
        synthesize_file(a_request(dead, resume=False), budget)
    card = synthesize_file(a_request(dead), budget)
    assert card.collection is not None
    assert [list(row) for row in card.collection.counts] == seen


def test_another_setting_or_input_cannot_resume(dead: Path, model: str) -> None:
    with pytest.raises(NotResumable, match="rows"):
        synthesize_file(a_request(dead, rows=9), CollectionBudget(model, 1.0))
    with pytest.raises(NotResumable, match="channel"):
        synthesize_file(a_request(dead), CollectionBudget(model, 1.1))
    (dead / "in.csv").write_text((dead / "in.csv").read_text().replace("cow", "hen"))
    with pytest.raises(NotResumable, match="the input"):
        synthesize_file(a_request(dead), CollectionBudget(model, 1.0))


def test_one_payment_is_drawn_from_one_folder_only(folder: Path, model: str) -> None:
    """A copy of the folder, made after the payment and before the counts, cannot draw counts of its own."""
    budget = CollectionBudget(model, 1.0)
    assert live(folder, model, die="before the counts are saved") == -signal.SIGKILL
    copy = folder / "copy"
    shutil.copytree(folder_of(folder / "out.csv"), copy)
    synthesize_file(a_request(folder), budget)
    (folder / "out.csv").unlink()
    shutil.copytree(copy, folder_of(folder / "out.csv"))
    with pytest.raises(NotResumable):
        synthesize_file(a_request(folder, overwrite=False), budget)


def test_an_older_copy_of_the_folder_cannot_draw_again(folder: Path, model: str) -> None:
    """One from before its counts were saved: the ledger knows that they were."""
    assert live(folder, model, die="while rows are written") == -signal.SIGKILL
    (folder_of(folder / "out.csv") / COUNTS).unlink()
    with pytest.raises(NotResumable, match="one of the two is an older copy"):
        synthesize_file(a_request(folder), CollectionBudget(model, 1.0))


def test_damaged_counts_are_refused(dead: Path, model: str) -> None:
    for content in ("[[1, 2", "[[1, 2]]", "{}"):
        (folder_of(dead / "out.csv") / COUNTS).write_text(content)
        with pytest.raises(NotResumable, match="is damaged"):
            synthesize_file(a_request(dead), CollectionBudget(model, 1.0))


def test_overwriting_starts_a_new_release_and_pays_again(dead: Path, model: str) -> None:
    card = synthesize_file(a_request(dead, resume=False, overwrite=True), CollectionBudget(model, 1.0))
    assert card.collection is not None
    spent = Ledger(dead / "l.db").spent("p1")
    assert spent is not None
    assert spent.epsilon == 2  # what was recorded stays spent


def test_a_release_that_is_stopped_while_texts_are_read_leaves_nothing(
    folder: Path, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(synthesize, "count_votes", stop)
    with pytest.raises(KeyboardInterrupt):
        synthesize_file(a_request(folder), CollectionBudget(model, 1.0))
    assert not folder_of(folder / "out.csv").exists()
    assert Ledger(folder / "l.db").summary().texts == 0


def test_a_release_that_is_stopped_later_says_how_to_go_on(
    folder: Path, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(CollectionPlan, "_write", stop)
        with pytest.raises(Stopped, match="The noised counts are saved. To continue"):
            synthesize_file(a_request(folder), CollectionBudget(model, 1.0))
    seen = saved_counts(folder)
    assert how_to_resume(folder).startswith("Stopped. The payment is saved.")
    synthesize_file(a_request(folder), CollectionBudget(model, 1.0))
    check_the_end(folder, seen)


def test_an_input_that_changes_while_it_is_read_is_not_released(
    folder: Path, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = votes.count_votes

    def changed(*args: Any) -> Any:
        counted = real(*args)
        (folder / "in.csv").write_text("who,text\nq,another\n")
        return counted

    monkeypatch.setattr(synthesize, "count_votes", changed)
    content = (folder / "in.csv").read_text()
    for out in ("out.csv", "-"):
        (folder / "in.csv").write_text(content)
        with pytest.raises(BadTable, match="was changed during the run"):
            synthesize_file(
                a_request(folder, target=folder / out if out != "-" else Path(out), resume=False),
                CollectionBudget(model, 1.0),
            )
    assert Ledger(folder / "l.db").summary().texts == 0
    assert not (folder / "out.csv").exists()
