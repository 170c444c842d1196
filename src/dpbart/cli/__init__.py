"""The command line: one file per command group, imported when one of its commands is called.

torch and transformers are imported only inside commands.
"""

from __future__ import annotations

import signal
import sys
from importlib import import_module

import click

from dpbart.cli.command import Group
from dpbart.errors import DpbartError, one_line
from dpbart.version import __version__

COMMANDS = {  # with their lines in `dpbart --help`, which begin their own help too
    "advise": "Advise which epsilon to choose, from public texts like the private ones.",
    "attack": "Show what a curious recipient gets: attack rewritten public texts, over several budgets.",
    "audit": "Audit the guarantee: a lower bound on epsilon from many releases, beside the one claimed.",
    "budget": "Show what people have spent according to a ledger, and limit it.",
    "card": "Show and verify the privacy card of an output.",
    "datasets": "List, show and prepare labelled data sets. dpbart itself contains no texts.",
    "epsilon": "Convert another method's epsilon for a word, token or sentence into one for a whole document.",
    "evaluate": "Measure how much a rewriting kept: wording, meaning, names, fluency, and what a classifier can still "
    "learn.",
    "experiment": "Run the paper's experiments, or your own, and make their tables and figures.",
    "models": "List, show and import models.",
    "noise": "Show what a budget means: how much is randomised, what gets through, and how well an attacker can guess.",
    "prepare": "Make a model from public text. Never use private text: a model is public.",
    "rewrite": "Rewrite the texts in IN and write them to OUT, each under (epsilon, delta).",
    "serve": "Serve the page and the API, on this machine only unless told otherwise.",
    "synthesize": "Release the collection in IN as a whole: write new rows to OUT, under one epsilon for each person.",
    "topics": "Show what a private file says, by topic of the book, and how much of it is noise.",
}


class Commands(Group):
    """Print our errors as one line on standard error and exit with status 1; exit with status 130 after Ctrl-C."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Import the command, of which only the line is known until now: options are slow to import."""
        name, command, left = super().resolve_command(ctx, args)
        if name is not None:
            file = "budget" if name == "card" else name
            command = getattr(import_module(f"{__name__}.{file}"), name)
        return name, command, left

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except DpbartError as error:
            raise click.ClickException(one_line(str(error))) from error
        except KeyboardInterrupt as stopped:
            click.echo(f"\n{str(stopped) or 'Interrupted. Unfinished output was not written.'}", err=True)
            ctx.exit(130)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="dpbart")
def cli() -> None:
    """Rewrite texts so that they can be shared without giving away their authors.

    \b
        dpbart rewrite reviews.csv private.csv --epsilon 50
        echo "I saw my doctor in Leeds today." | dpbart rewrite - - --epsilon 50
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # clean up as after an error: leave nothing half-written


for command, line in COMMANDS.items():
    cli.add_command(click.Command(command, help=line))
