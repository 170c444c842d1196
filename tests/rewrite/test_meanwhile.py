"""What happens beside a run: the input changes, another run comes and goes, the disk fills up, Ctrl-C while merging."""

from __future__ import annotations

import csv
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import pytest

from dpbart import Rewriter, files
from dpbart.errors import BadLedger, BadParameter, BadTable, BudgetExceeded, NotResumable
from dpbart.models.bundle import Bundle
from dpbart.privacy.budget.ledger import Ledger
from dpbart.rewrite.durable import commit, saved, unfinished
from dpbart.rewrite.durable.stopping import Stopped
from dpbart.rewrite.durable.unfinished import Work, folder_of
from dpbart.rewrite.engines.engine import Answers
from dpbart.rewrite.engines.inline import Inline
from dpbart.rewrite.job import Job, plan
from dpbart.rewrite.people import People
from dpbart.rewrite.request import Request
from dpbart.rewrite.settings import Settings
from dpbart.tables.batch import Batch
from dpbart.tables.table import open_table
from dpbart.testing import described, fake_rewriter
from tests.rewrite.jobs import inline, marked, run

ROWS, PART = 40, 8


@dataclass(frozen=True)
class Rereading(Inline):
    """Rewrites what stands in the file now: a reader would have a small file in its buffer."""

    file: Path

    def map(self, batches: Iterable[Batch]) -> Answers:
        for batch in batches:
            now = next(each for each in open_table(self.file).batches(len(batch)) if each.first == batch.first)
            yield now, self.make().rewrite(now.texts())


@pytest.fixture
def rewriter(monkeypatch: pytest.MonkeyPatch) -> Rewriter:
    monkeypatch.setattr(commit, "PART_ROWS", PART)
    return fake_rewriter(marked, epsilon=500, delta=1e-9, batch_size=4)


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
    return plan(Request(folder / "in.csv", folder / "out.csv", **task), described(rewriter))  # type: ignore[arg-type]


def texts_of(folder: Path) -> list[str]:
    with (folder / "out.csv").open(newline="") as out:
        return [" ".join(row["text"].split()[:2]) for row in csv.DictReader(out)]


def after_part(monkeypatch: pytest.MonkeyPatch, number: int, act: Callable[[], object]) -> None:
    """Do something when so many parts are safe."""
    real = saved.Parts.add

    def add(self: saved.Parts, drawn: saved.Drawn, *, recipe: str) -> None:
        real(self, drawn, recipe=recipe)
        if self.rows == number * PART:
            act()

    monkeypatch.setattr(saved.Parts, "add", add)


def test_a_run_that_came_and_went_is_not_written_over(rewriter: Rewriter, folder: Path) -> None:
    """Both were planned while there was no output; loading a model can take longer than another's whole run."""
    first, second = planned(folder, rewriter), planned(folder, rewriter)
    first.run(inline(rewriter))
    written = (folder / "out.csv").read_bytes()
    with pytest.raises(BadTable, match="another run has written .* in the meantime"):
        second.run(inline(rewriter))
    assert (folder / "out.csv").read_bytes() == written
    assert Ledger(folder / "l.db").summary().texts == ROWS
    assert not folder_of(folder / "out.csv").exists()


def test_a_run_that_came_and_died_is_not_thrown_away(
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
    with pytest.raises(BadTable, match="another run has written"):  # and not all drawn anew
        late.run(inline(rewriter))
    assert Ledger(folder / "l.db").summary().texts == ROWS


def test_an_input_that_changes_before_the_run_is_refused(rewriter: Rewriter, folder: Path) -> None:
    """People, and delta below one over their number, were counted in another file."""
    job = planned(folder, rewriter)
    write_rows(folder / "in.csv", range(2 * ROWS))
    with pytest.raises(BadTable, match="in.csv' was changed after it was looked at. Give the same command again"):
        job.run(inline(rewriter))
    assert not folder_of(folder / "out.csv").exists()


@pytest.mark.parametrize("number", [2, ROWS // PART])
def test_an_input_that_changes_on_the_way_spoils_nothing(
    rewriter: Rewriter, folder: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """A text drawn from a changed file would be written into the row of somebody else once the file is put back."""
    with monkeypatch.context() as patched:
        after_part(patched, number, lambda: write_rows(folder / "in.csv", range(50, 50 + ROWS)))
        with pytest.raises(BadTable, match=f"in.csv' was changed while .* {number * PART} texts from before are safe"):
            planned(folder, rewriter).run(Rereading(lambda: rewriter, folder / "in.csv"))
    assert not (folder / "out.csv").exists()
    assert Ledger(folder / "l.db").summary().texts == number * PART
    write_rows(folder / "in.csv", range(10, 10 + ROWS))
    planned(folder, rewriter, resume=True).run(inline(rewriter))
    assert texts_of(folder) == [f"text {number}" for number in range(10, 10 + ROWS)]


def test_texts_that_a_budget_refused_are_on_the_card(rewriter: Rewriter, folder: Path) -> None:
    job = planned(folder, rewriter)
    Ledger(folder / "l.db").set_limit(Decimal(2000), "p0")
    with pytest.raises(BudgetExceeded, match="'p0' has epsilon"):
        job.run(inline(rewriter))
    Ledger(folder / "l.db").set_limit(None, "p0")
    card = planned(folder, rewriter, resume=True).run(inline(rewriter))
    assert card.run.refused == PART
    assert json.loads((folder / "out.csv.card.json").read_text())["run"]["refused"] == PART
    assert Ledger(folder / "l.db").summary().texts == ROWS


def test_ctrl_c_while_merging_says_how_to_go_on(
    rewriter: Rewriter, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def press(self: saved.Parts) -> Iterator[tuple[str, str | None]]:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(saved.Parts, "read", press)
        with pytest.raises(Stopped, match="40 of 40 texts are saved. To continue, give the same command with --resume"):
            planned(folder, rewriter).run(inline(rewriter))
    planned(folder, rewriter, resume=True).run(inline(rewriter))
    assert len(texts_of(folder)) == ROWS


def test_an_output_killed_in_the_middle_is_cleared_away(
    rewriter: Rewriter, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        after_part(patched, 2, lambda: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            planned(folder, rewriter).run(inline(rewriter))
    half, other = folder / ".out.csv.0a1b2c3d.partial", folder / ".in.csv.0a1b2c3d.partial"
    half.write_text("half")
    other.write_text("somebody's")
    planned(folder, rewriter, resume=True).run(inline(rewriter))
    assert (half.exists(), other.exists()) == (False, True)


def test_a_disk_that_is_full_from_the_start_is_told(
    rewriter: Rewriter, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(unfinished, "sync_folder", full)
    with pytest.raises(BadTable, match="cannot be written: No space left on device. Nothing was released"):
        planned(folder, rewriter).run(inline(rewriter))
    assert not folder_of(folder / "out.csv").exists()


def test_another_clip_or_tokenizer_is_another_model(
    tiny_copy: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit, "PART_ROWS", PART)

    def go(*, resume: bool) -> None:
        settings = Settings(str(tiny_copy), epsilon=500, delta=1e-9, beams=1, batch_size=4)
        request = Request(folder / "in.csv", folder / "out.csv", resume=resume)
        plan(request, settings.described).run(Inline(lambda: Rewriter.of(settings)))

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


def test_a_copied_folder_draws_no_second_text_for_one_payment(
    rewriter: Rewriter, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        after_part(patched, 2, lambda: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            planned(folder, rewriter).run(inline(rewriter))
    shutil.copytree(folder_of(folder / "out.csv"), folder_of(folder / "copy.csv"))
    task = Request(folder / "in.csv", folder / "copy.csv", person_column="who", ledger=folder / "l.db", resume=True)

    class Overtaken(Inline):
        """Both begin where the copy was made; then the original goes ahead."""

        def map(self, batches: Iterable[Batch]) -> Answers:
            planned(folder, rewriter, resume=True).run(inline(rewriter))
            yield from super().map(batches)

    with pytest.raises(BadLedger, match="must record rows after 40, got 16. Was its folder copied"):
        plan(task, described(rewriter)).run(Overtaken(lambda: rewriter))


def test_a_refused_plan_makes_no_ledger(folder: Path) -> None:
    for delta, budget, kind in ((0.4, None, BadParameter), (1e-9, 600.0, BudgetExceeded)):
        task = Request(
            folder / "in.csv", folder / "out.csv", person_column="who", ledger=folder / "l.db", person_budget=budget
        )
        with pytest.raises(kind):
            plan(task, described(fake_rewriter(epsilon=500, delta=delta)))
        assert sorted(file.name for file in folder.iterdir()) == ["in.csv"]


def test_labels_that_are_not_written_are_not_paid_for(rewriter: Rewriter, folder: Path) -> None:
    (folder / "in.csv").write_text("who,text,ill\nanna,a,yes\nben,b,no\n")
    task = Request(
        folder / "in.csv", folder / "out.txt", label_column="ill", labels="randomize:2", label_set=("yes", "no")
    )
    card = run(task, rewriter)
    assert (card.guarantee.epsilon, card.label_epsilon) == (500, 0)
    assert card.labels == "dropped: column 'ill' is not in the output"


def test_the_output_is_safe_before_its_parts_go(
    rewriter: Rewriter, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a power cut could take both."""
    order: list[str] = []

    def noted(what: str, real: Callable[..., object]) -> Callable[..., None]:
        def act(*args: object) -> None:
            order.append(what)
            real(*args)

        return act

    monkeypatch.setattr(os, "replace", noted("named", os.replace))
    monkeypatch.setattr(files, "sync_folder", lambda synced: order.append(f"synced {synced == folder}"))
    monkeypatch.setattr(Work, "remove", noted("removed", Work.remove))
    planned(folder, rewriter).run(inline(rewriter))
    assert order[-3:] == ["named", "synced True", "removed"]


def test_a_number_is_the_same_person_with_and_without_a_point(tmp_path: Path) -> None:
    file = tmp_path / "in.jsonl"
    file.write_text('{"who": 7, "text": "a"}\n{"who": 7.0, "text": "b"}\n{"who": "7", "text": "c"}\n')
    assert People("who").count(open_table(file)) == {"7": 3}
