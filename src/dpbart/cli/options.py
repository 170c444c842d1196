"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import click

_Command = TypeVar("_Command", bound=Callable[..., object])

corpus_option = click.option(
    "--corpus",
    "corpus",
    type=click.Path(path_type=Path, exists=True),
    multiple=True,
    required=True,
    help="Public text, one text per line: a .txt, .txt.gz or .txt.zst file, or a folder of such files. Repeatable.",
)
text_option = click.option("--text-column", default="text", show_default=True, help="Column that holds the texts.")
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
engine_option = click.option(
    "--engine",
    metavar="local|ray",
    default="local",
    show_default=True,
    help="Run on this machine, or on Ray.",
)
workers_option = click.option(
    "--workers", type=int, help="Processes or Ray actors; each loads the model. Chosen automatically by default."
)
address_option = click.option(
    "--address", metavar="HOST:PORT", help="Head of a Ray cluster, or 'auto'; by default, start Ray on this machine."
)


def dialect_options(command: _Command) -> _Command:
    """What the names and first bytes of files do not say about them."""
    for option in (
        click.option("--document", is_flag=True, help="Read a .txt file as one text instead of one text per line."),
        click.option(
            "--format",
            metavar="NAME",
            help="Format of standard input and output: csv, jsonl, parquet, csv.gz, ...; by default one text per line.",
        ),
        click.option(
            "--encoding",
            metavar="NAME",
            help="utf-8, utf-16, cp1252 or latin-1; by default that of the byte order mark, or UTF-8.",
        ),
        click.option("--delimiter", metavar="CHAR", help="Delimiter of a CSV file; by default, its header shows it."),
    ):
        command = option(command)
    return command


texts_option = click.option("--texts", type=int, default=2000, show_default=True, help="Held-out texts to measure on.")


def _with_a_name(context: click.Context, parameter: click.Parameter, out: Path) -> Path:
    if not out.name:
        raise click.BadParameter(f"must be a directory with a name, got '{out}'. Checkpoints go into NAME.training.")
    return out


out_option = click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    callback=_with_a_name,
    required=True,
    help="Model directory to create.",
)
seed_option = click.option(
    "--seed",
    type=int,
    default=0,
    show_default=True,
    help="Seed of the training. It is public and never used for private noise.",
)
