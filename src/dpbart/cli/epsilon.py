"""dpbart epsilon: what another method's claim is for a whole document."""

from __future__ import annotations

import json
import textwrap

import click

from dpbart.cli.command import Command, json_option, options_of
from dpbart.options.evidence import ClaimedEpsilon


@click.command(cls=Command)
@options_of(ClaimedEpsilon, "asked")
@click.option("--list", "listed", is_flag=True, help="List the methods, their papers and what their claims need.")
@json_option
def epsilon(asked: ClaimedEpsilon, listed: bool, as_json: bool) -> None:
    """Convert another method's epsilon for a word, token or sentence into one for a whole document.

    dpbart's epsilon is for any document against any other. This says what another claim is under the same definition,
    and what it lets a guesser do.

    \b
        dpbart epsilon --method dp-prompt --temperature 1.5 --clip 0,10 --length 120
        dpbart epsilon --method per-word --epsilon 2 --length 200
        dpbart epsilon --method santext --epsilon 3 --diameter 15 --length 50 --json
        dpbart epsilon --list
    """
    from dpbart.evidence.claims import METHODS, convert

    if listed:
        rows = [
            {"method": name, "unit": each.unit, "needs": each.needs, "paper": each.paper}
            for name, each in METHODS.items()
        ]
        if as_json:
            click.echo(json.dumps(rows))
            return
        for row in rows:
            click.echo(f"{row['method']:<14} {row['unit']:<9} {row['needs']:<25} {row['paper']}")
        return
    found = convert(asked)
    if as_json:
        click.echo(json.dumps(found.as_dict(), allow_nan=False))
        return
    for name, words in found.lines():
        click.echo(textwrap.fill(words, 100, initial_indent=f"{name:<13}", subsequent_indent=" " * 13))
