"""A model's book on the command line: shown, chosen from, and said before a run."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import pytest

from dpbart.models.bundle import Bundle
from dpbart.models.code.book import BOOK_FILE, read_book
from tests.command_line import run, succeed
from tests.models.tiny_code import AREAS, TABLE, book_lines


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    file = tmp_path / "notes.csv"
    file.write_text("id,text\n1,the ferry was late\n2,my hen is ill\n3,\n4,who ate the plum\n")
    return file


def texts_of(file: Path) -> list[str]:
    with file.open(newline="") as rows:
        return [row["text"] for row in csv.DictReader(rows)]


def test_the_areas_of_a_book_have_their_size_and_two_sentences_each(tiny_code: Bundle) -> None:
    shown = succeed("models", "show", tiny_code.folder, "--areas").splitlines()
    held = json.loads(succeed("models", "show", tiny_code.folder, "--areas", "--json"))
    assert {each["name"]: each["sentences"] for each in held} == dict.fromkeys(AREAS, 160)
    for each in held:
        assert set(each["topics"]) == set(AREAS[each["name"]])
        at = shown.index(f"{each['name']}: 160 sentences on 4 topics")
        assert shown[at + 1 : at + 3] == [f"  {example}" for example in each["examples"]]
        topics = {
            line.topic for line in book_lines() if line.sentence in each["examples"] and line.area == each["name"]
        }
        assert len(topics) == 2
    assert shown[-1] == f"The topics and all sentences: dpbart models show {tiny_code.name} --book"


def test_the_whole_book_is_printed_as_it_stands_in_its_file(tiny_code: Bundle) -> None:
    shown = succeed("models", "show", tiny_code.folder, "--book")
    assert shown == (tiny_code.folder / BOOK_FILE).read_text()
    assert {tuple(line.split("\t")) for line in shown.splitlines()} == set(book_lines())


def test_one_topic_of_a_book_is_printed_alone(tiny_code: Bundle) -> None:
    expected = {tuple(line) for line in book_lines() if line.topic == "boats"}
    shown = succeed("models", "show", tiny_code.folder, "--book", "--topic", "boats").splitlines()
    assert {tuple(line.split("\t")) for line in shown} == expected
    held = json.loads(succeed("models", "show", tiny_code.folder, "--book", "--topic", "boats", "--json"))
    assert {(each["area"], each["topic"], each["sentence"]) for each in held} == expected
    assert len(shown) == len(held) == 40


def test_what_cannot_be_shown_of_a_book_is_one_line_with_a_remedy(tiny: Bundle, tiny_code: Bundle) -> None:
    for option in ("--book", "--areas"):
        done = run("models", "show", tiny.folder, option)
        assert (done.exit_code, done.stdout) == (1, "")
        assert done.stderr == (
            f"Error: '{tiny.name}' has no book. Choose a model that has one: dpbart models show mini-code --areas\n"
        )
    done = run("models", "show", tiny_code.folder, "--book", "--topic", "boat")
    assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert done.stderr.startswith(f"Error: '{tiny_code.name}' has no topic 'boat'. It has: ")


@pytest.mark.parametrize("options", [["--topic", "boats"], ["--areas", "--book"], ["--areas", "--topic", "boats"]])
def test_options_about_a_book_that_contradict_each_other_are_refused(tiny_code: Bundle, options: list[str]) -> None:
    done = run("models", "show", tiny_code.folder, *options)
    assert done.exit_code == 2
    assert "Give either --areas or --book; --topic goes with --book." in done.stderr


def test_a_book_without_areas_says_so_and_offers_none(tiny_code_without_areas: Bundle, notes: Path) -> None:
    model = tiny_code_without_areas.folder
    done = run("models", "show", model, "--areas")
    assert (done.exit_code, done.stderr) == (
        1,
        f"Error: the book of '{model.name}' has no areas. Read it with --book.\n",
    )
    assert succeed("models", "show", model, "--book").startswith("\t\t")
    said = run("rewrite", notes, notes.with_name("out.csv"), "-e", 4, "--model", model).stderr
    assert "--areas" not in said


@pytest.fixture
def tiny_code_without_areas(tiny_code: Bundle, tmp_path: Path) -> Bundle:
    """As people make it from plain sentences."""
    folder = shutil.copytree(tiny_code.folder, tmp_path / "plain")
    lines = [f"\t\t{line.sentence}\n" for line in read_book(tiny_code.folder)]
    (folder / BOOK_FILE).write_text("".join(lines))
    return Bundle.at(folder)


def test_noise_shows_the_size_of_the_code_for_chosen_areas(tiny_code: Bundle) -> None:
    def book(*options: object) -> tuple[str, str]:
        held = json.loads(succeed("noise", "--model", tiny_code.folder, *options, "--json"))
        named = {each["name"]: each["words"] for each in held["words"]}
        return named["Book"], named["Code"]

    assert book("-e", 10) == (
        "the whole book: 480 sentences; a code chooses among 256 of them",
        "8 bits for each text: one of 2^8 codes",
    )
    assert book("-e", 10, "--areas", "farm") == (
        "the area farm: 160 sentences; a code chooses among 128 of them",
        "7 bits for each text: one of 2^7 codes",
    )
    assert book("-e", 15, "--areas", "farm,kitchen", "--topics", "boats") == (
        "the areas farm, kitchen and the topic boats: 360 sentences; a code chooses among 127 of them",
        "14 bits for each text: one of 128 public texts for each of 2 places",
    )
    assert book("-e", 50)[0] == "the whole book: 480 sentences; a code names some of them, or holds a text's own words"
    assert book("-e", 50, "--book-only")[0] == "the whole book: 480 sentences; a code chooses among 255 of them"
    shown = succeed("noise", "--model", tiny_code.folder, "-e", 10, "--areas", "farm").splitlines()
    assert "Book         the area farm: 160 sentences; a code chooses among 128 of them" in shown


def test_a_latent_of_a_given_shape_has_no_book() -> None:
    for options in (["--areas", "health"], ["--topics", "being happy"], ["--book-only"]):
        done = run("noise", "-e", 10, "--columns", 182, *options)
        assert done.stderr == (
            "Error: a latent of a given shape has no book. Leave out --length, --columns and --clip.\n"
        )


def test_a_budget_that_the_model_cannot_use_is_refused_with_the_reason(tiny_code: Bundle, notes: Path) -> None:
    most = TABLE[-1][0]
    reason = (
        f"Error: epsilon must be at most {most:g} for '{tiny_code.name}', got {most + 1:g}: its longest code has 270 "
        "bits, and the rest of the budget would be spent for nothing.\n"
    )
    out = notes.with_name("out.csv")
    assert run("noise", "-e", most + 1, "--model", tiny_code.folder).stderr == reason
    assert run("rewrite", notes, out, "-e", most + 1, "--model", tiny_code.folder).stderr == reason
    assert not out.exists()
    assert run("noise", "-e", most, "--model", tiny_code.folder).exit_code == 0


def test_a_run_says_what_areas_would_bring_and_cost_before_its_first_text(tiny_code: Bundle, notes: Path) -> None:
    done = run("rewrite", notes, notes.with_name("out.csv"), "-e", 4, "--model", tiny_code.folder)
    assert done.exit_code == 0, done.stderr
    (line,) = (each for each in done.stderr.splitlines() if each.startswith("The book of"))
    assert line == (
        "The book of tiny-code has 480 sentences in 3 areas. If everybody may know what the file is about, name its "
        "areas with --areas, and the same epsilon says more. A text about something else then comes out as one of "
        "their sentences all the same. See: dpbart models show tiny-code --areas"
    )
    assert done.stderr.index(line) < done.stderr.index("Rewriting")
    weak = run("rewrite", notes, notes.with_name("weak.csv"), "-e", 50, "--model", tiny_code.folder).stderr
    assert "A text about something else finds no near sentence then." in weak


def test_a_run_with_areas_says_what_was_chosen_and_writes_nothing_else(tiny_code: Bundle, notes: Path) -> None:
    out = notes.with_name("out.csv")
    done = run("rewrite", notes, out, "-e", 4, "--model", tiny_code.folder, "--areas", "farm", "--topics", "boats")
    assert done.exit_code == 0, done.stderr
    (line,) = (each for each in done.stderr.splitlines() if each.startswith("Only sentences"))
    assert line == (
        "Only sentences of this area and this topic can come out: farm, boats (200 sentences). Chosen by the operator, "
        "not computed from the texts. Everything that can come out at this budget is on a public list. No name, number "
        "or address of yours can. A text about something else comes out as one of these sentences all the same."
    )
    allowed = {line.sentence for line in book_lines() if line.area == "farm" or line.topic == "boats"}
    assert set(texts_of(out)) <= allowed


def test_a_run_without_a_book_says_nothing_about_areas(tiny: Bundle, notes: Path) -> None:
    done = run("rewrite", notes, notes.with_name("out.csv"), "-e", 500, "--model", tiny.folder, "--beams", 1)
    assert done.exit_code == 0, done.stderr
    assert "areas" not in done.stderr
    refused = run("rewrite", notes, notes.with_name("b.csv"), "-e", 5, "--model", tiny.folder, "--areas", "farm")
    assert (refused.exit_code, refused.stderr.count("\n")) == (1, 1)
    assert "has no book. Leave out --areas" in refused.stderr
