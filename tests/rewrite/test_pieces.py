"""Texts that are split into pieces: exactly as many for every text, each a release of its own."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from dpbart import Card, Rewriter
from dpbart.cli import cli
from dpbart.errors import BadParameter
from dpbart.models.bundle import Bundle
from dpbart.privacy.budget.ledger import Ledger
from dpbart.privacy.card.verify import verify
from dpbart.rewrite.job import NOT_PRIVATE_STAMP, plan
from dpbart.rewrite.notices import notices
from dpbart.rewrite.pieces import Pieces, default_pieces, split_sentences
from dpbart.rewrite.request import Request
from dpbart.testing import described, fake_rewriter
from tests.rewrite.jobs import run

SECRET = "CANARY"
LENGTHS = (0, 1, 100)  # sentences


def sentences(number: int) -> str:
    return " ".join(f"{SECRET} sentence {n}." for n in range(number))


def write(file: Path, texts: Sequence[str]) -> Path:
    with file.open("w", newline="") as out:
        csv.writer(out).writerows([["who", "text"], *([f"p{n}", text] for n, text in enumerate(texts))])
    return file


def split(source: Path, rewriter: Rewriter, **other: object) -> Card:
    asked = {"split": "sentences", "pieces": 4, "person_column": "who", "ledger": source.with_name("l.db"), **other}
    return run(Request(source, source.with_name("out.csv"), **asked), rewriter)  # type: ignore[arg-type]


def cells(source: Path) -> list[str]:
    with source.with_name("out.csv").open(newline="") as rows:
        return [row["text"] for row in csv.DictReader(rows)]


@given(st.text(max_size=200), st.integers(1, 9))
def test_every_text_has_exactly_as_many_pieces_as_asked(text: str, number: int) -> None:
    pieces = split_sentences(text, number)
    assert len(pieces) == number
    assert Pieces(("a", "b"), split=number).texts([text, "x"], width=2) == [*pieces, *split_sentences("x", number)]
    full = [piece for piece in pieces if piece]
    assert pieces == full + [""] * (number - len(full))  # the padding comes last


@given(st.text(max_size=200))
def test_no_word_is_lost_if_there_are_enough_pieces(text: str) -> None:
    assert "".join("".join(split_sentences(text, 201)).split()) == "".join(text.split())


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("He came. She left! Why?", ["He came.", "She left!", "Why?"]),
        (
            "Dr. May and J. Smith paid 3.50 e.g. in coins. Then",
            ["Dr. May and J. Smith paid 3.50 e.g. in coins.", "Then"],
        ),
        ('"Stop." He stopped (at last.) Good.', ['"Stop."', "He stopped (at last.)", "Good."]),
        ("BP 120/80\nHR 70\n\nno fever", ["BP 120/80", "HR 70", "no fever"]),
        ("今日は雨。傘がない！", ["今日は雨。", "傘がない！"]),
        ("   ", []),
    ],
)
def test_sentences_end_where_a_reader_would_say(text: str, pieces: list[str]) -> None:
    assert split_sentences(text, 5) == pieces + [""] * (5 - len(pieces))


def test_nothing_that_is_observed_depends_on_the_number_of_sentences(tmp_path: Path) -> None:
    seen = []
    for length in LENGTHS:
        calls: list[int] = []
        folder = tmp_path / str(length)
        folder.mkdir()
        source = write(folder / "in.csv", [sentences(length)] * 5)

        def counting(texts: Sequence[str], calls: list[int] = calls) -> list[str]:
            calls.append(len(texts))
            return ["new"] * len(texts)

        card = split(source, fake_rewriter(counting, mechanism="laplace", batch_size=3))
        with closing(Ledger(source.with_name("l.db"))) as ledger:
            spent = ledger.spent("p0")
            held = (ledger.summary().texts, ledger.entries("p0")[0].texts, None if spent is None else spent.epsilon)
        seen.append((calls, held, card.row, card.person.most_texts, card.texts, cells(source)))
    assert seen[0] == seen[1] == seen[2]
    calls, held, row, most, texts, new = seen[0]
    assert sum(calls) == texts == held[0] == 5 * 4
    assert held[1:] == (4, Decimal(40))
    assert row is not None
    assert (row.texts, row.pieces, row.guarantee.epsilon, most) == (4, 4, 40, 4)
    assert new == ["new new new new"] * 5


def test_all_lengths_in_one_file_have_the_same_shape(tmp_path: Path) -> None:
    calls: list[list[str]] = []

    def keep(texts: Sequence[str]) -> list[str]:
        calls.append(list(texts))
        return [f"new{n}" for n, _ in enumerate(texts)]

    source = write(tmp_path / "in.csv", [sentences(length) for length in LENGTHS])
    card = split(source, fake_rewriter(keep, batch_size=100))
    first = [f"{SECRET} sentence {n}." for n in range(4)]
    assert calls == [["", "", "", "", first[0], "", "", "", *first]]
    assert cells(source)[1] == "new4 new5 new6 new7"
    assert card.rows == 3
    checks = verify(tmp_path / "out.csv.card.json", output=tmp_path / "out.csv")
    assert not any(each.held is False for each in checks)
    assert "Each was split into exactly 4 pieces" in card.as_text()
    assert SECRET not in (tmp_path / "out.csv").read_text()


def test_pieces_columns_and_labels_compose(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("who,a,b,ill\nx,One. Two.,Three.,yes\nx,,,no\n")
    labels = {"label_column": "ill", "labels": "randomize:2", "label_set": ("yes", "no")}
    card = split(tmp_path / "in.csv", fake_rewriter(mechanism="laplace"), text_column=("a", "b"), pieces=3, **labels)
    assert card.row is not None
    assert (card.row.texts, card.row.guarantee.epsilon, card.person.counted_guarantee.epsilon) == (6, 62, 124)
    with closing(Ledger(tmp_path / "l.db")) as ledger:
        assert ledger.entries("x")[0].texts == 12
    assert not any(each.held is False for each in verify(tmp_path / "out.csv.card.json"))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("row", "texts"), 1),
        (("row", "pieces"), 2),
        (("row", "guarantee", "epsilon"), 39.0),
        (("person", "most_texts"), 3),
    ],
)
def test_a_card_that_counts_fewer_texts_does_not_verify(tmp_path: Path, path: tuple[str, ...], value: object) -> None:
    split(write(tmp_path / "in.csv", ["a"]), fake_rewriter(mechanism="laplace"))
    file = tmp_path / "out.csv.card.json"
    card = json.loads(file.read_text())
    inside = card
    for name in path[:-1]:
        inside = inside[name]
    inside[path[-1]] = value
    file.write_text(json.dumps(card))
    assert any(each.held is False and each.name in ("row", "person") for each in verify(file))


def test_gaussian_pieces_compose_exactly_at_the_delta_of_the_run(tmp_path: Path) -> None:
    card = split(write(tmp_path / "in.csv", ["a"]), fake_rewriter(epsilon=1.0), ledger=None)
    assert card.row is not None
    assert 1 < card.row.guarantee.epsilon < 4
    assert card.row.guarantee.delta == 1e-5
    assert card.row.guarantee == card.person.guarantee


def test_documents_of_people_are_split_after_they_are_joined(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("who,text\nx,One.\ny,Two.\nx,Three. Four.\n")
    card = split(tmp_path / "in.csv", fake_rewriter(list), join_documents=True, pieces=3)
    assert cells(tmp_path / "in.csv") == ["One. Three. Four.", "Two."]
    assert (card.rows, card.texts, card.person.most_texts) == (2, 6, 3)


def test_a_replay_is_marked_once_in_each_cell(tmp_path: Path) -> None:
    source = write(tmp_path / "in.csv", ["One. Two."])
    split(source, fake_rewriter(replay_seed=1), ledger=None)
    assert cells(source) == [NOT_PRIVATE_STAMP + "rewritten rewritten rewritten rewritten"]


def test_the_run_says_what_a_row_adds_up_to_and_when_splitting_does_not_pay(tmp_path: Path) -> None:
    source = write(tmp_path / "in.csv", ["a"])
    request = Request(source, tmp_path / "out.csv", split="sentences")
    rewriter = described(fake_rewriter(mechanism="laplace"))
    lines = notices(plan(request, rewriter))
    assert lines[1].startswith("Each row is 8 releases (1 text, 8 pieces each), each under (epsilon 10, delta 0).")
    assert lines[1].endswith("All texts of a row together are under (epsilon 80, delta 0).")
    assert lines[2].startswith("Of each text, the first 8 sentences are read.")
    assert not any("Without --split" in line for line in lines)
    long = notices(plan(request, replace(rewriter, reads=512)))
    assert any(line.startswith("This model reads 512 tokens at once. Without --split, it reads") for line in long)
    assert long[1].startswith("Each row is 2 releases")


def test_the_default_number_of_pieces_is_public() -> None:
    assert [default_pieces(reads) for reads in (1, 20, 100, 10_000)] == [160, 8, 2, 2]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"pieces": 3}, "Pass --split sentences"),
        ({"split": "words"}, "split must be sentences, got 'words'"),
        ({"split": "sentences", "pieces": 0}, "pieces must be from 1 to 1,000, got 0"),
        ({"split": "sentences", "pieces": 1001}, "pieces must be from 1 to 1,000, got 1001"),
    ],
)
def test_a_split_that_makes_no_sense_is_refused(asked: dict[str, object], message: str) -> None:
    with pytest.raises(BadParameter, match=message):
        Request(Path("in.csv"), Path("out.csv"), **asked)  # type: ignore[arg-type]


def test_a_real_model_rewrites_every_piece_at_the_command_line(tmp_path: Path, tiny: Bundle) -> None:
    source = write(tmp_path / "in.csv", [sentences(length) for length in LENGTHS])
    asked = ["rewrite", str(source), str(tmp_path / "out.csv"), "-e", "10", "-m", str(tiny.folder)]
    done = CliRunner().invoke(cli, [*asked, "--split", "sentences", "--pieces", "3", "--person-column", "who"])
    assert done.exit_code == 0, done.stderr
    assert "Each row is 3 releases (1 text, 3 pieces each)" in done.stderr
    assert (
        "9 texts rewritten, each under (epsilon 10, delta 1e-05). All texts of a row are under (epsilon" in done.stderr
    )
    assert len(cells(source)) == 3
    assert not any(each.held is False for each in verify(tmp_path / "out.csv.card.json", output=tmp_path / "out.csv"))
