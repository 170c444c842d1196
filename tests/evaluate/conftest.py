"""Tiny data sets in each original format. Every text in them is made up here."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from dpbart.evaluate.parts import Labelled, write_parts

AMAZON_HEADER = (
    "marketplace customer_id review_id product_id product_parent product_title product_category star_rating "
    "helpful_votes total_votes vine verified_purchase review_headline review_body review_date"
).split()


def made_up(label: str, number: int) -> str:
    """A text that a classifier can tell by one word: `apple` or `boat`."""
    return f"the {'nurse' if number % 2 else 'baker'} number {number} sold the {label}"


def _write_table(file: Path, train: int = 24, valid: int = 8, test: int = 12) -> None:
    """Parquet with split, label, text: two labels, told by one word."""
    rows, number = [], 0
    for part, count in (("train", train), ("valid", valid), ("test", test)):
        for _ in range(count):
            label = ("apple", "boat")[number % 2]
            rows.append((part, Labelled(label, made_up(label, number))))
            number += 1
    write_parts(file, rows)


@pytest.fixture
def write_table() -> Callable[..., None]:
    return _write_table


@pytest.fixture
def intents(tmp_path: Path) -> Path:
    """As Goo et al. 2018 publish ATIS and Snips."""
    folder = tmp_path / "intents"
    for part, count in (("train", 6), ("valid", 2), ("test", 4)):
        (folder / part).mkdir(parents=True)
        labels = [("book", "play")[row % 2] for row in range(count)]
        (folder / part / "label").write_text("".join(f"{label}\n" for label in labels))
        (folder / part / "seq.in").write_text("".join(f"please {label} {part} {i}\n" for i, label in enumerate(labels)))
        (folder / part / "seq.out").write_text("O O O O\n" * count)
    return folder


@pytest.fixture
def imdb(tmp_path: Path) -> Path:
    folder = tmp_path / "aclImdb"
    for part in ("train", "test"):
        for label, stars in (("pos", 9), ("neg", 2)):
            (folder / part / label).mkdir(parents=True)
            for number in range(20):
                (folder / part / label / f"{number}_{stars}.txt").write_text(f"A {label} film, {part} {number}.<br />")
    return folder


@pytest.fixture
def drugs(tmp_path: Path) -> Path:
    """Quotes around reviews, doubled as CSV does it; HTML entities; a line break inside a review."""
    folder = tmp_path / "drugs"
    folder.mkdir()
    header = "\tdrugName\tcondition\treview\trating\tdate\tusefulCount\n"
    for name, count in (("Train", 20), ("Test", 6)):
        lines = [
            f'{row}\tDrugol\tPain\t"""It&#039;s {name} {row},\nreally ""fine"""""\t{row % 10 + 1}.0\t"May 1, 2012"\t3\n'
            for row in range(count)
        ]
        (folder / f"drugsCom{name}_raw.tsv").write_text(header + "".join(lines))
    return folder


def amazon_line(category: str, stars: int, text: str) -> str:
    cells = dict.fromkeys(AMAZON_HEADER, "x") | {
        "product_category": category,
        "star_rating": str(stars),
        "review_body": text,
    }
    return "\t".join(cells.values()) + "\n"


@pytest.fixture
def amazon(tmp_path: Path) -> Path:
    """Two chosen categories with four positive reviews to one negative, one other, and the faults of the real files."""
    dice, lines = random.Random(1), []
    for category in ("Electronics", "Lawn and Garden", "Books"):
        for number in range(600):
            stars = dice.choice((5, 4, 5, 4, dice.choice((1, 2, 3))))
            # An open quote, which the files do not escape; and few texts, so that many stand there twice.
            lines.append(amazon_line(category, stars, f'"good thing {category} {number % 150} {stars}'))
    lines.append(amazon_line("Electronics", 5, "long " * 21))
    lines.append(amazon_line("Electronics", 1, " "))
    lines.append("a\tbroken\tline\n")
    file = tmp_path / "amazon_reviews_us_Some.tsv"
    file.write_text("\t".join(AMAZON_HEADER) + "\n" + "".join(lines))
    return file
