"""Find a data set in a folder, read it, split it and check it.

dpbart contains no texts. It reads them from a folder (`--data`, or the environment variable DPBART_DATA), in their
original format or as a table with split, label and text. Sets that are on the hub are fetched by name.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from dpbart.errors import BadParameter, BadTable
from dpbart.evaluate.data.known import KNOWN, KnownSet
from dpbart.evaluate.data.splits import SourceRow, Splits
from dpbart.evaluate.data.splitting import with_splits
from dpbart.evaluate.data.tables import read_folder, read_table
from dpbart.tables.table import open_table

ENVIRONMENT = "DPBART_DATA"


def data_folder(asked: Path | None) -> Path:
    """The folder of data sets, from the option or the environment.

    Raises:
        BadParameter: If neither names a folder, or it does not exist.
    """
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
    """A data set by name: one of the paper's, or a file or folder in the data folder.

    Raises:
        BadTable: If it does not exist, cannot be read, or is one of the paper's with other counts.
    """
    known, place = KNOWN.get(name), find_data(name, folder)
    if place is None and known is not None and known.hub is not None:
        place = fetch(known.hub)
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


def fetch(hub_id: str) -> Path:
    """Download the tables of a data set from the hub.

    Raises:
        BadTable: If the hub extra is not installed, or the hub does not answer.
    """
    try:
        from huggingface_hub import snapshot_download
    except ImportError as error:
        raise BadTable("data sets on the hub need the hub extra. Install it: pip install 'dpbart[hub]'") from error
    tables = ["*.parquet", "*.csv", "*.tsv", "*.jsonl"]
    try:
        return Path(snapshot_download(hub_id, repo_type="dataset", allow_patterns=tables))
    except Exception as error:  # offline, unknown, gated: the hub's exception types change between versions
        raise BadTable(
            f"'{hub_id}' could not be fetched from the hub ({type(error).__name__}). "
            "Go online, or put the data set in the data folder."
        ) from error


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
