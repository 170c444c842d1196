"""A person drops a file, follows it, and downloads the output with its card."""

from __future__ import annotations

import json
import re
from pathlib import Path

from playwright.sync_api import Route, expect

from tests.page.chromium import download, send
from tests.page.conftest import Open, check_card

# The server has the upload and answers it, and the page never hears of it. Playwright cannot pass on a file.
LOSE_AN_ANSWER = """() => {
    const real = window.fetch;
    window.fetch = async (path, more) => {
        const answer = await real(path, more);
        if (more.method !== "POST" || path !== "/v1/jobs") return answer;
        window.fetch = real;
        throw new TypeError("lost");
    };
}"""

# After the first look at the jobs, nobody answers.
LOSE_THE_SERVER = """() => {
    const real = window.fetch;
    let looks = 0;
    window.comeBack = () => { window.fetch = real; };
    window.fetch = async (path, more) => {
        if (path === "/v1/jobs" && more.method === "GET" && ++looks > 1) throw new TypeError("lost");
        return real(path, more);
    };
}"""

# The answer to the first request for which this is so comes when the test says so.
HOLD_AN_ANSWER = """(isHeld) => {
    const real = window.fetch, told = new Promise((resolve) => { window.answerNow = resolve; });
    window.fetch = async (path, more) => {
        const answer = await real(path, more);
        if (!isHeld(path, more)) return answer;
        window.fetch = real;
        await told;
        return answer;
    };
}"""


def test_a_file_comes_back_with_a_card_that_verifies(visit: Open, address: str, notes: Path, tmp_path: Path) -> None:
    page = visit(address).page
    job = send(page, notes, patient="person")
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
    file = tmp_path / "long.csv"  # 40 batches: however slow the page is, there is time to cancel
    file.write_text("patient,text\n" + "".join(f"q{row},It rained on day {row}.\n" for row in range(1280)))
    job = send(page, file, patient="person")
    page.evaluate(f"({HOLD_AN_ANSWER})((path) => path.endsWith('/cancel'))")  # the job stops before its answer comes
    job.get_by_role("button", name="Cancel").click()
    expect(job).to_contain_text("cancelled")
    page.evaluate("window.answerNow()")
    job.get_by_role("button", name="Resume").click()
    expect(job).to_contain_text(re.compile(r"of 1,280 rows, [\d.]+ a second, \d+ (second|minute)s? left"))
    expect(job).to_contain_text("done: 1,280 of 1,280 rows")
    page.get_by_role("tab", name="People").click()
    page.get_by_label("Find a person by their id").fill("q0")
    page.keyboard.press("Enter")
    expect(page.locator("#people")).to_contain_text("Epsilon 10 of 30 is spent")  # charged once, not twice
    page.get_by_role("tab", name="Rewrite").click()
    job.get_by_role("button", name="Delete").click()
    expect(page.locator(".job")).to_have_count(0)


TOGETHER = r"\(epsilon 1[01][.\d]*, delta [-.\de]+\) for all 11 texts of one person"  # counted together


def test_a_file_that_promises_less_than_the_page_showed_asks_first(visit: Open, address: str, tmp_path: Path) -> None:
    page = visit(address).page
    band, file = page.locator("#promise"), tmp_path / "often.csv"
    file.write_text("patient,text\n" + "".join(f"often,It rained on day {day}.\n" for day in range(11)))
    page.locator("#epsilon").fill("1")
    page.locator("#epsilon").press("Tab")
    expect(band).to_contain_text("Promise: strong.")
    job = send(page, file, patient="person")
    question = job.get_by_role("alert")
    expect(question).to_contain_text(re.compile(rf"less than the page showed: {TOGETHER}\."))
    expect(question).to_contain_text("That promise is limited. Nothing is rewritten or spent yet.")
    expect(band).to_contain_text("Promise: strong.")  # nobody has got anything else
    job.get_by_role("button", name="Delete").click()
    expect(page.locator(".job")).to_have_count(0)
    page.get_by_role("tab", name="People").click()
    expect(page.locator("#people")).to_contain_text("people")
    expect(page.locator("#people").get_by_role("row", name="often ")).to_have_count(0)
    page.get_by_role("tab", name="Rewrite").click()
    job = send(page, file, patient="person")
    job.get_by_role("button", name="Rewrite it all the same").click()
    expect(job).to_contain_text("done: 11 of 11 rows")
    expect(band).to_contain_text(re.compile(rf"Promise: limited\.{TOGETHER} in often\.csv\."))
    page.get_by_role("tab", name="How much privacy do I need?").click()
    expect(band).to_contain_text("Promise: limited.")
    page.get_by_role("tab", name="Rewrite").click()
    job.get_by_role("button", name="Delete").click()
    expect(band).to_contain_text("Promise: strong.")


def test_a_file_that_keeps_what_the_page_showed_does_not_ask(visit: Open, address: str, tmp_path: Path) -> None:
    page = visit(address).page
    file = tmp_path / "joined.csv"
    file.write_text("patient,text\n" + "".join(f"joined,It rained on day {day}.\n" for day in range(11)))
    page.locator("#more > summary").click()
    page.locator("#join-documents").check()
    job = send(page, file, patient="person-out")
    expect(job).to_contain_text("done: 1 of 1 rows")
    expect(page.locator("#promise")).to_contain_text("Promise: limited.")
    job.get_by_role("button", name="Delete").click()
    expect(page.locator(".job")).to_have_count(0)


def test_a_job_is_followed_again_when_the_server_is_back(visit: Open, address: str, tmp_path: Path) -> None:
    page = visit(address).page
    expect(page.locator("#examples .pair").first).to_be_visible()
    file = tmp_path / "long.csv"
    file.write_text("patient,text\n" + "".join(f"r{row},It rained on day {row}.\n" for row in range(128)))
    page.evaluate(LOSE_THE_SERVER)
    job = send(page, file, patient="person")
    expect(job).to_contain_text("The server does not answer. Asking again.")
    page.evaluate("window.comeBack()")
    expect(job).to_contain_text("done: 128 of 128 rows")
    job.get_by_role("button", name="Delete").click()
    expect(page.locator(".job")).to_have_count(0)


def test_an_answer_that_was_overtaken_brings_nothing_back(visit: Open, address: str, tmp_path: Path) -> None:
    page = visit(address).page
    file = tmp_path / "short.csv"
    file.write_text("patient,text\nt1,It was cold.\n")
    job = send(page, file, patient="person")
    expect(job).to_contain_text("done: 1 of 1 rows")
    page.evaluate(f"({HOLD_AN_ANSWER})((path, more) => path === '/v1/jobs' && more.method === 'GET')")
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")  # the page looks at its jobs
    job.get_by_role("button", name="Delete").click()
    expect(page.locator(".job")).to_have_count(0)
    page.evaluate("window.answerNow()")
    page.wait_for_timeout(500)  # enough to show it again, if it were shown
    expect(page.locator(".job")).to_have_count(0)


def test_a_wrong_file_is_answered_in_words_as_soon_as_it_is_chosen(visit: Open, address: str, tmp_path: Path) -> None:
    watched = visit(address)
    watched.expected.add(422)
    page = watched.page
    wrong = tmp_path / "holiday.jpg"
    wrong.write_bytes(b"\xff\xd8\xff")
    expect(page.locator("#examples .pair").first).to_be_visible()  # what the page loads by itself is there
    page.locator("#file").set_input_files(wrong)
    expect(page.get_by_role("alert")).to_contain_text("The ending of 'holiday.jpg' must be one of .csv")
    expect(page.locator("#columns")).to_be_hidden()
    page.get_by_role("button", name="Rewrite the file").click()
    expect(page.get_by_role("alert")).to_contain_text("The ending of 'holiday.jpg' must be")
    assert page.locator(".job").count() == 0


def test_a_failed_job_says_why_and_when_its_file_is_deleted(visit: Open, address: str, tmp_path: Path) -> None:
    page = visit(address).page
    table = tmp_path / "visits.jsonl"
    table.write_text('{"patient": "p1", "text": "It was cold."}\n{"patient": "p2", "text": 7}\n')
    job = send(page, table, patient="person")
    expect(job.locator(".problem")).to_contain_text("'visits.jsonl' is broken at row 2: column 'text'")
    expect(job).to_contain_text("The server keeps your file until")
    assert "input.jsonl" not in job.inner_text()
    job.get_by_role("button", name="Delete").click()
    expect(page.locator(".job")).to_have_count(0)


def test_the_page_says_how_long_this_server_keeps_an_output(visit: Open, address: str, tmp_path: Path) -> None:
    page = visit(address).page

    def other_limits(route: Route) -> None:
        told = route.fetch().json()
        route.fulfill(json={**told, "limits": {**told["limits"], "downloaded_seconds": 7200}})

    page.route("**/healthz", other_limits)
    page.reload()
    expect(page.locator("#examples .pair").first).to_be_visible()
    table = tmp_path / "short.csv"
    table.write_text("patient,text\ns1,It was cold.\n")
    job = send(page, table, patient="person")
    expect(job).to_contain_text("or 2 hours after you download it")
    download(job.get_by_role("button", name="Download with its card"), tmp_path)
    expect(job).not_to_contain_text("after you download it")  # now it is known when
    expect(job).to_contain_text("It deletes the output on ")
    script = "async (all) => { const { lasting } = await import('/words.js'); return all.map(lasting); }"
    assert page.evaluate(script, [1, 90, 60, 600, 3600, 86400]) == [
        *("1 second", "90 seconds", "1 minute", "10 minutes", "1 hour", "24 hours")
    ]
    job.get_by_role("button", name="Delete").click()
    expect(page.locator(".job")).to_have_count(0)


def test_a_second_press_after_a_lost_answer_does_not_create_a_second_job(
    visit: Open, address: str, tmp_path: Path
) -> None:
    watched = visit(address)
    page = watched.page
    table = tmp_path / "lost.csv"
    table.write_text("patient,text\nl1,It was cold.\n")

    page.locator("#file").set_input_files(table)
    page.get_by_label("patient", exact=True).select_option("person")
    page.evaluate(LOSE_AN_ANSWER)
    page.get_by_role("button", name="Rewrite the file").click()
    expect(page.get_by_role("alert")).to_contain_text("The server does not answer.")
    page.get_by_role("button", name="Rewrite the file").click()
    job = page.locator(".job")
    expect(job).to_contain_text("done: 1 of 1 rows")
    expect(job).to_have_count(1)
    job.get_by_role("button", name="Delete").click()
    expect(job).to_have_count(0)
    send(page, table, patient="person")  # after an answer, it is a new job
    sent = [each for each in watched.requests if each.url.endswith("/v1/jobs") and each.method == "POST"]
    keys = [each.headers["idempotency-key"] for each in sent]
    assert keys[0] == keys[1] != keys[2]
    job.get_by_role("button", name="Delete").click()
    expect(job).to_have_count(0)


def test_a_file_may_be_dropped(visit: Open, address: str) -> None:
    page = visit(address).page
    script = """() => {
        const held = new DataTransfer();
        held.items.add(new File(["patient,text\\nr1,It was cold.\\n"], "dropped.csv"));
        return held;
    }"""
    page.locator("#drop").dispatch_event("drop", {"dataTransfer": page.evaluate_handle(script)})
    assert page.locator("#file").evaluate("(field) => field.files[0].name") == "dropped.csv"
    expect(page.get_by_label("text", exact=True)).to_have_value("text")
