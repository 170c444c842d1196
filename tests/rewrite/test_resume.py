"""A run that is killed at any moment can resume: nothing is lost, rewritten twice or charged twice. Real kills."""

from __future__ import annotations

import csv
import hashlib
import json
import math
import multiprocessing
import os
import secrets
import shutil
import signal
import stat
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest

from dpbart import Rewriter, files
from dpbart.card.card import Card
from dpbart.errors import BadTable, BudgetExceeded, NotResumable
from dpbart.ledger.ledger import Ledger
from dpbart.options.rewriting import Request
from dpbart.rewrite.durable import commit
from dpbart.rewrite.durable.folder import SavedTexts, folder_of
from dpbart.rewrite.durable.unfinished import UnfinishedRun, open_run, stamp_of
from dpbart.rewrite.job import plan
from dpbart.testing import LINE, FakeModel, described, fake_rewriter
from tests.rewrite.jobs import inline, marked, run

ROWS, PEOPLE = 160, 30


def slowly_marked(texts: Sequence[str]) -> list[str]:
    time.sleep(0.002 if texts else 0)
    return marked(texts)


def rewriter_at(epsilon: float = 500) -> Rewriter:
    """A slow rewriter that returns each text with a unique mark."""
    return fake_rewriter(slowly_marked, epsilon=epsilon, delta=1e-9, batch_size=4)


def a_task(folder: Path, **changed: object) -> Request:
    task = {"person_column": "who", "ledger": folder / "l.db", "resume": True, **changed}
    return Request(folder / "in.csv", folder / "out.csv", **task)


def work_in(folder: Path, die: str, begun: Event) -> None:
    """Run the job in its own process, until it ends or is killed."""
    commit.PART_ROWS, commit.PART_SECONDS = 20, math.inf
    place, _, times = die.partition(" ")
    owner: dict[str, type] = {
        "add": SavedTexts,
        "added": SavedTexts,
        "record": Ledger,
        "write": Card,
        "remove": UnfinishedRun,
    }
    if place:
        _die_at(owner[place], place, int(times))
    rewriter = rewriter_at()
    begun.set()
    run(a_task(folder), rewriter)


def _die_at(owner: type, place: str, times: int) -> None:
    """Kill this process at the n-th call: after the call for "added" and "write", otherwise before it."""
    name = "add" if place == "added" else place
    real: Callable[..., object] = getattr(owner, name)
    calls = 0

    def deadly(*args: object, **kwargs: object) -> object:
        nonlocal calls
        calls += 1
        if calls == times and place not in ("added", "write"):
            os.kill(os.getpid(), signal.SIGKILL)
        done = real(*args, **kwargs)
        if calls == times:
            os.kill(os.getpid(), signal.SIGKILL)
        return done

    setattr(owner, name, deadly)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with (tmp_path / "in.csv").open("w", newline="") as out:
        rows = csv.writer(out)
        rows.writerow(["who", "text"])
        rows.writerows((f"p{number * 7 % PEOPLE}", f"text {number}") for number in range(ROWS))
    return tmp_path


def live(folder: Path, *, die: str = "", seconds: float | None = None) -> int | None:
    """Start the job. If `seconds` is given, kill the job that long after it has begun, unless it has ended."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["dpbart.rewrite.job"])
    begun = context.Event()
    process = context.Process(target=work_in, args=(folder, die, begun))
    process.start()
    if seconds is not None:
        assert begun.wait(600)
    process.join(seconds)
    if process.is_alive():
        process.kill()
    process.join()
    return process.exitcode


def saved_texts(folder: Path) -> list[str]:
    work = folder_of(folder / "out.csv")
    return [text for (text,), _ in SavedTexts(work).read()] if work.exists() else []


def check_the_end(folder: Path, seen: Sequence[str]) -> None:
    with (folder / "out.csv").open(newline="") as out:
        texts = [row["text"] for row in csv.DictReader(out)]
    assert [" ".join(text.split()[:2]) for text in texts] == [f"text {number}" for number in range(ROWS)]
    assert texts[: len(seen)] == list(seen)  # texts that may have been seen were not rewritten
    counted = Counter(f"p{number * 7 % PEOPLE}" for number in range(ROWS))
    ledger = Ledger(folder / "l.db")
    assert {person: sum(each.texts for each in ledger.entries(person)) for person in counted} == counted
    assert ledger.summary().texts == ROWS
    assert not folder_of(folder / "out.csv").exists()


@pytest.mark.parametrize("die", ["record 3", "add 3", "added 3", "write 1", "remove 1"])
def test_a_run_resumes_after_a_kill_at_each_step_of_a_release(folder: Path, die: str) -> None:
    assert live(folder, die=die) == -signal.SIGKILL
    seen = saved_texts(folder)
    assert live(folder, die=die if die == "add 3" else "") == (-signal.SIGKILL if die == "add 3" else 0)
    if die == "add 3":
        assert live(folder) == 0
    check_the_end(folder, seen)


def test_a_run_resumes_after_kills_at_random_moments(folder: Path) -> None:
    seen: list[str] = []
    for _ in range(5):
        live(folder, seconds=secrets.randbelow(60) / 100)
        if is_over(folder):
            break
        now = saved_texts(folder)
        assert now[: len(seen)] == seen
        seen = now
    if is_over(folder):
        shutil.rmtree(folder_of(folder / "out.csv"), ignore_errors=True)  # the run was killed while deleting it
    else:
        assert live(folder) == 0
    check_the_end(folder, seen)


def is_over(folder: Path) -> bool:
    """Whether the output exists and its run is finished: the manifest is the first file to be deleted."""
    return (folder / "out.csv").exists() and not (folder_of(folder / "out.csv") / "run.json").exists()


@pytest.fixture
def dead(folder: Path) -> Path:
    """A folder with a killed run: two parts are saved, and a third is recorded but not saved."""
    assert live(folder, die="add 3") == -signal.SIGKILL
    return folder


def test_a_changed_input_model_or_setting_is_refused_by_name(dead: Path) -> None:
    rewriter = rewriter_at(epsilon=400)
    message = (
        r"this has changed: channel \(mech:gaussian\|eps:500.*, now mech:gaussian\|eps:400.*\). Change it back, or"
    )
    with pytest.raises(NotResumable, match=message):
        run(a_task(dead), rewriter)
    rewriter = replace(rewriter_at(), model=FakeModel(line=replace(LINE, name="copy")))
    with pytest.raises(NotResumable, match=r"changed: model \(fake@.*, now copy@"):
        run(a_task(dead), rewriter)
    (dead / "in.csv").write_text((dead / "in.csv").read_text().replace("text 7", "text 8"))
    rewriter = rewriter_at()
    with pytest.raises(NotResumable, match="changed: the input. Change it back"):
        run(a_task(dead), rewriter)
    with pytest.raises(NotResumable, match=r"changed: ledger \(.*, now None\)"):
        run(a_task(dead, ledger=None), rewriter)


def test_an_unfinished_run_is_kept_unless_the_user_overwrites_it(dead: Path) -> None:
    rewriter = rewriter_at()
    with pytest.raises(BadTable, match="has an unfinished run with 40 texts saved. Pass --resume"):
        plan(a_task(dead, resume=False), described(rewriter))
    run(a_task(dead, resume=False, overwrite=True), rewriter)
    assert Ledger(dead / "l.db").summary().texts == 60 + ROWS  # what was recorded stays spent


def test_an_older_copy_of_the_folder_cannot_resume(dead: Path) -> None:
    """The ledger has recorded texts that the copy lacks; somebody may have seen them."""
    part = sorted(folder_of(dead / "out.csv").glob("*.arrow"))[-1]
    part.unlink()
    rewriter = rewriter_at()
    with pytest.raises(NotResumable, match="the ledger has 60 texts of this run, 40 of them safe, but 20 are saved"):
        run(a_task(dead), rewriter)


def test_two_runs_cannot_write_the_same_output_at_once(dead: Path) -> None:
    rewriter = rewriter_at()
    job = plan(a_task(dead), described(rewriter))
    seen = stamp_of(dead / "in.csv")
    with open_run(dead / "out.csv", dead / "in.csv", {}, run="other", resume=False, overwrite=True, seen=seen):
        with pytest.raises(BadTable, match="another run is writing"):
            job.run(inline(rewriter))
        with pytest.raises(BadTable, match="another run is writing"):
            plan(a_task(dead), described(rewriter))


def test_the_folder_of_a_run_holds_nothing_from_the_input(dead: Path) -> None:
    work = folder_of(dead / "out.csv")
    assert stat.S_IMODE(work.stat().st_mode) == 0o700
    assert stat.S_IMODE((work / "secret").stat().st_mode) == 0o600
    plain = hashlib.sha256((dead / "in.csv").read_bytes()).hexdigest()
    held = json.loads((work / "run.json").read_text())
    assert plain not in json.dumps(held)
    assert len(held["settings"]["the input"]) == 64


def test_a_run_that_fills_the_disk_can_resume(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit, "PART_ROWS", 20)
    monkeypatch.setattr(commit, "PART_SECONDS", math.inf)
    real, calls = files.put_in_place, 0

    def full(partial: Path, target: Path) -> None:
        nonlocal calls
        calls += target.suffix == ".arrow"
        if target.suffix == ".arrow" and calls == 3:
            raise OSError(28, "No space left on device")
        real(partial, target)

    monkeypatch.setattr(files, "put_in_place", full)
    rewriter = rewriter_at()
    with pytest.raises(
        BadTable, match="No space left on device. 40 texts are saved in its folder. Free some space, then continue"
    ):
        run(a_task(folder), rewriter)
    seen = saved_texts(folder)
    assert len(seen) == 40
    assert not list(folder_of(folder / "out.csv").glob(".*.partial"))
    run(a_task(folder), rewriter)
    check_the_end(folder, seen)


def test_a_limit_reached_during_the_run_stops_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit, "PART_ROWS", 20)
    monkeypatch.setattr(commit, "PART_SECONDS", math.inf)
    rewriter = rewriter_at()
    job = plan(a_task(folder), described(rewriter))
    Ledger(folder / "l.db").set_limit(Decimal(1000), "p0")
    with pytest.raises(BudgetExceeded, match="'p0' has epsilon"):
        job.run(inline(rewriter))
    seen = saved_texts(folder)
    assert 0 < len(seen) < ROWS
    assert Ledger(folder / "l.db").summary().texts == len(seen)  # the refused part changed nothing
    Ledger(folder / "l.db").set_limit(None, "p0")
    run(a_task(folder), rewriter)
    check_the_end(folder, seen)
