"""One Parquet file (split, label, text) of a data set in its original format: streamed, seeded, whole or not at all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dpbart.errors import BadParameter, BadTable
from dpbart.evaluate.data.datasets import KNOWN, named_parts, read_rows, with_parts
from dpbart.evaluate.data.parts import Labelled, write_parts
from dpbart.evaluate.data.sources import Row, read_amazon, read_table
from dpbart.evaluate.data.splitting import Preparation, with_validation, without_repeats

# Igamberdiev and Habernal 2023, as their code has it: 4 and 5 stars against 1, 2 and 3; at most 20 words, split at
# white space; in each of seven categories the larger class cut to the smaller; two thirds kept; a tenth for testing.
# Not as theirs: the larger class is drawn without replacement, and a text is never in both parts.
AMAZON = Preparation(longest=20, balanced=True, two_thirds=True)


@dataclass(frozen=True)
class OwnFile:
    """How to read and prepare a file that is nobody's but the user's."""

    text_column: str = "text"
    label_column: str = "label"
    longest: int | None = None  # words
    balanced: bool = False


def make_file(
    kind: str, source: Sequence[Path], out: Path, *, own: OwnFile, seed: int, allow_different: bool
) -> dict[str, dict[str, int]]:
    """Write the file; how many texts of each label each part has comes back.

    Raises:
        BadParameter: If the output does not end in .parquet, or there are more sources than the kind takes.
        BadTable: If a source cannot be read, or it is not the paper's.
    """
    if out.suffix != ".parquet":
        raise BadParameter(f"the output must end in .parquet, got '{out}'.")
    if kind != "amazon" and len(source) > 1:
        raise BadParameter(f"'{kind}' is made of one source, got {len(source)}.")
    counts: dict[str, Counter[str]] = {"train": Counter(), "valid": Counter(), "test": Counter()}

    def counted() -> Iterator[Row]:
        for part, row in _rows(kind, source, own, seed):
            counts[part][row.label] += 1
            yield part, row
        if kind in KNOWN and not allow_different:  # before the file takes its name
            KNOWN[kind].check(counts)
        empty = [part for part, labels in counts.items() if not labels]
        if empty:
            raise BadTable(f"every part must have a text, got none for {', '.join(empty)}. Give more rows.")

    write_parts(out, counted())
    return {part: dict(labels.most_common()) for part, labels in counts.items()}


def _rows(kind: str, source: Sequence[Path], own: OwnFile, seed: int) -> Iterator[Row]:
    if kind == "amazon":
        recipe = Preparation(AMAZON.longest, AMAZON.balanced, AMAZON.two_thirds, seed)
        return with_validation(recipe.run(lambda: read_amazon(source)), seed)
    if kind == "own":
        return _own_rows(source[0], own, seed)
    return with_parts(read_rows(source[0], KNOWN[kind]), seed)


def _own_rows(file: Path, own: OwnFile, seed: int) -> Iterator[Row]:
    """Parts that the file names stay as they are, each balanced by itself."""

    def read() -> Iterator[tuple[str | None, Labelled]]:
        return read_table(file, text_column=own.text_column, label_column=own.label_column)

    def grouped() -> Iterator[Labelled]:
        return without_repeats(replace(row, group=part or "") for part, row in read())

    named = named_parts(read())
    recipe = Preparation(own.longest, own.balanced, seed=seed)
    rows = ((row.group or drawn, row) for drawn, row in recipe.run(grouped))
    return rows if "valid" in named else with_validation(rows, seed)
