"""How much privacy do I need? The answers are those of the ledger and of `dpbart noise`."""

from __future__ import annotations

import math
from decimal import Decimal
from pathlib import Path

from playwright.sync_api import Page, expect

from dpbart.options.settings import Settings
from dpbart.privacy.composition import Release, compose
from dpbart.rewrite.chosen import ChosenModel
from dpbart.rewrite.figures import shuffled_words
from dpbart.rewrite.shuffle import promise_to
from tests.page.conftest import Open


def rounded_up(epsilon: float) -> str:
    """With three digits."""
    digits = 2 - math.floor(math.log10(epsilon))
    return f"{math.ceil(epsilon * 10**digits - 1e-9) / 10**digits:,.10g}"


def person_at(epsilon: float, texts: int) -> float:
    event = ChosenModel(Settings("mini-code", epsilon)).channel.facts.event
    return float(compose({Release((event,)): texts}, delta=Decimal("1e-5")).epsilon)


def open_guide(page: Page) -> None:
    # The answers need no examples, which take the server seconds at each new budget.
    page.route("**/v1/examples?*", lambda route: route.fulfill(json={"examples": []}))
    expect(page.locator("#promise")).to_contain_text("Promise:")
    page.get_by_role("tab", name="How much privacy do I need?").click()


def test_the_budget_of_a_person_follows_the_slider_and_the_number_of_texts(visit: Open, address: str) -> None:
    page = visit(address).page
    open_guide(page)
    said = page.locator("#guide-person")
    expect(said).to_have_text(
        "A person with 10 texts has epsilon 100, delta 0 for all of them: 10 times epsilon 10. The promise to this "
        "person is weak."
    )
    page.get_by_role("button", name="Show 3").click()
    expect(said).to_contain_text("A person with 10 texts has epsilon 30, delta 0 for all of them")
    page.get_by_label("Texts of one person").fill("400")
    together = person_at(3, 400)
    assert together < 1200  # composition does better than multiplication
    expect(said).to_contain_text(
        f"has epsilon {rounded_up(together)}, delta 0.00001 for all of them: less than 400 times"
    )
    for wrong in ("", "0", "1.5"):
        page.get_by_label("Texts of one person").fill(wrong)
        expect(said).to_have_text("Enter a whole number from 1 to 1,000,000.")
    page.get_by_label("Texts of one person").fill("1")
    expect(said).to_contain_text("A person with one text has the budget of that text: epsilon 3.")


def test_a_shuffled_file_promises_more_to_those_who_see_only_it(visit: Open, address: str) -> None:
    page = visit(address).page
    open_guide(page)
    said, facts = page.locator("#guide-shuffled"), ChosenModel(Settings("mini-code", 10)).channel.facts
    for people, delta in ((1000, 1e-5), (100_000, 1e-7)):
        page.get_by_label("People in the file, with one text each").fill(str(people))
        expected = promise_to(people, facts, delta=delta)
        for _, words in shuffled_words(expected, facts):
            expect(said).to_contain_text(words)


def test_where_shuffling_does_not_help_the_page_says_so(visit: Open, address: str) -> None:
    page = visit(address).page
    open_guide(page)
    page.locator("#mechanism").select_option("none")
    expect(page.locator("#guide-shuffled")).to_contain_text("shuffling does not make one")
    expect(page.locator("#guide-person")).to_contain_text("so there is none for a person")
    page.locator("#model").select_option("mini")
    expect(page.locator("#guide-shuffled")).to_contain_text("Shuffling needs a mechanism whose delta is 0")


def test_public_texts_get_an_advice_that_can_be_saved(visit: Open, address: str, tmp_path: Path) -> None:
    watched = visit(address)
    watched.expected.add(422)
    page = watched.page
    open_guide(page)
    problem, go = page.locator("#advice-problem"), page.get_by_role("button", name="Advise me")
    go.click()
    expect(problem).to_have_text("Choose a file of public texts.")
    few = tmp_path / "public.txt"
    few.write_text("One text.\nAnother one.\n")
    page.get_by_label("A file of public texts").set_input_files(few)
    go.click()
    expect(problem).to_contain_text("Never send the private ones here.")
    page.get_by_label("These texts are public or made up.").check()
    go.click()
    expect(problem).to_contain_text("Advice needs at least 60 texts, got 2.")  # the server's own words
    expect(go).to_be_enabled()

    told = {
        "headline": "Release <b>this</b>.",
        "reasons": ["Because."],
        "changes": ["More people."],
        "page": "<p>All</p>",
    }
    page.route("**/v1/advice", lambda route: route.fulfill(json={**told, "figures": {}}))  # measuring takes a minute
    page.get_by_label("Somebody is trusted with all private texts").check()
    page.get_by_label("Column with labels to learn").fill("mood")
    with page.expect_request("**/v1/advice") as sent:
        go.click()
    form = sent.value.post_data or ""
    for said in (
        '"public":true',
        '"texts_per_person":10',
        '"people":1000',
        '"trusted_curator":true',
        '"label_column":"mood"',
    ):
        assert said in form
    expect(page.locator("#advice h4").first).to_have_text("Release <b>this</b>.")
    expect(page.locator("#advice")).to_contain_text("More people.")
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save the page with all figures").click()
    assert saved.value.suggested_filename == "advice.html"
    assert Path(saved.value.path()).read_text() == "<p>All</p>"
