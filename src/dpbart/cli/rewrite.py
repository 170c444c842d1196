"""dpbart rewrite: the main job."""

from __future__ import annotations

from pathlib import Path

import click

from dpbart import DEFAULT_MODEL


@click.command()
@click.argument("source", metavar="IN", type=click.Path(path_type=Path, allow_dash=True))
@click.argument("target", metavar="OUT", type=click.Path(path_type=Path, allow_dash=True))
@click.option("-e", "--epsilon", type=float, help="Privacy budget of one text; smaller is more private.")
@click.option(
    "-d", "--delta", type=float, default=1e-5, show_default=True, help="Slack of the guarantee, below 1/rows."
)
@click.option("-m", "--model", default=DEFAULT_MODEL, show_default=True, help="Bundled name, directory, or hub id.")
@click.option(
    "--mechanism",
    type=click.Choice(["response", "gaussian", "laplace", "none"]),
    help="How a text is randomised; the model's own by default. 'none' is NOT PRIVATE.",
)
@click.option("--text-column", default="text", show_default=True, help="Column that holds the texts.")
@click.option("--label-column", help="Column that holds labels; needs --labels.")
@click.option(
    "--labels",
    metavar="drop|public|randomize:E",
    help="Drop the labels, release them as they are (on the card), or randomise them with an epsilon of their own.",
)
@click.option("--label-set", metavar="A,B,...", help="The labels there can be, for randomize; public.")
@click.option("--label-file", type=click.Path(path_type=Path), help="The same from a public file, one a line.")
@click.option("--person-column", help="Column that names the person of each text; several texts of one are added up.")
@click.option("--join-documents", is_flag=True, help="Join the texts of a person into one, under one epsilon.")
@click.option("--id-column", help="Column that names each text in the ledger, where a text stands for itself.")
@click.option(
    "--missing-person",
    type=click.Choice(["refuse", "own"]),
    default="refuse",
    show_default=True,
    help="A row without an id: refuse the file, or count it as a person of their own.",
)
@click.option("--person-budget", type=float, help="Most epsilon that a person may have spent after this run.")
@click.option(
    "--ledger", type=click.Path(path_type=Path), help="SQLite file that records who has spent what; made if not there."
)
@click.option("--length", type=int, help="Tokens of a text that are read and written; the model's own by default.")
@click.option("--beams", type=int, default=10, show_default=True, help="Width of the decoder's search.")
@click.option("--batch-size", type=int, default=32, show_default=True, help="Texts in a step.")
@click.option(
    "--engine", type=click.Choice(["local", "ray"]), default="local", show_default=True, help="Where the work is done."
)
@click.option("--workers", type=int, help="Processes or Ray actors, each with the model; what is worth it by default.")
@click.option(
    "--address", metavar="HOST:PORT", help="Head of a Ray cluster, or 'auto'; a Ray on this machine by default."
)
@click.option("--card", type=click.Path(path_type=Path), help="The privacy card, JSON; OUT.card.json by default.")
@click.option("--sign-key", type=click.Path(path_type=Path), help="Sign the card with this ed25519 private key (PEM).")
@click.option("--overwrite", is_flag=True, help="Replace an output that exists.")
@click.option("--resume", is_flag=True, help="Go on with an unfinished run of OUT, if there is one.")
@click.option("--replay-seed", type=int, help="NOT PRIVATE: noise from this seed, to test and to replay.")
def rewrite(
    source: Path,
    target: Path,
    epsilon: float | None,
    delta: float,
    model: str,
    mechanism: str | None,
    text_column: str,
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
    length: int | None,
    beams: int,
    batch_size: int,
    engine: str,
    workers: int | None,
    address: str | None,
    card: Path | None,
    sign_key: Path | None,
    overwrite: bool,
    resume: bool,
    replay_seed: int | None,
) -> None:
    """Rewrite the texts of IN into OUT, each under (epsilon, delta).

    IN and OUT end in .csv, .tsv, .jsonl, .parquet or .txt; "-" is standard input and output, one text a line.
    Other columns are kept in order, as they are.

    \b
        dpbart rewrite reviews.csv private.csv --epsilon 2500 --labels public --label-column stars
        dpbart rewrite notes.csv private.csv --epsilon 500 --person-column patient --ledger budgets.db
        dpbart rewrite notes.csv private.csv -e 500 --label-column ill --labels randomize:2 --label-set yes,no
        cat notes.txt | dpbart rewrite - - --epsilon 2500 > private.txt
    """
    from dpbart.rewrite.job import rewrite_file
    from dpbart.rewrite.labels import read_label_set
    from dpbart.rewrite.request import Request
    from dpbart.rewrite.settings import Settings

    request = Request(
        source,
        target,
        text_column=text_column,
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
    )
    settings = Settings(model, epsilon, delta, mechanism, length, beams, batch_size, replay_seed)
    done = rewrite_file(request, settings, engine=engine, workers=workers, address=address)
    click.echo(f"{done.rows:,} texts rewritten, each under {done.guarantee}.", err=True)
    if request.card_file is not None:
        click.echo(f"Privacy card: {request.card_file}", err=True)
