"""Tables out: every other column as it was, and all of a file or nothing."""

from __future__ import annotations

import csv
import errno
import gc
import io
import json
import math
import os
import resource
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpbart.errors import BadParameter, BadTable
from dpbart.rewrite.tables import open_table
from dpbart.rewrite.writers import open_writer

SECRET = "Mallory"
COLUMNS = ("id", "text", "label")
ENDINGS = (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet")
NASTY = ["007", "", 'a "b"\n\r\n\rc', "🤷🏽‍♀️ สวัสดี \u2028 \x0c\x1b\x85", " ,;\t' ", "NaN", "null"]

unicode = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
cell = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)
json_value = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | unicode,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(unicode, inner, max_size=2),
    max_leaves=3,
)


@pytest.fixture(scope="module", autouse=True)
def _no_wait_for_the_disk() -> Iterator[None]:
    """A busy disk takes half a second to say that it has a file; one test below looks that it is asked."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        yield


def copy(source: Path, target: Path | str, *, drop: tuple[str, ...] = (), size: int = 2, shout: bool = False) -> None:
    """Write a table again, in the way that a job does."""
    table = open_table(source)
    columns = tuple(column for column in table.columns if column not in drop)
    with open_writer(target, like=table, columns=columns) as writer:
        for batch in table.batches(size):
            writer.write(batch.with_texts([text.upper() if shout else text for text in batch.texts()]))


def write_plainly(path: Path, rows: list[list[str]]) -> Path:
    """A table of strings, written without the code under test."""
    if path.suffix in (".csv", ".tsv"):
        with path.open("w", newline="", encoding="utf-8") as handle:
            csv.writer(handle, delimiter="\t" if path.suffix == ".tsv" else ",").writerows([COLUMNS, *rows])
    elif path.suffix == ".parquet":
        pq.write_table(pa.table(dict(zip(COLUMNS, map(list, zip(*rows, strict=True)), strict=True))), path)
    else:
        path.write_text("".join(json.dumps(dict(zip(COLUMNS, row, strict=True))) + "\n" for row in rows))
    return path


def read_plainly(path: Path) -> list[list[object]]:
    """A table's columns and values, read without the code under test."""
    if path.suffix in (".csv", ".tsv"):
        with path.open(newline="", encoding="utf-8") as handle:
            return [list(row) for row in csv.reader(handle, delimiter="\t" if path.suffix == ".tsv" else ",")]
    if path.suffix == ".parquet":
        table = pq.read_table(path)
        return [table.column_names, *([row[name] for name in table.column_names] for row in table.to_pylist())]
    rows = [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]
    return [list(rows[0]), *(list(row.values()) for row in rows)]


@contextmanager
def folder() -> Iterator[Path]:
    """A fresh folder for each of Hypothesis's examples; tmp_path is one for all."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


# What is kept


@pytest.mark.parametrize("target", ENDINGS)
@pytest.mark.parametrize("source", ENDINGS)
def test_every_format_becomes_every_other_with_all_columns_kept(tmp_path: Path, source: str, target: str) -> None:
    rows = [[value, f"text {n}", value[::-1]] for n, value in enumerate(NASTY)]
    copy(write_plainly(tmp_path / f"in{source}", rows), tmp_path / f"out{target}", shout=True)
    assert read_plainly(tmp_path / f"out{target}") == [
        list(COLUMNS),
        *([first, text.upper(), last] for first, text, last in rows),
    ]


@pytest.mark.parametrize("ending", [".csv", ".tsv"])
@settings(max_examples=40)
@given(rows=st.lists(st.tuples(cell, cell, cell), min_size=1, max_size=4))
def test_any_cells_survive(ending: str, rows: list[tuple[str, str, str]]) -> None:
    with folder() as place:
        source = write_plainly(place / f"in{ending}", [list(row) for row in rows])
        copy(source, place / f"out{ending}")
        assert read_plainly(place / f"out{ending}") == [list(COLUMNS), *map(list, rows)]


@settings(max_examples=40)
@given(texts=st.lists(cell, min_size=1, max_size=4))
def test_any_texts_of_a_single_column_survive(texts: list[str]) -> None:
    with folder() as place:
        with (place / "in.csv").open("w", newline="", encoding="utf-8") as handle:
            csv.writer(handle).writerows([["text"], *([text] for text in texts)])
        copy(place / "in.csv", place / "out.csv")
        assert read_plainly(place / "out.csv") == [["text"], *([text] for text in texts)]


@settings(max_examples=40)
@given(rows=st.lists(st.dictionaries(unicode, json_value, max_size=3), min_size=1, max_size=4), text=cell)
def test_any_json_survives(rows: list[dict[str, object]], text: str) -> None:
    rows = [{**row, "text": text} for row in rows]
    with folder() as place:
        (place / "in.jsonl").write_text("\n".join(map(json.dumps, rows)))
        copy(place / "in.jsonl", place / "out.jsonl")
        lines = (place / "out.jsonl").read_bytes().split(b"\n")
        assert lines.pop() == b""
        assert [list(json.loads(line).items()) for line in lines] == [list(row.items()) for row in rows]


@settings(max_examples=30)
@given(values=st.lists(unicode | st.none(), min_size=1, max_size=4), numbers=st.integers(-(2**63), 2**63 - 1))
def test_any_parquet_strings_survive(values: list[str | None], numbers: int) -> None:
    table = pa.table(
        {"text": ["a"] * len(values), "other": pa.array(values, pa.string()), "n": [numbers] * len(values)}
    )
    with folder() as place:
        pq.write_table(table, place / "in.parquet")
        copy(place / "in.parquet", place / "out.parquet")
        assert pq.read_table(place / "out.parquet").equals(table)


def test_half_a_surrogate_pair_in_another_json_column_survives(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text('{"text": "é", "name": "\\ud83d"}\n')
    copy(tmp_path / "in.jsonl", tmp_path / "out.jsonl")
    assert json.loads((tmp_path / "out.jsonl").read_bytes()) == {"text": "é", "name": "\ud83d"}


def test_json_keeps_nan_and_integers_of_any_length(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text(f'{{"text": "", "a": NaN, "b": {10**40}}}\n')
    copy(tmp_path / "in.jsonl", tmp_path / "out.jsonl")
    row = json.loads((tmp_path / "out.jsonl").read_bytes())
    assert math.isnan(row["a"])
    assert row["b"] == 10**40


def typed_table() -> pa.Table:
    columns = {
        "when": pa.array([1, None], pa.timestamp("ns", "UTC")),
        "text": pa.array([None, "b"], pa.large_string()),
        "price": pa.array([Decimal("1.50"), None]),
        "label": pa.array(["x", "y"]).dictionary_encode(),
        "tags": pa.array([["a"], None]),
        "raw": pa.array([b"\xff", b""]),
        "small": pa.array([1, None], pa.int8()),
    }
    return pa.table(columns).replace_schema_metadata({"origin": "here"})


def test_parquet_keeps_types_and_order_but_not_what_it_says_of_itself(tmp_path: Path) -> None:
    pq.write_table(typed_table(), tmp_path / "in.parquet")
    table = pq.read_table(tmp_path / "in.parquet")
    copy(tmp_path / "in.parquet", tmp_path / "out.parquet", size=1)
    written = pq.read_table(tmp_path / "out.parquet")
    assert written.schema.equals(table.schema.remove_metadata(), check_metadata=True)
    assert written.drop_columns("text").equals(table.drop_columns("text"))
    assert written["text"].to_pylist() == ["", "b"]


def test_a_dictionary_of_texts_becomes_plain_strings(tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": pa.array(["a", "b", "a"]).dictionary_encode()}), tmp_path / "in.parquet")
    copy(tmp_path / "in.parquet", tmp_path / "out.parquet", shout=True)
    assert pq.read_table(tmp_path / "out.parquet").equals(pa.table({"text": ["A", "B", "A"]}))


def test_small_batches_share_a_row_group(tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": ["a"] * 100}), tmp_path / "in.parquet")
    copy(tmp_path / "in.parquet", tmp_path / "out.parquet", size=1)
    assert pq.read_metadata(tmp_path / "out.parquet").num_row_groups == 1


def test_a_row_group_does_not_grow_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpbart.rewrite.sinks._GROUP_ROWS", 40)
    pq.write_table(pa.table({"text": list(map(str, range(100)))}), tmp_path / "in.parquet")
    copy(tmp_path / "in.parquet", tmp_path / "out.parquet", size=20)
    assert pq.read_metadata(tmp_path / "out.parquet").num_row_groups == 3
    assert pq.read_table(tmp_path / "out.parquet")["text"].to_pylist() == list(map(str, range(100)))


# What changes on the way from one format to another


def test_json_types_are_found_out_for_parquet(tmp_path: Path) -> None:
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


def test_parquet_bytes_are_refused_where_only_parquet_can_hold_them(tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": ["a"], "raw": [SECRET.encode()]}), tmp_path / "in.parquet")
    for ending in (".csv", ".jsonl"):
        assert refusal(tmp_path / "in.parquet", tmp_path / f"out{ending}") == (
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
    assert str(caught.value) == (f"{table.name} row 2 has {reason}, which only .jsonl can hold. Write a .jsonl file.")


def test_a_nul_that_csv_cannot_hold_is_refused_first_unless_in_a_text_to_be_rewritten(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text(json.dumps({"text": "a\0b", "id": f"{SECRET}\0"}))
    assert refusal(tmp_path / "in.jsonl", tmp_path / "out.csv") == (
        "'in.jsonl' row 1 has a NUL character, which CSV cannot hold. Write a .jsonl file."
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


def test_plain_text_has_the_texts_alone_each_on_one_line(tmp_path: Path) -> None:
    rows = [["1", "a\nb\r\nc\rd", SECRET], ["2", "", SECRET], ["3", "e\u2028f", SECRET]]
    copy(write_plainly(tmp_path / "in.csv", rows), tmp_path / "out.txt")
    assert (tmp_path / "out.txt").read_bytes() == "a b c d\n\ne\u2028f\n".encode()
    copy(tmp_path / "out.txt", tmp_path / "again.csv")
    assert read_plainly(tmp_path / "again.csv") == [["text"], ["a b c d"], [""], ["e\u2028f"]]


# Standard output


class Pipe(io.BytesIO):
    """Remembers what a reader at the other end could see at each flush."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[bytes] = []

    def flush(self) -> None:
        self.seen.append(self.getvalue())


def test_standard_output_gets_one_text_a_line_at_each_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Standard:
        buffer = Pipe()

    source = write_plainly(tmp_path / "in.jsonl", [["1", "é\nb", ""], ["2", "c", ""], ["3", "d", ""]])
    monkeypatch.setattr(sys, "stdout", Standard)
    copy(source, "-")
    assert Standard.buffer.seen == ["é b\nc\n".encode(), "é b\nc\nd\n".encode()]


def test_a_broken_pipe_is_left_to_the_caller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Closed:
        class buffer:
            @staticmethod
            def write(_: bytes) -> None:
                raise BrokenPipeError

    source = write_plainly(tmp_path / "in.csv", [["1", "a", ""]])
    monkeypatch.setattr(sys, "stdout", Closed)
    with pytest.raises(BrokenPipeError):
        copy(source, "-")


# All of a file, or nothing


def names(place: Path) -> list[str]:
    return sorted(entry.name for entry in place.iterdir())


@pytest.mark.parametrize("ending", [*ENDINGS, ".txt"])
@pytest.mark.parametrize("stop", [RuntimeError("the model failed"), KeyboardInterrupt(), OSError(5, "not our file")])
def test_after_an_error_the_target_is_as_before_and_nothing_else_is_left(
    tmp_path: Path, ending: str, stop: BaseException
) -> None:
    table = open_table(write_plainly(tmp_path / "in.csv", [["1", "a", ""], ["2", "b", ""]]))
    target = tmp_path / f"out{ending}"
    target.write_text("before")
    with (  # noqa: PT012
        pytest.raises(type(stop)) as caught,
        open_writer(target, like=table, columns=table.columns, overwrite=True) as writer,
    ):
        writer.write(next(table.batches(1)))
        assert len(names(tmp_path)) == 3
        assert target.read_text() == "before"
        raise stop
    assert caught.value is stop
    assert target.read_text() == "before"
    assert names(tmp_path) == ["in.csv", target.name]


def test_nothing_stands_under_the_name_until_all_is_written(tmp_path: Path) -> None:
    table = open_table(write_plainly(tmp_path / "in.csv", [["1", "a", ""], ["2", "b", ""]]))
    with open_writer(tmp_path / "out.csv", like=table, columns=table.columns) as writer:
        for batch in table.batches(1):
            writer.write(batch)
            assert not (tmp_path / "out.csv").exists()
    assert names(tmp_path) == ["in.csv", "out.csv"]


def test_a_file_is_on_the_disk_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = write_plainly(tmp_path / "in.csv", [["1", "a", ""]])
    synced: list[tuple[int, bool]] = []
    target = tmp_path / "out.csv"
    monkeypatch.setattr(os, "fsync", lambda handle: synced.append((os.fstat(handle).st_size, target.exists())))
    copy(source, target)
    assert synced == [(target.stat().st_size, False)]


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_full_disk_is_told_in_one_line_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    source = write_plainly(tmp_path / "in.csv", [["1", SECRET, ""]])

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    assert refusal(source, tmp_path / f"out{ending}") == (
        f"'out{ending}' cannot be written: No space left on device. Nothing was left behind."
    )


@pytest.mark.parametrize("ending", [*ENDINGS, ".txt"])
def test_a_disk_that_fills_up_in_the_middle_leaves_nothing(tmp_path: Path, ending: str) -> None:
    source = write_plainly(tmp_path / "in.csv", [[str(n), f"{SECRET} {n * n}", ""] for n in range(3000)])
    with at_most_bytes(10_000):
        assert refusal(source, tmp_path / f"out{ending}") == (
            f"'out{ending}' cannot be written: File too large. Nothing was left behind."
        )


@pytest.mark.parametrize("stop", [False, True], ids=["the disk fails", "the caller stops"])
def test_parquet_that_was_given_up_is_not_heard_of_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop: bool
) -> None:
    said: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", said.append)  # where Python tells what fails in a destructor
    table = open_table(write_plainly(tmp_path / "in.csv", [[str(n), str(n * n), ""] for n in range(3000)]))
    target = tmp_path / "out.parquet"
    with (
        suppress(BadTable, InterruptedError),
        at_most_bytes(10_000),
        open_writer(target, like=table, columns=table.columns) as writer,
    ):
        writer.write(next(table.batches(3000)))
        if stop:
            raise InterruptedError
    assert not target.exists()
    del writer
    gc.collect()
    assert said == []


@contextmanager
def at_most_bytes(size: int) -> Iterator[None]:
    """Let no file of this process grow beyond a size: the nearest thing to a full disk that needs no disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_table_without_batches_is_a_header(tmp_path: Path) -> None:
    table = open_table(write_plainly(tmp_path / "in.csv", [["1", "a", ""]]))
    for ending in (".csv", ".parquet"):
        with open_writer(tmp_path / f"out{ending}", like=table, columns=table.columns):
            pass
        assert read_plainly(tmp_path / f"out{ending}") == [list(COLUMNS)]


def test_the_new_file_has_the_rights_of_any_other(tmp_path: Path) -> None:
    source = write_plainly(tmp_path / "in.csv", [["1", "a", ""]])
    copy(source, tmp_path / "out.csv")
    assert (tmp_path / "out.csv").stat().st_mode == source.stat().st_mode


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    source = write_plainly(tmp_path / "in.csv", [["1", "a", ""]])
    (tmp_path / "there").mkdir()
    (tmp_path / "out.csv").symlink_to(tmp_path / "there" / "real.csv")
    copy(source, tmp_path / "out.csv")
    assert (tmp_path / "out.csv").is_symlink()
    assert read_plainly(tmp_path / "there" / "real.csv")[1] == ["1", "a", ""]


# What is refused


def refusal(source: Path, target: Path) -> str:
    """The one line that writing is refused with. It tells no private word and leaves no file behind."""
    before = names(source.parent)
    with pytest.raises(BadTable) as caught:
        copy(source, target)
    assert names(source.parent) == before
    message = str(caught.value)
    assert SECRET not in message
    assert "\n" not in message
    return message.replace(f"{source.parent}/", "")


def test_an_existing_file_is_replaced_only_if_told(tmp_path: Path) -> None:
    source = write_plainly(tmp_path / "in.csv", [["1", "a", ""]])
    (tmp_path / "out.csv").write_text("before")
    assert refusal(source, tmp_path / "out.csv") == (
        "'out.csv' exists already. Pass --overwrite to replace it, or name another file."
    )
    assert (tmp_path / "out.csv").read_text() == "before"
    table = open_table(source)
    with open_writer(tmp_path / "out.csv", like=table, columns=table.columns, overwrite=True) as writer:
        writer.write(next(table.batches(1)))
    assert read_plainly(tmp_path / "out.csv")[1] == ["1", "a", ""]


@pytest.mark.parametrize("overwrite", [True, False])
def test_the_input_is_never_the_output_by_any_of_its_names(tmp_path: Path, overwrite: bool) -> None:
    source = write_plainly(tmp_path / "in.csv", [["1", "a", ""]])
    (tmp_path / "soft.csv").symlink_to(source)
    (tmp_path / "hard.csv").hardlink_to(source)
    table = open_table(source)
    for name in ("in.csv", "soft.csv", "hard.csv"):
        with pytest.raises(BadTable) as caught:
            open_writer(tmp_path / name, like=table, columns=table.columns, overwrite=overwrite)
        assert str(caught.value) == f"'{tmp_path / name}' is both input and output. Name another output."


def test_a_place_that_cannot_be_written_is_refused_before_any_batch(tmp_path: Path) -> None:
    source = write_plainly(tmp_path / "in.csv", [["1", "a", ""]])
    assert refusal(source, tmp_path / "results" / "out.csv") == (
        "'results/out.csv' cannot be written: its folder 'results' does not exist. Make it first."
    )
    (tmp_path / "folder.csv").mkdir()
    assert refusal(source, tmp_path / "folder.csv") == "'folder.csv' is a directory. Name a file in it."
    assert "must be one of .csv, .tsv," in refusal(source, tmp_path / "out.xlsx")
    assert refusal(source, tmp_path / ("o" * 250 + ".csv")).endswith(
        "cannot be written: File name too long. Nothing was left behind."
    )


def test_columns_are_those_of_the_input_and_have_the_text(tmp_path: Path) -> None:
    table = open_table(write_plainly(tmp_path / "in.csv", [["1", "a", ""]]))
    with pytest.raises(BadParameter, match=r"^columns must be among those of the input, got 'x'\.$"):
        open_writer(tmp_path / "out.csv", like=table, columns=("text", "x"))
    with pytest.raises(BadParameter, match=r"^columns must include the text column 'text'\.$"):
        open_writer(tmp_path / "out.csv", like=table, columns=("id",))
