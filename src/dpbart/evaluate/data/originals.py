"""The original formats of ATIS, Snips, IMDb and Drugs.com, read row by row. (Amazon has a module of its own.)"""

from __future__ import annotations

import html
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import TextIO

from dpbart.errors import BadTable
from dpbart.evaluate.data.splits import SPLITS, LabelledText, SplitRow
from dpbart.evaluate.data.tables import READ_AT_ONCE
from dpbart.files import reason
from dpbart.tables.table import open_table

DRUGS_FILES = {"train": "drugsComTrain_raw.tsv", "test": "drugsComTest_raw.tsv"}
DRUGS_POSITIVE = 8.0  # the lowest positive rating, of 10: 8, 9 and 10 give the paper's own count


def read_intents(folder: Path) -> Iterator[SplitRow]:
    """ATIS and Snips as Goo et al. 2018 publish them: train, valid and test, each with `seq.in` and `label`."""
    for name in SPLITS:
        with _opened(folder / name / "seq.in") as texts, _opened(folder / name / "label") as labels:
            for row, (text, label) in enumerate(zip_longest(texts, labels), start=1):
                if text is None or label is None:
                    raise BadTable(
                        f"'{folder / name}' must have a label for each text, but line {row} is missing from either "
                        "'seq.in' or 'label'. Download both again."
                    )
                if not label.strip():
                    raise BadTable(f"'{folder / name / 'label'}' line {row} has no label. Every line needs one.")
                yield name, LabelledText(label.strip(), text.strip())


def read_imdb(folder: Path) -> Iterator[SplitRow]:
    """IMDb as Maas et al. 2011 publish it (aclImdb): one file per review, in train and test, pos and neg."""
    for name in ("train", "test"):
        for label in ("neg", "pos"):
            files = sorted((folder / name / label).glob("*.txt"))
            if not files:
                raise BadTable(f"'{folder / name / label}' has no .txt files. Pass the unpacked folder aclImdb.")
            for file in files:
                yield name, LabelledText(label, file.read_text(encoding="utf-8", errors="replace"))


def read_drugs(folder: Path) -> Iterator[SplitRow]:
    """Drugs.com as Gräßer et al. 2018 publish it. Ratings of 8 or more are positive, the others negative."""
    for name, file in DRUGS_FILES.items():
        table = open_table(folder / file, text_column="review")
        table.require("rating", option="the column")
        for batch in table.batches(READ_AT_ONCE):
            for place, (text, rating) in enumerate(zip(batch.texts(), batch.column("rating"), strict=True)):
                stars = _number(rating, f"'{folder / file}' row {batch.first + place}")
                # Each review has an extra pair of quotes around it, and HTML entities in it.
                review = html.unescape(text.removeprefix('"').removesuffix('"')).strip()
                yield name, LabelledText("positive" if stars >= DRUGS_POSITIVE else "negative", review)


def _number(value: object, place: str) -> float:
    try:
        return float(str(value))
    except ValueError:
        raise BadTable(f"{place} must have a number as its rating, got {value!r}.") from None


def _opened(file: Path) -> TextIO:
    try:
        return file.open(encoding="utf-8", errors="replace", newline="\n")
    except OSError as error:
        raise BadTable(f"'{file}' cannot be read: {reason(error)}.") from error
