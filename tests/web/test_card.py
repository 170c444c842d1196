"""Texts over HTTP come back with a card that others can verify, if the client asks for one."""

from __future__ import annotations

import csv
import io
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from dpbart.cli import cli
from dpbart.ledger.ledger import Ledger
from dpbart.web.releases import _table
from tests.web.running import Client, in_thread

KEY = "a-key-for-texts-with-a-card"
ANNA = "Anna-7041"  # an id that no new text can hold by chance: the book has "cannabis"


def saved(folder: Path, answer: Any) -> tuple[Path, Path]:
    """The output and its card as a client would save them: byte for byte, with the page next to the card."""
    output = folder / answer["output"]["name"]
    output.write_bytes(answer["output"]["content"].encode())
    for kind, content in answer["card"].items():
        (folder / f"{output.name}.card.{kind}").write_bytes(content.encode())
    return output, folder / f"{output.name}.card.json"


def verified(output: Path, card: Path) -> str:
    done = CliRunner().invoke(cli, ["card", "verify", str(card), "--output", str(output)])
    assert done.exit_code == 0, done.output
    return done.output


def test_a_card_comes_with_the_file_that_it_describes(client: Client, tmp_path: Path) -> None:
    answer = client.rewrite("The room was clean.", 'She said "no",\nand left.', card=True).json
    output, card = saved(tmp_path, answer)
    said = verified(output, card)
    assert "'rewritten.csv.card.html' is the page of this card" in said
    again = CliRunner().invoke(cli, ["rewrite", str(output), str(tmp_path / "again.csv"), "--mechanism", "none"])
    assert again.exit_code == 0, again.output  # it is a table that dpbart can read
    assert "2 texts rewritten" in again.output
    held = json.loads(card.read_text())
    assert (held["rows"], held["recipe"], held["other_columns"]) == (2, answer["recipe"], [])
    output.write_text(output.read_text() + "One text more\n")
    refused = CliRunner().invoke(cli, ["card", "verify", str(card), "--output", str(output)])
    assert refused.exit_code != 0


def test_a_card_without_a_guarantee_says_so(client: Client, tmp_path: Path) -> None:
    answer = client.rewrite("The room was clean.", epsilon=None, mechanism="none", card=True).json
    output, card = saved(tmp_path, answer)
    assert "nothing is promised: the output is NOT PRIVATE" in verified(output, card)


def test_a_card_counts_people_as_the_ledger_does(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "l.db", create=True)
    ledger.set_limit(Decimal(200))
    ledger.set_delta(Decimal("1e-7"))
    ledger.close()
    with in_thread(tmp_path / "state", ledger=tmp_path / "l.db") as client:
        texts, people = ["The room was clean."] * 101, ["Bert-7042", *[ANNA] * 100]
        answer = client.rewrite(*texts, people=people, epsilon=1, card=True).json
        refused = client.rewrite("a", people=[ANNA], epsilon=200, card=True)
        told = client.get("/v1/ledger").json["spending"]
    output, card = saved(tmp_path, answer)
    verified(output, card)
    person = json.loads(card.read_text())["person"]
    assert (person["people"], person["most_texts"], person["guarantee"]["delta"]) == (2, 100, 1e-7)
    assert float(told[0]["spent"]) == person["guarantee"]["epsilon"] < 100  # not the sum: at the ledger's delta
    assert (refused.status, refused.json["left"][0]["person"]) == (409, ANNA)
    opened = Ledger(tmp_path / "l.db")
    runs = {entry.run.name for entry in opened.entries(ANNA)}
    opened.close()
    shared = "recorded as a part of run {}, which other requests share; this card counts this request alone"
    assert person["ledger"] in {shared.format(run) for run in runs}
    assert ANNA not in output.read_text() + card.read_text()  # ids are not released


@pytest.mark.parametrize("text", ["", "a\rb", "a\nb", "a\r\nb", 'a,"b"', " a "])
def test_every_text_comes_out_of_the_table_as_it_is(text: str) -> None:
    """A bare carriage return would end a row when the file is read."""
    written = _table(["first", text])
    assert list(csv.reader(io.StringIO(written, newline=""), strict=True)) == [["text"], ["first"], [text]]


def test_every_card_is_signed_if_the_server_has_a_key(tmp_path: Path) -> None:
    key, public = Ed25519PrivateKey.generate(), tmp_path / "public.pem"
    (tmp_path / "sign.pem").write_bytes(
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
    )
    public.write_bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    with in_thread(tmp_path / "state", sign_key=tmp_path / "sign.pem") as client:
        _, of_texts = saved(tmp_path, client.rewrite("The room was clean.", card=True).json)
        job = client.upload("a.csv", b"text\nThe room was clean.\n").json
        of_file = tmp_path / "a.csv.card.json"
        of_file.write_bytes(client.get(client.wait_for(job["id"], "done")["card"]).body)
    for card in (of_texts, of_file):
        done = CliRunner().invoke(cli, ["card", "verify", str(card), "--key", str(public)])
        assert done.exit_code == 0, done.output
        assert "matches the given key" in done.output


def test_the_same_key_gets_the_same_card(client: Client) -> None:
    first, again = (client.rewrite("The room was clean.", key=KEY, card=True) for _ in range(2))
    assert "made" in json.loads(first.json["card"]["json"])
    assert again.body == first.body


def test_without_asking_there_is_no_card(client: Client) -> None:
    assert set(client.rewrite("The room was clean.").json) == {"texts", "guarantee", "recipe", "model", "worst"}
    assert client.rewrite("The room was clean.", card="yes").status == 422
