"""What can happen during a run: the input changes, another run writes the output, the disk fills up, Ctrl-C."""

from __future__ import annotations

import csv
import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from dpbart import Rewriter, files
from dpbart.errors import BadParameter, BadTable, BudgetExceeded, NotResumable
from dpbart.ledger.ledger import Ledger
from dpbart.models.bundle import Bundle
from dpbart.options.rewriting import Request
from dpbart.options.settings import Settings
from dpbart.rewrite.chosen import ChosenModel
from dpbart.rewrite.durable import commit, unfinished
from dpbart.rewrite.durable.folder import NewTexts, SavedTexts, folder_of
from dpbart.rewrite.durable.unfinished import Stopped, UnfinishedRun
from dpbart.rewrite.engines.engine import Answers, Inline
from dpbart.rewrite.job import Job, plan
from dpbart.rewrite.people import People
from dpbart.tables.table import open_table
from dpbart.testing import described, fake_rewriter
from tests.rewrite.jobs import PART, inline, run

ROWS = 40


@dataclass(frozen=True)
class Rereading(Inline):
    """Rewrites what is in the file now; an ordinary reader would have a small file in its buffer."""

    file: Path

    def map(self, batches: Iterable[Any]) -> Answers[Any]:
        for work in batches:
            same = open_table(self.file).batches(len(work.batch))
            now = replace(work, batch=next(each for each in same if each.first == work.first))
            yield now, self.make().rewrite(now.texts())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_rows(tmp_path / "in.csv", range(10, 10 + ROWS))
    return tmp_path


def write_rows(file: Path, numbers: Sequence[int]) -> None:
    with file.open("w", newline="") as out:
        rows = csv.writer(out)
        rows.writerow(["who", "text"])
        rows.writerows((f"p{number % 5}", f"text {number}") for number in numbers)


def planned(folder: Path, rewriter: Rewriter, **changed: object) -> Job:
    task = {"person_column": "who", "ledger": folder / "l.db", **changed}
    return plan(Request(folder / "in.csv", folder / "out.csv", **task), described(rewriter))


def texts_of(folder: Path) -> list[str]:
    with (folder / "out.csv").open(newline="") as out:
        return [" ".join(row["text"].split()[:2]) for row in csv.DictReader(out)]


def after_part(monkeypatch: pytest.MonkeyPatch, number: int, act: Callable[[], object]) -> None:
    """Call `act` once `number` parts are saved."""
    real = SavedTexts.add

    def add(self: SavedTexts, new: NewTexts, *, recipe: str) -> None:
        real(self, new, recipe=recipe)
        if self.rows == number * PART:
            act()

    monkeypatch.setattr(SavedTexts, "add", add)


def test_the_output_of_another_run_is_not_overwritten(rewriter: Rewriter, folder: Path) -> None:
    """Both runs were planned before there was an output. Loading a model can take longer than another whole run."""
    first, second = planned(folder, rewriter), planned(folder, rewriter)
    first.run(inline(rewriter))
    written = (folder / "out.csv").read_bytes()
    with pytest.raises(BadTable, match="another run has written .* in the meantime"):
        second.run(inline(rewriter))
    assert (folder / "out.csv").read_bytes() == written
    assert Ledger(folder / "l.db").summary().texts == ROWS
    assert not folder_of(folder / "out.csv").exists()


def test_the_saved_texts_of_another_run_are_not_lost(
    rewriter: Rewriter, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = planned(folder, rewriter), planned(folder, rewriter)
    with monkeypatch.context() as patched:
        after_part(patched, 2, lambda: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            first.run(inline(rewriter))
    with pytest.raises(BadTable, match="another run has written"):
        second.run(inline(rewriter))
    resumed, late = planned(folder, rewriter, resume=True), planned(folder, rewriter, resume=True)
    resumed.run(inline(rewriter))
    with pytest.raises(BadTable, match="another run has written"):  # it does not start from scratch
        late.run(inline(rewriter))
    assert Ledger(folder / "l.db").summary().texts == ROWS


def test_an_input_that_changes_before_the_run_is_refused(rewriter: Rewriter, folder: Path) -> None:
    """The plan counted the people of the old file, and checked delta against their number."""
    job = planned(folder, rewriter)
    write_rows(folder / "in.csv", range(2 * ROWS))
    with pytest.raises(BadTable, match="in.csv' has changed since it was checked. Run the same command again"):
        job.run(inline(rewriter))
    assert not folder_of(folder / "out.csv").exists()


@pytest.mark.parametrize("number", [2, ROWS // PART])
def test_an_input_that_changes_during_the_run_stops_it_and_can_be_restored(
    rewriter: Rewriter, folder: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Otherwise a text from the changed file would end up in another person's row once the file is restored."""
    with monkeypatch.context() as patched:
        after_part(patched, number, lambda: write_rows(folder / "in.csv", range(50, 50 + ROWS)))
        with pytest.raises(
            BadTable, match=f"in.csv' was changed during .* {number * PART} texts from before that are saved"
        ):
            planned(folder, rewriter).run(Rereading(lambda: rewriter, folder / "in.csv"))
    assert not (folder / "out.csv").exists()
    assert Ledger(folder / "l.db").summary().texts == number * PART
    write_rows(folder / "in.csv", range(10, 10 + ROWS))
    planned(folder, rewriter, resume=True).run(inline(rewriter))
    assert texts_of(folder) == [f"text {number}" for number in range(10, 10 + ROWS)]


def test_the_card_counts_the_texts_that_a_budget_refused(rewriter: Rewriter, folder: Path) -> None:
    job = planned(folder, rewriter)
    Ledger(folder / "l.db").set_limit(Decimal(2000), "p0")
    with pytest.raises(BudgetExceeded, match="'p0' has epsilon"):
        job.run(inline(rewriter))
    Ledger(folder / "l.db").set_limit(None, "p0")
    card = planned(folder, rewriter, resume=True).run(inline(rewriter))
    assert card.run.refused == PART
    assert json.loads((folder / "out.csv.card.json").read_text())["run"]["refused"] == PART
    assert Ledger(folder / "l.db").summary().texts == ROWS


def test_ctrl_c_while_writing_the_output_says_how_to_continue(
    rewriter: Rewriter, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def press(self: SavedTexts) -> Iterator[tuple[list[str], str | None]]:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(SavedTexts, "read", press)
        with pytest.raises(Stopped, match="40 of 40 texts are saved. To continue, give the same command with --resume"):
            planned(folder, rewriter).run(inline(rewriter))
    planned(folder, rewriter, resume=True).run(inline(rewriter))
    assert len(texts_of(folder)) == ROWS


def test_a_resumed_run_deletes_the_partial_output_of_a_killed_one(
    rewriter: Rewriter, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        after_part(patched, 2, lambda: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            planned(folder, rewriter).run(inline(rewriter))
    end = f"{'0a1b' * 8}.partial"
    half = [folder / f".{name}.{end}" for name in ("out.csv", "out.csv.card.json", "out.csv.card.txt")]
    others = [folder / f".{name}.{end}" for name in ("in.csv", "out.csv.copy.csv")]  # perhaps another run writes them
    for file in (*half, *others):
        file.write_text("half")
    planned(folder, rewriter, resume=True).run(inline(rewriter))
    assert [file.exists() for file in (*half, *others)] == [False, False, False, True, True]


def test_a_disk_that_is_full_from_the_start_gives_a_clear_error(
    rewriter: Rewriter, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(unfinished, "sync_folder", full)
    with pytest.raises(BadTable, match="cannot be written: No space left on device. Nothing was released"):
        planned(folder, rewriter).run(inline(rewriter))
    assert not folder_of(folder / "out.csv").exists()


def test_a_run_does_not_resume_with_another_clip_or_tokenizer(
    tiny_copy: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit, "PART_ROWS", PART)
    monkeypatch.setattr(commit, "PART_SECONDS", math.inf)

    def go(*, resume: bool) -> None:
        chosen = ChosenModel(Settings(str(tiny_copy), epsilon=500, delta=1e-9, beams=1, batch_size=4))
        request = Request(folder / "in.csv", folder / "out.csv", resume=resume)
        plan(request, chosen.described).run(Inline(lambda: Rewriter.of(chosen)))

    with monkeypatch.context() as patched:
        after_part(patched, 2, lambda: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            go(resume=False)
    Bundle.at(tiny_copy).record(figures={}, clip=0.25)
    with pytest.raises(NotResumable, match=r"changed: channel \(.*clip:value:0.5.*, now .*clip:value:0.25"):
        go(resume=True)
    Bundle.at(tiny_copy).record(figures={}, clip=0.5)
    (tiny_copy / "tokenizer.json").write_text((tiny_copy / "tokenizer.json").read_text() + " ")
    with pytest.raises(NotResumable, match="changed: model files"):
        go(resume=True)


def test_a_refused_plan_creates_no_ledger(folder: Path) -> None:
    for delta, budget, kind in ((0.4, None, BadParameter), (1e-9, 600.0, BudgetExceeded)):
        task = Request(
            folder / "in.csv", folder / "out.csv", person_column="who", ledger=folder / "l.db", person_budget=budget
        )
        with pytest.raises(kind):
            plan(task, described(fake_rewriter(epsilon=500, delta=delta)))
        assert sorted(file.name for file in folder.iterdir()) == ["in.csv"]


def test_labels_that_are_not_written_are_not_charged(rewriter: Rewriter, folder: Path) -> None:
    (folder / "in.csv").write_text("who,text,ill\nanna,a,yes\nben,b,no\n")
    task = Request(
        folder / "in.csv", folder / "out.txt", label_column="ill", labels="randomize:2", label_set=("yes", "no")
    )
    card = run(task, rewriter)
    assert (card.guarantee.epsilon, card.label_epsilon) == (500, 0)
    assert card.labels == "dropped: column 'ill' is not in the output"


def test_the_output_is_synced_to_disk_before_the_saved_parts_are_deleted(
    rewriter: Rewriter, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a power cut could destroy both."""
    order: list[str] = []

    def noted(what: str, real: Callable[..., object]) -> Callable[..., None]:
        def act(*args: object) -> None:
            order.append(what)
            real(*args)

        return act

    monkeypatch.setattr(os, "replace", noted("named", os.replace))
    monkeypatch.setattr(files, "sync_folder", lambda synced: order.append(f"synced {synced == folder}"))
    monkeypatch.setattr(UnfinishedRun, "remove", noted("removed", UnfinishedRun.remove))
    planned(folder, rewriter).run(inline(rewriter))
    assert order[-3:] == ["named", "synced True", "removed"]


def test_7_and_7_point_0_are_the_same_person(tmp_path: Path) -> None:
    file = tmp_path / "in.jsonl"
    file.write_text('{"who": 7, "text": "a"}\n{"who": 7.0, "text": "b"}\n{"who": "7", "text": "c"}\n')
    assert People("who").count(open_table(file)) == {"7": 3}
