"""dpbart budget: show what people have spent, and limit it. dpbart card: show and verify a privacy card."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dpbart.cli.command import Group, json_option
from dpbart.errors import BadParameter
from dpbart.privacy.guarantee import exactly, written

if TYPE_CHECKING:
    from decimal import Decimal

    from dpbart.card.record import CardFacts
    from dpbart.ledger.ledger import Ledger, Listing

NO_LIMIT = "none"  # in place of an epsilon: takes a limit away


def _person(_context: click.Context, _option: click.Parameter, given: str | None) -> str | None:
    """The normal form of an id, as in `dpbart rewrite`. An empty one is refused: it would mean everybody."""
    if given is None:
        return None
    from dpbart.ledger.ids import normal_id

    person = normal_id(given)
    if not person:
        raise BadParameter("--person must name a person, got an empty id. Omit it for everybody.")
    return person


@click.group(cls=Group)
def budget() -> None:
    """Show what people have spent according to a ledger, and limit it."""


@budget.command()
@click.argument("ledger", type=click.Path(path_type=Path))
@click.option("--person", callback=_person, help="Show one person: all runs, and the budget left.")
@json_option
def show(ledger: Path, person: str | None, as_json: bool) -> None:
    """Show the runs in a ledger and who has spent most, or everything about one person.

    \b
        dpbart budget show budgets.db
        dpbart budget show budgets.db --person anna --json
    """
    from dpbart.ledger.ledger import Listing

    with closing(Listing(ledger)) as opened:
        held = _all(opened) if person is None else _one(opened, person)
    if as_json:
        click.echo(json.dumps(held))
        return
    runs = held.pop("runs")
    for name, value in held.items():
        click.echo(f"{name.replace('_', ' ').capitalize():<13}{'none' if value is None else value}")
    for run in runs if isinstance(runs, list) else []:
        click.echo(
            f"  {run['last']}  run {run['run']}: {run['texts']:,} texts by {run['mechanism']}, each with epsilon "
            f"{run['epsilon']}, delta {run['delta']}; {run['model']}"
        )


@budget.command()
@click.argument("ledger", type=click.Path(path_type=Path))
@click.argument("epsilon", required=False)
@click.option("-d", "--delta", type=float, help="Delta at which spending is measured; must be below 1/people.")
@click.option(
    "--person", callback=_person, help="Limit this person only; by default, everybody without a limit of their own."
)
def limit(ledger: Path, epsilon: str | None, delta: float | None, person: str | None) -> None:
    """Set the total EPSILON that a person may spend; 'none' removes the limit.

    What a person has spent is the epsilon of all their texts at one delta. A new ledger has delta 1e-5, or less
    if it has 10,000 people or more.

    \b
        dpbart budget limit budgets.db 100
        dpbart budget limit budgets.db 50 --person anna
        dpbart budget limit budgets.db --delta 1e-7
    """
    from dpbart.ledger.database import EVERYBODY
    from dpbart.ledger.ledger import Ledger

    if epsilon is None and delta is None:
        raise BadParameter("a limit must have an epsilon or a delta, got neither. Pass EPSILON or --delta D.")
    most, whom = _epsilon(epsilon), EVERYBODY if person is None else person
    with closing(Ledger(ledger, create=True)) as opened:
        if delta is not None:
            opened.set_delta(exactly(delta), whom)
        if epsilon is not None:
            opened.set_limit(most, whom)
        now = opened.limit(whom)
    who = "everybody without a limit of their own" if person is None else repr(person)
    held = "none" if now.epsilon is None else f"epsilon {written(now.epsilon)}"
    click.echo(f"Limit for {who}: {held}, at delta {written(now.delta)}.")


def _epsilon(given: str | None) -> Decimal | None:
    """The limit as a decimal; None for no limit."""
    try:
        most = None if given is None or given == NO_LIMIT else exactly(float(given))
    except ValueError:
        raise BadParameter(f"a limit must be a number or 'none', got {given!r}.") from None
    if most is not None and not most.is_finite():
        raise BadParameter(f"a limit must be finite, got {given!r}. For no limit, pass 'none'.")
    return most


def _all(ledger: Ledger) -> dict[str, object]:
    from dpbart.ledger.ledger import entry_json

    summary, everybody = ledger.summary(), ledger.limit()
    return {
        "people": summary.people,
        "texts": summary.texts,
        "limit": None if everybody.epsilon is None else written(everybody.epsilon),
        "delta": written(everybody.delta),
        "own_limits": ledger.own_limits(),
        "most_spent": None if summary.most is None else written(summary.most[1].epsilon),
        "by": None if summary.most is None else summary.most[0],
        "runs": [entry_json(each) for each in summary.runs],
    }


def _one(ledger: Listing, person: str) -> dict[str, object]:
    from dpbart.ledger.ledger import entry_json

    if not ledger.knows(person):
        raise BadParameter(f"nobody with the id {person!r} is in the ledger. Check the id: ids are case-sensitive.")
    found = ledger.spending(person)
    return {
        "person": person,
        "spent": written(found.epsilon),
        "delta": written(found.limit.delta),
        "composition": None if found.spent is None else found.spent.rule,
        "limit": None if found.limit.epsilon is None else written(found.limit.epsilon),
        "left": None if found.left is None else written(found.left),
        "runs": [entry_json(each) for each in found.entries],
    }


@click.group(cls=Group)
def card() -> None:
    """Show and verify the privacy card of an output."""


@card.command("show")
@click.argument("file", metavar="CARD", type=click.Path(path_type=Path))
@json_option
def show_card(file: Path, as_json: bool) -> None:
    """Show a card as text. This checks nothing: anybody can write a card. To check one, use 'dpbart card verify'.

    \b
        dpbart card show private.csv.card.json
    """
    from dpbart.card.card import read_card

    shown = read_card(file)
    try:
        page = json.dumps(shown.as_dict()) + "\n" if as_json else shown.as_text()
    except (KeyError, TypeError, ValueError, ArithmeticError):
        raise BadParameter(f"no channel has the figures on {str(file)!r}. See: dpbart card verify") from None
    click.echo(page, nl=False)


@card.command()
@click.argument("file", metavar="CARD", type=click.Path(path_type=Path))
@click.option("--key", type=click.Path(path_type=Path), help="Public key (PEM) of the expected signer.")
@click.option("--output", type=click.Path(path_type=Path), help="Output file that the card should describe.")
@json_option
@click.pass_context
def verify(ctx: click.Context, file: Path, key: Path | None, output: Path | None, as_json: bool) -> None:
    """Check a card's form, arithmetic, pages, signature and output file.

    Every figure is computed again from the bounds and the guarantee, for a text and for a person. The .txt and .html
    pages next to the card must be those that it was written with. With --output, the rows are counted. The last line
    says which guarantee was checked.

    The exit status is 0 if no check fails, and 1 if one does. Anybody can write a card that is consistent, or sign one
    with a key of their own. So only with --key does this show who made the card. With --key, a card without a signature
    by that key fails.

    \b
        dpbart card verify private.csv.card.json --output private.csv --key public.pem
    """
    from dpbart.card.verify import verify as check_card

    checks = check_card(file, key=key, output=output, count=_count_rows)
    if as_json:
        click.echo(json.dumps([asdict(each) for each in checks]))
    else:
        marks = {True: "holds", False: "FAILS", None: "-"}
        for each in checks:
            click.echo(f"{each.name:<10} {marks[each.held]:<6} {each.words}")
    ctx.exit(1 if any(each.held is False for each in checks) else 0)


def _count_rows(output: Path, card: CardFacts) -> int:
    """The rows of an output. If the card has one row, a .txt file may be one text of many lines."""
    from dpbart.options.rewriting import Dialect
    from dpbart.tables.table import open_table

    table = open_table(output, text_column=card.row.columns[0], dialect=Dialect(document=card.rows == 1))
    return table.visit() or 0
