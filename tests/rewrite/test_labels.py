"""Randomised labels in a whole file: they keep their type, and the card and the ledger count their epsilon."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpbart import Rewriter
from dpbart.errors import BadParameter, BadTable
from dpbart.models.bundle import Bundle
from dpbart.privacy.budget.ledger import Ledger
from dpbart.rewrite.job import plan
from dpbart.rewrite.labels import read_label_set
from dpbart.rewrite.request import Request
from dpbart.testing import described, fake_rewriter
from tests.rewrite.jobs import run

BUDGET = described(fake_rewriter(epsilon=500))
ROWS = 1200


@pytest.fixture(scope="module")
def rewriter(tiny: Bundle) -> Rewriter:
    return Rewriter.load(str(tiny.folder), epsilon=500, beams=1, batch_size=100)


def test_labels_are_randomised_and_their_epsilon_is_added(rewriter: Rewriter, tmp_path: Path) -> None:
    source, out, ledger = tmp_path / "in.csv", tmp_path / "out.csv", tmp_path / "l.db"
    source.write_text("id,text,stars\n" + "".join(f"{n},a,{n % 3}\n" for n in range(ROWS)))
    task = Request(
        source,
        out,
        label_column="stars",
        labels="randomize:0.7",
        label_set=("0", "1", "2"),
        id_column="id",
        ledger=ledger,
    )
    card = run(task, rewriter)
    with out.open() as rows:
        labels = [row["stars"] for row in csv.DictReader(rows)]
    assert set(labels) == {"0", "1", "2"}
    kept = sum(label == str(number % 3) for number, label in enumerate(labels)) / ROWS
    # e^0.7 / (e^0.7 + 2) = 0.502; six standard errors are 0.087. A uniformly random label would be right with 0.333.
    assert 0.41 < kept < 0.59
    assert card.guarantee.epsilon == 500.7
    assert 490 < card.person.counted_guarantee.epsilon <= 500.7
    assert "3-ary randomised response, epsilon 0.7 of the guarantee; the public label set is: 0, 1, 2" in card.labels
    release = Ledger(ledger).entries("7")[0].run.release
    assert [str(event.epsilon) for event in release.events] == ["500", "0.7"]


def test_labels_keep_their_type(rewriter: Rewriter, tmp_path: Path) -> None:
    source, lines = tmp_path / "in.parquet", tmp_path / "in.jsonl"
    pq.write_table(pa.table({"text": ["a"] * 9, "stars": pa.array([1, 2, 3] * 3, pa.int8())}), source)
    lines.write_text('{"text": "a", "stars": 1}\n' * 9)
    for file, out in ((source, "o.parquet"), (lines, "o.jsonl"), (lines, "p.parquet")):
        labels = ("1", "2", "3")
        task = Request(file, tmp_path / out, label_column="stars", labels="randomize:1", label_set=labels)
        run(task, rewriter)
    assert pq.read_schema(tmp_path / "o.parquet").field("stars").type == pa.int8()
    assert {type(json.loads(line)["stars"]) for line in (tmp_path / "o.jsonl").read_text().splitlines()} == {int}
    with pytest.raises(BadTable, match="labels must fit the type int8 of column 'stars'"):
        plan(
            Request(source, tmp_path / "q.csv", label_column="stars", labels="randomize:1", label_set=("a", "b")),
            BUDGET,
        )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"labels": "randomize:1"}, "does not come from the private column"),
        ({"labels": "randomize:much", "label_set": ("a", "b")}, "drop, public or randomize:EPSILON, got 'randomize:m"),
        ({"labels": "randomize:-1", "label_set": ("a", "b")}, "epsilon must be greater than 0"),
        ({"labels": "keep"}, "labels must be drop, public or randomize:EPSILON, got 'keep'"),
        ({"labels": "public", "label_set": ("a", "b")}, "a label set is only for randomised labels"),
    ],
)
def test_a_bad_label_policy_is_refused(settings: dict[str, str], message: str) -> None:
    with pytest.raises(BadParameter, match=message):
        Request(Path("in.csv"), Path("out.csv"), label_column="l", **settings)  # type: ignore[arg-type]


def test_the_label_set_comes_from_an_option_or_a_public_file(tmp_path: Path) -> None:
    file = tmp_path / "labels.txt"
    file.write_text("good\n\nbad\n")
    assert read_label_set(None, file) == read_label_set("good,bad", None) == ("good", "bad")
    with pytest.raises(BadParameter, match="one place"):
        read_label_set("a,b", file)
    with pytest.raises(BadTable, match="cannot be read"):
        read_label_set(None, tmp_path / "none.txt")
