"""Labelled texts in three splits (train, valid, test), and the tables that hold them.

Where a source names no splits, a seeded hash of each text alone assigns it. So texts can be assigned while streaming,
the result is the same on every machine, and a text that occurs twice is never in two splits. The shares are met on
average, not exactly.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b, sha256
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from dpbart.errors import BadParameter, BadTable
from dpbart.files import whole_or_nothing
from dpbart.tables.table import open_table

SPLITS = ("train", "valid", "test")


@dataclass(frozen=True)
class LabelledText:
    """One text and its label. Classes are balanced within each `group`, such as a product category."""

    label: str
    text: str
    group: str = ""


SplitRow = tuple[str, LabelledText]  # the split's name, and the row
SourceRow = tuple[str | None, LabelledText]  # None: the source does not name a split


@dataclass(frozen=True)
class LabelledTexts:
    """Texts and their labels, in order."""

    texts: tuple[str, ...]
    labels: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(self.texts) != len(self.labels):
            got = f"{len(self.texts)} texts and {len(self.labels)} labels"
            raise BadParameter(f"every text must have a label, got {got}.")

    def __len__(self) -> int:
        return len(self.texts)

    def sample(self, rows: int | None, seed: int) -> LabelledTexts:
        """A random sample without replacement, in the original order; with None, all rows."""
        if rows is None or rows >= len(self):
            return self
        chosen = sorted(random.Random(seed).sample(range(len(self)), rows))
        return LabelledTexts(tuple(self.texts[i] for i in chosen), tuple(self.labels[i] for i in chosen))

    def shuffled(self, seed: int) -> LabelledTexts:
        """The same texts with their labels shuffled: a control from which nothing can be learned."""
        labels = list(self.labels)
        random.Random(seed).shuffle(labels)
        return LabelledTexts(self.texts, tuple(labels))


@dataclass(frozen=True)
class Splits:
    """A labelled data set in three splits."""

    train: LabelledTexts
    valid: LabelledTexts
    test: LabelledTexts

    @classmethod
    def of(cls, rows: Iterable[SplitRow]) -> Splits:
        """Collect rows into their splits, none of which may be empty."""
        held: dict[str, list[LabelledText]] = {name: [] for name in SPLITS}
        for name, row in rows:
            held[name].append(row)
        if empty := ", ".join(name for name in SPLITS if not held[name]):
            raise BadTable(f"every split must have a row, got none for {empty}. Add rows, or name each row's split.")
        return cls(*(LabelledTexts(tuple(r.text for r in of), tuple(r.label for r in of)) for of in held.values()))

    @property
    def checksum(self) -> str:
        """The first 16 digits of a SHA-256 over every split, label and text, in order. It identifies the data."""
        digest = sha256()
        for name in SPLITS:
            split: LabelledTexts = getattr(self, name)
            for label, text in zip(split.labels, split.texts, strict=True):
                digest.update(f"{name}\0{label}\0{text}\0".encode("utf-8", "surrogatepass"))
        return digest.hexdigest()[:16]

    @property
    def unseen(self) -> tuple[str, ...]:
        """Labels in test but not in train: no classifier can predict them."""
        return tuple(sorted(set(self.test.labels) - set(self.train.labels)))

    @property
    def untested(self) -> tuple[str, ...]:
        """Labels in train but not in test: they have no F1."""
        return tuple(sorted(set(self.train.labels) - set(self.test.labels)))

    def counts(self) -> dict[str, Counter[str]]:
        """How often each label occurs in each split."""
        return {name: Counter(getattr(self, name).labels) for name in SPLITS}

    def sample(self, *, train: int | None, valid: int | None, test: int | None, seed: int = 0) -> Splits:
        """Smaller splits, sampled without replacement."""
        return Splits(self.train.sample(train, seed), self.valid.sample(valid, seed), self.test.sample(test, seed))


VALID_SHARE = 0.2  # of train; theory: "20% of train for validation"
TEST_SHARE = 0.1


def is_chosen(text: str, *, share: float, seed: int, purpose: str) -> bool:
    """Whether this text is in a random share of all texts.

    >>> is_chosen("a", share=1.0, seed=0, purpose="test"), is_chosen("a", share=0.0, seed=0, purpose="test")
    (True, False)
    """
    salted = f"{purpose}\0{seed}\0{text}".encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(salted, digest_size=8).digest(), "big") < share * 2**64


def with_splits(rows: Iterable[SourceRow], seed: int = 0) -> Iterator[SplitRow]:
    """Rows with a split each.

    If no row names a split, a tenth of the texts becomes test. If no row is in valid, a fifth of train becomes valid.
    """
    held = list(rows)
    splits = named_splits(held)
    if not splits:
        unique = list(without_repeats(row for _, row in held))
        return with_validation(Preparation(seed=seed).run(lambda: unique), seed)
    named = [(split, row) for split, row in held if split is not None]
    return iter(named) if "valid" in splits else with_validation(named, seed)


def named_splits(rows: Iterable[SourceRow]) -> set[str]:
    """The splits that rows name. Either all rows name one, or none does."""
    splits = {split for split, _ in rows}
    if None in splits and len(splits) > 1:
        raise BadTable("the column 'split' must name a split (train, valid, test) in every row, or in none.")
    return {split for split in splits if split is not None}


def with_validation(rows: Iterable[SplitRow], seed: int) -> Iterator[SplitRow]:
    """Move a fifth of train to valid."""
    for name, row in rows:
        moved = name == "train" and is_chosen(row.text, share=VALID_SHARE, seed=seed, purpose="valid")
        yield ("valid" if moved else name), row


@dataclass(frozen=True)
class Preparation:
    """How labelled texts without splits become train and test.

    In this order: empty and long texts are dropped; in each group, every class is cut to the size of the smallest;
    every third text of each class is dropped; a tenth of the rest becomes test.
    """

    longest: int | None = None  # words, split at white space
    balanced: bool = False
    two_thirds: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        if self.longest is not None and self.longest < 1:
            raise BadParameter(f"the longest text must have at least 1 word, got {self.longest}.")

    def run(self, read: Callable[[], Iterable[LabelledText]]) -> Iterator[SplitRow]:
        """Rows with their split. Balancing calls `read` twice: once to count, once to sample. No row is kept."""
        rows: Iterable[LabelledText] = (row for row in read() if self._fits(row))
        if self.balanced:
            counted = Counter((row.group, row.label) for row in rows)
            rows = self._balance((row for row in read() if self._fits(row)), counted)
        if self.two_thirds:
            rows = _without_every_third(rows)
        for row in rows:
            yield ("test" if is_chosen(row.text, share=TEST_SHARE, seed=self.seed, purpose="test") else "train"), row

    def _fits(self, row: LabelledText) -> bool:
        words = len(row.text.split())
        return words > 0 and (self.longest is None or words <= self.longest)

    def _balance(self, rows: Iterable[LabelledText], counted: Counter[tuple[str, str]]) -> Iterator[LabelledText]:
        """From each class, exactly as many rows as the smallest class of its group has, sampled WITHOUT replacement.

        Selection sampling (Knuth, The Art of Computer Programming 2, algorithm S): take the next row with probability
        wanted / left. Every selection is then equally likely, and no row is held in memory.
        """
        left = dict(counted)
        labels = {label for _, label in counted}  # a group without one of these labels keeps no rows of the others
        wanted = {(group, label): min(counted[group, each] for each in labels) for group, label in counted}
        dice = random.Random(self.seed)
        for row in rows:
            key = (row.group, row.label)
            if dice.random() * left[key] < wanted[key]:
                wanted[key] -= 1
                yield row
            left[key] -= 1


def _without_every_third(rows: Iterable[LabelledText]) -> Iterator[LabelledText]:
    """Two thirds of each class of each group: the authors drop row 0, 3, 6, ..."""
    seen: Counter[tuple[str, str]] = Counter()
    for row in rows:
        key = (row.group, row.label)
        if seen[key] % 3:
            yield row
        seen[key] += 1


def without_repeats(rows: Iterable[LabelledText]) -> Iterator[LabelledText]:
    """The first row of each text. Keeps 8 bytes per text in memory, not the text."""
    seen: set[bytes] = set()
    for row in rows:
        mark = blake2b(row.text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        if mark not in seen:
            seen.add(mark)
            yield row


# Other names for the three splits.
SPLIT_OF = {"train": "train", "training": "train", "valid": "valid", "validation": "valid", "dev": "valid"}
SPLIT_OF |= {"val": "valid", "test": "test", "testing": "test"}
NO_SPLIT = ("", "all")  # of a row that has not been assigned to a split yet
SCHEMA = pa.schema([("split", pa.string()), ("label", pa.string()), ("text", pa.string())])
READ_AT_ONCE = 1024  # rows
_WRITTEN_AT_ONCE = 2**14  # rows


def read_table(
    path: Path, *, text_column: str = "text", label_column: str = "label", split_column: str | None = "split"
) -> Iterator[SourceRow]:
    """Rows of a table. The split is None if the table does not name one, or if `split_column` is None."""
    table = open_table(path, text_column=text_column)
    table.require(label_column, option="--label-column")
    for batch in table.batches(READ_AT_ONCE):
        labels = batch.column(label_column)
        splits = batch.column(split_column) if split_column in table.columns else [None] * len(batch)
        for place, (text, label, split) in enumerate(zip(batch.texts(), labels, splits, strict=True)):
            if label is None or str(label) == "":
                raise BadTable(f"{table.name} row {batch.first + place} has no label. Every row needs one.")
            name = str(split or "").lower()
            if name not in (*SPLIT_OF, *NO_SPLIT):
                raise BadTable(
                    f"'{split_column}' in {table.name} row {batch.first + place} must be train, valid or test, got "
                    f"{split!r}. To have dpbart split the rows, write 'all' in every row."
                )
            yield SPLIT_OF.get(name), LabelledText(str(label), text)


def read_folder(folder: Path) -> Iterator[SourceRow]:
    """Tables named after their split, as on the hub: train-00000-of-00001.parquet, test.csv."""
    found = {file: SPLIT_OF.get(file.stem.split("-")[0].split("_")[0].lower()) for file in sorted(folder.rglob("*.*"))}
    tables = (".parquet", ".csv", ".tsv", ".jsonl")
    named = [(file, split) for file, split in found.items() if split and file.suffix in tables]
    if not named:
        raise BadTable(f"'{folder}' has no tables named after their split, such as train.parquet and test.csv.")
    for file, split in named:
        for _, row in read_table(file, split_column=None):
            yield split, row


def write_table(path: Path, rows: Iterable[SplitRow]) -> None:
    """Stream rows into a Parquet file, which appears only when it is complete."""
    with whole_or_nothing(path) as partial, pq.ParquetWriter(partial, SCHEMA) as writer:
        cells = ({"split": split, "label": row.label, "text": row.text} for split, row in rows)
        while some := list(islice(cells, _WRITTEN_AT_ONCE)):
            writer.write_table(pa.Table.from_pylist(some, schema=SCHEMA))
