"""ATIS, Snips, IMDb and Drugs.com in their original formats."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from dpbart.errors import BadTable
from dpbart.evaluate.data.loading import load_data, read_drugs
from tests.evaluate.prepared_files import make, rows_of


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


def test_intents_are_read_with_their_parts(intents: Path, tmp_path: Path) -> None:
    out = tmp_path / "snips.parquet"
    counts = make("snips", intents, out)
    assert counts == {"train": {"book": 3, "play": 3}, "valid": {"book": 1, "play": 1}, "test": {"book": 2, "play": 2}}
    assert rows_of(out)[1] == ("train", "play", "please play train 1")
    data = load_data("snips", tmp_path, allow_different=True)
    assert (len(data.train), len(data.valid), len(data.test)) == (6, 2, 4)


def test_the_original_folder_is_found_by_name(intents: Path, tmp_path: Path) -> None:
    intents.rename(tmp_path / "atis")
    assert len(load_data("atis", tmp_path, allow_different=True).test) == 4


def test_a_label_too_few_is_refused(intents: Path, tmp_path: Path) -> None:
    (intents / "valid" / "label").write_text("book\n")
    with pytest.raises(BadTable, match="line 2 is missing from either"):
        make("snips", intents, tmp_path / "o.parquet")
    assert not (tmp_path / "o.parquet").exists()


def test_an_empty_label_is_named_by_line(intents: Path, tmp_path: Path) -> None:
    (intents / "valid" / "label").write_text("book\n\n")
    with pytest.raises(BadTable, match="valid/label' line 2 has no label"):
        make("snips", intents, tmp_path / "o.parquet")


def test_a_review_that_is_not_utf_8_is_read_all_the_same(imdb: Path, tmp_path: Path) -> None:
    (imdb / "train" / "neg" / "0_2.txt").write_bytes(b"A caf\xe9.")
    make("imdb", imdb, tmp_path / "imdb.parquet")
    assert "A caf\ufffd." in {text for _, _, text in rows_of(tmp_path / "imdb.parquet")}


def test_imdb_is_read_and_a_fifth_of_train_is_for_validation(imdb: Path, tmp_path: Path) -> None:
    counts = make("imdb", imdb, tmp_path / "imdb.parquet")
    assert counts["test"] == {"neg": 20, "pos": 20}
    assert sum(counts["train"].values()) + sum(counts["valid"].values()) == 40
    assert 2 <= sum(counts["valid"].values()) <= 16


def test_drugs_reviews_lose_their_quotes_and_entities(drugs: Path, tmp_path: Path) -> None:
    rows = list(read_drugs(drugs))
    assert rows[0][1].text == 'It\'s Train 0,\nreally "fine"'
    # Ratings 1 to 10, twice: 8, 9 and 10 are positive.
    assert Counter(row.label for part, row in rows if part == "train") == {"negative": 14, "positive": 6}
    assert sum(make("drugs", drugs, tmp_path / "drugs.parquet")["test"].values()) == 6


def test_a_rating_that_is_no_number_is_named_by_row(drugs: Path) -> None:
    file = drugs / "drugsComTest_raw.tsv"
    file.write_text(file.read_text().replace("\t2.0\t", "\tgood\t"))
    with pytest.raises(BadTable, match="drugsComTest_raw.tsv' row 2 must have a number as its rating"):
        list(read_drugs(drugs))
