"""dpbart datasets: the labelled data sets for evaluation."""

from __future__ import annotations

import json
from pathlib import Path

import click

from dpbart.cli.command import Group, json_option

PATH = click.Path(path_type=Path)
data_option = click.option(
    "--data", "folder", type=PATH, help="Folder of data sets. Default: the environment variable DPBART_DATA."
)
different_option = click.option(
    "--allow-different", is_flag=True, help="Accept a data set with other counts than the paper's."
)


@click.group(cls=Group)
def datasets() -> None:
    """List, show and prepare labelled data sets. dpbart itself contains no texts."""


@datasets.command("list")
@data_option
@json_option
def list_datasets(folder: Path | None, as_json: bool) -> None:
    """List the paper's five data sets, their counts, whether your folder has them, and your own sets in it.

    \b
        dpbart datasets list --data data/
    """
    import os

    from dpbart.evaluate.data.loading import ENVIRONMENT, KNOWN, data_folder, find_data, own_sets

    asked = data_folder(folder) if folder is not None or os.environ.get(ENVIRONMENT) else None
    found = {name: find_data(name, asked) if asked else None for name in KNOWN}
    own = own_sets(asked) if asked else {}
    if as_json:
        keys = ("name", "title", "classes", "train_and_valid", "test", "label", "delta", "format", "source")
        called = {"train_and_valid": "train", "format": "original"}  # in KnownSet
        rows = [
            {key: getattr(each, called.get(key, key)) for key in keys}
            | {"found": str(found[each.name]) if found[each.name] else None, "own": False}
            for each in KNOWN.values()
        ]
        unknown = dict.fromkeys(keys)
        rows += [{**unknown, "name": name, "found": str(file), "own": True} for name, file in own.items()]
        click.echo(json.dumps(rows, ensure_ascii=False))
        return
    for each in KNOWN.values():
        here = f"found: {found[each.name]}" if found[each.name] else "not found" if asked else each.source
        counts = f"{each.classes:>2} classes, {each.train:>9,} train and valid, {each.test:>7,} test"
        click.echo(f"{each.name:<7} {counts}. {here}")
    for name, file in own.items():
        click.echo(f"{name:<7} your own; found: {file}")


@datasets.command()
@click.argument("name")
@data_option
@different_option
@json_option
def show(name: str, folder: Path | None, allow_different: bool, as_json: bool) -> None:
    """Show the counts, labels and checksum of a data set, and how it differs from the paper's.

    NAME is one of the paper's data sets, or your own file in the folder.

    \b
        dpbart datasets show snips --data data/
    """
    from dpbart.evaluate.data.loading import KNOWN, data_folder, load_data

    data = load_data(name, data_folder(folder), allow_different=True)
    known = KNOWN.get(name)
    counts = data.counts()
    differences = known.differences(counts) if known else []
    if as_json:
        held = {
            "name": name,
            "checksum": data.checksum,
            "texts": {split: labels.total() for split, labels in counts.items()},
            "labels": counts,
            "unseen": data.unseen,
            "untested": data.untested,
            "differences": differences,
        }
        click.echo(json.dumps(held))
    else:
        click.echo(f"Checksum   {data.checksum} (SHA-256 of every split, label and text)")
        for split, labels in counts.items():
            listed = ", ".join(f"{label} {n:,}" for label, n in labels.most_common())
            click.echo(f"{split:<10} {labels.total():,} texts, {len(labels)} labels: {listed}")
        if data.unseen:
            click.echo(f"Unseen     in test but not in train: {', '.join(data.unseen)}")
        if data.untested:
            click.echo(f"Untested   in train but not in test: {', '.join(data.untested)}")
    if known is not None and not allow_different:
        known.check(counts)


@datasets.command()
@click.argument("kind", type=click.Choice(["atis", "snips", "imdb", "drugs", "amazon", "own"]))
@click.argument("source", type=PATH, nargs=-1, required=True)
@click.option("--out", type=PATH, required=True, help="Parquet file to make: split, label, text.")
@click.option("--text-column", default="text", show_default=True, help="Column with the texts of your own file.")
@click.option("--label-column", default="label", show_default=True, help="Column with the labels of your own file.")
@click.option("--longest", type=int, help="Your own file: leave out texts with more words than this.")
@click.option("--balance", is_flag=True, help="Your own file: keep as many texts of every label as of the rarest.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed for splitting and balancing.")
@different_option
@json_option
def prepare(
    kind: str,
    source: tuple[Path, ...],
    out: Path,
    text_column: str,
    label_column: str,
    longest: int | None,
    balance: bool,
    seed: int,
    allow_different: bool,
    as_json: bool,
) -> None:
    """Make one Parquet file from a data set: one of the paper's in its original format, or your own.

    \b
    atis, snips  a folder with train, valid and test, each with seq.in and label
    imdb         the folder aclImdb
    drugs        a folder with drugsComTrain_raw.tsv and drugsComTest_raw.tsv
    amazon       amazon_reviews_us_*.tsv, .tsv.gz or .parquet, of any size
    own          CSV, TSV, JSON lines or Parquet with texts and labels, of any size

    \b
        dpbart datasets prepare snips SlotGated-SLU/data/snips --out data/snips.parquet
        dpbart datasets prepare amazon amazon_reviews_us_*.tsv.gz --out data/amazon.parquet
        dpbart datasets prepare own reviews.csv --label-column stars --balance --out data/reviews.parquet
    """
    from dpbart.evaluate.data.loading import OwnFile, make_file

    own = OwnFile(text_column, label_column, longest, balance)
    counts = make_file(kind, source, out, own=own, seed=seed, allow_different=allow_different)
    if as_json:
        click.echo(json.dumps({"out": str(out), "labels": counts}))
        return
    for split, labels in counts.items():
        click.echo(f"{split:<6} {sum(labels.values()):,} texts: {', '.join(f'{k} {v:,}' for k, v in labels.items())}")
    click.echo(f"Written to {out}.")
