"""A collection as a whole: every format, its card, its ledger, and everything that is refused before it is spent."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas
import pytest
from click.testing import CliRunner, Result

import dpbart
from dpbart.cli import cli
from dpbart.collect import synthesize
from dpbart.collect.synthesize import synthesize_file
from dpbart.errors import BadParameter, BadTable, BudgetExceeded, DpbartError
from dpbart.ledger.ledger import Ledger
from dpbart.models.bundle import Bundle
from dpbart.models.code import CodeFamily
from dpbart.models.code.book import read_book
from dpbart.options.collecting import CollectionBudget, CollectionRequest
from dpbart.options.rewriting import Request
from dpbart.privacy.facts import Private
from dpbart.privacy.mechanisms.geometric import UNIT, Counts, Geometric, Tally
from dpbart.privacy.sampling import Entropy, ReplaySeed
from dpbart.tables.table import open_table
from dpbart.testing import fake_rewriter
from tests.rewrite.jobs import run

pytestmark = pytest.mark.usefixtures("no_wait_for_the_disk")
PEOPLE = 150
TEXTS = ("the cow is ready today", "who left the bread outside", "our storm looks fine", "a secret of mine")


def rows_of(people: int = PEOPLE) -> list[dict[str, object]]:
    """Two texts of each person, with one of three labels, of which one is not public."""
    return [
        {"who": f"p{number % people}", "text": f"{TEXTS[number % 4]} {number}", "stars": (1, 2, 9)[number % 3]}
        for number in range(2 * people)
    ]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    pandas.DataFrame(rows_of()).to_csv(tmp_path / "in.csv", index=False)
    return tmp_path


@pytest.fixture(scope="module")
def budget(tiny_code: Bundle) -> CollectionBudget:
    return CollectionBudget(str(tiny_code.folder), 1.0)


def a_request(folder: Path, **changed: Any) -> CollectionRequest:
    return CollectionRequest(folder / "in.csv", folder / "out.csv", **{"person_column": "who", **changed})


def sentences(bundle: Bundle) -> set[str]:
    return {line.sentence for line in read_book(bundle.folder)}


def verified(card: Path, output: Path) -> Result:
    return CliRunner().invoke(cli, ["card", "verify", str(card), "--output", str(output)])


def write(rows: list[dict[str, object]], file: Path) -> None:
    frame = pandas.DataFrame(rows)
    if file.suffix == ".parquet":
        frame.to_parquet(file, index=False)
    elif file.suffix == ".xlsx":
        frame.to_excel(file, index=False)
    elif file.name.endswith((".csv", ".csv.gz")):
        frame.to_csv(file, index=False)
    elif file.suffix == ".tsv":
        frame.to_csv(file, index=False, sep="\t")
    elif file.suffix == ".txt":
        file.write_text("".join(f"{row['text']}\n" for row in rows))
    else:
        frame.to_json(file, orient="records", lines=file.suffix == ".jsonl")


ENDINGS = ("csv", "tsv", "jsonl", "json", "parquet", "xlsx", "csv.gz")


@pytest.mark.parametrize("ending", ENDINGS)
def test_every_format_is_read_and_written(
    ending: str, budget: CollectionBudget, tiny_code: Bundle, tmp_path: Path
) -> None:
    source, target = tmp_path / f"in.{ending}", tmp_path / f"out.{ending}"
    write(rows_of(), source)
    labels = {"label_column": "stars", "label_values": ("1", "2")}
    card = synthesize_file(CollectionRequest(source, target, person_column="who", **labels), budget)
    table = open_table(target)
    assert table.columns == ("text", "stars")
    (batch,) = table.batches(1000)
    assert len(batch) == card.rows == PEOPLE
    assert set(batch.texts()) <= sentences(tiny_code)
    assert {str(value) for value in batch.column("stars")} <= {"1", "2"}
    typed = ending in ("jsonl", "json", "parquet", "xlsx")
    assert all(isinstance(value, int) for value in batch.column("stars")) == typed  # as the given values are
    assert verified(tmp_path / f"out.{ending}.card.json", target).exit_code == 0


def test_plain_text_and_folders_are_read_and_texts_alone_are_written(
    budget: CollectionBudget, tiny_code: Bundle, tmp_path: Path
) -> None:
    write(rows_of(60), tmp_path / "in.txt")
    synthesize_file(CollectionRequest(tmp_path / "in.txt", tmp_path / "out.txt", rows=7), budget)
    assert len(lines := (tmp_path / "out.txt").read_text().splitlines()) == 7
    assert set(lines) <= sentences(tiny_code)
    (tmp_path / "notes").mkdir()
    for number in range(5):
        (tmp_path / "notes" / f"{number}.txt").write_text(f"{TEXTS[0]}\n{TEXTS[1]}\n")
    card = synthesize_file(CollectionRequest(tmp_path / "notes", tmp_path / "notes.csv"), budget)
    assert card.person.people == 5
    with pytest.raises(BadTable, match="no names for the files of a folder. Name an output file"):
        synthesize_file(CollectionRequest(tmp_path / "notes", tmp_path / "more"), budget)


def test_a_column_inside_an_object_is_read(budget: CollectionBudget, tmp_path: Path) -> None:
    rows = [{"note": {"text": text, "by": number}} for number, text in enumerate(TEXTS)]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    request = CollectionRequest(
        tmp_path / "in.jsonl", tmp_path / "out.jsonl", text_column="note.text", person_column="note.by"
    )
    card = synthesize_file(request, budget)
    assert card.person.people == 4
    assert verified(tmp_path / "out.jsonl.card.json", tmp_path / "out.jsonl").exit_code == 0


def test_only_sentences_of_the_chosen_areas_and_topics_come_out(
    budget: CollectionBudget, tiny_code: Bundle, folder: Path
) -> None:
    card = synthesize_file(a_request(folder, rows=300), budget.changed(areas=("farm",), topics=("soups",)))
    chosen = {line.sentence for line in read_book(tiny_code.folder) if line.area == "farm" or line.topic == "soups"}
    assert set(pandas.read_csv(folder / "out.csv").text) <= chosen
    assert (card.model.areas, card.model.topics, card.model.sentences) == (("farm",), ("soups",), len(chosen))


def test_standard_output_gets_the_rows(budget: CollectionBudget, folder: Path) -> None:
    asked = ["synthesize", f"{folder}/in.csv", "-", "-e", "1", "-m", budget.model, "--rows", "5", "--format", "csv"]
    done = CliRunner().invoke(cli, asked)
    assert done.exit_code == 0, done.stderr
    assert done.stdout.splitlines()[0] == "text"
    assert len(done.stdout.splitlines()) == 6
    assert "No privacy card is written for standard output" in done.stderr
    assert [file.name for file in folder.iterdir()] == ["in.csv"]


@pytest.fixture
def nothing_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail if a model is loaded."""

    def loaded(*_: object) -> None:
        raise AssertionError("a model was loaded")

    monkeypatch.setattr(CodeFamily, "book_reader", loaded)


BAD: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"text_column": "note"}, {}, "has no column 'note'"),
    ({"person_column": "patient"}, {}, "has no column 'patient'"),
    ({"label_column": "kind", "label_values": ("a", "b")}, {}, "has no column 'kind'"),
    ({}, {"areas": ("moon",)}, "has no area 'moon'"),
    ({}, {"topics": ("moon",)}, "has no topic 'moon'"),
    ({}, {"model": "no such model"}, "no model named"),
    ({}, {"model": "mini"}, "'mini' has no book"),
    ({"source": Path("missing.csv")}, {}, "does not exist"),
    ({"target": Path("no such folder/out.csv")}, {}, "does not exist"),
    ({"target": Path("out.doc")}, {}, "the ending of"),
    ({"card": Path("card.txt")}, {}, "must be a .json file"),
    ({"sign_key": Path("none.pem")}, {}, "must be an ed25519 private key"),
    ({"sheet": "One"}, {}, "--sheet is for Excel"),
    ({"document": True}, {}, "--document is for .txt files"),
    ({"target": Path("out.txt"), "label_column": "stars", "label_values": ("1", "2")}, {}, "the labels would be lost"),
]


@pytest.mark.usefixtures("nothing_loaded")
@pytest.mark.parametrize(("asked", "settings", "message"), BAD, ids=[message for _, _, message in BAD])
def test_a_mistake_is_answered_before_a_model_is_loaded_and_anything_is_spent(
    asked: dict[str, Any],
    settings: dict[str, Any],
    message: str,
    budget: CollectionBudget,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(folder)
    request = {"source": Path("in.csv"), "target": Path("out.csv"), "person_column": "who", "ledger": Path("l.db")}
    with pytest.raises(DpbartError, match=message):
        synthesize_file(CollectionRequest(**{**request, **asked}), budget.changed(**settings))
    assert sorted(file.name for file in folder.iterdir()) == ["in.csv"]


@pytest.mark.usefixtures("nothing_loaded")
@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("who,text\np,a\n,b\n", r"row 2 has no id in column 'who'. Add one.$"),
        ("who,text\np,a\nq\n", "row 2"),
        ("who,text\n", "has no rows"),
    ],
)
def test_a_broken_file_is_refused_as_a_whole(
    content: str, message: str, budget: CollectionBudget, tmp_path: Path
) -> None:
    (tmp_path / "in.csv").write_text(content)
    with pytest.raises(BadTable, match=message):
        synthesize_file(a_request(tmp_path, ledger=tmp_path / "l.db"), budget)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["in.csv"]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"source": Path("-")}, "a collection needs a file"),
        ({"ledger": Path("l.db")}, "needs ids. Pass --person-column NAME"),
        ({"person_budget": 3.0}, "needs ids. Pass --person-column NAME"),
        ({"label_column": "stars"}, "needs the labels that can come out"),
        ({"label_values": ("a", "b")}, "they need a column"),
        ({"label_column": "stars", "label_values": ("1", "1.0")}, "all different"),
        ({"label_column": "text", "label_values": ("a", "b")}, "must not be the text column"),
        ({"person_column": "text"}, "must name another column"),
        ({"rows": 0}, "rows must be at least 1"),
        ({"text_column": ("a", "a")}, "each text column must be named once"),
        ({"target": Path("-"), "resume": True}, "--resume needs a file"),
        ({"format": "csv"}, "--format is for standard output"),
    ],
)
def test_contradictory_options_are_refused(asked: dict[str, Any], message: str) -> None:
    with pytest.raises(BadParameter, match=message):
        CollectionRequest(**{"source": Path("in.csv"), "target": Path("out.csv"), **asked})


@pytest.mark.parametrize("epsilon", [0.0, -1.0, float("nan"), float("inf")])
def test_a_bad_epsilon_is_refused(epsilon: float) -> None:
    with pytest.raises(BadParameter, match="epsilon must be"):
        CollectionBudget(epsilon=epsilon)


def test_the_ledger_charges_each_person_once_and_adds_local_releases(budget: CollectionBudget, folder: Path) -> None:
    file = folder / "l.db"
    card = synthesize_file(a_request(folder, ledger=file), budget)
    ledger = Ledger(file)
    assert {ledger.spent(f"p{number}").epsilon for number in range(PEOPLE)} == {Decimal(1)}  # type: ignore[union-attr]
    assert card.person.ledger.startswith("recorded as run")
    run(
        Request(folder / "in.csv", folder / "local.csv", person_column="who", ledger=file),
        fake_rewriter(epsilon=3.0, mechanism="laplace"),
    )
    spent = ledger.spent("p7")
    assert spent is not None
    assert spent.epsilon == 7
    synthesize_file(a_request(folder, ledger=file, overwrite=True), budget)
    again = ledger.spent("p7")
    assert again is not None
    assert again.epsilon == 8


@pytest.mark.usefixtures("nothing_loaded")
def test_a_person_without_budget_stops_the_run_before_it_begins(budget: CollectionBudget, folder: Path) -> None:
    ledger = Ledger(folder / "l.db", create=True)
    ledger.set_limit(Decimal("0.9"), "p5")
    with pytest.raises(BudgetExceeded, match="'p5' has epsilon 0.9 left of 0.9"):
        synthesize_file(a_request(folder, ledger=folder / "l.db"), budget)
    assert ledger.summary().texts == 0
    with pytest.raises(BudgetExceeded):
        synthesize_file(a_request(folder, person_budget=0.5), budget)


def with_fixed_noise(monkeypatch: pytest.MonkeyPatch, counts: list[list[int]]) -> None:
    """Whatever the votes are, these counts come out, and the rows are drawn with the same bits."""

    def privatize(self: Geometric, tally: Tally, _: Entropy) -> Private[Counts]:
        return self.again(counts)

    monkeypatch.setattr(Geometric, "privatize", privatize)
    monkeypatch.setattr(synthesize, "SystemEntropy", lambda: ReplaySeed(3))


def published(folder: Path, budget: CollectionBudget, **asked: Any) -> tuple[bytes, dict[str, Any], str, list[str]]:
    """Everything that a run publishes: output, card without its time, pages, and what it says."""
    said: list[str] = []
    target = folder / "out.csv"
    card = synthesize_file(a_request(folder, overwrite=True, **asked), budget, tell=said.append)
    stated = card.as_dict()
    made = stated.pop("made")
    page = (folder / "out.csv.card.txt").read_text().replace(made, "")
    return target.read_bytes(), stated, page, [line.replace(str(folder), "") for line in said]


def test_all_that_is_published_follows_from_the_noised_counts(
    budget: CollectionBudget, tiny_code: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two collections of as many people, with other texts, other labels, other ids, other numbers of texts."""
    cells = 12
    with_fixed_noise(monkeypatch, [[UNIT * (cell % 5) for cell in range(cells)], [-7] * cells])
    labels = {"label_column": "stars", "label_values": ("1", "2")}
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir()
    other.mkdir()
    pandas.DataFrame(rows_of()).to_csv(one / "in.csv", index=False)
    more = [{"who": f"x{number % PEOPLE}", "text": "", "stars": "none"} for number in range(5 * PEOPLE)]
    pandas.DataFrame(more).to_csv(other / "in.csv", index=False)
    seen = [published(each, budget, **labels) for each in (one, other)]
    assert seen[0][0] == seen[1][0]
    assert seen[0][1] == seen[1][1]
    assert seen[0][2:] == seen[1][2:]


def test_an_unknown_label_is_no_error_and_changes_no_word(budget: CollectionBudget, tmp_path: Path) -> None:
    said = []
    for stars in ("1", "unheard of"):
        folder = tmp_path / stars.replace(" ", "")
        folder.mkdir()
        pandas.DataFrame([{"who": n, "text": TEXTS[n % 4], "stars": stars} for n in range(200)]).to_csv(
            folder / "in.csv", index=False
        )
        asked = ["synthesize", "in.csv", "out.csv", "-e", "1", "-m", budget.model, "--label-column", "stars"]
        with pytest.MonkeyPatch.context() as patched:
            patched.chdir(folder)
            done = CliRunner().invoke(cli, [*asked, "--label-values", "1,2"])
        assert done.exit_code == 0, done.stderr
        said.append([line for line in done.stderr.splitlines() if not line.startswith("Reading:")])
    assert said[0] == said[1]


def test_too_few_people_are_warned_about_before_the_run_and_on_the_card(
    budget: CollectionBudget, tmp_path: Path
) -> None:
    pandas.DataFrame(rows_of(20)).to_csv(tmp_path / "in.csv", index=False)
    said: list[str] = []
    synthesize_file(a_request(tmp_path), budget, tell=said.append)
    assert said[0].startswith("Warning: TOO FEW PEOPLE: 20 at epsilon 1. The output is mostly noise")
    assert "It takes about 120 people or a larger epsilon." in said[0]
    page = (tmp_path / "out.csv.card.txt").read_text().splitlines()
    assert page[3].startswith("Warning:            TOO FEW PEOPLE: 20 at epsilon 1.")
    pandas.DataFrame(rows_of(120)).to_csv(tmp_path / "in.csv", index=False)
    said.clear()
    synthesize_file(a_request(tmp_path, overwrite=True), budget, tell=said.append)
    assert "TOO FEW" not in "".join(said) + (tmp_path / "out.csv.card.txt").read_text()


def test_the_card_begins_with_the_promise_of_the_whole(budget: CollectionBudget, folder: Path) -> None:
    synthesize_file(a_request(folder), budget)
    first = (folder / "out.csv.card.txt").read_text().splitlines()[2]
    assert first == (
        "Promise:            STRONG. This collection as a whole has epsilon 1: no single person's texts change the "
        "probability of any released file by more than a factor 2.72. Rows are not rewritings of rows: no row belongs "
        "to anybody."
    )
    shown = CliRunner().invoke(cli, ["card", "show", str(folder / "out.csv.card.json")])
    assert shown.stdout == (folder / "out.csv.card.txt").read_text()


def test_the_summary_for_programs_says_what_the_card_says(budget: CollectionBudget, folder: Path) -> None:
    asked = ["synthesize", f"{folder}/in.csv", f"{folder}/out.csv", "-e", "1", "-m", budget.model, "--json"]
    done = CliRunner().invoke(cli, [*asked, "--person-column", "who", "--rows", "40"])
    assert done.exit_code == 0, done.stderr
    summary, card = json.loads(done.stdout), json.loads((folder / "out.csv.card.json").read_text())
    assert (summary["people"], summary["rows"], summary["cells"]) == (PEOPLE, 40, card["collection"]["cells"])
    assert (summary["recipe"], summary["model"]) == (card["recipe"], card["recipe"].split("|model:")[1].split("|")[0])


def test_a_frame_is_released_as_a_file_is(budget: CollectionBudget, tiny_code: Bundle, tmp_path: Path) -> None:
    frame = pandas.DataFrame(rows_of())
    new = dpbart.synthesize_frame(
        frame,
        budget,
        person_column="who",
        label_column="stars",
        label_values=("1", "2"),
        rows=33,
        ledger=tmp_path / "l.db",
        card=tmp_path / "card.json",
    )
    assert (list(new.columns), len(new)) == (["text", "stars"], 33)
    assert set(new.text) <= sentences(tiny_code)
    assert set(new.stars) <= {1, 2}
    assert new.attrs["dpbart"]["guarantee"]["epsilon"] == new.attrs["dpbart"]["person"]["epsilon"] == 1
    assert CliRunner().invoke(cli, ["card", "verify", str(tmp_path / "card.json")]).exit_code == 0
    ledger = Ledger(tmp_path / "l.db")
    spent = ledger.spent("p3")
    assert spent is not None
    assert spent.epsilon == 1
    ledger.set_limit(Decimal("1.5"))
    with pytest.raises(BudgetExceeded):
        dpbart.synthesize_frame(frame, budget, person_column="who", ledger=tmp_path / "l.db")


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"text_column": "note"}, "there is no column 'note'"),
        ({"person_column": "note"}, "there is no column 'note'"),
        ({"label_column": "note", "label_values": ("a", "b")}, "there is no column 'note'"),
        ({"text_column": "stars"}, "must hold texts"),
        ({"ledger": "l.db"}, "a ledger needs ids"),
        ({"rows": 0}, "rows must be at least 1"),
    ],
)
def test_a_frame_with_a_mistake_is_refused(asked: dict[str, Any], message: str, budget: CollectionBudget) -> None:
    with pytest.raises(BadParameter, match=message):
        dpbart.synthesize_frame(pandas.DataFrame(rows_of(3)), budget, **asked)


def test_an_empty_frame_or_one_without_an_id_is_refused(budget: CollectionBudget) -> None:
    with pytest.raises(BadTable, match="has no rows"):
        dpbart.synthesize_frame(pandas.DataFrame({"text": []}), budget)
    frame = pandas.DataFrame({"text": ["a", "b"], "who": ["p", None]})
    with pytest.raises(BadTable, match="row 2 has no id"):
        dpbart.synthesize_frame(frame, budget, person_column="who")
