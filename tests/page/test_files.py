"""A person drops a file, follows it, and downloads the output with its card."""

from __future__ import annotations

import json
from pathlib import Path

from playwright.sync_api import Locator, Page, expect

from tests.page.chromium import download
from tests.page.conftest import Open, check_card


def send(page: Page, file: Path, *, person: str = "patient") -> Locator:
    """Choose a file and press the button. Returns the newest job on the page."""
    before = page.locator(".job").count()
    page.locator("#file").set_input_files(file)
    page.locator("#person-column").fill(person)
    page.get_by_role("button", name="Rewrite the file").click()
    expect(page.locator(".job")).to_have_count(before + 1)
    return page.locator(".job").first


def test_a_file_comes_back_with_a_card_that_verifies(visit: Open, address: str, notes: Path, tmp_path: Path) -> None:
    page = visit(address).page
    job = send(page, notes)
    expect(job).to_contain_text("done: 64 of 64 rows")
    expect(job.get_by_role("heading")).to_have_text(notes.name)  # as text
    output, card, _ = download(job.get_by_role("button", name="Download with its card"), tmp_path)
    rows = [json.loads(line) for line in output.read_text().splitlines()]
    assert [row["patient"] for row in rows] == [f"p{place}" for place in range(64)]
    assert "doctor in Leeds on day 7 about" not in output.read_text()
    check_card(card, output)
    job.get_by_role("button", name="Show the card").click()
    shown = page.locator("#card")
    expect(shown).to_be_focused()
    expect(shown.get_by_role("heading", level=2)).to_have_text(f"Privacy card of {notes.name}")
    expect(shown.locator("[aria-current=true]")).to_have_text("limited")
    held = json.loads(card.read_text())
    for words in (held["run"]["output_sha256"], held["recipe"], *held["not_covered"]):
        expect(shown).to_contain_text(words)
    assert page.locator("main img, main script").count() == 0
    job.get_by_role("button", name="Delete").click()
    expect(page.locator(".job")).to_have_count(0)
    expect(shown).to_be_hidden()


def test_a_file_can_be_cancelled_and_resumed(visit: Open, address: str, tmp_path: Path) -> None:
    page = visit(address).page
    page.locator("#epsilon").fill("25")  # codes with wording take seconds, so that there is time to cancel
    page.locator("#epsilon").press("Tab")
    file = tmp_path / "long.csv"
    file.write_text("patient,text\n" + "".join(f"q{row},It rained on day {row}.\n" for row in range(500)))
    job = send(page, file)
    job.get_by_role("button", name="Cancel").click()
    expect(job).to_contain_text("cancelled")
    assert "500 of 500" not in job.inner_text()
    job.get_by_role("button", name="Resume").click()
    expect(job).to_contain_text("done: 500 of 500 rows")
    page.get_by_role("tab", name="People").click()
    expect(page.locator("#people").get_by_role("row", name="q0 ")).to_contain_text("25")  # charged once, not twice
    page.get_by_role("button", name="More people").click()
    expect(page.get_by_role("button", name="Earlier people")).to_be_visible()
    page.get_by_role("tab", name="Rewrite").click()
    job.get_by_role("button", name="Delete").click()
    expect(page.locator(".job")).to_have_count(0)


def test_a_wrong_file_and_a_wrong_column_are_answered_in_words(visit: Open, address: str, tmp_path: Path) -> None:
    watched = visit(address)
    watched.expected.add(422)
    page = watched.page
    wrong = tmp_path / "holiday.jpg"
    wrong.write_bytes(b"\xff\xd8\xff")
    page.locator("#file").set_input_files(wrong)
    page.locator("#person-column").fill("patient")
    page.get_by_role("button", name="Rewrite the file").click()
    expect(page.get_by_role("alert")).to_contain_text(".parquet")  # which endings there are
    assert page.locator(".job").count() == 0
    table = tmp_path / "table.csv"
    table.write_text("patient,review\np1,It was cold.\n")
    job = send(page, table)
    expect(job).to_contain_text("failed")
    expect(job.locator(".problem")).to_contain_text("It has: patient, review.")
    job.get_by_role("button", name="Delete").click()
    expect(page.locator(".job")).to_have_count(0)


def test_a_file_may_be_dropped(visit: Open, address: str) -> None:
    page = visit(address).page
    script = """() => {
        const held = new DataTransfer();
        held.items.add(new File(["patient,text\\nr1,It was cold.\\n"], "dropped.csv"));
        return held;
    }"""
    page.locator("#drop").dispatch_event("drop", {"dataTransfer": page.evaluate_handle(script)})
    assert page.locator("#file").evaluate("(field) => field.files[0].name") == "dropped.csv"
