"""Other columns: none is released unless it is named, or all are asked for."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest

from dpbart.card.verify import verify
from dpbart.errors import BadParameter, BadTable
from dpbart.ledger.ledger import Ledger
from dpbart.options.rewriting import Request
from dpbart.rewrite.job import plan
from dpbart.rewrite.notices import notices
from dpbart.rewrite.plan import Outline
from dpbart.tables.table import open_table
from dpbart.testing import described, fake_rewriter
from tests.rewrite.jobs import inline, marked, run

ROWS = [
    {"who": f"p{n % 2}", "note": {"text": f"Text {n}.", "day": f"SECRET{n}"}, "ward": f"SECRET{n}", "id": n}
    for n in range(6)
]


@pytest.fixture
def visits(tmp_path: Path) -> Path:
    file = tmp_path / "in.jsonl"
    file.write_text("".join(f"{json.dumps(row)}\n" for row in ROWS))
    return file


def failed(out: Path) -> list[str]:
    return [check.name for check in verify(Path(f"{out}.card.json"), output=out) if check.held is False]


@pytest.mark.parametrize("people", [{}, {"person_column": "who"}, {"person_column": "who", "join_documents": True}])
@pytest.mark.parametrize("ending", ["jsonl", "json", "parquet", "csv", "xlsx"])
def test_by_default_only_the_texts_are_released(visits: Path, ending: str, people: dict[str, object]) -> None:
    out = visits.with_name(f"out.{ending}")
    card = run(Request(visits, out, text_column="note.text", **people), fake_rewriter(marked))
    assert open_table(out, text_column="note.text").columns == ("note.text",)
    assert b"SECRET" not in out.read_bytes()
    assert card.other_columns == []
    assert "No other column is in the output." in card.as_text()
    assert failed(out) == []


@pytest.mark.parametrize(
    ("policy", "columns"),
    [("public", ("note.text", "ward")), ("drop", ("note.text",)), ("randomize:2", ("note.text", "ward"))],
)
def test_by_default_a_label_is_released_by_its_policy(visits: Path, policy: str, columns: tuple[str, ...]) -> None:
    out = visits.with_name("out.jsonl")
    wards = [f"SECRET{n}" for n in range(6)] if policy.startswith("randomize") else []
    labels = {"label_column": "ward", "labels": policy, "label_set": wards}
    run(Request(visits, out, text_column="note.text", **labels), fake_rewriter(marked))
    assert open_table(out, text_column="note.text").columns == columns


def test_keep_all_releases_every_column_and_lists_each_of_them(visits: Path) -> None:
    out = visits.with_name("out.jsonl")
    request = Request(visits, out, text_column="note.text", keep_all=True)
    job = plan(request, described(rewriter := fake_rewriter(marked)))
    told = [line for line in notices(job) if "without protection" in line]
    assert not out.exists()  # nothing is released yet
    card = job.run(inline(rewriter))
    assert open_table(out, text_column="note.text").columns == ("who", "note.text", "note.day", "ward", "id")
    others = ["who", "note.day", "ward", "id", "any further keys of single rows"]
    assert card.other_columns == others
    assert len(told) == 1
    for name in others:
        assert name in told[0]
        assert name in card.as_text()


def test_a_run_names_no_column_that_it_does_not_release(visits: Path) -> None:
    request = Request(visits, visits.with_name("out.jsonl"), text_column="note.text", keep_columns=("who",))
    told = " ".join(notices(plan(request, described(fake_rewriter()))))
    assert "without protection: 'who'" in told
    assert "ward" not in told


@pytest.mark.parametrize("ending", ["jsonl", "json", "parquet"])
def test_a_column_that_is_not_named_reaches_neither_the_output_nor_the_card(visits: Path, ending: str) -> None:
    source, out = visits.with_name(f"source.{ending}"), visits.with_name(f"out.{ending}")
    run(Request(visits, source, text_column="note.text", keep_all=True), fake_rewriter(list))  # converts the file
    run(Request(source, out, text_column="note.text", keep_columns=("who", "id")), fake_rewriter(marked))
    assert open_table(out, text_column="note.text").columns == ("who", "note.text", "id")
    assert b"SECRET" not in out.read_bytes()
    card = json.loads(Path(f"{out}.card.json").read_text())
    assert card["other_columns"] == ["who", "id"]
    assert "ward" not in json.dumps(card)
    assert failed(out) == []


@pytest.mark.parametrize("ending", ["jsonl", "json", "parquet", "csv"])
def test_a_key_that_only_some_rows_have_is_left_out(visits: Path, ending: str) -> None:
    late = {**ROWS[0], "name": "SECRET", "note": {"text": "Late.", "place": "SECRET"}}
    with visits.open("a") as file:
        file.write(json.dumps(late) + "\n")
    out = visits.with_name(f"out.{ending}")
    run(Request(visits, out, text_column="note.text", keep_columns=("who",)), fake_rewriter(marked))
    assert b"SECRET" not in out.read_bytes()
    (batch,) = open_table(out, text_column="note.text").batches(9)
    assert batch.column("who")[-1] == "p0"
    assert json.loads(Path(f"{out}.card.json").read_text())["other_columns"] == ["who"]


@pytest.mark.parametrize("more", [{}, {"keep_all": True}, {"person_column": "who", "join_documents": True}])
def test_a_range_of_pandas_is_left_out(tmp_path: Path, more: dict[str, object]) -> None:
    frame = pd.DataFrame({"who": "p", "text": ["A text."] * 5})
    frame.index = pd.RangeIndex(900, 905, name="SECRET")
    frame.to_parquet(tmp_path / "in.parquet")
    out = tmp_path / "out.parquet"
    run(Request(tmp_path / "in.parquet", out, **more), fake_rewriter(marked))
    assert pq.read_schema(out).metadata is None
    assert b"SECRET" not in out.read_bytes()


@pytest.mark.parametrize(
    ("row", "named"),
    [
        ({"text": "A.", "meta": {"v1.2": 5}}, "meta.v1.2"),
        ({"text": "A.", "a.b": {"c": 5}}, "a.b.c"),
        ({"text": "A.", "a": {"b": 1}, "a.b": 2}, "a.b"),
    ],
)
def test_a_name_that_could_mean_two_keys_is_refused(tmp_path: Path, row: object, named: str) -> None:
    (tmp_path / "in.jsonl").write_text(json.dumps(row) + "\n")
    request = Request(tmp_path / "in.jsonl", tmp_path / "out.jsonl", keep_columns=(named,))
    with pytest.raises(BadTable, match=f"column '{named}' is there twice, or is a key with a dot inside an object"):
        run(request, fake_rewriter(marked))


def test_a_folder_needs_the_names_of_its_files(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text("A text.\n")
    with pytest.raises(BadTable, match="need their names.* or pass --keep-column file to release the names"):
        run(Request(tmp_path / "in", tmp_path / "out"), fake_rewriter(marked))
    run(Request(tmp_path / "in", tmp_path / "out", keep_columns=("file",)), fake_rewriter(marked))
    assert [file.name for file in (tmp_path / "out").iterdir()] == ["a.txt"]


def test_a_row_may_lack_a_column_that_is_named(visits: Path) -> None:
    with visits.open("a") as file:
        file.write(json.dumps({"note": {"text": "Late."}}) + "\n")
    out = visits.with_name("out.jsonl")
    run(Request(visits, out, text_column="note.text", keep_columns=("who",)), fake_rewriter(marked))
    assert [list(json.loads(line)) for line in out.read_text().splitlines()] == [["who", "note"]] * 6 + [["note"]]


def test_the_card_of_shuffled_json_does_not_speak_of_further_keys(visits: Path) -> None:
    out = visits.with_name("out.jsonl")
    card = run(Request(visits, out, text_column="note.text", shuffle=True), fake_rewriter(marked, mechanism="laplace"))
    assert card.other_columns == []
    assert failed(out) == []


def test_people_are_counted_by_ids_that_are_left_out(visits: Path, tmp_path: Path) -> None:
    ledger, out = tmp_path / "l.db", tmp_path / "out.jsonl"
    request = Request(visits, out, text_column="note.text", person_column="who", ledger=ledger)
    card = run(request, fake_rewriter(marked))
    assert (card.person.people, card.person.most_texts) == (2, 3)
    assert {tuple(json.loads(line)) for line in out.read_text().splitlines()} == {("note",)}
    opened = Ledger(ledger)
    assert [sum(entry.texts for entry in opened.entries(person)) for person in ("p0", "p1")] == [3, 3]
    opened.close()


def test_a_joined_document_can_leave_its_person_out(visits: Path, tmp_path: Path) -> None:
    for kept, columns in ((("who",), ["who", "note"]), ((), ["note"])):
        out = tmp_path / f"{len(kept)}.jsonl"
        request = Request(
            visits, out, text_column="note.text", person_column="who", join_documents=True, keep_columns=kept
        )
        run(request, fake_rewriter(marked))
        assert [list(json.loads(line)) for line in out.read_text().splitlines()] == [columns] * 2
        assert failed(out) == []


def test_the_label_may_be_named_where_it_is_released(visits: Path) -> None:
    request = Request(
        visits,
        visits.with_name("o.csv"),
        person_column="who",
        join_documents=True,
        label_column="ward",
        labels="public",
        keep_columns=("ward",),
    )
    assert Outline.of(request).kept(("who", "text", "ward", "id")) == ("text", "ward")


@pytest.mark.parametrize(
    ("more", "named", "words"),
    [
        ({}, "note", "'note' holds the column 'note.text', so it cannot be kept as a whole"),
        ({"target": Path("o.txt")}, "who", "an output of texts alone has no other columns"),
        ({"label_column": "ward", "labels": "drop"}, "ward", "--labels drop leaves the labels out"),
        (
            {"person_column": "who", "join_documents": True},
            "ward",
            "a joined document can keep only the column of its person",
        ),
        ({"shuffle": True}, "who", "a shuffled output has no other columns"),
        ({"shuffle": True, "keep_all": True}, None, "a shuffled output has no other columns"),
        ({"target": Path("o.txt"), "keep_all": True}, None, "an output of texts alone has no other columns"),
        ({"keep_all": True}, "who", "either some or all other columns are kept"),
        (
            {"person_column": "who", "join_documents": True, "keep_all": True},
            None,
            "can keep only the column of its person. Pass --keep-column who",
        ),
    ],
)
def test_what_cannot_be_released_is_refused(
    visits: Path, more: dict[str, object], named: str | None, words: str
) -> None:
    kept = () if named is None else (named,)
    given = {"target": visits.with_name("o.csv"), "text_column": "note.text", "keep_columns": kept, **more}
    with pytest.raises(BadParameter, match=words):
        Outline.of(Request(visits, **given))


def test_a_misspelt_column_is_refused(visits: Path) -> None:
    request = Request(visits, visits.with_name("o.jsonl"), text_column="note.text", keep_columns=("wart",))
    with pytest.raises(BadTable, match="has no column 'wart'.*--keep-column"):
        run(request, fake_rewriter(marked))
