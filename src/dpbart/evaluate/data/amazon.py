"""Amazon US customer reviews: read from their original files, and cut down as in the paper."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from dpbart.errors import BadTable
from dpbart.evaluate.data.splits import LabelledText
from dpbart.evaluate.data.splitting import Preparation
from dpbart.evaluate.data.tables import READ_AT_ONCE
from dpbart.files import reason
from dpbart.tables.table import open_table

# Igamberdiev and Habernal 2023, as in their code: 4 and 5 stars against 1, 2 and 3; at most 20 words, split at white
# space; in each of seven categories, the larger class cut to the size of the smaller; two thirds kept; a tenth for
# testing. Two differences: we sample the larger class without replacement, and no text is in two splits.
AMAZON = Preparation(longest=20, balanced=True, two_thirds=True)
LABELS = {"1": "negative", "2": "negative", "3": "negative", "4": "positive", "5": "positive"}  # by stars
# The categories in the code of the paper's authors, as the column product_category spells them.
CATEGORIES = (
    "Digital_Video_Games",
    "Electronics",
    "Lawn and Garden",
    "Major Appliances",
    "Mobile_Apps",
    "Office Products",
    "Wireless",
)


def read_amazon(files: Iterable[Path], categories: Iterable[str] = CATEGORIES) -> Iterator[LabelledText]:
    """Reviews of some categories, from TSV files (also .gz) without quoting, or Parquet files with the same columns.

    4 and 5 stars are positive; 1, 2 and 3 are negative. Two kinds of row are skipped, as is usual: a TSV line with a
    different number of fields from the header (there are some), and a review without stars.
    """
    chosen = {_plain(category) for category in categories}
    for file in files:
        for category, stars, text in _cells(file):
            label = LABELS.get(stars.removesuffix(".0"))  # 5.0 in a Parquet file that stores stars as floats
            if label is not None and _plain(category) in chosen:
                yield LabelledText(label, text.strip(), group=category)


def _cells(file: Path) -> Iterator[tuple[str, str, str]]:
    """(category, stars, text) of each review."""
    wanted = ("product_category", "star_rating", "review_body")
    if file.suffix == ".parquet":
        table = open_table(file, text_column="review_body")
        for column in wanted:
            table.require(column, option="the column")
        for batch in table.batches(READ_AT_ONCE):
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
    """The files contain "Lawn and Garden", but their names say Lawn_and_Garden."""
    return category.replace("_", " ").strip().lower()


def _lines(file: Path) -> Iterator[str]:
    opened = gzip.open if file.suffix == ".gz" else open
    try:
        with opened(file, "rt", encoding="utf-8", errors="replace", newline="\n") as lines:
            yield from lines
    except (FileNotFoundError, IsADirectoryError, PermissionError) as error:
        raise BadTable(f"'{file}' cannot be read: {reason(error)}.") from error
    except (OSError, EOFError, zlib.error) as error:  # gzip raises a different type for each kind of damage
        raise BadTable(f"'{file}' cannot be read to the end: it is damaged or cut off. Download it again.") from error
