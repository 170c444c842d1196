"""dpbart synthesize: release a whole collection under one small epsilon."""

from __future__ import annotations

import json
from functools import partial

import click

from dpbart.cli.command import Configured, options_of
from dpbart.errors import BadParameter
from dpbart.options.collecting import CollectionBudget, CollectionRequest
from dpbart.options.rewriting import STANDARD


@click.command(cls=Configured)
@options_of(CollectionBudget, "budget")
@options_of(CollectionRequest, "request")
@click.option("--json", "as_json", is_flag=True, help="Print a summary of the run as JSON, with nothing private in it.")
def synthesize(request: CollectionRequest, budget: CollectionBudget, as_json: bool) -> None:
    """Release the collection in IN as a whole: write new rows to OUT, under one epsilon for each person.

    Nobody's text is rewritten. All people together vote for the parts of a public book that they write about, noise is
    added to the counts, and new rows are drawn from them. So a small epsilon says much about many people, and little
    about anybody. You hold all texts, and are trusted with them.

    IN and OUT are files as for 'dpbart rewrite'. Without --person-column, each row counts as a person.

    \b
        dpbart synthesize notes.csv private.csv --epsilon 1 --person-column patient --ledger budgets.db
        dpbart synthesize notes.csv private.csv --epsilon 1 --areas health,service --rows 3000
        dpbart synthesize reviews.csv private.csv --epsilon 1 --label-column stars --label-values 1,2,3,4,5
        dpbart noise --collection --people 4000 --epsilon 1
    """
    if as_json and request.target == STANDARD:
        raise BadParameter("--json prints a summary on standard output, which is OUT here. Name an output file.")
    from dpbart.collect.synthesize import synthesize_file
    from dpbart.rewrite.figures import guarantee_json

    tell = partial(click.echo, err=True)
    done = synthesize_file(request, budget, tell=tell)
    people = 0 if done.collection is None else done.collection.people
    tell(f"{done.rows:,} rows written, from the votes of {people:,} people, each under {done.guarantee}.")
    if request.card_file is not None:
        tell(f"Privacy card: {request.card_file}")
    if as_json:
        summary = {
            "people": people,
            "rows": done.rows,
            "guarantee": guarantee_json(done.guarantee),
            "cells": None if done.collection is None else done.collection.cells,
            "model": done.model.identity,
            "recipe": done.recipe,
            "output": {"file": str(request.target), "sha256": done.run.output_sha256},
            "card": None if request.card_file is None else str(request.card_file),
        }
        click.echo(json.dumps(summary, allow_nan=False))
