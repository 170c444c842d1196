"""The columns of a file, before it is rewritten: their names, nothing else, and nothing stays on disk."""

from __future__ import annotations

import gzip
import io
import json
import shutil
from pathlib import Path
from typing import Any

import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpbart.web import job
from dpbart.web.guard import Limits
from tests.web.running import Answer, Client, in_thread

SECRET = "Ottilie"


def ask(client: Client, name: str, content: bytes, options: object = None) -> Answer:
    return client.upload(name, content, {} if options is None else options, path="/v1/columns")


def excel() -> bytes:
    book, held = openpyxl.Workbook(write_only=True), io.BytesIO()
    sheet = book.create_sheet()
    sheet.append(["patient", "note"])
    sheet.append([SECRET, SECRET])
    book.save(held)
    return held.getvalue()


def parquet() -> bytes:
    held = io.BytesIO()
    pq.write_table(pa.table({"id": [1], "note": [{"text": SECRET, "by": SECRET}]}), held)
    return held.getvalue()


def lines(*rows: object) -> bytes:
    return "".join(f"{json.dumps(row)}\n" for row in rows).encode()


@pytest.mark.parametrize(
    ("name", "content", "options", "names"),
    [
        ("a.csv", b"id,text\n1,Ottilie\n", {}, ["id", "text"]),
        ("a.csv", b"id;text\n1;Ottilie\n", {}, ["id", "text"]),
        ("a.csv", b"id;a,text\n1;Ottilie\n", {"delimiter": ","}, ["id;a", "text"]),
        ("a.csv", "id,größe\n1,Ottilie\n".encode("cp1252"), {"encoding": "cp1252"}, ["id", "größe"]),
        ("a.csv.gz", gzip.compress(b"id,text\n1,Ottilie\n", mtime=0), {}, ["id", "text"]),
        ("a.tsv", b"id\ttext\n1\tOttilie\n", {}, ["id", "text"]),
        ("a.xlsx", excel(), {}, ["patient", "note"]),
        ("a.parquet", parquet(), {}, ["id", "note.text", "note.by"]),
        ("a.jsonl", lines({"id": 1, "note": {"text": SECRET}, "empty": {}}), {}, ["id", "note.text", "empty"]),
        ("a.jsonl", lines({"a.b": SECRET, "a": {"c": SECRET}}), {}, ["a.b", "a.c"]),
        ("a.json", json.dumps([{"id": SECRET, "text": SECRET}]).encode(), {}, ["id", "text"]),
        ("a.txt", b"Ottilie was here.\n", {"document": True}, ["text"]),
    ],
)
def test_the_columns_of_every_format(
    client: Client, name: str, content: bytes, options: dict[str, object], names: list[str]
) -> None:
    answer = ask(client, name, content, options)
    assert (answer.status, answer.json) == (200, {"columns": names, "reading": None})


def test_plain_text_says_how_it_is_read(client: Client) -> None:
    told = ask(client, "a.txt", b"Ottilie was here.\n").json
    assert told["columns"] == ["text"]
    assert told["reading"].startswith("one text per line")


@pytest.mark.parametrize(
    ("name", "content", "options", "words"),
    [
        ("my photo.jpg", b"Ottilie", {}, "the ending of 'my photo.jpg' must be"),
        ("my notes.csv", b"", {}, "'my notes.csv' has no rows"),
        ("my notes.csv", b"id,id\n1,Ottilie\n", {}, "'my notes.csv' has more than one column 'id'"),
        ("my notes.xlsx", b"Ottilie", {}, "'my notes.xlsx'"),
        ("my notes.parquet", b"Ottilie", {}, "'my notes.parquet'"),
        ("my notes.jsonl", b"{Ottilie", {}, "'my notes.jsonl'"),
        ("my notes.csv", b"id\n", {"epsilon": 1}, "and has 1 more"),
        ("my notes.csv", b"id\n", {"delimiter": "xx"}, "a delimiter must be one character"),
        ("my notes.csv", b"id\n", {"document": True}, "--document is for .txt files"),
    ],
)
def test_what_cannot_be_read_is_refused_in_words_without_its_content(
    client: Client, name: str, content: bytes, options: dict[str, object], words: str
) -> None:
    refused = ask(client, name, content, options)
    assert refused.status == 422
    assert words in refused.json["detail"]
    assert SECRET not in refused.json["detail"]
    assert "/input" not in refused.json["detail"]


def test_very_many_columns_are_not_listed(client: Client) -> None:
    names = ",".join(f"c{number}" for number in range(2_000)).encode()
    assert ask(client, "a.csv", names + b"\n").status == 413
    assert ask(client, "a.csv", b"x" * 200_000 + b"\n").status == 413


def test_an_upload_is_limited_like_that_of_a_job(tmp_path: Path) -> None:
    limits = Limits(body=100, upload=2_000)
    with in_thread(tmp_path / "state", limits=limits) as client:
        assert ask(client, "a.csv", b"text\n" + b"x" * 1_000).status == 200
        assert ask(client, "a.csv", b"text\n" + b"x" * 3_000).status == 413
        assert client.post("/v1/columns", {}).status == 415


def test_nothing_stays_on_disk_whatever_happens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = tmp_path / "state"

    def killed(*given: Any) -> None:
        """What a kill would leave at this moment is in the copy."""
        shutil.copytree(state, tmp_path / "killed")
        raise MemoryError(SECRET)

    with in_thread(state) as client:
        ask(client, "a.csv", b"id,text\n1,Ottilie\n")
        ask(client, "a.xlsx", b"Ottilie")
        assert list((state / "jobs").iterdir()) == []
        monkeypatch.setattr(job, "columns_of", killed)
        assert SECRET not in ask(client, "a.csv", b"id,text\n1,Ottilie\n").body.decode()
        assert list((state / "jobs").iterdir()) == []
    assert SECRET in next((tmp_path / "killed").rglob("input.csv")).read_text()
    assert next((tmp_path / "killed").rglob("input.csv")).stat().st_mode & 0o077 == 0
    with in_thread(tmp_path / "killed"):
        assert list((tmp_path / "killed" / "jobs").iterdir()) == []
