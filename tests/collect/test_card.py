"""The card of a collection: every single change to it is noticed, and it says who is trusted."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from cryptography.hazmat.primitives import serialization as form
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dpbart.card.card import Card, read_card
from dpbart.card.collection import TRUST_MODEL, counts_digest, least_people, wrong_collection
from dpbart.card.figures import facts_of
from dpbart.card.record import CollectionFacts
from dpbart.cli import cli
from dpbart.collect.synthesize import synthesize_file
from dpbart.models.bundle import Bundle
from dpbart.options.collecting import CollectionBudget, CollectionRequest
from dpbart.privacy.mechanisms.geometric import UNIT

PEOPLE = 130


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, tiny_code: Bundle) -> Path:
    """A signed card with labels, its output and its keys."""
    folder = tmp_path_factory.mktemp("card")
    key = Ed25519PrivateKey.generate()
    pem = key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption())
    (folder / "sign.pem").write_bytes(pem)
    public = key.public_key().public_bytes(form.Encoding.PEM, form.PublicFormat.SubjectPublicKeyInfo)
    (folder / "public.pem").write_bytes(public)
    rows = "".join(f"p{number},our cow {number} looks fine,{number % 3}\n" for number in range(PEOPLE))
    (folder / "in.csv").write_text("who,text,stars\n" + rows)
    request = CollectionRequest(
        folder / "in.csv",
        folder / "out.csv",
        person_column="who",
        label_column="stars",
        label_values=("0", "1"),
        rows=50,
        sign_key=folder / "sign.pem",
    )
    synthesize_file(request, CollectionBudget(str(tiny_code.folder), 1.0))
    return folder


def verify(card: Path, *more: object) -> Result:
    return CliRunner().invoke(cli, ["card", "verify", str(card), *map(str, more)])


def failing(done: Result) -> list[str]:
    return [line.split()[0] for line in done.stdout.splitlines() if " FAILS " in line]


def test_a_real_card_holds(made: Path) -> None:
    done = verify(made / "out.csv.card.json", "--output", made / "out.csv", "--key", made / "public.pem")
    assert (done.exit_code, failing(done)) == (0, [])
    assert "collection holds" in done.stdout
    assert done.stdout.splitlines()[-1] == (
        "guarantee  holds  each of 130 people has epsilon 1 and delta 0. This collection as a whole has epsilon 1: no "
        "single person's texts change the probability of any released file by more than a factor 2.72. Rows are not "
        "rewritings of rows: no row belongs to anybody"
    )


def _set(path: str, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(card: dict[str, Any]) -> None:
        *above, last = path.split(".")
        inside = card
        for key in above:
            inside = inside[key]
        inside[last] = value(inside[last]) if callable(value) else value

    return change


def _one_count(card: dict[str, Any]) -> None:
    card["collection"]["counts"][1][2] += 1


def _row_less(card: dict[str, Any]) -> None:
    del card["collection"]["counts"][1]


def _without_collection(card: dict[str, Any]) -> None:
    del card["collection"]


CHANGES: dict[str, Callable[[dict[str, Any]], None]] = {
    "epsilon": _set("guarantee.epsilon", 0.5),
    "epsilon of a person": _set("person.guarantee.epsilon", 0.5),
    "people of the collection": _set("collection.people", 1300),
    "people": _set("person.people", 1300),
    "rows of the collection": _set("collection.rows", 51),
    "rows": _set("rows", 51),
    "unit": _set("collection.unit", 1),
    "unit of the noise": _set("noise.sensitivity_l1", 2.0),
    "scale": _set("noise.scale", lambda scale: scale / 2),
    "entries": _set("noise.entries", 1),
    "cells": _set("collection.cells", 5),
    "one count": _one_count,
    "counts of a label": _row_less,
    "label values": _set("collection.label_values", ["0", "1", "2"]),
    "other label values": _set("collection.label_values", ["0", "0"]),
    "label column": _set("collection.label_column", None),
    "label policy": _set("label_policy", "none"),
    "no collection": _without_collection,
    "mechanism": _set("noise.mechanism", "laplace"),
    "texts of a person": _set("person.most_texts", 2),
    "other columns": _set("other_columns", ["who"]),
    "book only": _set("model.book_only", False),
    "recipe": _set("recipe", lambda recipe: recipe.replace("people:130", "people:131")),
    "digest in the recipe": _set("recipe", lambda recipe: recipe.replace("released:", "released:0")),
    "delta": _set("guarantee.delta", 1e-5),
}


@pytest.mark.parametrize("change", CHANGES)
def test_every_changed_figure_is_noticed_without_a_key(change: str, made: Path, tmp_path: Path) -> None:
    stated = json.loads((made / "out.csv.card.json").read_text())
    del stated["signature"]
    file = tmp_path / "card.json"
    file.write_text(json.dumps(stated))
    assert verify(file).exit_code == 0
    CHANGES[change](stated)
    file.write_text(json.dumps(stated))
    done = verify(file)
    assert done.exit_code == 1, done.stdout
    assert failing(done)


@pytest.mark.parametrize("change", ["people", "people of the collection", "rows", "unit", "one count", "cells"])
def test_the_check_of_the_collection_itself_notices(change: str, made: Path) -> None:
    """Whatever the other checks would say."""
    stated = json.loads((made / "out.csv.card.json").read_text())
    CHANGES[change](stated)
    changed = Card.of(stated)
    assert wrong_collection(changed, facts_of(changed)) is not None


def test_a_card_with_counts_of_a_collection_must_state_it(made: Path) -> None:
    card = read_card(made / "out.csv.card.json")
    alone = replace(card, collection=None)
    assert wrong_collection(alone, facts_of(card)) == (
        "the mechanism is that of a whole collection, and the card states none"
    )
    assert wrong_collection(card, facts_of(card)) is None


@pytest.mark.parametrize("change", ["one count", "rows", "people"])
def test_a_changed_card_has_no_signature_by_the_key(change: str, made: Path, tmp_path: Path) -> None:
    stated = json.loads((made / "out.csv.card.json").read_text())
    CHANGES[change](stated)
    (tmp_path / "card.json").write_text(json.dumps(stated))
    assert "signature" in failing(verify(tmp_path / "card.json", "--key", made / "public.pem"))


def test_fewer_people_than_votes_are_noticed_even_if_all_figures_agree(made: Path) -> None:
    """Somebody who writes a smaller number of people everywhere cannot change how many votes were counted."""
    card = read_card(made / "out.csv.card.json")
    assert card.collection is not None
    stated = json.loads(json.dumps(card.as_dict()).replace("people:130", "people:2"))
    stated["person"]["people"] = stated["collection"]["people"] = 2
    stated["collection"]["counts"][0][0] += 1000 * UNIT
    fewer = Card.of(stated)
    assert fewer.collection is not None
    digest = next(part for part in stated["recipe"].split("|") if part.startswith("released:"))
    stated["recipe"] = stated["recipe"].replace(digest, f"released:{counts_digest(fewer.collection.counts)}")
    fewer = Card.of(stated)
    assert wrong_collection(fewer, facts_of(fewer)) == "2 people can NOT have so many votes"


def test_the_card_says_who_is_trusted_and_holds_the_counts(made: Path) -> None:
    card = read_card(made / "out.csv.card.json")
    assert card.trust_model == TRUST_MODEL
    assert isinstance(card.collection, CollectionFacts)
    assert [len(row) for row in card.collection.counts] == [card.collection.cells] * 2
    assert (card.collection.unit, card.collection.people, card.collection.rows) == (UNIT, PEOPLE, 50)
    page = card.as_text()
    assert "whoever runs the command holds all texts and is trusted with them" in page
    assert "Each of 130 people in the column 'who', for all of their texts." in page
    assert "130, identified by who; each has one vote" in page
    assert card.as_html().count("Votes") >= 1


def test_without_a_person_column_each_row_is_promised_for_itself(tiny_code: Bundle, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("text\n" + "our cow looks fine\n" * 125)
    request = CollectionRequest(tmp_path / "in.csv", tmp_path / "out.csv", rows=10)
    card = synthesize_file(request, CollectionBudget(str(tiny_code.folder), 1.0))
    assert (card.person.people, card.person.guarantee, card.person.counted) == (125, None, "rows")
    assert "The person behind each of 125 rows of the input, for that row alone." in card.as_text()
    assert verify(tmp_path / "out.csv.card.json", "--output", tmp_path / "out.csv").exit_code == 0


def test_it_takes_more_people_for_a_smaller_epsilon_and_more_labels() -> None:
    found = [
        least_people(epsilon=epsilon, labels=labels) for epsilon, labels in ((2.0, 0), (1.0, 0), (1.0, 4), (0.5, 4))
    ]
    assert found == sorted(found) == [60, 120, 480, 959]
