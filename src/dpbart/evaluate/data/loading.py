"""Data sets in a folder: find, read, split and check them, and make one Parquet file of a set.

dpbart contains no texts. It reads them from a folder (`--data`, or the environment variable DPBART_DATA), in their
original format or as a table with split, label and text. Sets that are on the hub are fetched by name. The paper's five
data sets must have the paper's counts, which are in known.toml.
"""

from __future__ import annotations

import gzip
import html
import os
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path

from dpbart.errors import BadParameter, BadTable
from dpbart.evaluate.data.splits import (
    READ_AT_ONCE,
    SPLITS,
    LabelledText,
    Preparation,
    SourceRow,
    SplitRow,
    Splits,
    named_splits,
    read_folder,
    read_table,
    with_splits,
    with_validation,
    without_repeats,
    write_table,
)
from dpbart.files import reason
from dpbart.models.hub import fetch
from dpbart.tables.table import open_table

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

# Igamberdiev and Habernal 2023, as in their code: 4 and 5 stars against 1, 2 and 3; at most 20 words, split at white
# space; in each of seven categories, the larger class cut to the size of the smaller; two thirds kept; a tenth for
# testing. Two differences: we sample the larger class without replacement, and no text is in two splits.
AMAZON = Preparation(longest=20, balanced=True, two_thirds=True)
LABELS = {"1": "negative", "2": "negative", "3": "negative", "4": "positive", "5": "positive"}  # by stars
# The categories in the code of the paper's authors, as the column product_category spells them.
CATEGORIES = (
    *("Digital_Video_Games", "Electronics", "Lawn and Garden", "Major Appliances", "Mobile_Apps", "Office Products"),
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
    for column in wanted:
        if column not in header:
            raise BadTable(f"'{file}' is not an Amazon US review file: it has no column {column!r}.")
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
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError) as error:
        raise BadTable(f"'{file}' cannot be read: {reason(error)}.") from error
    except (OSError, EOFError, zlib.error) as error:  # gzip raises a different type for each kind of damage
        raise BadTable(f"'{file}' cannot be read to the end: it is damaged or cut off. Download it again.") from error


DRUGS_FILES = {"train": "drugsComTrain_raw.tsv", "test": "drugsComTest_raw.tsv"}
DRUGS_POSITIVE = 8.0  # the lowest positive rating, of 10: 8, 9 and 10 give the paper's own count


def read_intents(folder: Path) -> Iterator[SplitRow]:
    """ATIS and Snips as Goo et al. 2018 publish them: train, valid and test, each with `seq.in` and `label`."""
    for name in SPLITS:
        lines = zip_longest(_lines(folder / name / "seq.in"), _lines(folder / name / "label"))
        for row, (text, label) in enumerate(lines, start=1):
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
                try:
                    stars = float(str(rating))
                except ValueError:
                    where = f"'{folder / file}' row {batch.first + place}"
                    raise BadTable(f"{where} must have a number as its rating, got {rating!r}.") from None
                # Each review has an extra pair of quotes around it, and HTML entities in it.
                review = html.unescape(text.removeprefix('"').removesuffix('"')).strip()
                yield name, LabelledText("positive" if stars >= DRUGS_POSITIVE else "negative", review)


@dataclass(frozen=True)
class KnownSet:
    """One of the paper's data sets, and the counts it must have."""

    name: str
    title: str
    classes: int
    train: int  # texts, including those for validation
    test: int  # texts
    label: str  # how labels are defined
    delta: float  # the paper's
    original: str  # format
    source: str
    read: Callable[[Path], Iterable[SplitRow]] | None  # reads the original folder; None: needs 'datasets prepare'
    hub: str | None = None
    positive: int | None = None  # positive texts in train and valid; checks our label rule
    tolerance: float = 0.0  # relative difference allowed in the counts

    def differences(self, counts: Mapping[str, Counter[str]]) -> list[str]:
        """How these counts, of each label in each split, differ from the paper's: one clause per difference."""
        learned = counts["train"] + counts["valid"]
        found = [
            ("texts to train and validate on", learned.total(), self.train, self.tolerance),
            ("texts to test on", counts["test"].total(), self.test, self.tolerance),
            ("classes", len(learned + counts["test"]), self.classes, 0.0),
        ]
        if self.positive is not None:
            found.append(("positive texts to train and validate on", learned["positive"], self.positive, 0.0))
        return [
            f"{got:,} {what} where the paper has {due:,}"
            for what, got, due, slack in found
            if abs(got - due) > slack * due
        ]

    def check(self, counts: Mapping[str, Counter[str]]) -> None:
        """Refuse data with other counts than the paper's."""
        if differences := "; ".join(self.differences(counts)):
            remedy = "Pass --allow-different to use it anyway."
            raise BadTable(f"this is not the paper's '{self.name}': {differences}. {remedy}")


# Amazon's files are too large to read as they are: 'datasets prepare' makes a table of them.
_READERS = {"atis": read_intents, "snips": read_intents, "imdb": read_imdb, "drugs": read_drugs}
KNOWN = {
    name: KnownSet(name, read=_READERS.get(name), **held)
    for name, held in tomllib.loads((Path(__file__).parent / "known.toml").read_text(encoding="utf-8")).items()
}


ENVIRONMENT = "DPBART_DATA"


def data_folder(asked: Path | None) -> Path:
    """The folder of data sets, from the option or the environment."""
    folder = asked or (Path(os.environ[ENVIRONMENT]) if os.environ.get(ENVIRONMENT) else None)
    if folder is None:
        raise BadParameter(f"a folder of data sets must be given. Pass --data DIR, or set {ENVIRONMENT}.")
    if not folder.is_dir():
        raise BadParameter(f"the folder of data sets must exist, got '{folder}'.")
    return folder


def find_data(name: str, folder: Path) -> Path | None:
    """The table or folder of a data set, in this folder or in its subfolder `downstream`."""
    for place in (folder, folder / "downstream"):
        for file in (name, f"{name}.parquet", f"{name}.csv", f"{name}.tsv", f"{name}.jsonl"):
            if (place / file).exists():
                return place / file
    return None


def own_sets(folder: Path) -> dict[str, Path]:
    """The data sets in the folder that are not the paper's: tables with a label and a text, and folders of tables."""
    found = {}
    for place in sorted((*folder.iterdir(), *(folder / "downstream").glob("*"))):
        name = place.stem if place.is_file() else place.name
        if name not in KNOWN and name not in found and find_data(name, folder) == place and _is_set(place):
            found[name] = place
    return found


def load_data(name: str, folder: Path, *, allow_different: bool = False) -> Splits:
    """A data set by name: one of the paper's, with its counts checked, or a file or folder in the data folder."""
    known, place = KNOWN.get(name), find_data(name, folder)
    if place is None and known is not None and known.hub is not None:
        place = fetch_data(known.hub)
    if place is None:
        raise BadTable(
            f"no data set '{name}' in '{folder}'. Put '{name}.parquet' (split, label, text) there, "
            "or make it with 'dpbart datasets prepare'."
        )
    data = Splits.of(with_splits(read_rows(place, known)))
    if known is not None and not allow_different:
        known.check(data.counts())
    return data


def read_rows(place: Path, known: KnownSet | None) -> Iterator[SourceRow]:
    """The rows of a table, of a folder in a known set's original format, or of a folder of tables named by split."""
    if place.is_file():
        yield from read_table(place)
    elif known is not None and known.read is not None and not _has_tables(place):
        yield from known.read(place)
    else:
        yield from read_folder(place)


def fetch_data(hub_id: str) -> Path:
    """Download the tables of a data set from the hub."""
    tables = ["*.parquet", "*.csv", "*.tsv", "*.jsonl"]
    remedy = "Go online, or put the data set in the data folder."
    return fetch(hub_id, files=tables, what="data set", remedy=remedy, repo_type="dataset", kind=BadTable)


def _is_set(place: Path) -> bool:
    """Whether it can be loaded, as far as its names show."""
    if place.is_dir():
        return _has_tables(place)
    try:
        return "label" in open_table(place).columns
    except BadTable:
        return False


def _has_tables(folder: Path) -> bool:
    return any(folder.rglob("train*.parquet")) or any(folder.glob("train.*"))


def read_texts(file: Path, *, text_column: str) -> list[str]:
    """All texts of a file, in order."""
    table = open_table(file, text_column=text_column)
    return [text for batch in table.batches(READ_AT_ONCE) for text in batch.texts()]


def read_pairs(original: Path, rewritten: Path, *, text_column: str) -> tuple[list[str], list[str]]:
    """The texts of both files, which must have the same number of rows."""
    before, after = (read_texts(file, text_column=text_column) for file in (original, rewritten))
    if len(before) != len(after):
        raise BadTable(
            f"both files must have the same number of rows, got {len(before)} in '{original}' "
            f"and {len(after)} in '{rewritten}'."
        )
    return before, after


@dataclass(frozen=True)
class OwnFile:
    """How to read and prepare the user's own file."""

    text_column: str = "text"
    label_column: str = "label"
    longest: int | None = None  # words
    balanced: bool = False


def make_file(
    kind: str, source: Sequence[Path], out: Path, *, own: OwnFile, seed: int, allow_different: bool
) -> dict[str, dict[str, int]]:
    """Write the file, and return how many texts of each label each split has."""
    if out.suffix != ".parquet":
        raise BadParameter(f"the output must end in .parquet, got '{out}'.")
    if kind != "amazon" and len(source) > 1:
        raise BadParameter(f"'{kind}' has exactly one source, got {len(source)}.")
    counts: dict[str, Counter[str]] = {split: Counter() for split in SPLITS}

    def counted() -> Iterator[SplitRow]:
        if kind == "amazon":
            rows = with_validation(replace(AMAZON, seed=seed).run(lambda: read_amazon(source)), seed)
        elif kind == "own":
            rows = _own_rows(source[0], own, seed)
        else:
            rows = with_splits(read_rows(source[0], KNOWN[kind]), seed)
        for split, row in rows:
            counts[split][row.label] += 1
            yield split, row
        if kind in KNOWN and not allow_different:  # before the file gets its name
            KNOWN[kind].check(counts)
        empty = [split for split, labels in counts.items() if not labels]
        if empty:
            raise BadTable(f"every split must have a text, got none for {', '.join(empty)}. Add more rows.")

    write_table(out, counted())
    return {split: dict(labels.most_common()) for split, labels in counts.items()}


def _own_rows(file: Path, own: OwnFile, seed: int) -> Iterator[SplitRow]:
    """Splits that the file names stay as they are, and each is balanced separately."""

    def read() -> Iterator[SourceRow]:
        return read_table(file, text_column=own.text_column, label_column=own.label_column)

    def grouped() -> Iterator[LabelledText]:
        return without_repeats(replace(row, group=split or "") for split, row in read())

    named = named_splits(read())
    recipe = Preparation(own.longest, own.balanced, seed=seed)
    rows = ((row.group or assigned, row) for assigned, row in recipe.run(grouped))
    return rows if "valid" in named else with_validation(rows, seed)
