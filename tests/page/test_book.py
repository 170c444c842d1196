"""What can come out: areas, single topics and the book alone, for pasted texts and for files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from dpbart import DEFAULT_MODEL
from dpbart.models.areas import areas_of
from dpbart.models.bundle import Bundle
from dpbart.models.families import family_of
from tests.page.chromium import send
from tests.page.conftest import TOKEN, Open

OFFICER = "Everything that can ever come out is on a public list. No name, number or address of yours can."


@pytest.fixture(scope="module")
def model() -> Bundle:
    return Bundle.find(DEFAULT_MODEL)


def sentences(model: Bundle, *, area: str) -> set[str]:
    return {line.sentence for line in family_of(model).book(model) if line.area == area}


def open_book(visit: Open, guarded: str) -> Page:
    watched = visit(guarded)
    watched.expected |= {401, 422}
    page = watched.page
    page.get_by_label("Token").fill(TOKEN)
    page.get_by_role("button", name="Use this token").click()
    expect(page.locator("#examples .pair").first).to_be_visible()
    page.locator("#book > summary").click()
    return page


def test_the_page_lists_the_areas_and_says_what_they_bring_and_cost(visit: Open, guarded: str, model: Bundle) -> None:
    page = open_book(visit, guarded)
    areas = areas_of(family_of(model).book(model))
    expect(page.locator("#areas .tick")).to_have_count(len(areas))
    for area in areas:
        words = f"{area.name} {area.sentences:,} sentences on {len(area.topics):,} topics"
        expect(page.locator("#areas .tick", has_text=words)).to_be_visible()
    expect(page.locator("#book > summary")).to_contain_text("Choose areas, and the same budget says more.")
    expect(page.locator("#areas-field")).to_contain_text("A text about something else then comes out as a sentence of")
    expect(page.locator("#book")).to_contain_text(OFFICER)


def test_pasted_texts_come_out_as_sentences_of_a_ticked_area(visit: Open, guarded: str, model: Bundle) -> None:
    page = open_book(visit, guarded)
    area = areas_of(family_of(model).book(model))[0]
    page.locator(f"#areas input[value={area.name}]").check()
    page.locator("#book-only").check()
    summary = page.locator("#book > summary")
    expect(summary).to_contain_text(f"the area {area.name}: {area.sentences:,} sentences; a code chooses among")
    expect(summary).not_to_contain_text("Choose areas")
    expect(page.locator("#examples[aria-busy]")).to_have_count(0)
    page.locator("#texts").fill("The gate was painted blue.")
    page.get_by_role("button", name="Rewrite", exact=True).click()
    written = page.locator("#text-result .pair p").nth(1)
    expect(written).to_be_visible()
    assert written.inner_text().split("\n")[-1] in sentences(model, area=area.name)
    page.get_by_role("button", name="Show the card").click()
    expect(page.locator("#card")).to_contain_text(OFFICER)
    expect(page.locator("#card")).to_contain_text(f"Only sentences of this area can come out: {area.name}")


def test_a_file_comes_out_as_sentences_of_a_ticked_area(
    visit: Open, guarded: str, model: Bundle, tmp_path: Path
) -> None:
    page = open_book(visit, guarded)
    area = areas_of(family_of(model).book(model))[0]
    page.locator(f"#areas input[value={area.name}]").check()
    file = tmp_path / "notes.csv"
    file.write_text("text\nThe gate was painted blue.\n")
    job = send(page, file, text="text")
    expect(job).to_contain_text(f"Only sentences of this area can come out: {area.name}")
    expect(job).to_contain_text("done")
    job.get_by_role("button", name="Delete").click()
    expect(page.locator(".job")).to_have_count(0)


def test_a_topic_is_added_by_its_name_and_a_wrong_one_is_refused_in_words(
    visit: Open, guarded: str, model: Bundle
) -> None:
    page = open_book(visit, guarded)
    topic = areas_of(family_of(model).book(model))[0].topics[0]
    page.locator("#topic").fill(topic)
    page.locator("#topic").press("Enter")
    expect(page.locator("#topics input")).to_be_checked()
    expect(page.locator("#topic")).to_have_value("")
    expect(page.locator("#book > summary")).to_contain_text(f"the topic {topic}:")
    page.locator("#topic").fill("no such topic")
    page.locator("#topic").press("Enter")
    expect(page.get_by_role("alert")).to_have_text('The book has no topic "no such topic". Choose one of the list.')
    page.locator("#topics input").uncheck()
    expect(page.locator("#book > summary")).to_contain_text("the whole book:")


def test_a_model_without_a_book_has_no_areas_and_keeps_none(visit: Open, guarded: str) -> None:
    page = open_book(visit, guarded)
    page.locator("#areas input").first.check()
    page.route("**/v1/examples?*", lambda route: route.fulfill(json={"examples": []}))
    page.locator("#model").select_option("mini-pr-plus")
    expect(page.locator("#book")).to_be_hidden()
    expect(page.locator("#meaning[aria-busy]")).to_have_count(0)
    page.locator("#model").select_option(DEFAULT_MODEL)
    expect(page.locator("#book")).to_be_visible()
    expect(page.locator("#areas input:checked")).to_have_count(0)


def test_the_slider_ends_at_the_largest_budget_of_the_model(visit: Open, guarded: str, model: Bundle) -> None:
    page = open_book(visit, guarded)
    page.route("**/v1/examples?*", lambda route: route.fulfill(json={"examples": []}))
    most = json.loads((model.folder / "dpbart.json").read_text())["code"]["table"][-1][0]
    page.locator("#slider").focus()
    page.keyboard.press("End")
    expect(page.locator("#epsilon")).to_have_value(f"{most:g}")
    page.locator("#model").select_option("mini-pr-plus")
    page.locator("#slider").press("End")
    expect(page.locator("#epsilon")).to_have_value("2500")
    page.locator("#model").select_option(DEFAULT_MODEL)
    expect(page.locator("#epsilon")).to_have_value(f"{most:g}")  # not 2,500, which it cannot use
    page.locator("#epsilon").fill(f"{most + 1:g}")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text(f"Epsilon must be at most {most:g} for '{model.name}'")
