"""Several text columns: each cell is a release of its own, or all cells of a row become one text."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from dpbart import rewrite_frame
from dpbart.card.verify import verify
from dpbart.cli import cli
from dpbart.errors import BadParameter, BadTable, BudgetExceeded, NotResumable
from dpbart.ledger.ledger import Ledger
from dpbart.options.rewriting import Request
from dpbart.rewrite.durable import commit
from dpbart.rewrite.durable.folder import NewTexts, SavedTexts
from dpbart.rewrite.frames import batch_function
from dpbart.rewrite.job import plan
from dpbart.rewrite.notices import notices
from dpbart.rewrite.plan import Outline
from dpbart.tables.table import open_table
from dpbart.testing import described, fake_rewriter
from tests.rewrite.jobs import marked, run

SECRET = "CANARY"
ROWS = [{"who": f"p{n % 2}", "a": f"{SECRET} a{n}.", "stars": str(n % 2), "b": f"{SECRET} b{n}."} for n in range(6)]
BOTH = ("a", "b")


def write_csv(file: Path, rows: Sequence[dict[str, str]] = ROWS) -> Path:
    with file.open("w", newline="") as out:
        writer = csv.DictWriter(out, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return file


def read_csv(file: Path) -> list[dict[str, str]]:
    with file.open(newline="") as rows:
        return list(csv.DictReader(rows))


@pytest.fixture
def visits(tmp_path: Path) -> Path:
    return write_csv(tmp_path / "in.csv")


def shown(texts: Sequence[str]) -> list[str]:
    """A fake text that shows which text it came from, without the canary."""
    return [" ".join(["new", *text.replace(SECRET, "").split()]) for text in texts]


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "json", "parquet", "xlsx", "csv.gz", "jsonl.zst"])
@pytest.mark.parametrize("joined", [False, True])
def test_no_original_cell_of_any_text_column_reaches_the_output(visits: Path, ending: str, *, joined: bool) -> None:
    source, target = visits.with_name(f"source.{ending}"), visits.with_name(f"out.{ending}")
    run(
        Request(visits, source, text_column="who", keep_all=True), fake_rewriter(list)
    )  # converts the file, and keeps its texts
    run(Request(source, target, text_column=BOTH, join_columns=joined, keep_all=True), fake_rewriter(shown))
    table = open_table(target, text_column="a")
    (batch,) = table.batches(100)
    new = [["new a0. b0."], None] if joined else [["new a0."], ["new b0."]]
    assert batch.column("a")[:1] == new[0]
    assert table.columns == (("who", "a", "stars") if joined else ("who", "a", "stars", "b"))
    if not joined:
        assert batch.column("b")[:1] == new[1]
    assert not any(SECRET in str(value) for name in table.columns for value in batch.column(name))
    assert SECRET.encode() not in target.read_bytes()


def test_a_second_text_column_with_a_dictionary_or_inside_a_struct_is_rewritten(tmp_path: Path) -> None:
    note = pa.array([{"text": f"{SECRET} {n}", "by": "x"} for n in range(300)])
    kinds = (
        pa.array([f"{SECRET} {n % 3}" for n in range(300)])
        .dictionary_encode()
        .cast(pa.dictionary(pa.int8(), pa.string()))
    )
    pq.write_table(pa.table({"kind": kinds, "note": note}), tmp_path / "in.parquet")
    request = Request(tmp_path / "in.parquet", tmp_path / "out.parquet", text_column=("note.text", "kind"))
    run(request, fake_rewriter(lambda texts: [each.removeprefix(SECRET) for each in marked(texts)]))
    assert SECRET not in str(pq.read_table(tmp_path / "out.parquet").to_pydict())
    assert SECRET.encode() not in (tmp_path / "out.parquet").read_bytes()


def test_a_number_in_the_second_text_column_is_refused(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text('{"a": "x", "b": "y"}\n{"a": "x", "b": 7}\n')
    with pytest.raises(BadTable, match=r"broken at row 2: column 'b' must be a string or null, got a number"):
        plan(Request(tmp_path / "in.jsonl", tmp_path / "out.jsonl", text_column=BOTH), described(fake_rewriter()))


def test_a_row_counts_for_the_sum_on_the_card(visits: Path) -> None:
    request = Request(visits, visits.with_name("out.csv"), text_column=BOTH, keep_all=True)
    card = run(request, fake_rewriter(mechanism="laplace"))
    assert (card.rows, card.texts, card.person.most_texts) == (6, 12, 2)
    assert (card.guarantee.epsilon, card.row and card.row.guarantee.epsilon) == (10, 20)
    assert card.person.counted_guarantee.epsilon == 20
    words = card.as_text()
    assert "Epsilon 20, delta 0 for all texts of a row; epsilon 10, delta 0 for each text." in words
    assert "This counts all texts of one row, at most 2." in words
    assert "2 in each row, in the columns 'a', 'b'; each is a release of its own" in words
    assert card.other_columns == ["who", "stars"]
    assert not any(each.held is False for each in verify(visits.with_name("out.csv.card.json")))


def test_the_texts_of_a_person_add_up_over_columns_on_the_card_and_in_the_ledger(visits: Path) -> None:
    ledger, out = visits.with_name("l.db"), visits.with_name("out.csv")
    request = Request(visits, out, text_column=BOTH, person_column="who", ledger=ledger)
    card = run(request, fake_rewriter(mechanism="laplace"))
    assert card.person.most_texts == 6
    assert card.person.guarantee is not None
    assert card.person.guarantee.epsilon == 60
    with closing(Ledger(ledger)) as opened:
        assert opened.summary().texts == 12
        (entry,) = opened.entries("p0")
        spent = opened.spent("p0")
    assert entry.texts == 6
    assert spent is not None
    assert spent.epsilon == 60
    told = json.loads(CliRunner().invoke(cli, ["budget", "show", str(ledger), "--person", "p0", "--json"]).stdout)
    assert (told["runs"][0]["texts"], told["runs"][0]["epsilon"]) == (6, "10")
    assert not any(each.held is False for each in verify(visits.with_name("out.csv.card.json"), output=out))


def test_a_randomised_label_is_counted_once_for_a_row(visits: Path) -> None:
    ledger, out = visits.with_name("l.db"), visits.with_name("out.csv")
    labels = {"label_column": "stars", "labels": "randomize:2", "label_set": ("0", "1")}
    request = Request(visits, out, text_column=BOTH, person_column="who", ledger=ledger, **labels)
    card = run(request, fake_rewriter(mechanism="laplace"))
    assert (card.guarantee.epsilon, card.row and card.row.guarantee.epsilon) == (12, 22)
    assert card.person.counted_guarantee.epsilon == 66
    with closing(Ledger(ledger)) as opened:
        spent = opened.spent("p0")
    assert spent is not None
    assert spent.epsilon == 66
    assert not any(each.held is False for each in verify(visits.with_name("out.csv.card.json"), output=out))


def test_a_budget_for_half_of_the_columns_is_refused(visits: Path) -> None:
    request = Request(visits, visits.with_name("out.csv"), text_column=BOTH, person_column="who", person_budget=59)
    with pytest.raises(BudgetExceeded, match="'p0' has 6 texts, which together need epsilon 60"):
        run(request, fake_rewriter(mechanism="laplace"))


def test_a_delta_must_be_small_enough_for_all_texts(visits: Path) -> None:
    request = Request(visits, visits.with_name("out.csv"), text_column=BOTH)
    with pytest.raises(BadParameter, match="delta must be below 1 / 12 for 12 texts"):
        run(request, fake_rewriter(delta=0.1))


def test_joined_columns_are_one_text_under_one_epsilon(visits: Path) -> None:
    request = Request(visits, visits.with_name("out.csv"), text_column=("b", "a"), join_columns=True)
    card = run(request, fake_rewriter(shown, mechanism="laplace"))
    assert read_csv(visits.with_name("out.csv"))[1] == {"b": "new b1. a1."}
    assert (card.texts, card.row and card.row.guarantee.epsilon, card.person.most_texts) == (6, 10, 1)
    assert "one in each row: the columns 'b', 'a', joined, in 'b'; the others are not released" in card.as_text()
    assert not any(each.held is False for each in verify(visits.with_name("out.csv.card.json")))


def test_joined_columns_go_to_plain_text_and_into_the_documents_of_people(visits: Path) -> None:
    run(Request(visits, visits.with_name("out.txt"), text_column=BOTH, join_columns=True), fake_rewriter(shown))
    assert visits.with_name("out.txt").read_text().splitlines()[:2] == ["new a0. b0.", "new a1. b1."]
    people = {"person_column": "who", "join_documents": True}
    request = Request(visits, visits.with_name("out.csv"), text_column=BOTH, join_columns=True, **people)
    assert run(request, fake_rewriter(shown)).rows == 2
    assert read_csv(visits.with_name("out.csv"))[0]["a"].split() == ["new", "a0.", "b0.", "a2.", "b2.", "a4.", "b4."]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"text_column": ("a", "a")}, "each text column must be named once"),
        ({"text_column": ()}, "each text column must be named once"),
        ({"text_column": BOTH, "shuffle": True}, "--shuffle releases one text of each row"),
        ({"join_columns": True, "text_column": "a"}, "--join-columns joins several text columns"),
        (
            {"text_column": BOTH, "target": Path("out.txt")},
            "this output holds one text of each row, got 2 text columns",
        ),
        ({"text_column": BOTH, "person_column": "who", "join_documents": True}, "makes one text of each person, got 2"),
        (
            {"text_column": BOTH, "person_column": "b"},
            "--person-column must name another column than that of the texts or labels",
        ),
        ({"text_column": BOTH, "label_column": "b", "labels": "drop"}, "must not be the text column, got 'b' for both"),
    ],
)
def test_columns_that_contradict_each_other_are_refused(asked: dict[str, object], message: str) -> None:
    with pytest.raises(BadParameter, match=message):
        Outline.of(Request(**{"source": Path("in.csv"), "target": Path("out.csv"), **asked}))


def test_a_killed_run_resumes_with_the_same_columns_and_no_other(visits: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit, "PART_ROWS", 2)
    real, first = SavedTexts.add, []

    def add(self: SavedTexts, new: NewTexts, *, recipe: str) -> None:
        if self.rows == 4:
            raise KeyboardInterrupt
        first.extend(new.rows)
        real(self, new, recipe=recipe)

    def asked(**other: object) -> Request:
        known = {"text_column": BOTH, "person_column": "who", "ledger": visits.with_name("l.db")}
        return Request(visits, visits.with_name("out.csv"), **{**known, **other})

    rewriter = fake_rewriter(lambda texts: marked(shown(texts)), batch_size=2)
    with monkeypatch.context() as patched:
        patched.setattr(SavedTexts, "add", add)
        with pytest.raises(KeyboardInterrupt):
            run(asked(), rewriter)
    for other in ({"text_column": "a"}, {"text_column": ("b", "a")}, {"join_columns": True}):
        with pytest.raises(NotResumable, match="because this has changed"):
            run(asked(resume=True, **other), rewriter)
    run(asked(resume=True), rewriter)
    rows = read_csv(visits.with_name("out.csv"))
    assert [[row["a"], row["b"]] for row in rows[:4]] == first
    assert [(row["a"][:7], row["b"][:7]) for row in rows] == [(f"new a{n}.", f"new b{n}.") for n in range(6)]
    with closing(Ledger(visits.with_name("l.db"))) as opened:
        assert opened.summary().texts == 12


def test_the_run_says_how_many_releases_a_row_is(visits: Path) -> None:
    described_as = described(fake_rewriter(mechanism="laplace"))
    lines = notices(plan(Request(visits, visits.with_name("out.csv"), text_column=BOTH), described_as))
    assert lines[5] == (
        "Each row is 2 releases (2 text columns), each under (epsilon 10, delta 0). All texts of a row together are "
        "under (epsilon 20, delta 0)."
    )
    assert not any("free text" in line for line in lines)


def test_the_option_may_be_repeated(visits: Path) -> None:
    out = visits.with_name("out.csv")
    asked = ["rewrite", str(visits), str(out), "--text-column", "a", "--text-column", "b", "-m", "mini-code"]
    done = CliRunner().invoke(cli, [*asked, "-e", "10"])
    assert (done.exit_code, "Each row is 2 releases (2 text columns)" in done.stderr) == (0, True)
    done = CliRunner().invoke(cli, ["rewrite", str(visits), str(out), "--text-column", "a", "--text-column", "a"])
    assert (done.exit_code, "each text column must be named once" in done.stderr) == (1, True)


def test_a_frame_with_several_text_columns(visits: Path) -> None:
    frame = pd.DataFrame(ROWS)
    new = rewrite_frame(frame, fake_rewriter(shown), text_column=["a", "b"])
    assert list(new.columns) == list(frame.columns)
    assert (new["a"][1], new["b"][1], new["who"][1]) == ("new a1.", "new b1.", "p1")
    with pytest.raises(BadParameter, match="below 1 / 12 for 12 texts"):
        rewrite_frame(frame, fake_rewriter(delta=0.1), text_column=["a", "b"])
    with pytest.raises(BadParameter, match="each text column must be named once"):
        rewrite_frame(frame, fake_rewriter(), text_column=["a", "a"])
    assert batch_function(fake_rewriter(shown), text_column=BOTH)({"a": ["x"], "b": ["y"]}) == {
        "a": ["new x"],
        "b": ["new y"],
    }


def test_joined_columns_may_be_shuffled(tmp_path: Path) -> None:
    rows = "".join(
        json.dumps({"a": f"{SECRET} a{n}.", "b": f"{SECRET} b{n}.", "c": f"{SECRET}"}) + "\n" for n in range(9)
    )
    (tmp_path / "in.jsonl").write_text(rows)
    request = Request(tmp_path / "in.jsonl", tmp_path / "out.jsonl", text_column=BOTH, join_columns=True, shuffle=True)
    run(request, fake_rewriter(shown, mechanism="laplace"))
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert sorted(line["a"] for line in lines) == [f"new a{n}. b{n}." for n in range(9)]
    assert all(list(line) == ["a"] for line in lines)
