"""The page for everybody: by keyboard, on a phone, in the dark, and honest about what is not private."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

import dpbart
from tests.page.conftest import TOKEN, Open

STATIC = Path(dpbart.__file__).parent / "web" / "static"
TABS = ("Rewrite", "People", "How much privacy do I need?")
# WCAG 2.2, relative luminance and contrast ratio; the background is the nearest one that is painted.
CONTRAST = """(place) => {
    const channels = (colour) => colour.match(/[\\d.]+/g).map(Number);
    const light = (colour) => channels(colour).slice(0, 3).map((each) => each / 255)
        .map((each) => (each <= 0.04045 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4))
        .reduce((sum, each, at) => sum + each * [0.2126, 0.7152, 0.0722][at], 0);
    let below = place;
    while (channels(getComputedStyle(below).backgroundColor)[3] === 0) below = below.parentElement;
    const two = [light(getComputedStyle(place).color), light(getComputedStyle(below).backgroundColor)];
    return (Math.max(...two) + 0.05) / (Math.min(...two) + 0.05);
}"""
PAINTED = "(place) => [getComputedStyle(place).backgroundColor, getComputedStyle(place).color]"
READ = (
    *("#promise", "main p.quiet", "label", "[role=tab][aria-selected=true]", "[role=tab][aria-selected=false]"),
    *("figcaption", ".said", ".pair p", "button.main", "footer p", "summary"),
)


def test_everything_works_by_keyboard_alone(visit: Open, address: str) -> None:
    page = visit(address).page
    expect(page.locator("#examples .pair").first).to_be_visible()
    keys = page.keyboard
    keys.press("Tab")
    expect(page.locator(".skip")).to_be_focused()
    keys.press("Tab")
    keys.press("ArrowRight")
    expect(page.locator("#panel-people")).to_be_visible()
    keys.press("End")
    expect(page.locator("#panel-guide")).to_be_visible()
    keys.press("Home")
    expect(page.locator("#tab-rewrite")).to_be_focused()
    outline = page.locator("#tab-rewrite").evaluate("(tab) => getComputedStyle(tab).outlineStyle")
    assert outline == "solid"  # where the focus is can be seen
    seen = []
    while (at := page.evaluate("document.activeElement.id || document.activeElement.tagName")) != "texts":
        seen.append(at)
        assert len(seen) < 20, seen
        keys.press("Tab")
    assert seen[:5] == ["tab-rewrite", "model", "mechanism", "slider", "epsilon"]
    keys.type("The gate was painted blue.")
    keys.press("Tab")
    keys.type("keyboard")
    keys.press("Shift+Tab")
    expect(page.locator("#text-go")).to_be_enabled()  # the page has a budget
    keys.press("Control+Enter")
    expect(page.locator("#text-result .pair")).to_have_count(1)


def test_every_field_has_a_name(visit: Open, address: str) -> None:
    page = visit(address).page
    unnamed = "(all) => all.filter((each) => each.labels.length === 0).map((each) => each.id)"
    assert page.locator("input, select, textarea").evaluate_all(unnamed) == []


def test_a_phone_shows_the_whole_width(visit: Open, address: str) -> None:
    page = visit(address, width=360).page
    expect(page.locator("#examples .pair").first).to_be_visible()
    for tab in TABS:
        page.get_by_role("tab", name=tab).click()
        assert page.evaluate("document.documentElement.scrollWidth") == 360, tab
        small = "(all) => all.filter((each) => each.offsetHeight > 0 && each.offsetHeight < 32).map((each) => each.id)"
        assert (
            page.locator("main button, select, input[type=range]").evaluate_all(small) == []
        )  # large enough for a finger


@pytest.mark.parametrize("dark", [False, True])
def test_light_and_dark_can_be_read(visit: Open, address: str, dark: bool) -> None:
    page = visit(address, dark=dark).page
    expect(page.locator("#examples .pair").first).to_be_visible()
    page.evaluate("document.getAnimations().forEach((each) => each.finish())")
    expect(page.locator("[aria-busy]")).to_have_count(0)
    red, green, blue = re.findall(r"\d+", page.locator("body").evaluate(PAINTED)[0])[:3]
    assert (int(red) + int(green) + int(blue) < 150) is dark
    faint = {each: ratio for each in READ if (ratio := page.locator(each).first.evaluate(CONTRAST)) < 4.5}
    assert faint == {}
    page.locator("#mechanism").select_option("none")
    expect(page.locator("#promise")).to_have_class("promise open")
    assert page.locator("#promise").evaluate(CONTRAST) >= 4.5


def sign_in(page: Page) -> None:
    page.get_by_label("Token").fill(TOKEN)
    page.get_by_role("button", name="Use this token").click()
    expect(page.locator("#examples .pair").first).to_be_visible()


def test_a_token_is_asked_for_once_and_kept_nowhere(visit: Open, guarded: str) -> None:
    watched = visit(guarded)
    watched.expected.add(401)
    page = watched.page
    expect(page.get_by_role("alert")).to_contain_text("This server requires a token.")
    page.get_by_label("Token").fill("x" * 40)
    page.get_by_role("button", name="Use this token").click()
    expect(page.get_by_label("Token")).to_have_value("")
    expect(page.get_by_role("alert")).to_be_visible()
    sign_in(page)
    expect(page.locator("#token-form")).to_be_hidden()
    assert not [request for request in watched.requests if TOKEN in request.url]
    page.get_by_role("tab", name="People").click()
    expect(page.locator("#people")).to_contain_text("This server has no ledger")
    page.reload()
    expect(page.get_by_label("Token")).to_be_visible()


def look(promise: Locator) -> tuple[object, ...]:
    """Where it is, and in which colours."""
    box = promise.bounding_box()
    assert box is not None
    return box["x"], box["y"], box["width"], *promise.evaluate(PAINTED)


def test_not_private_stands_in_one_place_and_one_colour(visit: Open, guarded: str, tmp_path: Path) -> None:
    watched = visit(guarded)
    watched.expected.add(401)
    page = watched.page
    sign_in(page)
    promise = page.locator("#promise")
    private = look(promise)
    page.locator("#mechanism").select_option("none")
    expect(promise).to_contain_text("NOT PRIVATE")
    found = [look(promise)]
    for tab in (*TABS[1:], TABS[0]):
        page.get_by_role("tab", name=tab).click()
        found.append(look(promise))
    page.locator("#texts").fill("The gate was painted blue.")
    page.get_by_role("button", name="Rewrite", exact=True).click()
    expect(page.locator("#text-result")).to_contain_text("NOT PRIVATE")
    file = tmp_path / "open.txt"
    file.write_text("The gate was painted blue.\n")
    page.locator("#file").set_input_files(file)
    page.get_by_role("button", name="Rewrite the file").click()
    page.get_by_role("button", name="Show the card").click()
    expect(page.locator("#card")).to_contain_text("NOT PRIVATE")
    page.locator("#mechanism").select_option("response")  # the settings are private again; the output below is not
    expect(page.locator("#slider")).to_be_enabled()
    page.evaluate("window.scrollTo(0, 0)")
    found.append(look(promise))
    expect(promise).to_contain_text("NOT PRIVATE")
    assert len(set(found)) == 1
    assert found[0][:3] == private[:3]
    assert found[0][3:] != private[3:]
    page.locator(".job").get_by_role("button", name="Delete").click()
    expect(page.locator(".job")).to_have_count(0)
    expect(promise).to_contain_text("NOT PRIVATE")  # the texts are still there
    page.get_by_role("button", name="Clear").click()
    expect(promise).to_contain_text("Promise: limited")


def test_the_page_has_no_way_to_run_a_text() -> None:
    """The policy of the server forbids it, and the page does not even try."""
    scripts = "\n".join(file.read_text() for file in STATIC.glob("*.js"))
    parsing = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function|srcdoc|\.href ="
    keeping = r"localStorage|sessionStorage|indexedDB|document\.cookie|pushState|replaceState|serviceWorker"
    assert re.findall(f"{parsing}|{keeping}", scripts) == []
    page = (STATIC / "index.html").read_text()
    assert re.findall(r"<style|\sstyle=|\son\w+=|<script(?! type=\"module\" src=)", page) == []
    loaded = re.findall(r"(?:src|href)=\"([^\"]+)\"", page)
    assert [each for each in loaded if not re.fullmatch(r"[\w.]+|#main", each)] == []
    assert re.findall(r"url\(|@import|https?:", (STATIC / "style.css").read_text()) == []
