"""dpbart rewrite: rewrite a file or standard input."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dpbart import DEFAULT_MODEL
from dpbart.cli.command import Command
from dpbart.cli.options import address_option, dialect_options, engine_option, workers_option

if TYPE_CHECKING:
    from dpbart.privacy.card.card import PersonFacts


@click.command(cls=Command)
@click.argument("source", metavar="IN", type=click.Path(path_type=Path, allow_dash=True))
@click.argument("target", metavar="OUT", type=click.Path(path_type=Path, allow_dash=True))
@click.option("-e", "--epsilon", type=float, help="Privacy budget of one text; smaller is more private.")
@click.option(
    "-d", "--delta", type=float, default=1e-5, show_default=True, help="Slack in the guarantee; must be below 1/rows."
)
@click.option(
    "-m", "--model", default=DEFAULT_MODEL, show_default=True, help="Model: a bundled name, a directory or a hub id."
)
@click.option(
    "--mechanism",
    metavar="NAME",
    help="response, gaussian, laplace, or none (NOT PRIVATE); by default the model's own.",
)
@click.option(
    "--text-column",
    multiple=True,
    default=("text",),
    show_default=True,
    help="Column with the texts; in JSON and Parquet also inside an object, such as note.text. Repeatable: each text "
    "of a row is a release of its own.",
)
@click.option("--join-columns", is_flag=True, help="Join the text columns of a row into one text under one epsilon.")
@click.option(
    "--split",
    type=click.Choice(["sentences"]),
    help="For models that read little: rewrite each sentence of a text as a release of its own.",
)
@click.option(
    "--pieces", type=int, help="Sentences to rewrite of each text, for --split; by default the model's length decides."
)
@click.option(
    "--keep-column",
    multiple=True,
    help="Release this other column unchanged, and leave out every other one that is not named so. Texts and labels "
    "follow their own options. Repeatable. By default, all other columns are released.",
)
@click.option("--label-column", help="Column with the labels; requires --labels.")
@click.option(
    "--labels",
    metavar="drop|public|randomize:E",
    help="Drop the labels, release them unchanged (the card says so), or randomise them with their own epsilon E.",
)
@click.option("--label-set", metavar="A,B,...", help="All possible labels, for randomize; public.")
@click.option(
    "--label-file", type=click.Path(path_type=Path), help="The same, from a public file with one label per line."
)
@click.option("--person-column", help="Column that identifies the person; the texts of a person add up.")
@click.option("--join-documents", is_flag=True, help="Join all texts of a person into one document under one epsilon.")
@click.option("--id-column", help="Column that identifies each text in the ledger, if you do not count by person.")
@click.option(
    "--missing-person",
    type=click.Choice(["refuse", "own"]),
    default="refuse",
    show_default=True,
    help="If a row has no id: refuse the file, or count the row as a separate person.",
)
@click.option("--person-budget", type=float, help="Total epsilon that a person may have spent after this run.")
@click.option(
    "--ledger",
    type=click.Path(path_type=Path),
    help="SQLite file that records what each person has spent; created if missing.",
)
@click.option(
    "--shuffle", is_flag=True, help="Write the rows in random order, with the texts and randomised labels alone."
)
@click.option(
    "--central-epsilon",
    type=float,
    help="With --shuffle, instead of --epsilon: the epsilon for those who see only the output.",
)
@click.option("--length", type=int, help="Tokens to read and write per text; by default the model's own length.")
@click.option("--beams", type=int, help="Width of the decoder's search; by default the model's own.")
@click.option("--batch-size", type=int, default=32, show_default=True, help="Texts per batch.")
@dialect_options
@engine_option
@workers_option
@address_option
@click.option(
    "--card", type=click.Path(path_type=Path), help="File for the privacy card (JSON); OUT.card.json by default."
)
@click.option("--sign-key", type=click.Path(path_type=Path), help="Sign the card with this ed25519 private key (PEM).")
@click.option("--overwrite", is_flag=True, help="Replace an existing output.")
@click.option("--resume", is_flag=True, help="Resume an unfinished run of OUT, if there is one.")
@click.option("--replay-seed", type=int, help="NOT PRIVATE: take the noise from this seed, for tests and replays.")
def rewrite(
    source: Path,
    target: Path,
    epsilon: float | None,
    delta: float,
    model: str,
    mechanism: str | None,
    text_column: tuple[str, ...],
    join_columns: bool,
    split: str | None,
    pieces: int | None,
    keep_column: tuple[str, ...],
    label_column: str | None,
    labels: str | None,
    label_set: str | None,
    label_file: Path | None,
    person_column: str | None,
    join_documents: bool,
    id_column: str | None,
    missing_person: str,
    person_budget: float | None,
    ledger: Path | None,
    shuffle: bool,
    central_epsilon: float | None,
    length: int | None,
    beams: int | None,
    batch_size: int,
    delimiter: str | None,
    encoding: str | None,
    format: str | None,
    document: bool,
    engine: str,
    workers: int | None,
    address: str | None,
    card: Path | None,
    sign_key: Path | None,
    overwrite: bool,
    resume: bool,
    replay_seed: int | None,
) -> None:
    """Rewrite the texts in IN and write them to OUT, each under (epsilon, delta).

    IN and OUT must end in .csv, .tsv, .jsonl, .json, .parquet, .xlsx or .txt. Text files may be compressed (.csv.gz,
    .bz2, .zst). IN may be a folder of .txt files. Use "-" for standard input or output, with one text per line unless
    --format is given. Other columns stay as they are, unless --keep-column is given.

    \b
        dpbart rewrite reviews.csv private.csv --epsilon 50 --labels public --label-column stars
        dpbart rewrite notes.csv private.csv --epsilon 500 --person-column patient --ledger budgets.db
        dpbart rewrite notes.csv private.csv -e 500 --label-column ill --labels randomize:2 --label-set yes,no
        dpbart rewrite notes.csv private.csv --shuffle --central-epsilon 1 --person-column patient --join-documents
        dpbart rewrite visits.csv private.csv --epsilon 10 --text-column complaint --text-column findings
        dpbart rewrite notes.jsonl.gz private.jsonl.gz --epsilon 500 --text-column note.text
        cat notes.txt | dpbart rewrite - - --epsilon 50 > private.txt
    """
    from dpbart.privacy.card.shuffled import whose_rows
    from dpbart.rewrite.job import rewrite_file
    from dpbart.rewrite.labels import read_label_set
    from dpbart.rewrite.request import Request
    from dpbart.rewrite.settings import Settings
    from dpbart.tables.dialect import Dialect

    request = Request(
        source,
        target,
        text_column=text_column,
        join_columns=join_columns,
        split=split,
        pieces=pieces,
        keep_columns=keep_column or None,
        label_column=label_column,
        labels=labels,
        label_set=read_label_set(label_set, label_file),
        card=card,
        sign_key=sign_key,
        overwrite=overwrite,
        resume=resume,
        person_column=person_column,
        join_documents=join_documents,
        id_column=id_column,
        missing_person=missing_person,
        person_budget=person_budget,
        ledger=ledger,
        dialect=Dialect(delimiter, encoding, format, document),
        shuffle=shuffle,
        central_epsilon=central_epsilon,
    )
    if request.reading is not None:
        click.echo(f"{source} is read as {request.reading}.", err=True)
    settings = Settings(model, epsilon, delta, mechanism, length, beams, batch_size, replay_seed)
    tell = partial(click.echo, err=True)
    done = rewrite_file(request, settings, engine=engine, workers=workers, address=address, tell=tell)
    row = "" if done.row is None or done.row.texts == 1 else f" All texts of a row are under {done.row.guarantee}."
    click.echo(f"{done.texts:,} texts rewritten, each under {done.guarantee}.{row}{_person(done.person)}", err=True)
    if done.shuffled is not None:
        whose = whose_rows(done.shuffled, people=done.person.guarantee is not None)
        click.echo(f"Shuffled: {done.shuffled.guarantee} for {whose}, to those who see only the output.", err=True)
    if request.card_file is not None:
        click.echo(f"Privacy card: {request.card_file}", err=True)


def _person(person: PersonFacts) -> str:
    """The guarantee of a person who has several texts, as a further sentence."""
    if person.guarantee is None or person.most_texts == 1:
        return ""
    return f" All texts of one person, at most {person.most_texts:,}, are under {person.guarantee}."
