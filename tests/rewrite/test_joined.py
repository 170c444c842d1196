"""All texts of a person are joined into one document."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpbart import Rewriter
from dpbart.errors import BadParameter, BadTable
from dpbart.ledger.ledger import Ledger
from dpbart.models.bundle import Bundle
from dpbart.options.rewriting import Request
from dpbart.rewrite import people as joined
from dpbart.rewrite.job import plan
from dpbart.rewrite.people import Joined, People
from dpbart.tables.table import open_table
from dpbart.testing import described, fake_rewriter
from tests.rewrite.jobs import run

BUDGET = described(fake_rewriter(epsilon=500))


@pytest.fixture(scope="module")
def rewriter(tiny: Bundle) -> Rewriter:
    return Rewriter.load(str(tiny.folder), epsilon=500, beams=1, batch_size=2)


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    file = tmp_path / "notes.jsonl"
    rows = [("anna", "one", "x"), ("ben", "two", "y"), (7, "four", "x"), ("anna", "three", "x"), ("7", "five", "x")]
    file.write_text("".join(json.dumps({"who": w, "text": t, "ill": i, "ward": 3}) + "\n" for w, t, i in rows))
    return file


def documents(file: Path, **settings: int) -> list[tuple[object, object]]:
    table, people = open_table(file), People("who")
    source = Joined(table, people, people.count(table), ("who",), length=settings.get("length", 20), typed=False)
    return [(row["who"], row["text"]) for batch in source.batches(2) for row in batch.as_rows()]


@pytest.mark.parametrize("at_once", [1, 2, 100])
def test_texts_of_a_person_are_joined_in_order(notes: Path, monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    monkeypatch.setattr(joined, "PEOPLE_AT_ONCE", at_once)
    assert documents(notes) == [("anna", "one three"), ("ben", "two"), (7, "four five")]


def test_only_the_characters_that_a_model_can_read_are_kept(tmp_path: Path) -> None:
    file = tmp_path / "notes.jsonl"
    file.write_text(json.dumps({"who": "anna", "text": "word " * 100_000}) + "\n")
    assert len(str(documents(file, length=3)[0][1])) == 3 * joined.CHARACTERS_A_TOKEN


def test_each_person_gets_one_row_and_spends_one_epsilon(rewriter: Rewriter, notes: Path, tmp_path: Path) -> None:
    out, ledger = tmp_path / "out.jsonl", tmp_path / "l.db"
    people = {"person_column": "who", "join_documents": True, "ledger": ledger, "keep_columns": ["who"]}
    card = run(Request(notes, out, label_column="ill", labels="public", **people), rewriter)
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [{**row, "text": ""} for row in rows] == [
        {"who": "anna", "text": "", "ill": "x"},
        {"who": "ben", "text": "", "ill": "y"},
        {"who": 7, "text": "", "ill": "x"},
    ]
    assert (card.rows, card.person.people, card.person.most_texts) == (3, 3, 1)
    assert card.person.guarantee == card.guarantee
    assert card.unit.startswith("all texts of one person, joined")
    assert [entry.texts for entry in Ledger(ledger).entries("anna")] == [1]


def test_parquet_keeps_the_type_of_the_person(rewriter: Rewriter, tmp_path: Path) -> None:
    source, out = tmp_path / "in.parquet", tmp_path / "out.parquet"
    who = pa.array([5, 6, 5], pa.int16())
    pq.write_table(pa.table({"who": who, "day": pa.array([1, 2, 3], pa.date32()), "text": ["a", "b", "c"]}), source)
    run(Request(source, out, person_column="who", join_documents=True, keep_columns=["who"]), rewriter)
    held = pq.read_table(out)
    assert held.schema.names == ["who", "text"]
    assert held.column("who").combine_chunks().equals(pa.array([5, 6], pa.int16()))


def test_delta_is_checked_against_people_not_rows(notes: Path, tmp_path: Path) -> None:
    task = Request(notes, tmp_path / "out.jsonl", person_column="who", join_documents=True)
    assert plan(task, described(fake_rewriter(delta=0.3))).rows == 3
    with pytest.raises(BadParameter, match="below 1 / 3 for 3 texts, got 0.34"):
        plan(task, described(fake_rewriter(delta=0.34)))


def test_two_labels_of_one_person_are_refused(notes: Path, tmp_path: Path) -> None:
    notes.write_text(notes.read_text() + '{"who": "ben", "text": "six", "ill": "x", "ward": 3}\n')
    task = Request(
        notes, tmp_path / "o.jsonl", label_column="ill", labels="public", person_column="who", join_documents=True
    )
    with pytest.raises(BadTable, match="row 6 has a different label than an earlier row of the same person"):
        plan(task, BUDGET)


def test_joining_needs_a_person_column(notes: Path, tmp_path: Path) -> None:
    with pytest.raises(
        BadParameter, match="--join-documents joins the texts of each person. Pass --person-column NAME with it"
    ):
        Request(notes, tmp_path / "o.jsonl", join_documents=True)


def test_rows_without_an_id_are_not_joined(rewriter: Rewriter, tmp_path: Path) -> None:
    source = tmp_path / "in.csv"
    source.write_text("who,text\n,a\nben,b\n,c\n")
    ledger = tmp_path / "l.db"
    task = Request(
        source, tmp_path / "o.csv", person_column="who", missing_person="own", join_documents=True, ledger=ledger
    )
    assert run(task, rewriter).rows == 3
    assert len(Ledger(ledger).entries("(no id, row 3)")) == 1
