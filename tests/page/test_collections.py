"""The second kind of release on the page: a collection as a whole, and what the output of a job says."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.page.chromium import Watched, download, press, send
from tests.page.conftest import TOKEN, Open, check_card

RELEASE = "Release the collection"
HEALTH = "The nurse was kind and the doctor listened to me."
BILLS = "The bill was wrong and I was charged twice."


@pytest.fixture
def feedback(tmp_path: Path) -> Path:
    """Two made-up texts, often enough to be told from noise, with labels."""
    file = tmp_path / "feedback.csv"
    rows = [f"c{number},{(HEALTH, BILLS)[number % 2]},{('yes', 'no')[number % 2]}\n" for number in range(400)]
    file.write_text("customer,note,again\n" + "".join(rows))
    return file


def sign_in(watched: Watched) -> Page:
    """A server without a ledger: 400 people more would move others off the first page of People."""
    watched.expected.add(401)
    watched.page.get_by_label("Token").fill(TOKEN)
    watched.page.get_by_role("button", name="Use this token").click()
    expect(watched.page.locator("#file-go")).to_be_enabled()
    return watched.page


def choose(page: Page, name: str = "The collection as a whole") -> None:
    page.get_by_role("radio", name=name).check()


def test_the_page_says_who_is_trusted_and_shows_only_what_concerns_the_kind(
    visit: Open, address: str, feedback: Path
) -> None:
    page = visit(address).page
    expect(page.locator("#kinds")).to_contain_text("You hold all texts and are trusted with them; readers need not be.")
    expect(page.locator("#collection-fields")).to_be_hidden()
    page.locator("#file").set_input_files(feedback)
    page.get_by_label("customer", exact=True).select_option("person")
    page.get_by_label("again", exact=True).select_option("label")
    page.locator("#more > summary").click()
    of_texts = page.locator("#label-policy, #shuffle, #join-documents, #missing-person")
    of_both, of_collections = page.locator("#person-budget, #encoding"), page.locator("#rows, #label-set")
    kinds = {"Each text": (of_texts, of_collections), "The collection as a whole": (of_collections, of_texts)}
    for name in ("Each text", "The collection as a whole", "Each text"):
        choose(page, name)
        shown, hidden = kinds[name]
        for each in (*shown.all(), *of_both.all()):
            expect(each).to_be_visible()
        for each in hidden.all():
            expect(each).to_be_hidden()
    choose(page)
    role = page.get_by_label("customer", exact=True)
    expect(role).to_have_value("person-out")  # no column of a collection comes out
    expect(role.locator("option[value=other]")).to_have_attribute("hidden", "")


def test_the_kind_is_chosen_by_keyboard_and_says_what_to_expect(visit: Open, address: str) -> None:
    page = visit(address).page
    page.locator("#kind-texts").focus()
    page.keyboard.press("ArrowDown")
    expect(page.locator("#kind-collection")).to_be_focused()
    expected = page.locator("#expected")
    expect(page.get_by_label("Epsilon of one person")).to_have_value("1")
    expect(expected).to_contain_text("This collection as a whole has epsilon 1")
    expect(expected).to_contain_text("from about 120 people on")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.type("50")
    expect(expected.locator(".problem")).to_contain_text("TOO FEW PEOPLE: 50 at epsilon 1.")
    page.get_by_label("Epsilon of one person").fill("20")
    expect(page.locator("#promise")).to_contain_text("(epsilon 20, delta 0) for each person of a collection.")
    choose(page, "Each text")
    expect(page.locator("#promise")).to_contain_text("for one text")


def told(job: Locator) -> Locator:
    """The lines of the table of topics."""
    return job.locator("tbody tr")


@pytest.mark.parametrize("dark", [False, True])
def test_a_collection_is_released_with_labels_and_read(
    visit: Open, guarded: str, feedback: Path, tmp_path: Path, dark: bool
) -> None:
    page = sign_in(visit(guarded, dark=dark))
    choose(page)
    page.get_by_label("Epsilon of one person").fill("10")  # so little noise that no luck is needed below
    page.locator("#file").set_input_files(feedback)
    page.get_by_label("customer", exact=True).select_option("person-out")
    page.get_by_label("again", exact=True).select_option("label")
    page.get_by_label("All labels that there can be").fill("yes, no")
    job = press(page, RELEASE)
    expect(job).to_contain_text("done: 400 of 400 rows")
    expect(job).to_contain_text(
        "Each person has (epsilon 10, delta 0) with all their texts. No row belongs to anybody."
    )
    job.get_by_role("button", name="Show topics").click()
    expect(job.locator("table")).to_contain_text("health")  # half of the people
    expect(job).to_contain_text("areas cannot be told from noise.")
    width = "(all) => all.map((each) => each.getBoundingClientRect().width)"
    assert min(told(job).locator("svg .there").evaluate_all(width)) > 0
    job.get_by_label("What the output says, by").select_option("topics of the book")
    expect(job).to_contain_text("groups of topics cannot be told from noise.")
    output, card, _ = download(job.get_by_role("button", name="Download with its card"), tmp_path)
    check_card(card, output)
    assert output.read_text().splitlines()[0] == "note,again"
    expect(told(job).first).to_be_visible()  # what is shown stays, although the job has changed
    job.get_by_role("button", name="Show the card").click()
    expect(page.locator("#card")).to_contain_text("This collection as a whole has epsilon 10:")
    unnamed = "(all) => all.filter((each) => each.labels.length === 0).map((each) => each.id)"
    assert page.locator("input, select, textarea").evaluate_all(unnamed) == []
    job.get_by_role("button", name="Delete").click()
    expect(page.locator(".job")).to_have_count(0)


def test_too_few_people_are_told_before_anything_is_spent(visit: Open, address: str, tmp_path: Path) -> None:
    page = visit(address).page
    choose(page)
    file = tmp_path / "few.csv"
    file.write_text(f"who,note\nfew-1,{HEALTH}\nfew-2,{BILLS}\n")
    job = send(page, file, button=RELEASE, who="person-out")
    expect(job.get_by_role("alert")).to_contain_text("TOO FEW PEOPLE: 2 at epsilon 1.")
    expect(job.get_by_role("alert")).to_contain_text("Nothing is counted or spent yet.")
    job.get_by_role("button", name="Release it all the same").click()
    expect(job).to_contain_text("done: 2 of 2 rows")
    job.get_by_role("button", name="Delete").click()
    expect(page.locator(".job")).to_have_count(0)


def test_what_is_missing_is_said_beside_the_columns(visit: Open, address: str, feedback: Path) -> None:
    page = visit(address).page
    choose(page)
    page.locator("#file").set_input_files(feedback)
    page.get_by_label("again", exact=True).select_option("label")
    page.get_by_role("button", name=RELEASE).click()
    expect(page.locator("#columns-problem")).to_contain_text("A label column needs all labels that there can be")
    page.locator("#label-set").fill("yes,no")
    page.get_by_role("button", name=RELEASE).click()
    expect(page.locator("#columns-problem")).to_contain_text("Choose the column that says whose text it is.")


def test_the_reason_is_said_where_topics_cannot_be_told(visit: Open, guarded: str, tmp_path: Path) -> None:
    watched = visit(guarded)
    watched.expected.add(422)
    page = sign_in(watched)
    page.locator("#mechanism").select_option("none")
    file = tmp_path / "open.csv"
    file.write_text(f"note\n{HEALTH}\n")
    job = send(page, file, note="text")
    job.get_by_role("button", name="Show topics").click()
    expect(job).to_contain_text("No topics can be told:")
    expect(job).to_contain_text("so there is no noise to take off.")
    job.get_by_role("button", name="Delete").click()
    expect(page.locator(".job")).to_have_count(0)
