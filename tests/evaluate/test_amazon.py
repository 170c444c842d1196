"""Amazon reviews: read from faulty files, balanced, and split."""

from __future__ import annotations

import gzip
import random
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpbart.errors import BadTable
from dpbart.evaluate.data.loading import read_amazon
from dpbart.evaluate.data.splits import LabelledText, Preparation
from tests.evaluate.prepared_files import make, rows_of

AMAZON_COLUMNS = "marketplace customer_id review_id product_id product_parent product_title product_category"
AMAZON_COLUMNS += (
    " star_rating helpful_votes total_votes vine verified_purchase review_headline review_body review_date"
)


def amazon_line(category: str, stars: int | str, text: str) -> str:
    cells = dict.fromkeys(AMAZON_COLUMNS.split(), "x") | {
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
    file.write_text("\t".join(AMAZON_COLUMNS.split()) + "\n" + "".join(lines))
    return file


def test_classes_are_balanced_within_categories_and_a_third_goes(amazon: Path, tmp_path: Path) -> None:
    fitting = [row for row in read_amazon([amazon]) if 0 < len(row.text.split()) <= 20]
    assert {row.group for row in fitting} == {"Electronics", "Lawn and Garden"}
    rare = Counter(row.group for row in fitting if row.label == "negative")
    counts = make("amazon", amazon, tmp_path / "amazon.parquet")
    total = Counter[str]()
    for labels in counts.values():
        total += Counter(labels)
    assert total["positive"] == total["negative"] == sum(n - (n + 2) // 3 for n in rare.values())


def test_four_and_five_stars_are_positive(tmp_path: Path) -> None:
    file = tmp_path / "a.tsv"
    lines = [amazon_line("Wireless", stars, f"{stars} stars") for stars in (1, 2, 3, 4, 5)]
    file.write_text("\t".join(AMAZON_COLUMNS.split()) + "\n" + "".join(lines))
    assert [row.label for row in read_amazon([file])] == ["negative"] * 3 + ["positive"] * 2


def test_a_review_without_stars_is_left_out_and_not_negative(tmp_path: Path) -> None:
    stars = [5.0, None, 1.0]
    columns = {"product_category": ["Wireless"] * 3, "star_rating": stars, "review_body": ["good", "none", "bad"]}
    pq.write_table(pa.table(columns), tmp_path / "floats.parquet")
    wanted = [LabelledText("positive", "good", "Wireless"), LabelledText("negative", "bad", "Wireless")]
    assert list(read_amazon([tmp_path / "floats.parquet"])) == wanted
    lines = [amazon_line("Wireless", s, t) for s, t in ((5, "good"), ("", "none"), ("2015-08-31", "none"), (1, "bad"))]
    (tmp_path / "a.tsv").write_text("\t".join(AMAZON_COLUMNS.split()) + "\n" + "".join(lines))
    assert list(read_amazon([tmp_path / "a.tsv"])) == wanted


def test_a_damaged_download_is_reported_and_leaves_nothing(amazon: Path, tmp_path: Path) -> None:
    whole = gzip.compress(amazon.read_bytes())
    for damaged in (whole[:-200], b"no gzip at all", whole[:60] + bytes(10) + whole[70:]):
        (tmp_path / "x.tsv.gz").write_bytes(damaged)
        with pytest.raises(BadTable, match=r"x.tsv.gz' cannot be read to the end: it is damaged or cut off"):
            make("amazon", tmp_path / "x.tsv.gz", tmp_path / "o.parquet")
    assert not (tmp_path / "o.parquet").exists()


def test_a_category_with_one_class_is_left_out() -> None:
    rows = [LabelledText("good", f"{i}", "one") for i in range(9)]
    rows += [LabelledText("bad" if i % 2 else "good", f"other {i}", "both") for i in range(9)]
    kept = Counter((row.group, row.label) for _, row in Preparation(balanced=True).run(lambda: rows))
    assert kept == {("both", "good"): 4, ("both", "bad"): 4}


def test_texts_of_one_to_twenty_words_stay() -> None:
    rows = [LabelledText("a", "word " * words) for words in (0, 1, 20, 21)]
    kept = [len(row.text.split()) for _, row in Preparation(longest=20).run(lambda: rows)]
    assert kept == [1, 20]


def test_balancing_draws_each_row_at_most_once(amazon: Path) -> None:
    rows = [LabelledText("many", f"text {i}") for i in range(300)] + [
        LabelledText("few", f"rare {i}") for i in range(40)
    ]
    kept = [row.text for _, row in Preparation(balanced=True).run(lambda: rows)]
    assert len(kept) == len(set(kept)) == 80


def test_no_text_is_in_two_parts(amazon: Path, tmp_path: Path) -> None:
    make("amazon", amazon, tmp_path / "a.parquet")
    where: dict[str, set[str]] = {}
    for part, _, text in rows_of(tmp_path / "a.parquet"):
        where.setdefault(text, set()).add(part)
    assert any(n > 1 for n in Counter(text for _, _, text in rows_of(tmp_path / "a.parquet")).values())
    assert all(len(parts) == 1 for parts in where.values())


def test_the_seed_decides_and_nothing_else(amazon: Path, tmp_path: Path) -> None:
    made = []
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        random.seed()
        make("amazon", amazon, tmp_path / f"{name}.parquet", seed=seed)
        made.append(rows_of(tmp_path / f"{name}.parquet"))
    assert made[0] == made[1] != made[2]


def test_gzip_and_parquet_give_the_same(amazon: Path, tmp_path: Path) -> None:
    zipped = tmp_path / "x.tsv.gz"
    zipped.write_bytes(gzip.compress(amazon.read_bytes()))
    cells = [line.split("\t") for line in amazon.read_text().splitlines()]
    whole = [row for row in cells[1:] if len(row) == len(cells[0])]
    columns = {name: [row[i] for row in whole] for i, name in enumerate(cells[0])}
    columns["star_rating"] = [int(stars) for stars in columns["star_rating"]]  # type: ignore[misc]
    pq.write_table(pa.table(columns), tmp_path / "x.parquet")
    plain = list(read_amazon([amazon]))
    assert plain == list(read_amazon([zipped])) == list(read_amazon([tmp_path / "x.parquet"]))


def test_another_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.tsv").write_text("id\ttext\n1\tgood\n")
    with pytest.raises(BadTable, match="no column 'product_category'"):
        make("amazon", tmp_path / "x.tsv", tmp_path / "o.parquet")
