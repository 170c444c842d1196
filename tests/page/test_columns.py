"""A person says what is in each column, and what should happen to it."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from playwright.sync_api import Locator, Page, expect

from tests.page.chromium import Watched, download, send
from tests.page.conftest import Open, check_card

VISITS = ("patient", "complaint", "finding", "ill")


def rows(prefix: str, count: int = 24) -> list[tuple[str, str, str, str]]:
    return [
        (f"{prefix}{row}", f"My knee hurts on day {row}.", "Nothing was found.", "no" if row % 2 else "yes")
        for row in range(count)
    ]


def table(folder: Path, prefix: str) -> Path:
    file = folder / "visits.csv"
    with file.open("w", newline="") as handle:
        csv.writer(handle).writerows([VISITS, *rows(prefix)])
    return file


def downloaded(job: Locator, folder: Path) -> tuple[Path, dict[str, object]]:
    """The output and its card, which holds for it. The job is deleted."""
    expect(job).to_contain_text("done: ")
    output, card, _ = download(job.get_by_role("button", name="Download with its card"), folder)
    check_card(card, output)
    job.get_by_role("button", name="Delete").click()
    expect(job.page.locator(".job")).to_have_count(0)
    return output, json.loads(card.read_text())


def read(file: Path) -> list[dict[str, str]]:
    with file.open(newline="") as handle:
        return list(csv.DictReader(handle))


def budget(page: Page, epsilon: str) -> None:
    page.locator("#epsilon").fill(epsilon)
    page.keyboard.press("Tab")


def test_a_file_of_another_encoding_is_read_once_its_encoding_is_chosen(
    visit: Open, address: str, tmp_path: Path
) -> None:
    file = tmp_path / "notizen.csv"
    file.write_bytes("Patientin;Größe;text\nw1;groß;The café was full.\n".encode("cp1252"))
    watched = visit(address)
    watched.expected.add(422)
    page = watched.page
    page.locator("#file").set_input_files(file)
    expect(page.get_by_role("alert")).to_contain_text("it is not UTF-8")
    page.get_by_text("More options").click()
    page.get_by_label("Encoding").fill("cp1252")
    page.keyboard.press("Tab")
    expect(page.get_by_label("Größe", exact=True)).to_be_visible()
    expect(page.get_by_role("alert")).to_be_hidden()
    page.get_by_label("Patientin", exact=True).select_option("person")
    page.get_by_label("Größe", exact=True).select_option("other")
    page.get_by_role("button", name="Rewrite the file").click()
    output, _ = downloaded(page.locator(".job").first, tmp_path)
    assert output.read_bytes().startswith("Patientin;Größe;text\nw1;groß;".encode("cp1252"))


@pytest.mark.parametrize("kind", ["xlsx", "parquet"])
def test_other_tables_come_back_in_their_own_format(visit: Open, address: str, tmp_path: Path, kind: str) -> None:
    file, held = tmp_path / f"visits.{kind}", rows(kind, 5)
    if kind == "xlsx":
        book = openpyxl.Workbook(write_only=True)
        sheet = book.create_sheet()
        for row in (VISITS, *held):
            sheet.append(row)
        book.save(file)
    else:
        pq.write_table(pa.table(dict(zip(VISITS, zip(*held, strict=True), strict=True))), file)
    job = send(visit(address).page, file, patient="person", complaint="text", finding="other", ill="other")
    output, _ = downloaded(job, tmp_path)
    if kind == "xlsx":
        found = list(openpyxl.load_workbook(output).worksheets[0].values)
    else:
        found = [VISITS, *(tuple(row.values()) for row in pq.read_table(output).to_pylist())]
    assert output.name == f"visits.private.{kind}"
    assert found[0] == VISITS
    assert [(row[0], *row[2:]) for row in found[1:]] == [(row[0], *row[2:]) for row in held]
    assert "My knee hurts on day 3." not in {row[1] for row in found}


def choose(page: Page, column: str, letters: str, role: str) -> None:
    """As somebody without a mouse does: the first letters of a choice select it."""
    field = page.get_by_label(column, exact=True)
    while not field.evaluate("(field) => field === document.activeElement"):
        page.keyboard.press("Tab")
    for _ in range(9):
        page.keyboard.type(letters)
        if field.input_value() == role:
            return
        page.wait_for_timeout(3_000)  # after a pause, a letter begins another word
    raise AssertionError(f"the letters {letters} do not select {role}")


def test_two_text_columns_and_randomised_labels_by_keyboard_on_a_phone(
    visit: Open, address: str, tmp_path: Path
) -> None:
    page = visit(address, width=360).page
    budget(page, "5")
    page.locator("#file").set_input_files(table(tmp_path, "k"))
    expect(page.get_by_label("finding", exact=True)).to_have_value("out")  # unless something else is chosen
    page.locator("#file").focus()
    choose(page, "patient", "person", "person-out")
    for column, role in (("complaint", "text"), ("finding", "text"), ("ill", "label")):
        choose(page, column, role, role)
    expect(page.get_by_label("Join them into one text")).not_to_be_checked()
    choose(page, "What happens to the labels?", "rand", "randomize")
    page.keyboard.press("Tab")
    page.keyboard.type("1")
    page.keyboard.press("Tab")
    page.keyboard.type("yes, no")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")  # opens the further options
    expect(page.get_by_label("Write the rows in random order")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    unnamed = "(all) => all.filter((each) => each.labels.length === 0).map((each) => each.id)"
    assert page.locator("input, select").evaluate_all(unnamed) == []
    page.locator("#file-go").press("Enter")
    job = page.locator(".job")
    expect(job).to_contain_text("for all 2 texts of a row with their labels. That promise is limited.")
    job.get_by_role("button", name="Rewrite it all the same").press("Enter")
    expect(job).to_contain_text("Each row is 2 releases")
    output, card = downloaded(job, tmp_path)
    written = read(output)
    assert list(written[0]) == list(VISITS[1:])  # the ids are counted, and left out
    assert (card["other_columns"], card["person"]["people"]) == ([], 24)  # type: ignore[index]
    assert {row["ill"] for row in written} <= {"yes", "no"}
    assert not {row[1] for row in rows("k")} & {row["complaint"] for row in written}
    assert card["label_epsilon"] == 1
    assert card["row"]["columns"] == ["complaint", "finding"]  # type: ignore[index]


def test_a_shuffled_output_has_the_texts_alone_and_says_what_that_gives(
    visit: Open, address: str, tmp_path: Path
) -> None:
    page = visit(address).page
    budget(page, "3")
    page.locator("#more > summary").click()
    page.get_by_label("Write the rows in random order").check()
    job = send(page, table(tmp_path, "s"), patient="person-out", complaint="text")
    expect(job).to_contain_text("done: 24 of 24 rows")
    expect(job).to_contain_text("Each text has (epsilon 3, delta 0). The shuffled output as a whole has (epsilon ")
    output, card = downloaded(job, tmp_path)
    assert [list(row) for row in read(output)] == [["complaint"]] * 24
    assert card["other_columns"] == []
    stated = card["shuffled"]["guarantee"]["epsilon"]  # type: ignore[index]
    assert stated < 3


def refused(watched: Watched, words: str) -> None:
    """Nothing is uploaded, and the page says why."""
    watched.page.get_by_role("button", name="Rewrite the file").click()
    expect(watched.page.get_by_role("alert")).to_contain_text(words)
    assert not [each for each in watched.requests if each.method == "POST" and each.url.endswith("/v1/jobs")]


def test_what_is_missing_is_said_before_anything_is_uploaded(visit: Open, address: str, tmp_path: Path) -> None:
    watched = visit(address)
    page = watched.page
    refused(watched, "There is no file yet.")
    page.locator("#file").set_input_files(table(tmp_path, "w"))
    role = {column: page.get_by_label(column, exact=True) for column in VISITS}
    expect(role["ill"]).to_have_value("out")
    expect(role["complaint"]).to_have_value("text")  # it sounds like it
    role["complaint"].select_option("out")
    refused(watched, "No column is rewritten yet.")
    role["complaint"].select_option("text")
    refused(watched, "Choose the column that says whose text it is.")
    role["patient"].select_option("person")
    expect(role["patient"].locator("option:checked")).to_have_text("person: whose text it is, released as it is")
    role["finding"].select_option("person-out")
    refused(watched, "Only one column can be the person, and 2 are.")
    role["finding"].select_option("other")
    role["ill"].select_option("label")
    page.get_by_label("What happens to the labels?").select_option("randomize")
    refused(watched, "Randomised labels need an epsilon greater than 0.")
    page.get_by_label("Epsilon of a label").fill("1")
    refused(watched, "Randomised labels need all labels that there can be")
    page.get_by_label("Write the rows in random order").evaluate("(field) => field.click()")
    expect(role["finding"]).to_have_value("out")  # a shuffled output has no other columns
    expect(role["patient"].locator("option:checked")).to_have_text("person: whose text it is, left out")
    plain = tmp_path / "plain.txt"
    plain.write_text("It was cold.\n")
    page.locator("#file").set_input_files(plain)
    expect(page.get_by_label("The whole file is one text")).to_be_visible()
    expect(page.locator("#columns")).to_be_hidden()
    refused(watched, "plain text does not say whose it is")


def test_a_mistake_about_columns_stands_beside_them(visit: Open, address: str, tmp_path: Path) -> None:
    page = visit(address, width=360).page  # on a phone, the top of the page is far away
    file = tmp_path / "many.csv"
    file.write_text("patient,date,stars\nn1,Monday,5\n")
    page.locator("#file").set_input_files(file)
    expect(page.get_by_label("stars", exact=True)).to_have_value("out")
    page.get_by_role("button", name="Rewrite the file").click()
    alert = page.locator("#columns").get_by_role("alert")
    expect(alert).to_have_text("No column is rewritten yet. Choose the one that has the texts.")
    expect(page.get_by_role("alert")).to_have_count(1)
    expect(alert).to_be_in_viewport()
    expect(page.get_by_label("stars", exact=True)).to_be_in_viewport()
    page.get_by_label("stars", exact=True).select_option("text")
    page.get_by_label("patient", exact=True).select_option("person")
    page.get_by_role("button", name="Rewrite the file").click()
    job = page.locator(".job").first
    expect(job).to_contain_text("done: 1 of 1 rows")
    expect(page.get_by_role("alert")).to_have_count(0)
    job.get_by_role("button", name="Delete").click()
    expect(page.locator(".job")).to_have_count(0)


@pytest.mark.parametrize(
    ("columns", "chosen"),
    [
        ("id,note", "note"),
        ("patient,Patient Feedback,feedback_score", "Patient Feedback"),
        ("comment,text,note", "text"),
        ("comments,freeText", "freeText"),  # the one that sounds most like it, and one only
        ("review_id,note date,stars", None),
        ("anything", "anything"),
    ],
)
def test_a_column_that_sounds_like_text_is_chosen_already(
    visit: Open, address: str, tmp_path: Path, columns: str, chosen: str | None
) -> None:
    page = visit(address).page
    names = columns.split(",")
    file = tmp_path / "some.csv"
    file.write_text(f"{columns}\n{','.join('x' for _ in names)}\n")
    page.locator("#file").set_input_files(file)
    for name in names:
        expect(page.get_by_label(name, exact=True)).to_have_value("text" if name == chosen else "out")
