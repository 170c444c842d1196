"""A whole file is refused before anything is written, or it is rewritten completely and gets a card."""

from __future__ import annotations

import csv
import json
import math
import os
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpbart import Card, Rewriter
from dpbart.errors import BadParameter, BadTable
from dpbart.ledger.ledger import Ledger
from dpbart.models.bundle import Bundle
from dpbart.options.rewriting import Request
from dpbart.rewrite.job import plan
from dpbart.testing import described, fake_rewriter
from tests.rewrite.jobs import inline, run

SECRET = "zebra crossing in Wuppertal"
BUDGET = described(fake_rewriter(epsilon=500))


@pytest.fixture(scope="module")
def rewriter(tiny: Bundle) -> Rewriter:
    return Rewriter.load(str(tiny.folder), epsilon=500, beams=1, batch_size=4)


@pytest.fixture
def reviews(tmp_path: Path) -> Path:
    file = tmp_path / "reviews.csv"
    with file.open("w", newline="") as out:
        rows = csv.writer(out)
        rows.writerow(["id", "text", "stars", "shop"])
        rows.writerows([f"{number:03}", SECRET if number else "", number % 5, "Leeds, UK"] for number in range(10))
    return file


def read(file: Path) -> list[dict[str, str]]:
    with file.open(newline="") as rows:
        return list(csv.DictReader(rows))


def test_rows_order_and_other_columns_are_kept(rewriter: Rewriter, reviews: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    card = run(Request(reviews, out, keep_all=True), rewriter)
    before, after = read(reviews), read(out)
    assert list(after[0]) == ["id", "text", "stars", "shop"]
    assert [{**row, "text": ""} for row in after] == [{**row, "text": ""} for row in before]
    assert all(new["text"] != SECRET for new in after)
    assert card.rows == 10
    assert list(card.other_columns) == ["id", "stars", "shop"]


@pytest.mark.parametrize("ending", ["jsonl", "parquet", "tsv", "txt"])
def test_every_format_can_be_read_and_written(rewriter: Rewriter, reviews: Path, tmp_path: Path, ending: str) -> None:
    middle, out, back = tmp_path / f"middle.{ending}", tmp_path / f"out.{ending}", tmp_path / "back.csv"
    run(Request(reviews, middle, keep_all=ending != "txt"), rewriter)
    assert run(Request(middle, out, keep_all=ending != "txt"), rewriter).rows == 10
    run(Request(out, back, keep_all=True), rewriter)
    kept = {"text": ""} if ending == "txt" else {"id": "003", "text": "", "stars": "3", "shop": "Leeds, UK"}
    assert {**read(back)[3], "text": ""} == kept


def test_the_card_is_written_next_to_the_output_and_describes_the_run(
    rewriter: Rewriter, reviews: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out.csv"
    run(Request(reviews, out), rewriter)
    card = json.loads((tmp_path / "out.csv.card.json").read_text())
    assert card["private"] is True
    assert card["guarantee"] == {"epsilon": 500, "delta": 1e-5}
    assert card["rows"] == 10
    assert card["noise"]["entries"] == 12 * 32
    assert card["noise"]["sensitivity_l2"] == pytest.approx(2 * 0.5 * math.sqrt(12 * 32))
    assert card["noise"]["scale"] == pytest.approx(
        0.03614 * card["noise"]["sensitivity_l2"], rel=1e-3
    )  # theory, eps 500
    assert card["noise"]["bits"] == pytest.approx(138, abs=1)
    assert card["noise"]["slack_delta"] == 0
    assert card["labels"] == "no label column named"
    assert card["model"]["public_data"][0]["name"] == "made_up.txt"
    page = (tmp_path / "out.csv.card.txt").read_text()
    assert "(epsilon 500, delta 1e-05) for each of 10 texts" in page
    assert "Not covered:" in page
    assert SECRET not in page + json.dumps(card)


def test_labels_are_dropped_or_declared_public(rewriter: Rewriter, reviews: Path, tmp_path: Path) -> None:
    dropped, public = tmp_path / "dropped.csv", tmp_path / "public.csv"
    card = run(Request(reviews, dropped, label_column="stars", labels="drop", keep_all=True), rewriter)
    assert list(read(dropped)[0]) == ["id", "text", "shop"]
    assert card.labels == "dropped: column 'stars' is not in the output"
    card = run(Request(reviews, public, label_column="stars", labels="public"), rewriter)
    assert [row["stars"] for row in read(public)] == [row["stars"] for row in read(reviews)]
    assert "public: column 'stars' is released unchanged" in card.labels


def test_a_replay_says_not_private_on_the_card_and_in_every_text(tiny: Bundle, reviews: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    replay = Rewriter.load(str(tiny.folder), epsilon=500, beams=1, replay_seed=1)
    card = run(Request(reviews, out), replay)
    assert not card.guarantee.private
    assert all(row["text"].startswith("[NOT PRIVATE] ") for row in read(out))
    assert "THIS OUTPUT IS NOT PRIVATE" in card.as_text()
    held = json.loads(card.as_json())
    assert (held["private"], held["guarantee"]["epsilon"]) == (False, None)
    assert held["noise"]["bits"] is None
    assert held["noise"]["proof"] == "none: the randomness can be reproduced from the seed"
    assert held["noise"]["entropy"] == "replay seed: NOT PRIVATE"
    assert not [line for line in held["side_channels"] if "operating system" in line]


def test_the_card_says_when_there_is_no_noise(tiny: Bundle, reviews: Path, tmp_path: Path) -> None:
    plain = Rewriter.load(str(tiny.folder), mechanism="none", beams=1)
    card = run(Request(reviews, tmp_path / "out.csv"), plain)
    assert "THIS OUTPUT IS NOT PRIVATE" in card.as_text()
    held = json.loads(card.as_json())
    assert (held["noise"]["bits"], held["noise"]["entropy"]) == (None, "no noise")
    assert not [line for line in held["side_channels"] if "operating system" in line]


def test_delta_must_be_below_one_over_the_rows(reviews: Path, tmp_path: Path) -> None:
    with pytest.raises(BadParameter, match=r"delta must be below 1 / 10 for 10 texts, got 0\.1\. Pass --delta 1e-02"):
        plan(Request(reviews, tmp_path / "out.csv"), described(fake_rewriter(epsilon=500, delta=0.1)))
    assert plan(Request(reviews, tmp_path / "out.csv"), described(fake_rewriter(epsilon=500, delta=0.099))).rows == 10


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (
            lambda i, o: Request(i, o, text_column="txt"),
            BadTable,
            "has no column 'txt'. It has: id, text, stars, shop. Pass",
        ),
        (lambda i, o: Request(i, o, label_column="l", labels="drop"), BadTable, "has no column 'l'. It has: id, text"),
        (lambda i, o: Request(i, o, label_column="stars"), BadParameter, "needs a policy"),
        (lambda i, o: Request(i, o, label_column="text", labels="drop"), BadParameter, "must not be the text column"),
        (lambda i, o: Request(i.with_name("none.csv"), o), BadTable, "does not exist"),
        (lambda i, o: Request(i, i), BadTable, "reviews.csv"),
        (lambda i, o: Request(i, o, card=i.parent / "no" / "c.json"), BadTable, "folder of the card .* does not exist"),
        (lambda i, o: Request(i, o, card=i.parent / "card.txt"), BadTable, "must be a .json file"),
        (lambda i, o: Request(i, o.with_suffix(".txt"), card=o.with_suffix(".json")), BadTable, "card would replace"),
    ],
)
def test_a_bad_request_is_refused_before_anything_is_written(
    reviews: Path, tmp_path: Path, make: Callable[[Path, Path], Request], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        plan(make(reviews, tmp_path / "out.csv"), BUDGET)
    assert [file.name for file in tmp_path.iterdir()] == ["reviews.csv"]


def test_a_file_broken_in_the_middle_is_refused_before_the_first_row(reviews: Path, tmp_path: Path) -> None:
    with reviews.open("a") as out:
        out.write('11,"only two"\n')
    with pytest.raises(BadTable, match="broken at row 11"):
        plan(Request(reviews, tmp_path / "out.csv"), BUDGET)
    assert [file.name for file in tmp_path.iterdir()] == ["reviews.csv"]


def test_an_existing_card_is_not_replaced_without_overwrite(reviews: Path, tmp_path: Path) -> None:
    (tmp_path / "out.csv.card.json").write_text("{}")
    with pytest.raises(BadTable, match="out.csv.card.json' exists"):
        plan(Request(reviews, tmp_path / "out.csv"), BUDGET)


def test_a_run_that_fails_before_its_first_text_leaves_no_files(
    rewriter: Rewriter, reviews: Path, tmp_path: Path
) -> None:
    job = plan(Request(reviews, tmp_path / "out.csv"), described(rewriter))
    reviews.write_text(reviews.read_text() + "one field only\n")  # after the plan has checked it
    with pytest.raises(BadTable):
        job.run(inline(rewriter))
    assert [file.name for file in tmp_path.iterdir()] == ["reviews.csv"]


def test_parquet_keeps_its_types(rewriter: Rewriter, tmp_path: Path) -> None:
    source, out = tmp_path / "in.parquet", tmp_path / "out.parquet"
    table = pa.table(
        {"when": pa.array([1, 2], pa.timestamp("ns")), "text": ["a", None], "n": pa.array([1, 2], pa.int8())}
    )
    pq.write_table(table, source)
    run(Request(source, out, keep_all=True), rewriter)
    assert pq.read_table(out).schema.types == table.schema.types


def test_parquet_metadata_is_not_copied_to_the_output(rewriter: Rewriter, tmp_path: Path) -> None:
    field = pa.field("text", pa.string(), metadata={"note": "patient Anna Meier"})
    schema = pa.schema([field], metadata={"pandas": "patient Anna Meier"})
    pq.write_table(pa.table({"text": ["a"]}, schema=schema), tmp_path / "in.parquet")
    run(Request(tmp_path / "in.parquet", tmp_path / "out.parquet", keep_all=True), rewriter)
    assert b"Anna Meier" not in (tmp_path / "out.parquet").read_bytes()


def test_a_card_that_cannot_be_written_stops_the_release(
    rewriter: Rewriter, reviews: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise an output could have no card, or the card of another run."""
    real = os.fsync

    def full(handle: int) -> None:
        if "card.json" in Path(os.readlink(f"/proc/self/fd/{handle}")).name:
            raise OSError(28, "No space left on device")
        real(handle)

    job = plan(Request(reviews, tmp_path / "out.csv"), described(rewriter))
    with monkeypatch.context() as disk:
        disk.setattr(os, "fsync", full)
        with pytest.raises(BadTable, match="card.* cannot be written: No space left on device"):
            job.run(inline(rewriter))
    assert sorted(file.name for file in tmp_path.iterdir()) == [".out.csv.dpbart", "reviews.csv"]
    assert run(Request(reviews, tmp_path / "out.csv", resume=True), rewriter).rows == 10


def test_an_output_with_texts_only_has_a_card_that_says_labels_were_dropped(
    rewriter: Rewriter, reviews: Path, tmp_path: Path
) -> None:
    task = Request(reviews, tmp_path / "out.txt", label_column="stars", labels="public")
    card = run(task, rewriter)
    assert (card.labels, list(card.other_columns)) == ("dropped: column 'stars' is not in the output", [])


SEVERAL = {"text_column": ("text", "shop")}
LABELS = {"label_column": "stars", "labels": "randomize:1", "label_set": tuple("01234")}


@pytest.mark.parametrize(
    ("more", "used"),
    [
        ({}, False),
        ({"shuffle": True}, True),
        (SEVERAL, True),
        ({**SEVERAL, "join_columns": True}, False),
        (LABELS, True),
        ({"label_column": "stars", "labels": "public"}, False),
        ({"person_column": "id"}, True),
        ({"id_column": "id"}, True),
        ({"person_column": "id", "join_documents": True}, False),
        ({"person_column": "id", "ledger": "l.db"}, False),  # the ledger has a delta of its own
    ],
)
def test_a_delta_that_a_pure_run_does_not_use_is_refused(
    reviews: Path, more: dict[str, object], *, used: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(reviews.parent)
    request, pure = Request(reviews, "out.csv", **more), described(fake_rewriter(mechanism="laplace"))
    with nullcontext() if used else pytest.raises(BadParameter, match="a delta of 0.003 would have no effect"):
        plan(request, replace(pure, delta=0.003)).account.close()
    plan(request, replace(pure, delta=1e-5)).account.close()  # the default
    if not request.output.shuffle:
        plan(request, replace(pure, delta=0.0)).account.close()
        plan(request, described(fake_rewriter(delta=0.003))).account.close()  # Gaussian noise uses it
        plan(request, replace(described(fake_rewriter(delta=0.003, replay_seed=1)), delta=0.003)).account.close()


def test_a_delta_that_measures_people_must_be_below_one_over_them(reviews: Path, tmp_path: Path) -> None:
    pure = described(fake_rewriter(mechanism="laplace"))
    request = Request(reviews, tmp_path / "out.csv", person_column="id")
    with pytest.raises(BadParameter, match=r"delta must be below 1 / 10 for 10 people, got 0\.3\. Pass --delta 1e-02"):
        plan(request, replace(pure, delta=0.3))


def test_six_texts_of_one_person_at_a_large_delta_get_their_card(tmp_path: Path) -> None:
    source, out = tmp_path / "in.csv", tmp_path / "out.csv"
    source.write_text("who,text\n" + "anna,a\n" * 6)
    rewriter = fake_rewriter(epsilon=0.1, delta=0.1)
    person = run(Request(source, out, person_column="who", ledger=tmp_path / "l.db"), rewriter).person
    assert person.guarantee is not None
    assert person.guarantee.delta == 1e-5
    assert person.guarantee.epsilon > 0.6  # what the noise gives at 1e-5 is far more than 6 times 0.1
    alone = run(Request(source, tmp_path / "2.csv", person_column="who"), rewriter).person
    assert alone.guarantee is not None
    assert (alone.guarantee.delta, alone.most_texts) == (0.1, 6)


def test_a_run_whose_card_cannot_be_made_spends_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(card: Card) -> str:
        raise BadParameter("this page cannot be made.")

    (tmp_path / "in.csv").write_text("who,text\nanna,a\n")
    monkeypatch.setattr(Card, "as_html", fail)
    task = Request(tmp_path / "in.csv", tmp_path / "out.csv", person_column="who", ledger=tmp_path / "l.db")
    with pytest.raises(BadParameter, match="this page cannot be made"):
        run(task, fake_rewriter())
    assert Ledger(tmp_path / "l.db").summary().texts == 0
    assert sorted(file.name for file in tmp_path.iterdir()) == ["in.csv", "l.db"]
