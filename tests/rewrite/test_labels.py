"""Randomised labels in a whole file: they keep their type, and the card and the ledger count their epsilon."""

from __future__ import annotations

import csv
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpbart import Rewriter
from dpbart.errors import BadParameter, BadTable
from dpbart.ledger.ledger import Ledger
from dpbart.models.bundle import Bundle
from dpbart.options.rewriting import LabelOptions, Request
from dpbart.rewrite.job import plan
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
    assert [event.epsilon for event in release.events] == [500, Decimal("0.7")]


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


def kept(source: Path, out: Path, labels: tuple[str, ...]) -> tuple[list[object], list[object]]:
    """The labels before and after a run at an epsilon where no label changes: a lost one would be a coin flip."""
    task = Request(source, out, label_column="y", labels="randomize:60", label_set=labels, overwrite=True)
    run(task, fake_rewriter())
    if source.suffix == ".parquet":
        return pq.read_table(source)["y"].to_pylist(), pq.read_table(out)["y"].to_pylist()
    if source.suffix == ".jsonl":
        before, after = ([json.loads(line)["y"] for line in file.read_text().splitlines()] for file in (source, out))
        return before, after
    before, after = ([row["y"] for row in csv.DictReader(file.read_text().splitlines())] for file in (source, out))
    return before, after


WHOLE = [pa.int8(), pa.uint64()]
REAL = [pa.float16(), pa.float32(), pa.float64(), pa.decimal128(5, 2), pa.string()]


@pytest.mark.parametrize(
    ("kind", "labels"),
    [*((kind, ("1", "2")) for kind in WHOLE + REAL), *((kind, ("1.0", "2.0")) for kind in REAL)],
    ids=str,
)
def test_no_label_of_a_parquet_column_of_numbers_is_lost(
    kind: pa.DataType, labels: tuple[str, ...], tmp_path: Path
) -> None:
    values = pa.array(["1", "2"] * 20, pa.string()).cast(pa.float32() if kind == pa.float16() else kind).cast(kind)
    pq.write_table(pa.table({"text": ["a"] * 40, "y": values}), tmp_path / "in.parquet")
    before, after = kept(tmp_path / "in.parquet", tmp_path / "out.parquet", labels)
    assert [float(str(each)) for each in after] == [float(str(each)) for each in before]
    assert pq.read_schema(tmp_path / "out.parquet").field("y").type == kind


@pytest.mark.parametrize("labels", [("true", "false"), ("True", "False"), ("1", "0")])
def test_no_label_of_a_column_of_booleans_is_lost(labels: tuple[str, ...], tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": ["a"] * 40, "y": [True, False] * 20}), tmp_path / "in.parquet")
    before, after = kept(tmp_path / "in.parquet", tmp_path / "out.parquet", labels)
    assert after == before


@pytest.mark.parametrize(
    ("values", "labels", "expected"),
    [
        ("true,false", ("True", "False"), [True, False]),
        ("1,2.0", ("1", "2"), [1, 2]),
        ('"1","2.0"', ("1", "2"), [1, 2]),
        ("1.0,true", ("1", "TRUE"), [1, True]),
        ('"caf\\u0065\\u0301","b"', ("caf\u00e9", "b"), ["caf\u00e9", "b"]),
    ],
)
def test_no_label_of_json_lines_is_lost(
    values: str, labels: tuple[str, ...], expected: list[object], tmp_path: Path
) -> None:
    lines = [f'{{"text": "a", "y": {value}}}\n' for value in values.split(",")] * 20
    (tmp_path / "in.jsonl").write_text("".join(lines))
    assert kept(tmp_path / "in.jsonl", tmp_path / "out.jsonl", labels)[1] == expected * 20


def test_no_label_of_a_csv_file_is_lost(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("text,y\n" + "a,1.0\na, 2\na,True\na,01\n" * 10)
    after = kept(tmp_path / "in.csv", tmp_path / "out.csv", ("1", "2", "true", "01"))[1]
    assert after == ["1", "2", "true", "01"] * 10


@pytest.mark.parametrize("value", ["SECRET", "", "01", "nan"])
def test_a_label_outside_the_set_is_refused_before_anything_is_spent(value: str, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text(f"id,text,y\n1,a,1\n2,b,{value}\n")
    task = Request(
        tmp_path / "in.csv",
        tmp_path / "out.csv",
        label_column="y",
        labels="randomize:1",
        label_set=("1", "2"),
        id_column="id",
        ledger=tmp_path / "l.db",
    )
    with pytest.raises(BadTable, match="row 2 has a label in column 'y' that is not in the label set") as refused:
        plan(task, BUDGET)
    assert "SECRET" not in str(refused.value)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["in.csv"]


@pytest.mark.parametrize("labels", [("1", "1.0"), ("a", " a"), ("true", "TRUE"), ("0", "-0.0"), ("1",)])
def test_a_set_with_the_same_label_twice_is_refused(labels: tuple[str, ...]) -> None:
    with pytest.raises(BadParameter, match="at least two labels, all different"):
        Request(Path("in.csv"), Path("out.csv"), label_column="l", labels="randomize:1", label_set=labels)


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
        Request(Path("in.csv"), Path("out.csv"), label_column="l", **settings)


def test_the_label_set_comes_from_an_option_or_a_public_file(tmp_path: Path) -> None:
    file = tmp_path / "labels.txt"
    file.write_text("good\n\nbad\n")
    asked: dict[str, Any] = {"label_column": "l", "labels": "randomize:1"}
    assert LabelOptions(label_file=file, **asked).label_set == ("good", "bad")
    assert LabelOptions(label_file=file, **asked) == LabelOptions(label_set=("good", "bad"), **asked)
    with pytest.raises(BadParameter, match="one place"):
        LabelOptions(label_set=("a", "b"), label_file=file, **asked)
    with pytest.raises(BadTable, match="cannot be read"):
        LabelOptions(label_file=tmp_path / "none.txt", **asked)
