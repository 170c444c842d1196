"""dpbart topics: what a private file says, and how much of it is noise."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from dpbart.cli.command import Command, json_option, options_of
from dpbart.options.topics import TopicsQuestion

if TYPE_CHECKING:
    from rich.table import Table

    from dpbart.collect.topics import Difference, Group, Share, Topics

_SHOWN = 40  # lines of a table
_BAR = 24  # characters
_WIDTH = 110  # of a table that no terminal shows


@click.command(cls=Command)
@options_of(TopicsQuestion, "asked")
@json_option
def topics(asked: TopicsQuestion, as_json: bool) -> None:
    """Show what a private file says, by topic of the book, and how much of it is noise.

    The card says how the file was made: rewritten text by text, shuffled, or synthesised. So the noise is known and is
    taken off. Every share has an interval, and all of them hold together in 95% of files. A topic whose interval
    includes 0 may be noise, and is only counted.

    \b
        dpbart topics private.csv
        dpbart topics private.csv --areas --plot areas.png
        dpbart topics private.csv --by ward --json
    """
    if asked.plot is not None:
        from dpbart.collect.picture import check_picture

        check_picture(asked.plot)
    from dpbart.collect.topics import read_topics

    found = read_topics(asked.private, card=asked.card, by=asked.by, areas=asked.areas, model=asked.model)
    if asked.plot is not None:
        from dpbart.collect.picture import draw

        draw(found, asked.plot, dark=asked.dark)
    if as_json:
        click.echo(json.dumps(found.as_dict(), ensure_ascii=False))
    else:
        _show(found)


def _show(found: Topics) -> None:
    from rich.console import Console

    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=_WIDTH)
    for group in found.groups:
        if group.name:
            console.print(f"{found.by}: {group.name}", style="bold", markup=False)
        _print_shares(console, found, group)
    for difference in found.differences:
        console.print(f"{difference.first} minus {difference.second}", style="bold", markup=False)
        _print_shares(console, found, difference)
    together = f"Intervals hold together in {found.level:.0%} of files"
    console.print(
        f"A share is {found.estimated}. {together}"
        + (", those of differences by themselves." if found.differences else "."),
        markup=False,
    )


def _print_shares(console: object, found: Topics, held: Group | Difference) -> None:
    from rich.console import Console

    assert isinstance(console, Console)
    told = [share for share in held.shares if share.told_from_noise]
    if told:
        console.print(_table(found, told[:_SHOWN]))
    left, parts = len(held.shares) - len(told), found.parts
    lines = [f"{len(told) - _SHOWN:,} more {parts} can be told from noise: see --json."] if len(told) > _SHOWN else []
    if left:
        lines.append(f"{left:,} of {len(held.shares):,} {parts} cannot be told from noise.")
    console.print(" ".join(lines) + "\n", markup=False)


def _table(found: Topics, shares: list[Share]) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column(found.parts.removesuffix("s"))
    if found.parts == "topics":
        table.add_column("area")
    for name in ("share", "from", "to"):
        table.add_column(name, justify="right")
    table.add_column("")
    low, high = min(0.0, *(share.low for share in shares)), max(0.0, *(share.high for share in shares))
    for share in shares:
        area = [Text(share.area)] if found.parts == "topics" else []
        numbers = [Text(_percent(value)) for value in (share.estimate, share.low, share.high)]
        table.add_row(Text(share.name), *area, *numbers, Text(_bar(share, low, high)))
    return table


def _percent(share: float) -> str:
    return f"{100 * share:.1f}%"


def _bar(share: Share, low: float, high: float) -> str:
    """From 0 to the near end of the interval full, then the interval.

    >>> from dpbart.collect.topics import Share
    >>> _bar(Share("pain", "health", 0.5, 0.25, 0.75), 0.0, 1.0), _bar(Share("pain", "health", -0.5, -0.8, -0.2), -1, 1)
    ('██████░░░░░░░░░░░░', '  ░░░░░░░░██')
    """

    def place(value: float) -> int:
        return round(_BAR * (value - low) / (high - low or 1.0))

    near, far = (share.low, share.high) if share.high > 0 and share.low >= 0 else (share.high, share.low)
    zero, inner, outer = place(0.0), place(near if near * far > 0 else 0.0), place(far)
    if far >= 0:
        return " " * zero + "█" * (inner - zero) + "░" * max(1, outer - inner)
    return " " * outer + "░" * max(1, inner - outer) + "█" * (zero - inner)
