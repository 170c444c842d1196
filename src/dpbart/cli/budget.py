"""dpbart budget: show what people have spent, and limit it."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dpbart.cli.command import Group

NO_LIMIT = "none"  # in place of an epsilon: takes a limit away

if TYPE_CHECKING:
    from decimal import Decimal

    from dpbart.privacy.budget.ledger import Ledger
    from dpbart.privacy.budget.listing import Listing


def _person(_context: click.Context, _option: click.Parameter, given: str | None) -> str | None:
    """The normal form of an id, as in `dpbart rewrite`. An empty one is refused: it would mean everybody."""
    if given is None:
        return None
    from dpbart.privacy.budget.ids import normal_id

    person = normal_id(given)
    if not person:
        from dpbart.errors import BadParameter

        raise BadParameter("--person must name a person, got an empty id. Omit it for everybody.")
    return person


@click.group(cls=Group)
def budget() -> None:
    """Show what people have spent according to a ledger, and limit it."""


@budget.command()
@click.argument("ledger", type=click.Path(path_type=Path))
@click.option("--person", callback=_person, help="Show one person: all runs, and the budget left.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def show(ledger: Path, person: str | None, as_json: bool) -> None:
    """Show the runs in a ledger and who has spent most, or everything about one person.

    \b
        dpbart budget show budgets.db
        dpbart budget show budgets.db --person anna --json
    """
    from dpbart.privacy.budget.listing import Listing

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
    from dpbart.errors import BadParameter
    from dpbart.privacy.budget.ledger import Ledger
    from dpbart.privacy.budget.schema import EVERYBODY
    from dpbart.privacy.decimals import exactly, written

    if epsilon is None and delta is None:
        raise BadParameter("a limit must have an epsilon or a delta, got neither. Pass EPSILON or --delta D.")
    most = _epsilon(epsilon)
    whom = EVERYBODY if person is None else person
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
    from dpbart.errors import BadParameter
    from dpbart.privacy.decimals import exactly

    try:
        most = None if given is None or given == NO_LIMIT else exactly(float(given))
    except ValueError:
        raise BadParameter(f"a limit must be a number or 'none', got {given!r}.") from None
    if most is not None and not most.is_finite():
        raise BadParameter(f"a limit must be finite, got {given!r}. For no limit, pass 'none'.")
    return most


def _all(ledger: Ledger) -> dict[str, object]:
    from dpbart.privacy.budget.listing import entry_json
    from dpbart.privacy.decimals import written

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
    from dpbart.errors import BadParameter
    from dpbart.privacy.budget.listing import entry_json
    from dpbart.privacy.decimals import written

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
