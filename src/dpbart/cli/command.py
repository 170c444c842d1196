"""The commands and groups that the whole command line is made of."""

from __future__ import annotations

from collections import Counter

import click


class Command(click.Command):
    """A command that refuses an option given twice, unless the option is meant to be repeated (`multiple`).

    click itself lets the last one win. Of two columns with labels or ids, the first would then be released as it is.
    `dpbart rewrite` takes several text columns: its --text-column is the one option there that may be repeated.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not ctx.resilient_parsing:  # while a shell completes a line, nothing is refused
            _refuse_repeated(self, ctx, args)
        return super().parse_args(ctx, args)


class Group(click.Group):
    """A group whose commands, and whose own options, refuse repetition."""

    command_class = Command
    group_class = type

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not ctx.resilient_parsing:
            _refuse_repeated(self, ctx, args)
        return super().parse_args(ctx, args)


def _refuse_repeated(command: click.Command, ctx: click.Context, args: list[str]) -> None:
    _, _, given = command.make_parser(ctx).parse_args(args=list(args))
    for parameter, times in Counter(given).items():
        single = isinstance(parameter, click.Option) and not (parameter.multiple or parameter.is_eager)
        if single and times > 1:
            raise click.UsageError(f"{' / '.join(parameter.opts)} was given {times} times. Give it once.", ctx)
