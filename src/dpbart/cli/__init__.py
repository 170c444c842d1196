"""The command line: one file per command group. torch and transformers are imported only inside commands."""

from __future__ import annotations

import signal
import sys

import click

from dpbart import __version__
from dpbart.cli.budget import budget
from dpbart.cli.card import card
from dpbart.cli.command import Group
from dpbart.cli.datasets import datasets
from dpbart.cli.evaluate import evaluate
from dpbart.cli.experiment import experiment
from dpbart.cli.models import models
from dpbart.cli.noise import noise
from dpbart.cli.prepare import prepare
from dpbart.cli.rewrite import rewrite
from dpbart.cli.serve import serve
from dpbart.errors import DpbartError, one_line


class Commands(Group):
    """Print our errors as one line on standard error and exit with status 1; exit with status 130 after Ctrl-C."""

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


for command in (rewrite, budget, card, noise, models, prepare, datasets, evaluate, experiment, serve):
    cli.add_command(command)
