"""Whole jobs on the files that people bring: what is released, what is kept, and what is charged."""

from __future__ import annotations

import gzip
import io
import json
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from dpbart.cli import cli
from dpbart.errors import BadParameter, BadTable, NotResumable
from dpbart.files import digest_of
from dpbart.models.bundle import Bundle
from dpbart.options.rewriting import Dialect, Request
from dpbart.rewrite.durable import commit
from dpbart.rewrite.job import plan
from dpbart.rewrite.plan import Outline
from dpbart.testing import described, fake_rewriter
from tests.rewrite.jobs import inline, run

pytestmark = pytest.mark.usefixtures("no_wait_for_the_disk")

SECRET = "Mallory"


def standard(monkeypatch: pytest.MonkeyPatch, content: bytes) -> io.BytesIO:
    out = io.BytesIO()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(out))
    return out


@pytest.fixture
def nested(tmp_path: Path) -> Path:
    rows = [{"who": {"id": n % 2}, "note": {"text": f"{SECRET} {n}", "by": "b"}, "m": {"ill": "yes"}} for n in range(4)]
    path = tmp_path / "in.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_text_person_and_label_may_be_inside_objects(nested: Path, tmp_path: Path) -> None:
    request = Request(
        nested,
        tmp_path / "out.jsonl",
        text_column="note.text",
        person_column="who.id",
        label_column="m.ill",
        labels="randomize:2",
        label_set=("yes", "no"),
        keep_all=True,
    )
    card = run(request, fake_rewriter(epsilon=5, delta=1e-9))
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [row["who"]["id"] for row in rows] == [0, 1, 0, 1]
    assert all(SECRET not in row["note"]["text"] and row["note"]["by"] == "b" for row in rows)
    assert {row["m"]["ill"] for row in rows} <= {"yes", "no"}
    assert card.person.people == 2
    assert card.other_columns == ["who.id", "note.by", "any further keys of single rows"]


@pytest.mark.parametrize("ending", [".jsonl", ".json", ".parquet", ".csv"])
def test_a_dropped_label_inside_an_object_is_not_released(nested: Path, tmp_path: Path, ending: str) -> None:
    if ending == ".parquet":
        rows = [json.loads(line) for line in nested.read_text().splitlines()]
        nested = tmp_path / "in.parquet"
        pq.write_table(pa.Table.from_pylist(rows), nested)
    target = tmp_path / f"out{ending}"
    request = Request(nested, target, text_column="note.text", label_column="m.ill", labels="drop", keep_all=True)
    run(request, fake_rewriter(epsilon=5, delta=1e-9))
    shown = str(pq.read_table(target).to_pylist()) if ending == ".parquet" else target.read_text()
    assert "yes" not in shown
    assert SECRET not in shown


@pytest.mark.parametrize("ending", [".jsonl", ".parquet"])
def test_documents_are_joined_inside_objects(nested: Path, tmp_path: Path, ending: str) -> None:
    if ending == ".parquet":
        rows = [json.loads(line) for line in nested.read_text().splitlines()]
        nested = tmp_path / "in.parquet"
        pq.write_table(pa.Table.from_pylist(rows), nested)
    target = tmp_path / f"out{ending}"
    people = {"person_column": "who.id", "join_documents": True, "keep_columns": ["who.id"]}
    request = Request(nested, target, text_column="note.text", **people)
    run(request, fake_rewriter(epsilon=5, delta=1e-9))
    held = (
        pq.read_table(target).to_pylist() if ending == ".parquet" else map(json.loads, target.read_text().splitlines())
    )
    rows = list(held)
    assert [row["who"] for row in rows] == [{"id": 0}, {"id": 1}]
    assert [list(row) for row in rows] == [["who", "note"]] * 2
    assert [list(row["note"]) for row in rows] == [["text"]] * 2


def test_standard_input_keeps_its_other_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = "id;text;ill\n" + "".join(f"{n};{SECRET} {n};yes\n" for n in range(100))
    dialect = Dialect(format="csv")
    rewriter = fake_rewriter(epsilon=5, delta=1e-9, batch_size=8)
    out = standard(monkeypatch, content.encode())
    labels = {"label_column": "ill", "labels": "randomize:1", "label_set": ("yes", "no")}
    run(Request(Path("-"), Path("-"), dialect=dialect, keep_all=True, **labels), rewriter)
    header, *rows = out.getvalue().decode().splitlines()
    assert header == "id;text;ill"
    assert [row.split(";")[0] for row in rows] == [str(n) for n in range(100)]
    assert {row.split(";")[2] for row in rows} == {"yes", "no"}
    assert SECRET not in out.getvalue().decode()

    standard(monkeypatch, content.encode())
    labels = {"label_column": "ill", "labels": "drop"}
    card = run(Request(Path("-"), tmp_path / "out.csv", dialect=dialect, keep_all=True, **labels), rewriter)
    header, *rows = (tmp_path / "out.csv").read_text().splitlines()
    assert header == "id;text"
    assert len(rows) == 100
    assert card.run.output_sha256 == digest_of(tmp_path / "out.csv")
    assert sorted(os.listdir(tmp_path)) == ["out.csv", "out.csv.card.html", "out.csv.card.json", "out.csv.card.txt"]


def test_a_bad_row_on_standard_input_is_refused_before_it_is_rewritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    def model(texts: Sequence[str]) -> list[str]:
        seen.extend(texts)
        return list(texts)

    standard(monkeypatch, b'{"text": "a"}\n{"text": "b", "more": "Mallory"}\n')
    request = Request(Path("-"), tmp_path / "out.csv", dialect=Dialect(format="jsonl"), keep_all=True)
    with pytest.raises(BadTable, match=r"^standard input row 2 has other keys than row 1") as caught:
        run(request, fake_rewriter(model, epsilon=5, delta=1e-9, batch_size=1))
    assert SECRET not in str(caught.value)
    assert seen == ["a"]
    assert os.listdir(tmp_path) == []


def test_people_on_standard_input_are_refused() -> None:
    with pytest.raises(BadParameter, match=r"^--person-column needs a file: people are counted before"):
        Request(Path("-"), Path("-"), person_column="who", dialect=Dialect(format="csv"))


def test_a_format_needs_a_standard_stream_and_a_document_needs_plain_text(tmp_path: Path) -> None:
    with pytest.raises(BadParameter, match=r"^--format is for standard input and output, and neither is used\."):
        Request(tmp_path / "in.csv", tmp_path / "out.csv", dialect=Dialect(format="csv"))
    with pytest.raises(BadParameter, match=r"^--document is for \.txt files"):
        Outline.of(Request(tmp_path / "in.csv", tmp_path / "out.csv", dialect=Dialect(document=True)))
    with pytest.raises(BadParameter, match=r"^--format must be one of csv, tsv, .*, got 'doc'\."):
        plan(Request(Path("-"), Path("-"), dialect=Dialect(format="doc")), described(fake_rewriter(epsilon=5)))


# A folder of documents


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    folder.mkdir()
    for n in range(20):
        (folder / f"{n:02}.txt").write_text(f"{SECRET}\nnote {n}\n")
    return folder


def test_a_folder_is_rewritten_into_a_folder_with_its_card(notes: Path, tmp_path: Path) -> None:
    request = Request(notes, tmp_path / "out", id_column="file", keep_columns=["file"])
    card = run(request, fake_rewriter(epsilon=5, delta=1e-9))
    assert sorted(os.listdir(tmp_path / "out")) == sorted(os.listdir(notes))
    assert not any(SECRET in file.read_text() for file in (tmp_path / "out").iterdir())
    assert card.run.output_sha256 == digest_of(tmp_path / "out")
    assert card.other_columns == ["file"]
    assert "out.card.json" in os.listdir(tmp_path)


def test_an_interrupted_folder_resumes_and_replaces_a_half_written_one(
    notes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit, "PART_ROWS", 5)
    calls: list[int] = []

    def failing(texts: Sequence[str]) -> list[str]:
        calls.append(len(texts))
        if len(calls) == 3:
            raise KeyboardInterrupt
        return [f"new {len(calls)}" for _ in texts]

    rewriter = fake_rewriter(failing, epsilon=5, delta=1e-9, batch_size=5)
    request = Request(notes, tmp_path / "out", id_column="file", keep_all=True, ledger=tmp_path / "l.db")
    with pytest.raises(KeyboardInterrupt):
        run(request, rewriter)
    assert not (tmp_path / "out").exists()
    (tmp_path / f".out.{'0' * 32}.partial").mkdir()  # as after a kill
    run(request.changed(resume=True), rewriter)
    assert calls == [5, 5, 5, 5, 5]  # the third failed; what was saved before it is not rewritten again
    assert len(os.listdir(tmp_path / "out")) == 20
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".")]


def test_a_file_that_changes_in_a_folder_stops_the_run(notes: Path, tmp_path: Path) -> None:
    def meddling(texts: Sequence[str]) -> list[str]:
        (notes / "19.txt").write_text("changed")
        return list(texts)

    rewriter = fake_rewriter(meddling, epsilon=5, delta=1e-9, batch_size=5)
    with pytest.raises(BadTable, match="was changed during the run"):
        plan(Request(notes, tmp_path / "out.csv"), described(rewriter)).run(inline(rewriter))
    assert not (tmp_path / "out.csv").exists()


def test_a_folder_is_replaced_on_request(notes: Path, tmp_path: Path) -> None:
    rewriter = fake_rewriter(epsilon=5, delta=1e-9)
    run(Request(notes, tmp_path / "out", keep_all=True), rewriter)
    shutil.rmtree(tmp_path / "notes")
    notes.mkdir()
    (notes / "new.txt").write_text("a")
    run(Request(notes, tmp_path / "out", keep_all=True, overwrite=True), rewriter)
    assert os.listdir(tmp_path / "out") == ["new.txt"]


# The command line


def test_a_changed_dialect_does_not_resume(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit, "PART_ROWS", 1)
    (tmp_path / "in.csv").write_text("id;text\n1;a\n2;b\n")

    def failing(texts: Sequence[str]) -> list[str]:
        if texts == ["b"]:
            raise KeyboardInterrupt
        return list(texts)

    rewriter = fake_rewriter(failing, epsilon=5, delta=1e-9, batch_size=1)
    request = Request(tmp_path / "in.csv", tmp_path / "out.csv", id_column="id", ledger=tmp_path / "l.db")
    with pytest.raises(KeyboardInterrupt):
        run(request, rewriter)
    changed = Request(
        tmp_path / "in.csv",
        tmp_path / "out.csv",
        id_column="id",
        ledger=tmp_path / "l.db",
        resume=True,
        dialect=Dialect(encoding="latin-1"),
    )
    with pytest.raises(NotResumable, match=r"encoding \(None, now latin-1\)"):
        run(changed, rewriter)


def test_the_run_says_how_it_reads_a_txt_file(tiny: Bundle, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("a child\nthe baker\n")
    args = ["-e", "500", "--model", str(tiny.folder), "--beams", "1"]
    done = CliRunner().invoke(cli, ["rewrite", str(tmp_path / "in.txt"), str(tmp_path / "out.txt"), *args])
    said = f"{tmp_path / 'in.txt'} is read as one text per line. To rewrite it as one text, pass --document."
    assert said in done.stderr.splitlines()
    assert "2 texts rewritten" in done.stderr
    done = CliRunner().invoke(
        cli, ["rewrite", str(tmp_path / "in.txt"), str(tmp_path / "one.txt"), "--document", *args]
    )
    assert "one text per line" not in done.stderr
    assert "\n1 text rewritten, under (epsilon 500, delta 1e-05).\n" in done.stderr


def test_the_options_reach_the_files(tiny: Bundle, tmp_path: Path) -> None:
    source = tmp_path / "in.csv.gz"
    source.write_bytes(gzip.compress("id^text\n1^José\n".encode("cp1252")))
    args = ["-e", "500", "--model", str(tiny.folder), "--beams", "1", "--keep-column", "id"]
    args += ["--delimiter", "^", "--encoding", "cp1252"]
    done = CliRunner().invoke(cli, ["rewrite", str(source), str(tmp_path / "out.csv.gz"), *args])
    assert done.exit_code == 0, done.stderr
    assert gzip.decompress((tmp_path / "out.csv.gz").read_bytes()).startswith(b"id^text\n1^")
    json_args = [*args[:8], "--format", "jsonl", "--text-column", "note.text"]
    done = CliRunner().invoke(cli, ["rewrite", "-", "-", *json_args], input='{"id": 7, "note": {"text": "a child"}}\n')
    assert done.exit_code == 0, done.stderr
    row = json.loads(done.stdout)
    assert row["id"] == 7
    assert list(row["note"]) == ["text"]
