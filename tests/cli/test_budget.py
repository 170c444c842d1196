"""A ledger at the command line: recorded, shown, limited, refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import Result

from dpbart.ledger.ledger import Ledger
from dpbart.models.bundle import Bundle
from tests.command_line import run

SECRET = "zebra crossing in Wuppertal"


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    file = tmp_path / "notes.csv"
    file.write_text(f"id,who,text\n1,anna,{SECRET}\n2,ben,{SECRET}\n3, anna ,{SECRET}\n")
    return file


def rewrite(tiny: Bundle, notes: Path, out: str, *args: object) -> Result:
    model = ("--model", tiny.folder, "--beams", 1, "--batch-size", 2)
    budget = [] if {"-e", "--epsilon"} & set(args) else ["-e", 500]
    budget += [] if {"--delta", "--mechanism"} & set(args) else ["--delta", 1e-6]
    return run("rewrite", notes, notes.with_name(out), *budget, *model, *args)


def test_texts_of_a_person_add_up_on_the_card_and_in_the_ledger(tiny: Bundle, notes: Path, tmp_path: Path) -> None:
    ledger = tmp_path / "budgets.db"
    done = rewrite(tiny, notes, "out.csv", "--person-column", "who", "--ledger", ledger)
    assert done.exit_code == 0, done.stderr
    assert "texts rewritten, each under (epsilon 500, delta 1e-06)." in done.stderr
    assert "All texts of one person, at most 2, are under (epsilon 906." in done.stderr
    person = json.loads((tmp_path / "out.csv.card.json").read_text())["person"]
    assert (person["named_by"], person["people"], person["most_texts"]) == ("who", 2, 2)
    assert 906 < person["guarantee"]["epsilon"] < 907  # two Gaussians cost less than the sum
    assert person["guarantee"]["delta"] == 1e-5  # of the ledger
    assert person["composition"].startswith("exact for Gaussian releases")
    shown = json.loads(run("budget", "show", ledger, "--person", "anna", "--json").stdout)
    assert float(shown["spent"]) == person["guarantee"]["epsilon"]
    assert [(each["texts"], each["epsilon"], each["mechanism"]) for each in shown["runs"]] == [(2, "500", "gaussian")]
    assert f"@{tiny.fingerprint}" in shown["runs"][0]["model"]
    assert shown["runs"][0]["run"] in person["ledger"]


def test_no_text_gets_into_the_ledger(tiny: Bundle, notes: Path, tmp_path: Path) -> None:
    ledger = tmp_path / "budgets.db"
    rewrite(tiny, notes, "out.csv", "--person-column", "who", "--ledger", ledger)
    assert b"zebra" not in ledger.read_bytes()
    done = rewrite(tiny, notes, "o.csv", "--person-column", "text", "--ledger", ledger)
    assert "must name another column than that of the texts or labels" in done.stderr


def test_a_spent_budget_refuses_the_whole_run_and_changes_nothing(tiny: Bundle, notes: Path, tmp_path: Path) -> None:
    ledger = tmp_path / "budgets.db"
    assert (
        run("budget", "limit", ledger, 950).stdout
        == "Limit for everybody without a limit of their own: epsilon 950, at delta 0.00001.\n"
    )
    assert rewrite(tiny, notes, "out.csv", "--person-column", "who", "--ledger", ledger).exit_code == 0
    content = ledger.read_bytes()
    done = rewrite(tiny, notes, "again.csv", "--person-column", "who", "--ledger", ledger)
    assert done.exit_code == 1
    assert "Error: 'anna' has epsilon 43.8" in done.stderr
    assert "left of 950 at delta 0.00001; this release needs 810.8" in done.stderr  # not 1000, the sum
    assert "Nothing in this release was recorded." in done.stderr
    assert ledger.read_bytes() == content
    assert not (tmp_path / "again.csv").exists()
    run("budget", "limit", ledger, 2000, "--person", " anna ")  # as a file's blanks do not count either
    run("budget", "limit", ledger, 1000)
    done = rewrite(tiny, notes, "again.csv", "--person-column", "who", "--ledger", ledger)
    assert done.exit_code == 0, done.stderr


def test_budget_show_reads_in_words(tiny: Bundle, notes: Path, tmp_path: Path) -> None:
    ledger = tmp_path / "budgets.db"
    rewrite(tiny, notes, "out.csv", "--id-column", "id", "--ledger", ledger, "--mechanism", "laplace")
    shown = run("budget", "show", ledger).stdout.splitlines()
    assert shown[:6] == [
        "People       3",
        "Texts        3",
        "Limit        none",
        "Delta        0.00001",
        "Own limits   0",
        "Most spent   500",
    ]
    assert "3 texts by laplace, each with epsilon 500, delta 0; tiny@" in shown[7]
    unknown = run("budget", "show", ledger, "--person", "zoe")
    assert (unknown.exit_code, unknown.stdout) == (1, "")
    assert "Error: nobody with the id 'zoe' is in the ledger. Check the id" in unknown.stderr


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--ledger", "l.db"], "needs ids. Pass --person-column NAME"),
        (["--person-budget", "3"], "needs ids. Pass --person-column NAME"),
        (["--person-column", "who", "--id-column", "id"], "not both"),
        (["--person-column", "whom"], "has no column 'whom'. It has: id, who, text. Pass --person-column NAME"),
        (
            ["--person-column", "who", "--person-budget", "600"],
            "'anna' has 2 texts, which together need epsilon 925.01",
        ),
        (["--person-column", "who", "--person-budget", "0"], "person budget must be greater than 0, got 0.0"),
        (
            ["--person-column", "who", "--delta", "0.4"],
            "below 1 / 3 for 3 texts, got 0.4. Pass --delta 3e-02",
        ),
    ],
)
def test_what_cannot_be_charged_is_refused(tiny: Bundle, notes: Path, args: list[str], message: str) -> None:
    done = rewrite(tiny, notes, "out.csv", *args)
    assert done.exit_code == 1
    assert message in done.stderr
    assert not notes.with_name("out.csv").exists()


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_a_row_without_an_id_is_refused_or_counts_as_a_separate_person(
    tiny: Bundle, tmp_path: Path, ending: str
) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    source = tmp_path / f"in.{ending}"
    if ending == "csv":
        source.write_text("who,text\nanna,a\n  ,b\nanna,c\n")
    elif ending == "jsonl":
        source.write_text('{"who": "anna", "text": "a"}\n{"who": null, "text": "b"}\n{"who": "anna", "text": "c"}\n')
    else:
        pq.write_table(pa.table({"who": ["anna", None, "anna"], "text": ["a", "b", "c"]}), source)
    done = rewrite(tiny, source, "out.csv", "--person-column", "who")
    assert "row 2 has no id in column 'who'. Add one, or pass --missing-person own" in done.stderr
    args = ("--person-column", "who", "--missing-person", "own", "--ledger", tmp_path / "l.db")
    done = rewrite(tiny, source, "out.csv", *args)
    assert done.exit_code == 0, done.stderr
    person = json.loads((tmp_path / "out.csv.card.json").read_text())["person"]
    assert (person["people"], person["counted"], person["without_id"]) == (2, "people and rows without an id", 1)
    assert person["guarantee"] is None  # the row without an id may be anna's
    assert len(Ledger(tmp_path / "l.db").entries("(no id, row 2)")) == 1


def test_a_guarantee_for_a_person_is_stated_only_if_people_are_known(tiny: Bundle, notes: Path) -> None:
    stated = {}
    for number, args in enumerate(((), ("--id-column", "id"), ("--person-column", "who"))):
        done = rewrite(tiny, notes, f"{number}.csv", *args)
        assert done.exit_code == 0, done.stderr
        card = notes.with_name(f"{number}.csv.card.json")
        assert run("card", "verify", card).exit_code == 0
        person = json.loads(card.read_text())["person"]
        stated[person["counted"]] = (person["guarantee"] is not None, person["without_id"], person["most_texts"])
        words = card.with_suffix(".txt").read_text()
        assert ("for all texts of one person" in words) == (person["counted"] == "people")
        assert ("it is not known which texts belong to one person" in words) == (person["counted"] != "people")
    assert stated == {"rows": (False, 3, 1), "texts": (False, 0, 1), "people": (True, 0, 2)}
    assert "3 texts, identified by id\n" in notes.with_name("1.csv.card.txt").read_text()


def test_a_ledger_refuses_to_mix_people_with_texts_or_rows_without_an_id(tiny: Bundle, notes: Path) -> None:
    ledger = notes.with_name("l.db")
    assert rewrite(tiny, notes, "1.csv", "--person-column", "who", "--ledger", ledger).exit_code == 0
    content = ledger.read_bytes()
    done = rewrite(tiny, notes, "2.csv", "--id-column", "id", "--ledger", ledger)
    assert "counts people, but this run counts texts. Count the same as before, or name another ledger." in done.stderr
    notes.write_text("id,who,text\n1,anna,a\n2,,b\n")
    args = ("--person-column", "who", "--missing-person", "own", "--ledger", ledger)
    done = rewrite(tiny, notes, "2.csv", *args)
    assert "counts people, but this run counts people and rows without an id." in done.stderr
    assert ledger.read_bytes() == content
    notes.write_text("id,who,text\n1,anna,a\n2,ben,b\n")  # every row has an id, so nothing is mixed
    assert rewrite(tiny, notes, "2.csv", *args).exit_code == 0


def test_one_person_is_one_person_however_the_id_is_written(tiny: Bundle, tmp_path: Path) -> None:
    ids = ["7", "7.0", " 007 ", "Zoë", "Zoe\u0308", "True", "true", "anna", "Anna"]
    source, ledger = tmp_path / "in.csv", tmp_path / "l.db"
    source.write_text("who,text\n" + "".join(f"{each},a\n" for each in ids), encoding="utf-8")
    assert rewrite(tiny, source, "out.csv", "--person-column", "who", "--ledger", ledger).exit_code == 0
    texts = {each: Ledger(ledger).entries(each)[0].texts for each in ("7", "Zoë", "true", "anna", "Anna")}
    assert texts == {"7": 3, "Zoë": 2, "true": 2, "anna": 1, "Anna": 1}
    for person in ("7.0", "Zoe\u0308", "TRUE"):
        assert run("budget", "show", ledger, "--person", person).exit_code == 0


def test_three_runs_with_a_large_delta_are_counted_at_the_delta_of_the_ledger(tiny: Bundle, tmp_path: Path) -> None:
    source, ledger, spent = tmp_path / "in.csv", tmp_path / "l.db", []
    source.write_text("who,text\nanna,a\nben,b\n")
    for number in range(3):
        args = ("--person-column", "who", "--ledger", ledger, "--delta", 0.45, "--epsilon", 5)
        done = rewrite(tiny, source, f"{number}.csv", *args)
        assert done.exit_code == 0, done.stderr
        shown = json.loads(run("budget", "show", ledger, "--person", "anna", "--json").stdout)
        assert shown["delta"] == "0.00001"
        spent.append(float(shown["spent"]))
    assert 5 < spent[0] < spent[1] < spent[2]


def test_the_delta_of_a_ledger_can_be_set(tmp_path: Path) -> None:
    ledger = tmp_path / "l.db"
    done = run("budget", "limit", ledger, "--delta", 1e-7)
    assert done.stdout == "Limit for everybody without a limit of their own: none, at delta 1e-7.\n"
    done = run("budget", "limit", ledger, 40, "--delta", 1e-6, "--person", "7.0")
    assert done.stdout == "Limit for '7': epsilon 40, at delta 0.000001.\n"
    assert json.loads(run("budget", "show", ledger, "--json").stdout)["delta"] == "1e-7"
    for args, message in (
        ((), "a limit must have an epsilon or a delta, got neither"),
        (("--delta", 0), "delta must be between 0 and 1"),
        (("10", "--delta", 0.7), "delta must be at most 0.5"),
    ):
        refused = run("budget", "limit", ledger, *args)
        assert (refused.exit_code, message in refused.stderr) == (1, True)
    assert json.loads(run("budget", "show", ledger, "--json").stdout)["limit"] is None


@pytest.mark.parametrize(("epsilon", "message"), [("much", "a number or 'none'"), ("inf", "finite"), ("-1", "above")])
def test_a_limit_must_be_a_number(tmp_path: Path, epsilon: str, message: str) -> None:
    done = run("budget", "limit", tmp_path / "l.db", "--", epsilon)
    assert done.exit_code == 1
    assert message in done.stderr or "greater than 0" in done.stderr


@pytest.mark.parametrize("command", [("show",), ("limit", "100")])
@pytest.mark.parametrize("person", ["", "  "])
def test_an_empty_id_is_not_everybody(tmp_path: Path, command: tuple[str, ...], person: str) -> None:
    name, *more = command
    done = run("budget", name, tmp_path / "l.db", *more, "--person", person)
    assert done.exit_code == 1
    assert "--person must name a person, got an empty id" in done.stderr
    assert not (tmp_path / "l.db").exists()
