"""Guards of a run that nothing else would notice if they were gone."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from dpbart.errors import BadParameter, BadTable, BudgetExceeded, NotResumable
from dpbart.ledger.ledger import Ledger
from dpbart.options.rewriting import Request
from dpbart.rewrite.durable import commit
from dpbart.rewrite.durable.folder import NewTexts, SavedTexts, folder_of
from dpbart.rewrite.job import plan
from dpbart.testing import LINE, FakeModel, described
from tests.rewrite.jobs import PART, inline, marked, marking_rewriter, run

ROWS = 40


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(commit, "PART_ROWS", PART)
    monkeypatch.setattr(commit, "PART_SECONDS", math.inf)
    with (tmp_path / "in.csv").open("w", newline="") as out:
        rows = csv.writer(out)
        rows.writerow(["who", "text"])
        rows.writerows((f"p{number % 5}", f"text {number}") for number in range(10, 10 + ROWS))
    return tmp_path


def a_request(folder: Path, out: str = "out.csv", **changed: object) -> Request:
    task = {"person_column": "who", "ledger": folder / "l.db", **changed}
    target = Path(out) if out == "-" else folder / out
    return Request(folder / "in.csv", target, **task)


@pytest.fixture
def dead(folder: Path) -> Path:
    """A killed run: two parts are saved, and a third is recorded but not saved."""
    real = SavedTexts.add

    def add(self: SavedTexts, new: NewTexts, *, recipe: str) -> None:
        if self.rows == 2 * PART:
            raise KeyboardInterrupt
        real(self, new, recipe=recipe)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(SavedTexts, "add", add)
        with pytest.raises(KeyboardInterrupt):
            run(a_request(folder), marking_rewriter())
    return folder


def test_standard_output_gets_no_text_that_the_ledger_has_not_recorded(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Standard:
        buffer = io.BytesIO()

    rewriter = marking_rewriter()
    monkeypatch.setattr(sys, "stdout", Standard)
    job = plan(a_request(folder, "-"), described(rewriter))
    Ledger(folder / "l.db").set_limit(Decimal(1200), "p0")
    with pytest.raises(BudgetExceeded):
        job.run(inline(rewriter))
    printed = Standard.buffer.getvalue().decode().splitlines()
    assert 0 < len(printed) < ROWS
    assert Ledger(folder / "l.db").summary().texts == len(printed)


def test_a_part_that_was_paid_and_lost_ends_at_the_same_row_again(dead: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise its rows would be charged again, or the rows after them not at all."""
    monkeypatch.setattr(commit, "PART_ROWS", 2 * PART)
    ends: list[int] = []
    real = SavedTexts.add

    def add(self: SavedTexts, new: NewTexts, *, recipe: str) -> None:
        real(self, new, recipe=recipe)
        ends.append(self.rows)

    monkeypatch.setattr(SavedTexts, "add", add)
    run(a_request(dead, resume=True), marking_rewriter())
    assert ends == [3 * PART, ROWS]
    assert Ledger(dead / "l.db").summary().texts == ROWS


def test_a_recorded_part_survives_a_power_cut(folder: Path) -> None:
    """EXTRA also syncs the folder after the journal is deleted; with less, a commit could be undone."""
    ledger = Ledger(folder / "l.db", create=True)
    assert ledger._connection.execute("PRAGMA synchronous").fetchone() == (3,)
    assert ledger._connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)


def test_an_input_that_changes_while_the_output_is_written_is_found_by_its_content(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Size, inode and time are the same, but the rows are not: the new texts would get other people's columns."""
    real = SavedTexts.read

    def read(self: SavedTexts) -> Iterator[tuple[list[str], str | None]]:
        source = folder / "in.csv"
        held, before = source.read_bytes(), source.stat()
        with source.open("r+b") as out:
            out.write(held.replace(b"p1,", b"p2,"))
        os.utime(source, ns=(before.st_atime_ns, before.st_mtime_ns))
        return real(self)

    monkeypatch.setattr(SavedTexts, "read", read)
    with pytest.raises(BadTable, match="in.csv' was changed during the run. 40 texts from before that are saved"):
        run(a_request(folder), marking_rewriter())
    assert sorted(file.name for file in folder.iterdir()) == [".out.csv.dpbart", "in.csv", "l.db"]


def test_a_run_does_not_resume_with_another_length_or_batch_size(dead: Path) -> None:
    """A part that was paid and lost ends at a row that another batch size may never reach."""
    with pytest.raises(NotResumable, match=r"changed: batch size \(4, now 5\)"):
        run(a_request(dead, resume=True), marking_rewriter(batch_size=5))
    longer = replace(marking_rewriter(), model=FakeModel(marked, line=replace(LINE, length=21)))
    with pytest.raises(NotResumable, match=r"changed: length \(20, now 21\)"):
        run(a_request(dead, resume=True), longer)


@pytest.mark.parametrize("out", ["out.csv", "-"])
def test_a_job_refuses_a_rewriter_that_it_was_not_planned_for(
    folder: Path, out: str, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    job = plan(a_request(folder, out), described(marking_rewriter()))
    with pytest.raises(BadParameter, match="a job must run with the rewriter it was planned for"):
        job.run(inline(marking_rewriter(epsilon=501)))
    assert Ledger(folder / "l.db").summary().texts == 0
    assert capfdbinary.readouterr().out == b""
    assert not (folder / "out.csv").exists()


def test_the_digest_of_an_input_is_keyed_anew_in_every_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With one key for all runs, anybody who has it could confirm a guess of the private file."""
    held = []
    for name in ("one.csv", "two.csv"):
        with monkeypatch.context() as patched:
            patched.setattr(SavedTexts, "read", lambda _: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                run(a_request(folder, name, ledger=None), marking_rewriter())
        work = folder_of(folder / name)
        held.append(
            (json.loads((work / "run.json").read_text())["settings"]["the input"], (work / "secret").read_bytes())
        )
    assert held[0][0] != held[1][0]
    assert held[0][1] != held[1][1]
    assert all(len(secret) == 32 for _, secret in held)
