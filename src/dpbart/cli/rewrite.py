"""dpbart rewrite: rewrite a file or standard input."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING

import click

from dpbart.cli.command import Configured, options_of
from dpbart.errors import BadParameter
from dpbart.options.rewriting import STANDARD, Request
from dpbart.options.settings import Running, Settings

if TYPE_CHECKING:
    from dpbart.card.record import CardFacts, PersonFacts


@click.command(cls=Configured)
@options_of(Settings, "settings")
@options_of(Request, "request")
@options_of(Running, "running")
@click.option("--json", "as_json", is_flag=True, help="Print a summary of the run as JSON, with nothing private in it.")
def rewrite(request: Request, settings: Settings, running: Running, as_json: bool) -> None:
    """Rewrite the texts in IN and write them to OUT, each under (epsilon, delta).

    IN and OUT must end in .csv, .tsv, .jsonl, .json, .parquet, .xlsx or .txt. Text files may be compressed (.csv.gz,
    .bz2, .zst). IN may be a folder of .txt files. Use "-" for standard input or output, with one text per line unless
    --format is given. OUT has the new texts, the labels if --labels releases them, and what --keep-column names.

    Every option may also be a variable of the environment, such as DPBART_EPSILON, or a line of the file of --config.

    \b
        dpbart rewrite reviews.csv private.csv --epsilon 50 --labels public --label-column stars
        dpbart rewrite notes.csv private.csv --epsilon 6 --areas health,service --book-only
        dpbart rewrite notes.csv private.csv --epsilon 10 --person-column patient --ledger budgets.db
        dpbart rewrite notes.csv private.csv -e 10 --label-column ill --labels randomize:2 --label-set yes,no
        dpbart rewrite notes.csv private.csv --shuffle --central-epsilon 1 --person-column patient --join-documents
        dpbart rewrite visits.csv private.csv --epsilon 10 --text-column complaint --text-column findings
        dpbart rewrite notes.jsonl.gz private.jsonl.gz --epsilon 20 --text-column note.text
        dpbart rewrite notes.csv private.csv --config hospital.toml --json
        cat notes.txt | dpbart rewrite - - --epsilon 50 > private.txt
    """
    if as_json and request.target == STANDARD:
        raise BadParameter("--json prints a summary on standard output, which is OUT here. Name an output file.")
    from dpbart.card.pages import whose_rows
    from dpbart.rewrite.job import rewrite_file
    from dpbart.rewrite.notices import counted

    tell = partial(click.echo, err=True)
    done = rewrite_file(
        request, settings, engine=running.engine, workers=running.workers, address=running.address, tell=tell
    )
    row = "" if done.row is None or done.row.texts == 1 else f" All texts of a row are under {done.row.guarantee}."
    under = f"under {done.guarantee}" if done.texts == 1 else f"each under {done.guarantee}"
    tell(f"{counted(done.texts, 'text')} rewritten, {under}.{row}{_person(done.person)}")
    if done.shuffled is not None:
        whose = whose_rows(done.shuffled, people=done.person.guarantee is not None)
        tell(f"Shuffled: {done.shuffled.guarantee} for {whose}, to those who see only the output.")
    if request.card_file is not None:
        tell(f"Privacy card: {request.card_file}")
    if as_json:
        click.echo(json.dumps(_summary(done, request), allow_nan=False))


def _summary(done: CardFacts, request: Request) -> dict[str, object]:
    """The run for a program: what is on the card, in few words, and where everything is."""
    from dpbart.rewrite.figures import guarantee_json

    person, shuffled = done.person, done.shuffled
    return {
        "texts": done.texts,
        "rows": done.rows,
        "guarantee": guarantee_json(done.guarantee),
        "row": guarantee_json(done.row.guarantee),
        "person": None
        if person.guarantee is None
        else {
            "people": person.people,
            "most_texts": person.most_texts,
            "guarantee": guarantee_json(person.guarantee),
        },
        "shuffled": None if shuffled is None else guarantee_json(shuffled.guarantee),
        "model": done.model.identity,
        "recipe": done.recipe,
        "output": {"file": str(request.target), "sha256": done.run.output_sha256},
        "card": None if request.card_file is None else str(request.card_file),
    }


def _person(person: PersonFacts) -> str:
    """The guarantee of a person who has several texts, as a further sentence."""
    if person.guarantee is None or person.most_texts == 1:
        return ""
    return f" All texts of one person, at most {person.most_texts:,}, are under {person.guarantee}."
