"""The ledger, tested with real SQLite files and real processes."""

from __future__ import annotations

import multiprocessing
import sqlite3
from collections import Counter
from decimal import Decimal
from pathlib import Path

import pytest

from dpbart.errors import BadLedger, BadParameter, BudgetExceeded
from dpbart.ledger import database
from dpbart.ledger.ledger import Ledger, Limit, Run
from dpbart.privacy.clipping import Bounds, Sensitivity
from dpbart.privacy.composition import EXACT, Release
from dpbart.privacy.guarantee import Event
from dpbart.privacy.mechanisms import Gaussian

TENTH = Release((Event("laplace", Decimal("0.1"), Decimal(0)),))


def gaussian(epsilon: float, delta: float) -> Release:
    return Release((Gaussian(epsilon, delta).facts(Bounds("value:1", 1.0, 1, Sensitivity(2.0, 2.0))).event,))


def a_run(name: str, release: Release = TENTH) -> Run:
    return Run(name, "2026-01-02T03:04:05+00:00", "laplace", "mini@abc", release)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    made = Ledger(tmp_path / "budgets.db", create=True)
    made.begin(a_run("first"))
    return made


def test_ten_releases_at_0_1_spend_exactly_1(ledger: Ledger) -> None:
    ledger.set_limit(Decimal("1.0"))
    for row in range(10):
        ledger.record("first", {"anna": 1}, before=row, upto=row + 1)
    spent = ledger.spent("anna")
    assert spent is not None
    assert spent.epsilon == 1
    with pytest.raises(
        BudgetExceeded, match="'anna' has epsilon 0 left of 1 at delta 0.00001; this release needs 0.09. Nothing"
    ):
        ledger.record("first", {"anna": 1}, before=10, upto=11)


def test_a_refused_release_changes_nothing(ledger: Ledger) -> None:
    ledger.record("first", {"anna": 2, "ben": 1}, before=0, upto=3)
    ledger.set_limit(Decimal("0.3"))
    before = list(ledger._connection.iterdump())
    with pytest.raises(
        BudgetExceeded, match="'anna' has epsilon 0.1 left of 0.3 at delta 0.00001; this release needs 0.2"
    ):
        ledger.record("first", {"ben": 1, "cleo": 1, "anna": 2}, before=3, upto=7)
    assert list(ledger._connection.iterdump()) == before


def test_the_ledger_lists_what_was_released_for_each_person(ledger: Ledger) -> None:
    ledger.begin(a_run("second", gaussian(500, 1e-6)))
    ledger.record("first", {"anna": 2}, before=0, upto=2)
    ledger.record("second", {"anna": 1}, before=0, upto=1)
    first, second = sorted(ledger.entries("anna"), key=lambda entry: entry.run.name)
    assert (first.run, first.texts) == (a_run("first"), 2)
    assert (second.run.release, second.texts) == (gaussian(500, 1e-6), 1)
    assert ledger.entries("nobody") == []
    summary = ledger.summary()
    assert (summary.people, summary.texts, len(summary.runs)) == (1, 3, 2)
    assert summary.most is not None
    assert summary.most[0] == "anna"


def test_rows_are_recorded_in_order_and_once(ledger: Ledger) -> None:
    ledger.record("first", {"anna": 3}, before=0, upto=3)
    assert (ledger.progress("first").safe, ledger.progress("first").recorded) == (0, 3)
    for before, upto in ((0, 3), (5, 6)):
        with pytest.raises(BadLedger, match=f"must record rows after 3, got {before}. Was its folder copied"):
            ledger.record("first", {"anna": upto - before}, before=before, upto=upto)
    assert ledger.entries("anna")[0].texts == 3


def test_invalid_figures_are_reported_as_damage(ledger: Ledger) -> None:
    ledger.record("first", {"anna": 1}, before=0, upto=1)
    for damage in ('UPDATE runs SET events = \'[["laplace", "5x0", "0", null]]\'', "DELETE FROM runs"):
        ledger._connection.execute(damage)
        with pytest.raises(BadLedger, match="damaged at run first"):
            Ledger(ledger.file).spent("anna")


def test_gaussian_releases_are_checked_by_the_exact_rule(ledger: Ledger) -> None:
    ledger.begin(a_run("normal", gaussian(1.0, 1e-6)))
    ledger.record("normal", {"anna": 10}, before=0, upto=10, budget=Decimal(5))  # the plain sum is 10
    spent = ledger.spent("anna")
    assert spent is not None
    assert (spent.rule, spent.delta) == (EXACT, Decimal("0.00001"))
    assert 3 < spent.epsilon < 5


def test_limits_for_everybody_for_one_person_and_for_a_run(ledger: Ledger) -> None:
    ledger.set_limit(Decimal("0.2"))
    ledger.set_limit(Decimal("0.5"), "anna")
    limits = ledger.limit("anna").epsilon, ledger.limit("ben").epsilon, ledger.own_limits()
    assert limits == (Decimal("0.5"), Decimal("0.2"), 1)
    ledger.check(TENTH, {"anna": 5, "ben": 2})
    with pytest.raises(BudgetExceeded, match="'anna' has epsilon 0.3 left of 0.3"):
        ledger.check(TENTH, {"anna": 5}, budget=Decimal("0.3"))
    with pytest.raises(BudgetExceeded, match="'ben'"):
        ledger.check(TENTH, {"anna": 5, "ben": 3})
    ledger.set_limit(None)
    ledger.check(TENTH, {"ben": 300})
    with pytest.raises(BadParameter, match="greater than 0"):
        ledger.set_limit(Decimal(0))


def test_any_limit_refuses_a_release_that_promises_nothing(ledger: Ledger) -> None:
    nothing = Release((Event("none", Decimal("Infinity"), Decimal(0)),))
    with pytest.raises(BudgetExceeded, match="needs infinite"):
        ledger.check(nothing, {"anna": 1}, budget=Decimal(100_000))


@pytest.mark.parametrize("people", [0, 1_234_567])
def test_the_delta_of_a_new_ledger_suits_its_people(tmp_path: Path, people: int) -> None:
    new = Ledger(tmp_path / "new.db", create=True, people=people)
    assert new.limit().delta == (Decimal("1e-8") if people else Decimal("1e-5"))


def test_releases_with_a_large_delta_are_never_refunded(ledger: Ledger) -> None:
    """At the sum of the deltas, nine of these would cost 1.88 and eighteen nothing at all."""
    large, seen = gaussian(1, 0.05), [Decimal(0)]
    ledger.begin(a_run("large", large))
    for row in range(19):
        ledger.record("large", {"anna": 1}, before=row, upto=row + 1)
        spent = ledger.spent("anna")
        assert spent is not None
        seen.append(spent.epsilon)
    assert seen == sorted(set(seen))
    assert seen[-1] > 18
    ledger.set_limit(Decimal(2))
    with pytest.raises(BudgetExceeded, match="'ben' has epsilon 2 left of 2 at delta 0.00001; this release needs 3.1"):
        ledger.check(large, {"ben": 1})


def test_a_release_costs_the_difference_that_it_makes(ledger: Ledger) -> None:
    ledger.begin(a_run("normal", gaussian(1.0, 1e-6)))
    ledger.record("normal", {"anna": 10}, before=0, upto=10)
    before = ledger.spent("anna")
    ledger.record("normal", {"anna": 1}, before=10, upto=11)
    after = ledger.spent("anna")
    assert before is not None
    assert after is not None
    assert after.epsilon - before.epsilon < Decimal("0.3")  # not 1
    ledger.set_limit(before.epsilon, "ben")
    ledger.record("normal", {"ben": 10}, before=11, upto=21)
    needed = str(after.epsilon - before.epsilon)
    with pytest.raises(BudgetExceeded, match=f"'ben' has epsilon 0 left of .* needs {needed}"):
        ledger.check(gaussian(1.0, 1e-6), {"ben": 1})


def test_delta_stays_below_1_over_the_people_of_all_runs(ledger: Ledger) -> None:
    ledger.set_delta(Decimal("0.1"))
    ledger.record("first", {f"person {n}": 1 for n in range(6)}, before=0, upto=6)
    ledger.record("first", {f"person {n}": 1 for n in range(9)}, before=6, upto=15)  # nine people, not fifteen
    ledger.begin(a_run("second"))
    few = (
        "delta must be below 1 / 10 for the 10 people in the ledger, over all its runs, got 0.1. Lower it with: dpbart"
    )
    with pytest.raises(BadParameter, match=few):
        ledger.check(TENTH, {"zoe": 1})
    with pytest.raises(BadParameter, match=few):
        ledger.record("second", {"zoe": 1}, before=0, upto=1)
    ledger.check(TENTH, {"person 1": 5})
    with pytest.raises(BadParameter, match="below 1 / 9"):
        ledger.set_delta(Decimal("0.2"))
    with pytest.raises(BadParameter, match="below 1 / 9"):
        ledger.set_delta(Decimal("0.2"), "person 1")
    ledger.set_delta(Decimal("0.01"))
    ledger.record("second", {"zoe": 1}, before=0, upto=1)
    assert ledger.summary().people == 10
    ledger.set_delta(Decimal("0.095"), "zoe")  # one delta that is too large is enough
    with pytest.raises(BadParameter, match="below 1 / 11"):
        ledger.check(TENTH, {"yan": 1})


def test_a_person_may_have_their_own_delta(ledger: Ledger) -> None:
    ledger.begin(a_run("normal", gaussian(1.0, 1e-6)))
    ledger.record("normal", {"anna": 5, "ben": 5}, before=0, upto=10)
    ledger.set_limit(Decimal(7))
    ledger.set_delta(Decimal("1e-9"), "anna")
    assert ledger.limit("anna") == Limit(Decimal(7), Decimal("1e-9"))
    assert ledger.limit("ben") == Limit(Decimal(7), Decimal("1e-5"))
    anna, ben = ledger.spent("anna"), ledger.spent("ben")
    assert anna is not None
    assert ben is not None
    assert (anna.delta, ben.delta) == (Decimal("1e-9"), Decimal("1e-5"))
    assert anna.epsilon > ben.epsilon
    ledger.set_limit(Decimal(9), "anna")
    ledger.set_limit(None, "anna")
    assert ledger.limit("anna") == Limit(Decimal(7), Decimal("1e-9"))
    assert ledger.summary().most == ("anna", anna)
    ledger.set_delta(Decimal("1e-12"), "ben")  # who has the same releases
    assert ledger.summary().most == ("ben", ledger.spent("ben"))


ATTEMPTS, PROCESSES, PEOPLE = 1000, 8, 20


def attempt(file: Path, process: int, results: multiprocessing.Queue[int]) -> None:
    database.SECONDS_TO_WAIT = 600.0  # on a busy machine, whoever has bad luck waits for all the others
    ledger, taken = Ledger(file), 0
    ledger._connection.execute("PRAGMA synchronous = OFF")  # this tests the locks, not the disk
    ledger.begin(a_run(f"run {process}"))
    for number in range(ATTEMPTS // PROCESSES):
        try:
            person = f"person {number % PEOPLE}"
            ledger.record(f"run {process}", {person: 1}, before=taken, upto=taken + 1, budget=Decimal("1.0"))
            taken += 1
        except BudgetExceeded:
            pass
    results.put(taken)


def test_eight_processes_on_one_ledger_do_not_overspend(tmp_path: Path) -> None:
    file = tmp_path / "budgets.db"
    Ledger(file, create=True).close()
    context = multiprocessing.get_context("spawn")
    results: multiprocessing.Queue[int] = context.Queue()
    processes = [context.Process(target=attempt, args=(file, number, results)) for number in range(PROCESSES)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(600)
    assert [process.exitcode for process in processes] == [0] * PROCESSES
    taken = sum(results.get(timeout=60) for _ in processes)
    ledger = Ledger(file)
    held = [ledger.spent(f"person {number}") for number in range(PEOPLE)]
    assert [each.epsilon for each in held if each is not None] == [Decimal("1.0")] * PEOPLE
    assert taken == 10 * PEOPLE  # of the 1,000 attempts


def test_a_file_that_is_not_a_ledger_is_refused(tmp_path: Path) -> None:
    text, other = tmp_path / "notes.txt", tmp_path / "other.db"
    newer, older = tmp_path / "newer.db", tmp_path / "older.db"
    text.write_text("not a database, but long enough to look like one to somebody in a hurry" * 20)
    sqlite3.connect(other).execute("CREATE TABLE mine (x)").connection.close()
    for file, version in ((newer, 9), (older, 2)):
        Ledger(file, create=True).close()
        sqlite3.connect(file).execute(f"PRAGMA user_version = {version}").connection.close()
    for file, message in (
        (text, "damaged, or not a dpbart ledger"),
        (other, "but not a dpbart ledger"),
        (newer, "format 3, got 9. Use the version of dpbart that wrote it"),
        (older, "format 3, got 2. Use the version of dpbart that wrote it"),
    ):
        content = file.read_bytes()
        with pytest.raises(BadLedger, match=message):
            Ledger(file, create=True)
        assert file.read_bytes() == content
    with pytest.raises(BadLedger, match="there is no ledger"):
        Ledger(tmp_path / "none.db")
    with pytest.raises(BadLedger, match="cannot be opened"):
        Ledger(tmp_path / "no" / "folder.db", create=True)


def test_a_damaged_ledger_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "budgets.db"
    ledger = Ledger(file, create=True)
    ledger.begin(a_run("first"))
    ledger.record("first", Counter({f"person {n}": 1 for n in range(2000)}), before=0, upto=2000)
    ledger.close()
    content = bytearray(file.read_bytes())
    content[len(content) // 2 : len(content) // 2 + 5000] = bytes(5000)
    file.write_bytes(content)
    with pytest.raises(BadLedger, match="damaged"):
        Ledger(file)


def test_a_ledger_locked_by_another_process_gives_a_clear_error(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "SECONDS_TO_WAIT", 0.1)
    second = Ledger(ledger.file)
    ledger._connection.execute("BEGIN IMMEDIATE")
    with pytest.raises(BadLedger, match="held by another process for 0.1 seconds"):
        second.record("first", {"anna": 1}, before=0, upto=1)
