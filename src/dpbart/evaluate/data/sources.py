"""The original formats of the five data sets, read row by row.

Each reader gives (part, row). Amazon's files have no parts: `read_amazon` gives rows alone, for `splitting`.
"""

from __future__ import annotations

import gzip
import html
import zlib
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from pathlib import Path
from typing import TextIO

from dpbart.errors import BadTable
from dpbart.evaluate.data.parts import NAMES, Labelled
from dpbart.tables.table import open_table

Row = tuple[str, Labelled]

# Names that others give to the parts.
PART_OF = {"train": "train", "training": "train", "valid": "valid", "validation": "valid", "dev": "valid"}
PART_OF |= {"val": "valid", "test": "test", "testing": "test"}
NO_PART = ("", "all")  # of a row that is still to be split
DRUGS_FILES = {"train": "drugsComTrain_raw.tsv", "test": "drugsComTest_raw.tsv"}
DRUGS_POSITIVE = 8.0  # stars out of 10, and more: 8, 9 and 10 give the paper's own count
AMAZON_LABELS = {"1": "negative", "2": "negative", "3": "negative", "4": "positive", "5": "positive"}  # by stars
# The subsets in the code of the paper's authors, as the column product_category has them.
AMAZON_CATEGORIES = (
    "Digital_Video_Games",
    "Electronics",
    "Lawn and Garden",
    "Major Appliances",
    "Mobile_Apps",
    "Office Products",
    "Wireless",
)
_READ_AT_ONCE = 1024  # rows


def read_intents(folder: Path) -> Iterator[Row]:
    """ATIS and Snips as Goo et al. 2018 publish them: train, valid and test, each with `seq.in` and `label`."""
    for name in NAMES:
        with _opened(folder / name / "seq.in") as texts, _opened(folder / name / "label") as labels:
            for row, (text, label) in enumerate(zip_longest(texts, labels), start=1):
                if text is None or label is None:
                    raise BadTable(
                        f"'{folder / name}' must have a label for each text, got only one of them in line {row} of "
                        "'seq.in' and 'label'. Fetch both again."
                    )
                if not label.strip():
                    raise BadTable(f"'{folder / name / 'label'}' line {row} has no label. Give every line one.")
                yield name, Labelled(label.strip(), text.strip())


def read_imdb(folder: Path) -> Iterator[Row]:
    """IMDb as Maas et al. 2011 publish it (aclImdb): a file a review, in train and test, pos and neg."""
    for name in ("train", "test"):
        for label in ("neg", "pos"):
            files = sorted((folder / name / label).glob("*.txt"))
            if not files:
                raise BadTable(f"'{folder / name / label}' has no .txt files. Give the folder aclImdb, unpacked.")
            for file in files:
                yield name, Labelled(label, file.read_text(encoding="utf-8", errors="replace"))


def read_drugs(folder: Path) -> Iterator[Row]:
    """Drugs.com as Gräßer et al. 2018 publish it; ratings of 8 and more are positive, the others negative."""
    for name, file in DRUGS_FILES.items():
        table = open_table(folder / file, text_column="review")
        table.require("rating", option="the column")
        for batch in table.batches(_READ_AT_ONCE):
            for place, (text, rating) in enumerate(zip(batch.texts(), batch.column("rating"), strict=True)):
                stars = _number(rating, f"'{folder / file}' row {batch.first + place}")
                # The reviews stand in quotes of their own, with HTML entities.
                review = html.unescape(text.removeprefix('"').removesuffix('"')).strip()
                yield name, Labelled("positive" if stars >= DRUGS_POSITIVE else "negative", review)


def read_amazon(files: Iterable[Path], categories: Iterable[str] = AMAZON_CATEGORIES) -> Iterator[Labelled]:
    """Amazon US reviews of some categories: TSV (also .gz) without quoting, or Parquet with the same columns.

    4 and 5 stars are positive, 1, 2 and 3 negative. A line of a TSV that has another number of fields than the header
    (there are some) is left out, as everybody does, and so is a review without stars.
    """
    chosen = {_plain(category) for category in categories}
    for file in files:
        for category, stars, text in _amazon_cells(file):
            label = AMAZON_LABELS.get(stars.removesuffix(".0"))  # 5.0 where a Parquet file has stars as floats
            if label is not None and _plain(category) in chosen:
                yield Labelled(label, text.strip(), group=category)


def read_table(
    path: Path, *, text_column: str = "text", label_column: str = "label", split_column: str | None = "split"
) -> Iterator[tuple[str | None, Labelled]]:
    """Anybody's table of labelled texts; the part is None where the file does not name one, or is not asked for it."""
    table = open_table(path, text_column=text_column)
    table.require(label_column, option="--label-column")
    for batch in table.batches(_READ_AT_ONCE):
        labels = batch.column(label_column)
        parts: list[object] = [None] * len(batch)
        if split_column is not None and split_column in table.columns:
            parts = batch.column(split_column)
        for place, (text, label, part) in enumerate(zip(batch.texts(), labels, parts, strict=True)):
            if label is None or str(label) == "":
                raise BadTable(f"{table.name} row {batch.first + place} has no label. Give every row one.")
            named = str(part or "").lower()
            if named not in (*PART_OF, *NO_PART):
                raise BadTable(
                    f"'{split_column}' in {table.name} row {batch.first + place} must be train, valid or test, got "
                    f"{part!r}. Write 'all' into every row to have them split here."
                )
            yield PART_OF.get(named), Labelled(str(label), text)


def read_folder(folder: Path) -> Iterator[tuple[str | None, Labelled]]:
    """Tables whose names begin with their part, as the hub has them: train-00000-of-00001.parquet, test.csv."""
    found = {file: PART_OF.get(file.stem.split("-")[0].split("_")[0].lower()) for file in sorted(folder.rglob("*.*"))}
    named = {
        file: part for file, part in found.items() if part and file.suffix in (".parquet", ".csv", ".tsv", ".jsonl")
    }
    if not named:
        raise BadTable(f"'{folder}' has no tables named by their part, such as train.parquet and test.csv.")
    for file, part in named.items():
        for _, row in read_table(file, split_column=None):
            yield part, row


def _amazon_cells(file: Path) -> Iterator[tuple[str, str, str]]:
    """(category, stars, text) of each review."""
    wanted = ("product_category", "star_rating", "review_body")
    if file.suffix == ".parquet":
        table = open_table(file, text_column="review_body")
        for column in wanted:
            table.require(column, option="the column")
        for batch in table.batches(_READ_AT_ONCE):
            columns = (map(str, batch.column(column)) for column in wanted[:2])
            yield from zip(*columns, batch.texts(), strict=True)
        return
    lines = _lines(file)
    header = next(lines, "").rstrip("\r\n").split("\t")
    lacking = [column for column in wanted if column not in header]
    if lacking:
        raise BadTable(f"'{file}' is not an Amazon US review file: it has no column {lacking[0]!r}.")
    places = [header.index(column) for column in wanted]
    for line in lines:
        cells = line.rstrip("\r\n").split("\t")
        if len(cells) == len(header):
            category, stars, text = (cells[place] for place in places)
            yield category, stars, text


def _plain(category: str) -> str:
    """The files write "Lawn and Garden", the names of the files Lawn_and_Garden."""
    return category.replace("_", " ").strip().lower()


def _number(value: object, place: str) -> float:
    try:
        return float(str(value))
    except ValueError:
        raise BadTable(f"{place} must have a number for a rating, got {value!r}.") from None


def _lines(file: Path) -> Iterator[str]:
    try:
        with _opened(file) as lines:
            yield from lines
    except (OSError, EOFError, zlib.error) as error:  # gzip has a kind for each way to be broken
        raise BadTable(f"'{file}' cannot be read to its end: it is damaged or cut off. Fetch it again.") from error


def _opened(file: Path) -> TextIO:
    try:
        if file.suffix == ".gz":
            return gzip.open(file, "rt", encoding="utf-8", errors="replace", newline="\n")
        return file.open(encoding="utf-8", errors="replace", newline="\n")
    except OSError as error:
        raise BadTable(f"'{file}' cannot be read: {error.strerror}.") from error
