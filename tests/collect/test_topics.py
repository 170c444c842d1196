"""What `dpbart topics` says of a file, computed again by hand, and what it refuses to say."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dpbart import BadParameter, BadTable, NotPrepared, Topics, read_topics
from dpbart.cli.topics import _percent
from dpbart.models.bundle import Bundle
from dpbart.models.code.book import Book, load_book
from tests.card.cards import write_card
from tests.command_line import run, succeed
from tests.models.tiny_code import AREAS

ROWS = 40
# epsilon: bits, places and near of the tiny model, and among how many sentences a place chooses
SIZES = {4: (5, 1, 2, 64), 10: (8, 1, 1, 256), 15: (14, 2, 1, 127)}
Written = Callable[..., Path]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory, tiny_code: Bundle) -> Written:
    """A private file that the tiny model made, with the options of `dpbart rewrite` or `synthesize`."""

    def write(*options: object, command: str = "rewrite") -> Path:
        folder = tmp_path_factory.mktemp("private")
        rows = [
            f"{'north' if number % 3 else 'south'},bring the {'hen' if number % 2 else 'ferry'}"
            for number in range(ROWS)
        ]
        (folder / "notes.csv").write_text("\n".join(["ward,text", *rows]) + "\n")
        succeed(command, folder / "notes.csv", folder / "out.csv", "--model", tiny_code.folder, *options)
        return folder / "out.csv"

    return write


def rows_of(file: Path) -> list[dict[str, str]]:
    with file.open(newline="") as rows:
        return list(csv.DictReader(rows))


def asked(file: Path, model: Bundle, **options: Any) -> Topics:
    return read_topics(file, model=str(model.folder), **options)


def estimates(topics: Topics, group: int = 0) -> dict[str, float]:
    return {share.name: share.estimate for share in topics.groups[group].shares}


def by_hand(book: Book, texts: list[str], epsilon: float, *, areas: bool) -> dict[str, float]:
    """(count / N - (1 - g) m) / g for each part of the sentences that can come out."""
    bits, places, near, sentences = SIZES[int(epsilon)]
    kept = (math.exp(epsilon) - 1) / (math.exp(epsilon) + 2**bits - 1)
    lines, values = book.lines[:sentences], sentences + (near if places > 1 else 0)
    found = {}
    for part in {line.area if areas else line.topic for line in lines}:
        own = [line.sentence for line in lines if part in ((line.area,) if areas else (line.topic,))]
        count = sum(any(sentence in text for sentence in own) for text in texts)
        noise = (1 - kept) * (1 - (1 - len(own) / values) ** places)
        found[part] = (count / len(texts) - noise) / kept
    return found


@pytest.mark.parametrize("epsilon", SIZES)
@pytest.mark.parametrize("areas", [False, True])
def test_a_share_is_a_count_with_its_noise_taken_off(
    written: Written, tiny_code: Bundle, epsilon: int, areas: bool
) -> None:
    private = written("--epsilon", epsilon)
    found = asked(private, tiny_code, areas=areas)
    texts = [row["text"] for row in rows_of(private)]
    expected = by_hand(load_book(tiny_code.folder), texts, epsilon, areas=areas)
    assert estimates(found) == pytest.approx(expected)
    assert (found.release, found.counted, found.epsilon) == ("rewritten", "texts", epsilon)
    assert found.groups[0].counted == ROWS
    assert all(share.low <= share.high for share in found.groups[0].shares)
    assert {share.area for share in found.groups[0].shares} == set(AREAS)


def test_the_order_of_rows_changes_nothing(written: Written, tiny_code: Bundle) -> None:
    private = written("--epsilon", 10, "--shuffle", "--delta", "1e-3")
    found = asked(private, tiny_code)
    texts = [row["text"] for row in rows_of(private)]
    assert found.release == "shuffled"
    assert estimates(found) == pytest.approx(by_hand(load_book(tiny_code.folder), texts, 10, areas=False))


def test_a_synthesised_file_says_what_the_counts_on_its_card_say(written: Written, tiny_code: Bundle) -> None:
    private = written("--epsilon", 3, command="synthesize")
    card = json.loads(Path(f"{private}.card.json").read_text())["collection"]
    found = asked(private, tiny_code)
    votes = [count / card["unit"] / card["people"] for count in card["counts"][0]]
    assert sorted(estimates(found).values()) == pytest.approx(sorted(votes))
    assert (found.release, found.counted, found.groups[0].counted) == ("synthesised", "people", ROWS)
    in_areas = estimates(asked(private, tiny_code, areas=True))
    sums = {area: sum(share.estimate for share in found.groups[0].shares if share.area == area) for area in AREAS}
    assert in_areas == pytest.approx(sums)


def test_labels_of_a_synthesised_file_can_be_compared(written: Written, tiny_code: Bundle) -> None:
    labels = ("--label-column", "ward", "--label-values", "north,south")
    private = written("--epsilon", 3, *labels, command="synthesize")
    card = json.loads(Path(f"{private}.card.json").read_text())["collection"]
    found = asked(private, tiny_code, by="ward", areas=True)
    for group, counts in zip(found.groups, card["counts"], strict=True):
        assert group.counted == pytest.approx(sum(counts) / card["unit"])
        assert sum(share.estimate for share in group.shares) == pytest.approx(1)
    (difference,) = found.differences
    assert (difference.first, difference.second) == ("north", "south")
    north, south = estimates(found, 0), estimates(found, 1)
    assert {each.name: each.estimate for each in difference.shares} == pytest.approx(
        {area: north[area] - south[area] for area in AREAS}
    )
    with pytest.raises(BadParameter, match="a synthesised file has the labels of 'ward'"):
        asked(private, tiny_code, by="text")


def test_groups_of_a_released_column_are_counted_apart(written: Written, tiny_code: Bundle) -> None:
    private = written("--epsilon", 10, "--keep-column", "ward")
    found, book = asked(private, tiny_code, by="ward"), load_book(tiny_code.folder)
    assert [group.name for group in found.groups] == ["north", "south"]
    for number, name in enumerate(("north", "south")):
        texts = [row["text"] for row in rows_of(private) if row["ward"] == name]
        assert estimates(found, number) == pytest.approx(by_hand(book, texts, 10, areas=False))
    (difference,) = found.differences
    first, second = estimates(found, 0), estimates(found, 1)
    for share in difference.shares:
        assert share.estimate == pytest.approx(first[share.name] - second[share.name])
        assert share.low < share.high


def replaced(private: Path, texts: list[str], wards: list[str] | None = None) -> None:
    """Other outputs in a private file, as a run might have drawn them."""
    rows = rows_of(private)
    with private.open("w", newline="") as handle:
        out = csv.DictWriter(handle, rows[0].keys())
        out.writeheader()
        for number, row in enumerate(rows):
            ward = {} if wards is None else {"ward": wards[number]}
            out.writerow({**row, "text": texts[number], **ward})


def test_what_may_be_noise_is_not_claimed(written: Written, tiny_code: Bundle) -> None:
    """38 of 40 texts on one topic are no noise; one text on each of two others may be."""
    private, lines = written("--epsilon", 10), load_book(tiny_code.folder).lines[:256]
    often = next(line for line in lines if line.topic == "boats")
    others = [next(line for line in lines if line.topic == topic) for topic in ("bread", "tools")]
    replaced(private, [often.sentence] * 38 + [other.sentence for other in others])
    found = asked(private, tiny_code)
    first, second, third, *_ = found.groups[0].shares
    assert (first.name, first.area, first.told_from_noise) == ("boats", "harbour", True)
    assert {second.name, third.name} == {"bread", "tools"}
    assert second.estimate > 0
    assert not any(share.told_from_noise for share in found.groups[0].shares[1:])
    shown = succeed("topics", private, "--model", tiny_code.folder)
    assert "The share of 11 of 12 topics cannot be told from noise." in shown
    assert "40 texts, rewritten, epsilon 10" in shown
    assert [name for name in ("boats", "bread", "tools") if f" {name} " in shown] == ["boats"]


def test_of_several_groups_each_is_compared_with_all_others(written: Written, tiny_code: Bundle) -> None:
    private, lines = written("--epsilon", 10, "--keep-column", "ward"), load_book(tiny_code.folder).lines
    wards = [("a", "b", "c", "")[number % 4] for number in range(ROWS)]
    replaced(private, [lines[0].sentence] * ROWS, wards)
    found = asked(private, tiny_code, by="ward")
    assert [group.name for group in found.groups] == ["(no value)", "a", "b", "c"]
    assert [(each.first, each.second) for each in found.differences][1:] == [(w, "all others") for w in "abc"]
    replaced(private, [lines[0].sentence] * ROWS, [f"w{number}" for number in range(ROWS)])
    with pytest.raises(BadParameter, match="at most 12 different values"):
        asked(private, tiny_code, by="ward")


def test_a_file_that_is_not_that_of_the_card_is_refused(written: Written, tiny_code: Bundle, tiny: Bundle) -> None:
    private, lines = written("--epsilon", 10), load_book(tiny_code.folder).lines
    replaced(private, [lines[0].sentence] * 20 + ["This was typed by hand."] + [lines[0].sentence] * 19)
    with pytest.raises(
        BadTable, match="row 21 of .*out.csv' has a text that cannot come out of the model on the card, 'tiny-code'"
    ):
        asked(private, tiny_code)
    replaced(private, [lines[300].sentence] * ROWS)  # in the book, but beyond what a code of 8 bits can name
    with pytest.raises(BadTable, match="row 1 "):
        asked(private, tiny_code)
    private.write_text("text\n" + f"{lines[0].sentence}\n" * 3)
    with pytest.raises(BadTable, match="has 3 rows, but its card says 40"):
        asked(private, tiny_code)
    with pytest.raises(NotPrepared, match="was made with tiny-code@"):
        asked(private, tiny)
    with pytest.raises(NotPrepared, match="no model named 'tiny-code'"):
        read_topics(private)
    with pytest.raises(BadTable, match="cannot be read"):
        read_topics(private.with_name("other.csv"))


def test_a_file_without_an_answer_is_refused_with_the_reason(
    written: Written, tiny_code: Bundle, tmp_path: Path
) -> None:
    with pytest.raises(BadParameter, match="own words have no topic.*--book-only"):
        asked(written("--epsilon", 20), tiny_code)
    assert asked(written("--epsilon", 20, "--book-only"), tiny_code).release == "rewritten"
    with pytest.raises(BadParameter, match="were not randomised"):
        asked(written("--mechanism", "none", "--book-only"), tiny_code)
    for name in ("gaussian", "none"):
        card = write_card(name, tmp_path / name)
        with pytest.raises(BadParameter, match="has no book of topics"):
            read_topics(tmp_path / name / "out.csv", card=card)
    labels = ("--label-column", "ward", "--labels", "randomize:2", "--label-set", "north,south")
    private = written("--epsilon", 10, *labels)
    assert asked(private, tiny_code).groups[0].counted == ROWS
    with pytest.raises(BadParameter, match="labels of this file were randomised"):
        asked(private, tiny_code, by="ward")
    with pytest.raises(BadParameter, match="got a text column"):
        asked(private, tiny_code, by="text")
    with pytest.raises(BadTable, match="has no column 'age'"):
        asked(written("--epsilon", 10), tiny_code, by="age")


def test_the_command_prints_json_and_draws(written: Written, tiny_code: Bundle, tmp_path: Path) -> None:
    private = written("--epsilon", 10, "--keep-column", "ward")
    model = ("--model", tiny_code.folder)
    for name, options in {"light.png": (), "dark.svg": ("--dark",), "groups.pdf": ("--by", "ward")}.items():
        held = json.loads(succeed("topics", private, *model, "--json", "--plot", tmp_path / name, *options))
        assert (tmp_path / name).stat().st_size > 1_000
        by = "ward" if "--by" in options else None
        expected = asked(private, tiny_code, by=by)
        assert held == json.loads(json.dumps(expected.as_dict()))
        assert held["groups"][0]["shares"][0]["told_from_noise"] is expected.groups[0].shares[0].told_from_noise
    refused = run("topics", tmp_path / "missing.csv", "--plot", tmp_path / "picture.doc")
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert "the extension of a figure must be .png, .pdf or .svg" in refused.stderr
    shown = succeed("topics", private, *model, "--by", "ward")
    assert "north minus south" in shown
    assert "A share is the share of the texts" in shown


def test_other_formats_and_several_text_columns_are_read(tiny_code: Bundle, tmp_path: Path) -> None:
    rows = [{"a": "bring the hen", "b": "bring the ferry"} for _ in range(8)]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    model = ("--model", tiny_code.folder, "--epsilon", 10)
    succeed(
        "rewrite", tmp_path / "in.jsonl", tmp_path / "out.jsonl", *model, "--text-column", "a", "--text-column", "b"
    )
    assert asked(tmp_path / "out.jsonl", tiny_code).groups[0].counted == 16
    succeed("rewrite", tmp_path / "in.jsonl", tmp_path / "out.txt", *model, "--text-column", "b")
    assert asked(tmp_path / "out.txt", tiny_code).groups[0].counted == 8


def test_a_share_above_nothing_does_not_look_like_nothing() -> None:
    assert _percent(1e-9) == "<0.1%"
