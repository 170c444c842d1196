"""The people of a ledger: find one, see what they have spent and for what, and go back."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

import pytest
from playwright.sync_api import Page, expect

from dpbart.ledger.ledger import Ledger, Run
from dpbart.privacy.composition import Release
from dpbart.privacy.guarantee import Event
from tests.page.chromium import serving
from tests.page.conftest import Open

HTML = "<img src=x onerror=\"document.title='broken'\">"


def a_run(name: str, day: int, mechanism: str, epsilon: str) -> Run:
    events = (Event(mechanism, Decimal(epsilon), Decimal(0)),)
    return Run(name, f"2026-01-0{day}T09:00:00+00:00", mechanism, "mini-code@abc", Release(events), "people")


@pytest.fixture(scope="module")
def counting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Anna has two runs, Ben a release without a guarantee, Zoe only a limit; 120 others have one text each."""
    folder = tmp_path_factory.mktemp("people")
    ledger = Ledger(folder / "l.db", create=True, people=200)
    ledger.set_limit(Decimal(30))
    ledger.set_limit(Decimal(5), "zoe")
    others = {f"p{number:03d}": 1 for number in range(120)}
    ledger.begin(a_run("first", 1, "laplace", "10"))
    ledger.record("first", {"anna": 1, HTML: 1, **others}, before=0, upto=122)
    ledger.begin(a_run("second", 2, "laplace", "2.5"))
    ledger.record("second", {"anna": 2}, before=0, upto=2)
    ledger.set_limit(None)
    ledger.begin(a_run("open", 3, "none", "Infinity"))
    ledger.record("open", {"ben": 1}, before=0, upto=1)
    ledger.set_limit(Decimal(30))
    ledger.close()
    with serving(folder / "state", "--ledger", str(folder / "l.db")) as address:
        yield address


def find(page: Page, person: str) -> None:
    page.get_by_label("Find a person by their id").fill(person)
    page.keyboard.press("Enter")
    expect(page.locator("#person-name")).to_have_text(person)


def test_a_person_is_found_on_a_phone_by_keyboard_and_in_no_address(visit: Open, counting: str) -> None:
    watched = visit(counting, width=360)
    page, keys = watched.page, watched.page.keyboard
    page.locator("#tab-rewrite").focus()
    keys.press("ArrowRight")
    expect(page.locator("#people").get_by_role("row")).to_have_count(101)  # with the names of the columns
    left = page.locator("#people tbody tr").first.locator("td").last.bounding_box()
    assert left is not None
    assert left["x"] + left["width"] <= 360  # a long id does not push the figures out of sight
    while page.evaluate("document.activeElement.id") != "person":
        keys.press("Tab")
    keys.type(" anna ")
    keys.press("Enter")
    expect(page.locator("#person-name")).to_be_focused()
    people = page.locator("#people")
    expect(people).to_contain_text("Epsilon 15 of 30 is spent (50%), and 15 is left.")
    expect(people).to_contain_text("This counts all their 3 texts together, over all runs.")
    expect(people).to_contain_text("at delta 0.00001, a slack of 1 in 100,000.")
    assert people.locator("svg.share rect").last.get_attribute("width") == "50"
    runs = people.get_by_role("region", name="Releases").locator("tbody tr")
    expect(runs.nth(0).locator("td")).to_contain_text(["UTC", "1", "10", "laplace", "mini-code@abc", "first"])
    expect(runs.nth(1).locator("td")).to_contain_text(["UTC", "2", "2.5", "laplace", "mini-code@abc", "second"])
    expect(runs).to_have_count(2)
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    while page.evaluate("document.activeElement.textContent") != "Back to all people":
        keys.press("Tab")
    keys.press("Enter")
    expect(page.locator("#person")).to_be_focused()
    expect(people.get_by_role("row", name="anna").locator("td")).to_have_text(["3", "15", "30", "15"])
    assert not [request for request in watched.requests if "anna" in request.url]


def test_the_way_back_leads_to_the_same_page(visit: Open, counting: str) -> None:
    page = visit(counting).page
    page.get_by_role("tab", name="People").click()
    page.get_by_role("button", name="More people").click()
    expect(page.locator("#people").get_by_role("row", name="p119")).to_be_visible()
    page.get_by_role("button", name="Earlier people").click()
    expect(page.locator("#people").get_by_role("row", name="anna")).to_be_visible()
    page.get_by_role("button", name="More people").click()
    expect(page.locator("#people").get_by_role("row", name="p119")).to_be_visible()
    find(page, "zoe")
    expect(page.locator("#people")).to_contain_text("Nothing is spent yet. The limit is epsilon 5.")
    page.get_by_role("button", name="Back to all people").click()
    expect(page.locator("#people").get_by_role("row", name="p119")).to_be_visible()


def test_an_id_that_is_html_is_a_text(visit: Open, counting: str) -> None:
    page = visit(counting).page
    page.get_by_role("tab", name="People").click()
    expect(page.locator("#people th[scope=row]").first).to_have_text(HTML)
    find(page, HTML)
    assert page.locator("#people img").count() == 0
    assert page.title() == "dpbart"


def test_somebody_who_is_not_in_the_ledger_is_a_mistake_in_words(visit: Open, counting: str) -> None:
    watched = visit(counting)
    watched.expected.add(404)
    page = watched.page
    page.get_by_role("tab", name="People").click()
    page.get_by_label("Find a person by their id").fill("Anna")
    page.get_by_role("button", name="Find").click()
    expect(page.get_by_role("alert")).to_have_text(
        "Nobody with the id 'Anna' is in the ledger. Check the id: ids are case-sensitive."
    )
    find(page, "anna")
    expect(page.get_by_role("alert")).to_be_hidden()
    page.get_by_label("Find a person by their id").fill("nobody")
    page.get_by_role("button", name="Find").click()
    expect(page.get_by_role("alert")).to_contain_text("Nobody with the id 'nobody'")
    expect(page.locator("#person-name")).to_have_count(0)  # these figures are not about nobody


def test_a_release_without_a_guarantee_is_not_private_as_long_as_it_is_in_sight(visit: Open, counting: str) -> None:
    page = visit(counting).page
    promise = page.locator("#promise")
    expect(promise).to_contain_text("Promise: limited.")
    page.get_by_role("tab", name="People").click()
    expect(promise).to_have_text("NOT PRIVATESomebody in the ledger has a release without a guarantee.")
    find(page, "ben")
    expect(promise).to_have_text("NOT PRIVATEA release about this person has no guarantee.")
    expect(page.locator("#people")).to_contain_text("NOT PRIVATE. A release about this person has no guarantee, so")
    expect(page.locator("#people")).not_to_contain_text("It bounds")  # nothing does
    find(page, "anna")
    expect(promise).to_contain_text("Promise: limited.")
    page.get_by_role("button", name="Back to all people").click()
    expect(promise).to_have_class("promise open")
    page.get_by_role("tab", name="Rewrite").click()
    expect(promise).to_contain_text("Promise: limited.")
