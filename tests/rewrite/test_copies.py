"""One payment, one draw: however often the folder of a run is copied or restored, one copy can continue it."""

from __future__ import annotations

import csv
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from dpbart import Rewriter
from dpbart.errors import NotResumable
from dpbart.ledger.ledger import Ledger
from dpbart.options.rewriting import Request
from dpbart.rewrite.account import Account
from dpbart.rewrite.durable.folder import NewTexts, SavedTexts, folder_of
from dpbart.rewrite.durable.unfinished import UnfinishedRun
from tests.rewrite.jobs import PART, run, write_people

ROWS = 40


class Dead(BaseException):
    """Stands for a kill: no part of the program catches it to do anything else."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_people(tmp_path, ROWS)


def a_request(folder: Path, out: str = "out.csv", **changed: object) -> Request:
    task = {"person_column": "who", "ledger": folder / "l.db", "resume": True, **changed}
    return Request(folder / "in.csv", folder / out, **task)


def die_at(monkeypatch: pytest.MonkeyPatch, owner: type, name: str, *, call: int = 1, after: bool = False) -> None:
    """Die at the n-th call of a method, before or after it."""
    real: Callable[..., object] = getattr(owner, name)
    calls = 0

    def deadly(*args: object, **kwargs: object) -> object:
        nonlocal calls
        calls += 1
        if calls == call and not after:
            raise Dead
        done = real(*args, **kwargs)
        if calls == call:
            raise Dead
        return done

    monkeypatch.setattr(owner, name, deadly)


@pytest.fixture
def dead(rewriter: Rewriter, folder: Path) -> Path:
    """A killed run: two parts are saved, and a third is recorded but not saved."""
    with pytest.MonkeyPatch.context() as patched:
        die_at(patched, SavedTexts, "add", call=3)
        with pytest.raises(Dead):
            run(a_request(folder), rewriter)
    known = Ledger(folder / "l.db")
    name = known.summary().runs[0].run.name
    assert (known.progress(name).recorded, known.progress(name).safe) == (3 * PART, 2 * PART)
    return folder


def copy_as(folder: Path, name: str) -> None:
    shutil.copytree(folder_of(folder / "out.csv"), folder_of(folder / name))


def texts_of(file: Path) -> list[str]:
    with file.open(newline="") as out:
        return [row["text"] for row in csv.DictReader(out)]


def spent(folder: Path) -> int:
    return Ledger(folder / "l.db").summary().texts


def test_of_six_copies_one_can_draw_the_rows_that_were_paid_and_lost(rewriter: Rewriter, dead: Path) -> None:
    names = [f"copy{number}.csv" for number in range(5)]
    for name in names:
        copy_as(dead, name)
    run(a_request(dead, "copy3.csv"), rewriter)
    for name in ("out.csv", *names):
        if name != "copy3.csv":
            with pytest.raises(NotResumable, match="has finished on .* is a copy of its folder. Its texts were rel"):
                run(a_request(dead, name), rewriter)
    assert len(list(dead.glob("*.csv.card.json"))) == 1
    assert spent(dead) == ROWS


def test_a_copy_cannot_resume_while_another_one_is_unfinished(
    rewriter: Rewriter, dead: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy_as(dead, "copy.csv")
    with monkeypatch.context() as patched:
        die_at(patched, SavedTexts, "add", call=1)  # lost again: drawn once more, by the same folder alone
        with pytest.raises(Dead):
            run(a_request(dead), rewriter)
    with pytest.raises(NotResumable, match="is a copy or an older state of the folder of run .* resumed elsewhere"):
        run(a_request(dead, "copy.csv"), rewriter)
    run(a_request(dead), rewriter)
    assert len(texts_of(dead / "out.csv")) == ROWS
    assert spent(dead) == ROWS


def test_a_running_job_stops_when_a_copy_of_its_folder_is_resumed(
    rewriter: Rewriter, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The copy was made after the record and before the texts were saved, so it may draw them; the job may not."""
    real, parts = SavedTexts.add, 0

    def add(self: SavedTexts, new: NewTexts, *, recipe: str) -> None:
        nonlocal parts
        parts += 1
        if parts == 3:
            copy_as(folder, "copy.csv")
            run(a_request(folder, "copy.csv"), rewriter)
        real(self, new, recipe=recipe)

    monkeypatch.setattr(SavedTexts, "add", add)
    with pytest.raises(NotResumable, match="was resumed from another copy of its folder, and this one must not"):
        run(a_request(folder), rewriter)
    assert not (folder / "out.csv").exists()
    assert len(texts_of(folder / "copy.csv")) == ROWS
    assert spent(folder) == ROWS


def test_a_folder_that_is_restored_after_its_run_has_gone_on_is_refused(
    rewriter: Rewriter, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody has resumed the run, so the nonce is the same. But the ledger knows which texts are safe."""
    real, parts = SavedTexts.add, 0

    def add(self: SavedTexts, new: NewTexts, *, recipe: str) -> None:
        nonlocal parts
        parts += 1
        if parts == 3:
            copy_as(folder, "backup.csv")
        if parts == 4:
            raise Dead
        real(self, new, recipe=recipe)

    with monkeypatch.context() as patched:
        patched.setattr(SavedTexts, "add", add)
        with pytest.raises(Dead):
            run(a_request(folder), rewriter)
    work = folder_of(folder / "out.csv")
    shutil.rmtree(work)
    folder_of(folder / "backup.csv").rename(work)
    with pytest.raises(NotResumable, match="32 texts of this run, 24 of them safe, but 16 are saved .* an older copy"):
        run(a_request(folder), rewriter)


@pytest.mark.parametrize(
    ("owner", "name", "after"),
    [
        (UnfinishedRun, "write_nonces", False),
        (UnfinishedRun, "write_nonces", True),
        (Account, "renew", True),
        (Account, "saved", False),
        (SavedTexts, "add", True),
        (Account, "finish", False),
        (Account, "finish", True),
    ],
)
def test_a_crash_at_any_step_of_a_resumed_run_leaves_one_that_can_resume_once(
    rewriter: Rewriter, dead: Path, monkeypatch: pytest.MonkeyPatch, owner: type, name: str, *, after: bool
) -> None:
    with monkeypatch.context() as patched:
        die_at(patched, owner, name, after=after)
        with pytest.raises(Dead):
            run(a_request(dead), rewriter)
    seen = [text for (text,), _ in SavedTexts(folder_of(dead / "out.csv")).read()]
    copy_as(dead, "copy.csv")
    run(a_request(dead), rewriter)
    assert texts_of(dead / "out.csv")[: len(seen)] == seen
    assert spent(dead) == ROWS
    assert not folder_of(dead / "out.csv").exists()
    with pytest.raises(NotResumable, match="is a copy of its folder"):
        run(a_request(dead, "copy.csv"), rewriter)


def test_without_a_ledger_a_copied_folder_is_refused_and_a_moved_one_is_not(
    rewriter: Rewriter, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        die_at(patched, SavedTexts, "add", call=3)
        with pytest.raises(Dead):
            run(a_request(folder, ledger=None), rewriter)
    copy_as(folder, "copy.csv")
    with pytest.raises(NotResumable, match="is a copy of the folder of a run without a ledger, or was restored"):
        run(a_request(folder, "copy.csv", ledger=None), rewriter)
    folder_of(folder / "out.csv").rename(folder_of(folder / "moved.csv"))
    run(a_request(folder, "moved.csv", ledger=None), rewriter)
    assert len(texts_of(folder / "moved.csv")) == ROWS
