"""What changes when a table is written in another format."""

from __future__ import annotations

import json
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpbart.errors import BadTable
from dpbart.tables.table import open_table
from tests.tables.plain_tables import ENDINGS, SECRET, copy, copy_refusal, open_writer, read_plainly, write_plainly

pytestmark = pytest.mark.usefixtures("no_wait_for_the_disk")


def test_parquet_types_are_inferred_from_json(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [
        {"text": None, "i": 1, "f": 1, "b": True, "s": "x", "m": 1, "o": {"a": 1}, "z": None, "big": 2**62, "g": 2**62},
        {"text": "b", "i": None, "f": 0.5, "b": False, "s": None, "m": "1", "o": [1], "z": None, "big": 1, "g": 0.5},
    ]
    (tmp_path / "in.jsonl").write_text("\n".join(map(json.dumps, rows)))
    copy(tmp_path / "in.jsonl", tmp_path / "out.parquet")
    written = pq.read_table(tmp_path / "out.parquet")
    assert written.schema.names == list(rows[0])
    types = "string int64 double bool string string string string int64 string"
    assert " ".join(map(str, written.schema.types)) == types
    assert list(written.to_pylist()[0].values()) == ["", 1, 1.0, True, "x", "1", '{"a": 1}', None, 2**62, str(2**62)]
    assert list(written.to_pylist()[1].values()) == ["b", None, 0.5, False, None, "1", "[1]", None, 1, "0.5"]


def test_parquet_dates_and_decimals_become_strings(tmp_path: Path) -> None:
    moment = datetime(2020, 1, 2, 3, 4, 5, tzinfo=timezone.utc)
    columns = {
        "text": ["a"],
        "day": [date(2020, 1, 2)],
        "at": [moment],
        "price": [Decimal("1.50")],
        "tags": [["x", None]],
    }
    pq.write_table(pa.table(columns), tmp_path / "in.parquet")
    copy(tmp_path / "in.parquet", tmp_path / "out.jsonl")
    copy(tmp_path / "in.parquet", tmp_path / "out.csv")
    values = ["a", "2020-01-02", "2020-01-02 03:04:05.000000Z", "1.50"]
    assert read_plainly(tmp_path / "out.jsonl")[1] == [*values, ["x", None]]
    assert read_plainly(tmp_path / "out.csv")[1] == [*values, '["x", null]']


def test_parquet_bytes_are_refused_by_formats_that_cannot_hold_them(tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": ["a"], "raw": [SECRET.encode()]}), tmp_path / "in.parquet")
    for ending in (".csv", ".jsonl"):
        assert copy_refusal(tmp_path / "in.parquet", tmp_path / f"out{ending}") == (
            f"column 'raw' has type binary, which {ending} cannot hold. Write a .parquet file."
        )
    copy(tmp_path / "in.parquet", tmp_path / "out.csv", drop=("raw",))
    assert read_plainly(tmp_path / "out.csv") == [["text"], ["a"]]


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".parquet"])
@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"text": "b", "name": SECRET}, "other keys than row 1"),
        ({"text": "b"}, "other keys than row 1"),
        ({"text": "b", "id": 2, "name": SECRET}, "other keys than row 1"),
        ({"text": "b", "id": f"{SECRET} \ud83d"}, "half a surrogate pair"),
    ],
)
def test_rows_that_only_json_can_hold_are_refused_first(
    tmp_path: Path, ending: str, row: dict[str, object], reason: str
) -> None:
    (tmp_path / "in.jsonl").write_text("\n".join(map(json.dumps, [{"text": "a", "id": 1}, row])))
    table = open_table(tmp_path / "in.jsonl")
    with pytest.raises(BadTable) as caught:
        open_writer(tmp_path / f"out{ending}", like=table, columns=table.columns)
    assert str(caught.value) == f"{table.name} row 2 has {reason}, which {ending} cannot hold. Write a .jsonl file."


def test_a_nul_that_csv_cannot_hold_is_refused_first_unless_in_a_text_to_be_rewritten(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text(json.dumps({"text": "a\0b", "id": f"{SECRET}\0"}))
    assert copy_refusal(tmp_path / "in.jsonl", tmp_path / "out.csv") == (
        "'in.jsonl' row 1 has a NUL character, which .csv cannot hold. Write a .jsonl file."
    )
    copy(tmp_path / "in.jsonl", tmp_path / "out.csv", drop=("id",))
    assert read_plainly(tmp_path / "out.csv") == [["text"], ["a\ufffdb"]]


@pytest.mark.parametrize("source", ENDINGS)
@pytest.mark.parametrize("target", ENDINGS)
def test_a_dropped_column_is_not_written(tmp_path: Path, source: str, target: str) -> None:
    rows = [["1", "a", SECRET], ["2", "b", SECRET]]
    copy(write_plainly(tmp_path / f"in{source}", rows), tmp_path / f"out{target}", drop=("label",))
    assert read_plainly(tmp_path / f"out{target}") == [["id", "text"], ["1", "a"], ["2", "b"]]
    assert SECRET.encode() not in (tmp_path / f"out{target}").read_bytes()


def test_plain_text_has_only_the_texts_each_on_one_line(tmp_path: Path) -> None:
    rows = [["1", "a\nb\r\nc\rd", SECRET], ["2", "", SECRET], ["3", "e\u2028f", SECRET]]
    copy(write_plainly(tmp_path / "in.csv", rows), tmp_path / "out.txt")
    assert (tmp_path / "out.txt").read_bytes() == "a b c d\n\ne\u2028f\n".encode()
    copy(tmp_path / "out.txt", tmp_path / "again.csv")
    assert read_plainly(tmp_path / "again.csv") == [["text"], ["a b c d"], [""], ["e\u2028f"]]
