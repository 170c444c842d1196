"""Cards and a ledger that version 0.1.0 wrote: every later version must read, verify and show them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from dpbart.card.card import read_card, schema
from dpbart.card.verify import verify
from dpbart.ledger.ledger import Ledger, Run
from dpbart.privacy.composition import Release
from dpbart.privacy.guarantee import Event, Guarantee
from tests.command_line import run

FOLDER = Path(__file__).parent
CARDS = ["noised", "shuffled"]


def copied(name: str, folder: Path) -> Path:
    """A card with its pages and its output, as somebody else got them."""
    for file in FOLDER.glob(f"{name}.csv*"):
        shutil.copyfile(file, folder / file.name)
    return folder / f"{name}.csv.card.json"


def failing(card: Path, *, key: Path | None = None) -> list[str]:
    return [check.name for check in verify(card, key=key) if check.held is False]


@pytest.mark.parametrize("name", CARDS)
def test_a_card_verifies_with_its_pages_and_its_output(name: str) -> None:
    checks = {
        check.name: check.held for check in verify(FOLDER / f"{name}.csv.card.json", output=FOLDER / f"{name}.csv")
    }
    assert checks.pop("signature") is None  # there is none, or it is by a key that was not given
    assert checks.pop("guarantee") is None  # so nobody knows who wrote the card
    assert checks.pop("rows") is None  # they were not counted
    assert set(checks) >= {"schema", "noise", "recipe", "labels", "row", "person", "pages", "output"}
    assert set(checks.values()) == {True}


def test_a_signed_card_verifies_with_the_key_of_its_signer() -> None:
    output = FOLDER / "shuffled.csv"
    done = run("card", "verify", FOLDER / "shuffled.csv.card.json", "--key", FOLDER / "public.pem", "--output", output)
    assert done.exit_code == 0
    lines = [line.split()[:2] for line in done.stdout.splitlines()]
    for check in ("signature", "shuffled", "rows", "guarantee"):
        assert [check, "holds"] in lines


@pytest.mark.parametrize("name", CARDS)
def test_a_card_is_read_and_shown(name: str) -> None:
    file = FOLDER / f"{name}.csv.card.json"
    card, stated = read_card(file), json.loads(file.read_text())
    jsonschema.validate(stated, schema())
    times = {name: stated["run"].pop(name) for name in ("seconds", "rows_per_second")}  # that version stated them
    assert (card.run.seconds, card.run.rows_per_second) == tuple(times.values())
    stated["run"] |= {name: value for name, value in times.items() if value is not None}
    assert card.as_dict() == stated
    assert f"epsilon {stated['guarantee']['epsilon']:g}" in card.as_text()
    assert f"(epsilon {stated['guarantee']['epsilon']:g}, delta" in card.as_html()


def test_a_card_states_what_it_stated_when_it_was_made() -> None:
    noised, shuffled = (read_card(FOLDER / f"{name}.csv.card.json") for name in CARDS)
    assert (noised.guarantee, noised.row.guarantee) == (Guarantee(52.0, 1e-5), Guarantee(85.82, 1e-5))
    assert (noised.person.guarantee, noised.person.most_texts) == (Guarantee(148.71, 1e-5), 4)
    assert (shuffled.guarantee, shuffled.person.guarantee) == (Guarantee(3.0, 0.0), Guarantee(6.0, 0.0))
    assert shuffled.shuffled is not None
    assert shuffled.shuffled.guarantee.epsilon == pytest.approx(2.266832277)


def _epsilon(card: dict[str, Any]) -> None:
    card["guarantee"]["epsilon"] -= 1


def _digest(card: dict[str, Any]) -> None:
    card["pages"]["txt"] = "0" * 64


def _words(card: dict[str, Any]) -> None:
    card["unit"] = "one letter"


@pytest.mark.parametrize(
    ("change", "checks"),
    [(_epsilon, {"noise", "signature", "guarantee"}), (_digest, {"pages", "signature"}), (_words, {"signature"})],
)
@pytest.mark.parametrize("name", CARDS)
def test_a_changed_card_still_fails(
    name: str, change: Callable[[dict[str, Any]], None], checks: set[str], tmp_path: Path
) -> None:
    file = copied(name, tmp_path)
    stated = json.loads(file.read_text())
    change(stated)
    file.write_text(json.dumps(stated))
    assert checks <= set(failing(file, key=FOLDER / "public.pem"))


def _fewer_texts(card: dict[str, Any]) -> None:
    card["row"]["texts"] = 1


def _more_texts(card: dict[str, Any]) -> None:
    card["row"]["texts"] = card["person"]["most_texts"] = 4


def _cheaper_row(card: dict[str, Any]) -> None:
    card["row"]["guarantee"]["epsilon"] = 52.0


def _texts_of_one_row(card: dict[str, Any]) -> None:
    card["person"]["most_texts"] = 3


@pytest.mark.parametrize(
    ("change", "check"),
    [(_fewer_texts, "row"), (_more_texts, "row"), (_cheaper_row, "row"), (_texts_of_one_row, "person")],
)
def test_a_card_that_counts_other_texts_does_not_verify(
    change: Callable[[dict[str, Any]], None], check: str, tmp_path: Path
) -> None:
    file = copied("noised", tmp_path)
    stated = json.loads(file.read_text())
    change(stated)
    file.write_text(json.dumps(stated))
    assert check in failing(file)


@pytest.mark.parametrize("ending", [".txt", ".html"])
def test_a_changed_digit_in_a_page_still_fails(ending: str, tmp_path: Path) -> None:
    file = copied("noised", tmp_path)
    page = file.with_suffix(ending)
    page.write_text(page.read_text().replace("148.71", "148.72", 1))
    assert failing(file) == ["pages"]


def test_a_ledger_keeps_what_people_have_spent_and_counts_on(tmp_path: Path) -> None:
    file = tmp_path / "ledger.db"
    shutil.copyfile(FOLDER / "ledger.db", file)
    ledger = Ledger(file)
    summary, spent, limit = ledger.summary(), ledger.spent("p0"), ledger.limit("p0")
    assert (summary.people, summary.texts, len(summary.runs)) == (12, 60, 2)
    assert spent is not None
    assert (spent.epsilon, spent.delta, limit.epsilon) == (Decimal("153.56"), Decimal("0.00001"), Decimal(200))
    noised, codes = ledger.entries("p0")
    assert [event.mechanism for event in noised.run.release.events] == ["gaussian", "gaussian", "response"]
    assert [event.mechanism for event in codes.run.release.events] == ["response"]
    release = Release((Event("laplace", Decimal(10), Decimal(0)),))
    ledger.begin(Run("new", "2027-01-01T00:00:00+00:00", "laplace", "mini@abc", release, "people"))
    ledger.record("new", {"p0": 1}, before=0, upto=1)
    later = ledger.spent("p0")
    ledger.close()
    assert later is not None
    assert spent.epsilon < later.epsilon <= spent.epsilon + 10
