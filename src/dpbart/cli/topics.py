"""dpbart topics: what a private file says, and how much of it is noise."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from dpbart.cli.command import Command, json_option, options_of
from dpbart.options.topics import TopicsQuestion

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from dpbart.collect.topics import Share, Topics

_SHOWN = 20  # lines of a table
_BAR = 24  # characters
_NAME = 50
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

    console = Console(highlight=False, markup=False)
    if not console.is_terminal:
        console = Console(highlight=False, markup=False, width=_WIDTH)
    for group in found.groups:
        named = f"{found.by} {group.name}: " if found.by is not None else ""
        about = "about " if group.counted % 1 else ""  # the people with a label are counted with noise
        title = f"{named}{about}{group.counted:,.0f} {found.counted}, {found.release}, epsilon {found.epsilon:g}"
        _show_shares(console, found, title, group.shares, "share")
    for each in found.differences:
        _show_shares(console, found, f"{each.first} minus {each.second}", each.shares, "difference")
    alone = ", and so do those of the differences" if found.differences else ""
    console.print(
        f"A share is {found.estimated}. All intervals hold together in {found.level:.0%} of such files{alone}."
    )


def _show_shares(console: Console, found: Topics, title: str, shares: Sequence[Share], what: str) -> None:
    """A table of those that can be told from noise, and how many cannot."""
    told, parts = [share for share in shares if share.told_from_noise], found.parts
    console.print(title, style="bold")
    if told:
        console.print(_table(parts, told[:_SHOWN], what))
    if len(told) > _SHOWN:
        console.print(f"{len(told) - _SHOWN:,} more {parts} can be told from noise: see --json.")
    if len(told) < len(shares):
        of_what = f"The {what} of {len(shares) - len(told):,} of {len(shares):,} {parts}"
        console.print(f"{of_what} cannot be told from noise.")
    console.print()


def _table(parts: str, shares: Sequence[Share], what: str) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table, with_area = Table(box=box.SIMPLE_HEAD, pad_edge=False), parts == "topics"
    for name in (parts.removesuffix("s"), *(("area",) if with_area else ())):
        table.add_column(name, no_wrap=True, overflow="ellipsis", max_width=_NAME)
    for name in (what, "from", "to"):
        table.add_column(name, justify="right", no_wrap=True, min_width=6)
    table.add_column("", no_wrap=True, min_width=_BAR)
    low, high = min(0.0, *(share.low for share in shares)), max(0.0, *(share.high for share in shares))
    for share in shares:
        names = (share.name, share.area) if with_area else (share.name,)
        numbers = (_percent(value) for value in (share.estimate, share.low, share.high))
        table.add_row(*map(Text, (*names, *numbers, _bar(share, low, high))))
    return table


def _percent(share: float) -> str:
    """One decimal; what is not 0 does not look like 0.

    >>> _percent(0.123), _percent(0.0), _percent(0.0001), _percent(-0.0001)
    ('12.3%', '0.0%', '<0.1%', '>-0.1%')
    """
    if share and abs(share) < 0.0005:
        return "<0.1%" if share > 0 else ">-0.1%"
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
