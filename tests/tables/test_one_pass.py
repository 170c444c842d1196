"""One pass over a table for everybody who must see its rows before the first is written."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from dpbart.errors import BadTable
from dpbart.options.rewriting import Request
from dpbart.rewrite.job import plan
from dpbart.tables.batch import Batch
from dpbart.tables.table import Table, open_table
from dpbart.tables.writer import plan_writer
from dpbart.testing import described, fake_rewriter
from tests.tables.plain_tables import ENDINGS, names, write_plainly, written

ROWS = [[f"person {n % 700}", f"text {n}", "x"] for n in range(3000)]


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of rows that each pass over a table has read."""
    read: list[int] = []
    batches = Table.batches

    def counted(self: Table, size: int) -> Iterator[Batch]:
        read.append(0)
        mine = len(read) - 1
        for batch in batches(self, size):
            read[mine] += len(batch)
            yield batch

    monkeypatch.setattr(Table, "batches", counted)
    return read


def test_every_visitor_sees_every_row_in_order(tmp_path: Path, passes: list[int]) -> None:
    table = open_table(write_plainly(tmp_path / "in.csv", ROWS))
    seen: list[object] = []
    firsts: list[int] = []
    del passes[:]
    rows = table.visit(lambda batch: seen.extend(batch.column("id")), lambda batch: firsts.append(batch.first))
    assert rows == 3000
    assert seen == [row[0] for row in ROWS]
    assert firsts == [1, 1025, 2049]
    assert passes == [3000]


def test_a_visitor_that_refuses_a_row_stops_the_pass(tmp_path: Path, passes: list[int]) -> None:
    table = open_table(write_plainly(tmp_path / "in.csv", ROWS))
    del passes[:]

    def refuse(batch: Batch) -> None:
        raise BadTable("no")

    with pytest.raises(BadTable, match="^no$"):
        table.visit(refuse)
    assert passes == [1024]


def test_standard_input_is_not_read_by_visitors() -> None:
    assert open_table("-").visit(lambda batch: pytest.fail("standard input was read")) is None


@pytest.mark.parametrize("target", [*ENDINGS, ".txt"])
@pytest.mark.parametrize("source", ENDINGS)
@pytest.mark.parametrize("joined", [False, True])
def test_a_run_is_planned_in_one_pass(
    tmp_path: Path, passes: list[int], source: str, target: str, joined: bool
) -> None:
    file = write_plainly(tmp_path / f"in{source}", ROWS)
    request = Request(
        file,
        tmp_path / f"out{target}",
        person_column="id",
        label_column="label",
        labels="public",
        join_documents=joined,
    )
    job = plan(request, described(fake_rewriter(epsilon=500)))
    job.account.close()
    assert job.rows == (700 if joined else 3000)
    assert job.documents == {f"person {n}": 5 if n < 200 else 4 for n in range(700)}
    assert passes == [3000]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"text": "a", "id": "b"}, "other keys than row 1"),
        ({"text": "a", "id": None, "label": "x"}, "has no id in column 'id'"),
        ({"text": "a", "id": "person 1", "label": "y"}, "a different label than an earlier row"),
        ({"text": 1, "id": "b", "label": "x"}, "must be a string or null"),
    ],
)
def test_whatever_the_pass_meets_is_refused_before_anything_is_written(
    tmp_path: Path, row: dict[str, object], reason: str
) -> None:
    rows = [*(dict(zip(("id", "text", "label"), values, strict=True)) for values in ROWS), row]
    file = written(tmp_path / "in.jsonl", "\n".join(map(json.dumps, rows)))
    request = Request(
        file, tmp_path / "out.csv", person_column="id", label_column="label", labels="public", join_documents=True
    )
    with pytest.raises(BadTable, match=reason) as caught:
        plan(request, described(fake_rewriter(epsilon=500)))
    assert "row 3001" in str(caught.value)
    assert names(tmp_path) == ["in.jsonl"]


def test_a_writer_knows_the_rows_that_its_visitors_have_seen(tmp_path: Path, passes: list[int]) -> None:
    source = written(tmp_path / "in.jsonl", '{"text": "a", "n": 1}\n{"text": "b", "n": 0.5}\n')
    table = open_table(source)
    planned, visitors = plan_writer(tmp_path / "out.parquet", like=table, columns=table.columns)
    assert table.visit(*visitors) == 2
    with planned as writer:
        for batch in table.batches(1):
            writer.write(batch)
    assert [batch.column("n") for batch in open_table(tmp_path / "out.parquet").batches(2)] == [[1.0, 0.5]]


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    peaks = []
    for rows in (3_000, 12_000):
        lines = (f'{{"text": "{"word " * 20}{n}", "n": {n}}}\n' for n in range(rows))
        table = open_table(written(tmp_path / f"{rows}.jsonl", "".join(lines)))
        _, visitors = plan_writer(tmp_path / "out.parquet", like=table, columns=table.columns)
        tracemalloc.start()
        assert table.visit(*visitors) == rows
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.2 * peaks[0], f"peaks in bytes: {peaks}"
