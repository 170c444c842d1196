"""A person slides, looks at examples, pastes a text and compares."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, Route, expect

from dpbart.options.settings import Settings
from dpbart.privacy.facts import Facts
from dpbart.privacy.scale import in_words
from dpbart.rewrite.chosen import ChosenModel
from dpbart.web.figures import EXAMPLES
from tests.page.chromium import download
from tests.page.conftest import Open, check_card

SECRET = "My sister Ottilie had her gall bladder removed in Uppsala."
HTML = "<img src=x onerror=\"document.title='broken'\"><script>document.title='broken'</script>"

NO_MODELS_YET = """
    const real = window.fetch, told = new Promise((resolve) => { window.answerNow = resolve; });
    window.fetch = async (path, more) => {
        if (path === "/v1/models") await told;
        return real(path, more);
    };
"""


def facts_at(epsilon: float) -> Facts:
    return ChosenModel(Settings("mini-code", epsilon)).channel.facts


def see_budget(page: Page, epsilon: float) -> None:
    """The words of the page are those of `dpbart noise`, and its pictures show the same figures."""
    facts = facts_at(epsilon)
    words = dict(in_words(facts))
    guesser, bits, kept = (page.locator(f"[data-figure={name}]") for name in ("guesser", "bits", "kept"))
    expect(page.locator("#epsilon")).to_have_value(f"{epsilon:g}")
    expect(guesser).to_contain_text(words["In words"])
    expect(bits).to_contain_text(words["Channel"])
    expect(kept).to_contain_text(words["Kept"])
    share = facts.figures["kept"]
    assert isinstance(share, float)
    expect(kept.locator("circle.there")).to_have_count(round(100 * share))
    expect(kept.locator("circle.away")).to_have_count(100 - round(100 * share))
    width = float(guesser.locator("rect.there").get_attribute("width") or 0)
    assert width == pytest.approx(100 * facts.right_of_two)


def test_the_slider_says_at_every_step_what_the_budget_means(visit: Open, address: str) -> None:
    page = visit(address).page
    see_budget(page, 10)
    expect(page.locator("#promise")).to_contain_text("Promise: limited.")
    page.locator("#slider").focus()
    for key, epsilon in (("ArrowLeft", 9), ("ArrowLeft", 8), ("ArrowRight", 9), ("ArrowRight", 10), ("ArrowRight", 11)):
        page.keyboard.press(key)
        see_budget(page, epsilon)
    said = f"epsilon 11. {dict(in_words(facts_at(11)))['In words']}"  # to those who cannot see the pictures
    expect(page.locator("#slider")).to_have_attribute("aria-valuetext", said)
    page.locator("#epsilon").fill("2")
    page.keyboard.press("Enter")
    see_budget(page, 2)
    expect(page.locator("#promise")).to_contain_text("Promise: moderate.")


def test_public_examples_follow_the_budget(visit: Open, address: str) -> None:
    page = visit(address).page
    first = page.locator("#examples .pair p").all_inner_texts
    expect(page.locator("#examples .pair").nth(2)).to_be_visible()
    assert [text.split("\n")[-1] for text in first()[0:6:2]] == list(EXAMPLES[:3])
    page.locator("#epsilon").fill("200")
    page.keyboard.press("Enter")
    # Nothing is lost at 200, except by chance: of each example in 1 of 1,500 draws, and of all three in 1 of 10^9.
    whole = re.compile("|".join(f"Rewritten{re.escape(example)}" for example in EXAMPLES[:3]))
    expect(page.locator("#examples > .pair p").filter(has_text=whole).first).to_be_visible()


def test_a_pasted_text_and_its_rewriting_stand_side_by_side(visit: Open, address: str, tmp_path: Path) -> None:
    watched = visit(address)
    page = watched.page
    page.locator("#texts").fill(f"{SECRET}\n\n{HTML}")
    page.locator("#text-person").fill("ottilie")
    page.get_by_role("button", name="Rewrite", exact=True).click()
    pairs = page.locator("#text-result .pair")
    expect(pairs).to_have_count(2)
    expect(pairs.nth(0)).to_contain_text(SECRET)
    expect(pairs.nth(1)).to_contain_text(HTML)  # as text: it is neither an image nor a script
    assert page.locator("#text-result img, #text-result script").count() == 0
    assert page.title() == "dpbart"
    shown = [text.split("\n")[-1] for text in pairs.locator("p").all_inner_texts()]
    output, card, _ = download(
        page.locator("#text-result").get_by_role("button", name="Download with the card"), tmp_path
    )
    with output.open(newline="") as file:
        assert [row["text"] for row in csv.DictReader(file)] == [shown[1], shown[3]]
    check_card(card, output)
    page.get_by_role("button", name="Show the card").click()
    expect(page.locator("#card")).to_be_focused()
    expect(page.locator("#card")).to_contain_text(json.loads(card.read_text())["run"]["output_sha256"])
    sent = [request for request in watched.requests if SECRET in (request.post_data or "")]
    assert [request.url for request in sent] == [f"{address}v1/rewrite"]  # once, and in no address
    assert not [request for request in watched.requests if "Ottilie" in request.url]
    page.get_by_role("button", name="Clear").click()
    expect(page.locator("#card")).to_be_hidden()
    assert SECRET not in page.content()
    assert page.locator("#texts").input_value() == ""


def test_the_band_shows_what_all_texts_of_one_person_have(visit: Open, address: str) -> None:
    page = visit(address).page
    band = page.locator("#promise")
    page.locator("#epsilon").fill("1")
    page.locator("#epsilon").press("Tab")
    expect(band).to_contain_text("Promise: strong.")
    page.locator("#text-person").fill("several")
    page.locator("#texts").fill("It rained on Monday.\n\nIt rained on Tuesday.")
    page.get_by_role("button", name="Rewrite", exact=True).click()
    expect(band).to_contain_text(
        "Promise: moderate.(epsilon 2, delta 0) for all 2 texts of one person that you pasted."
    )
    page.get_by_role("button", name="Clear").click()
    expect(band).to_contain_text("Promise: strong.")


def test_a_lost_answer_is_neither_drawn_nor_charged_again(visit: Open, address: str) -> None:
    watched = visit(address)
    page = watched.page
    lost: list[str] = []

    def lose(route: Route) -> None:
        lost.append(route.fetch().text())  # the server has answered
        route.abort()

    page.route("**/v1/rewrite", lose, times=1)
    page.locator("#texts").fill("The gate was painted blue.")
    page.locator("#text-person").fill("lotte")
    with page.expect_console_message(lambda message: "Failed to load resource" in message.text):
        page.get_by_role("button", name="Rewrite", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("The server does not answer.")
    watched.complaints.clear()  # of the browser, about the lost answer
    page.get_by_role("button", name="Rewrite", exact=True).click()
    expect(page.locator("#text-result .pair")).to_contain_text(json.loads(lost[0])["texts"][0])
    page.get_by_role("button", name="Rewrite", exact=True).click()  # after an answer, it is a new question
    expect(page.locator("#text-go")).to_be_enabled()
    sent = [each for each in watched.requests if each.url.endswith("/v1/rewrite")]
    keys = [each.headers["idempotency-key"] for each in sent]
    assert keys[0] == keys[1] != keys[2]
    page.get_by_role("tab", name="People").click()
    lotte = page.locator("#people").get_by_role("row", name="lotte").locator("td")
    expect(lotte.first).to_have_text("2")  # texts


def test_what_is_on_its_way_is_not_sent_again(visit: Open, address: str) -> None:
    watched = visit(address)
    page = watched.page
    page.locator("#texts").fill("The gate was painted green.")
    page.locator("#text-person").fill("gerda")
    expect(page.locator("#text-go")).to_be_enabled()  # the page has a budget
    page.evaluate("for (const _ of [1, 2]) document.getElementById('text-form').requestSubmit()")  # as Ctrl+Enter does
    expect(page.locator("#text-result .pair")).to_have_count(1)
    assert len([each for each in watched.requests if each.url.endswith("/v1/rewrite")]) == 1


def test_the_browser_is_asked_to_remember_nothing(visit: Open, address: str) -> None:
    watched = visit(address)
    fields = watched.page.locator("input:not([type=file]), textarea, select")
    assert fields.count() > 6
    is_named = "each.name !== '' && each.type !== 'radio'"  # a group of radio buttons needs a name, and holds no text
    kept = f"(all) => all.filter((each) => each.autocomplete !== 'off' || ({is_named})).length"
    assert fields.evaluate_all(kept) == 0
    watched.page.locator("#texts").fill(SECRET)
    watched.page.reload()
    assert watched.page.locator("#texts").input_value() == ""


def test_a_budget_that_is_used_up_is_refused_in_words(visit: Open, address: str) -> None:
    watched = visit(address)
    watched.expected.add(409)
    page = watched.page
    page.locator("#texts").fill("A text of Aaron.")
    page.locator("#text-person").fill("aaron")
    page.get_by_role("button", name="Rewrite", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("'aaron' has epsilon 5 left of 5")
    expect(page.locator("#text-result")).to_be_empty()
    page.get_by_role("tab", name="People").click()
    expect(page.locator("#people")).to_contain_text("spen")
    expect(page.locator("#people").get_by_role("row", name="aaron")).to_have_count(0)  # a refusal spends nothing
    page.get_by_role("tab", name="Rewrite").click()
    page.locator("#epsilon").fill("4")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Rewrite", exact=True).click()
    expect(page.locator("#text-result .pair")).to_have_count(1)
    expect(page.get_by_role("alert")).to_be_hidden()
    page.get_by_role("tab", name="People").click()
    aaron = page.locator("#people").get_by_role("row", name="aaron")
    expect(aaron.locator("td")).to_have_text(["1", "4", "5", "1"])  # texts, spent, limit, left


def test_nothing_can_be_sent_before_there_is_a_budget(visit: Open, address: str) -> None:
    watched = visit(address)
    page = watched.page
    page.add_init_script(NO_MODELS_YET)
    page.reload()
    page.locator("#texts").fill("A text.")
    page.keyboard.press("Control+Enter")
    for name in ("Rewrite", "Rewrite the file"):
        expect(page.get_by_role("button", name=name, exact=True)).to_be_disabled()
    assert not [request for request in watched.requests if request.method == "POST"]
    page.evaluate("window.answerNow()")
    for name in ("Rewrite", "Rewrite the file"):
        expect(page.get_by_role("button", name=name, exact=True)).to_be_enabled()


def test_an_empty_field_is_a_mistake_that_costs_nothing(visit: Open, address: str) -> None:
    watched = visit(address)
    watched.page.locator("#text-person").fill("anna")
    watched.page.get_by_role("button", name="Rewrite", exact=True).click()
    expect(watched.page.get_by_role("alert")).to_have_text("There is no text yet. Paste one first.")
    assert not [request for request in watched.requests if request.method == "POST"]
