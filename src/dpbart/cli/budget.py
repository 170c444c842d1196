"""dpbart budget: show what people have spent, and limit it."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import click

NO_LIMIT = "none"  # in place of an epsilon: takes a limit away

if TYPE_CHECKING:
    from dpbart.privacy.budget.ledger import Entry, Ledger


def _person(_context: click.Context, _option: click.Parameter, given: str | None) -> str | None:
    """Strip an id, as `dpbart rewrite` does. Refuse an empty one: to a ledger, it would mean everybody."""
    if given is not None and not given.strip():
        from dpbart.errors import BadParameter

        raise BadParameter("--person must name a person, got an empty id. Omit it for everybody.")
    return None if given is None else given.strip()


@click.group()
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
    from dpbart.privacy.budget.ledger import Ledger

    with closing(Ledger(ledger)) as opened:
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
@click.argument("epsilon")
@click.option(
    "--person", callback=_person, help="Limit this person only; by default, everybody without a limit of their own."
)
def limit(ledger: Path, epsilon: str, person: str | None) -> None:
    """Set the total EPSILON that a person may spend; 'none' removes the limit.

    \b
        dpbart budget limit budgets.db 5000
        dpbart budget limit budgets.db 1000 --person anna
    """
    from dpbart.errors import BadParameter
    from dpbart.privacy.budget.ledger import EVERYBODY, Ledger
    from dpbart.privacy.decimals import exactly

    try:
        most = None if epsilon == NO_LIMIT else exactly(float(epsilon))
    except ValueError:
        raise BadParameter(f"a limit must be a number or 'none', got {epsilon!r}.") from None
    if most is not None and not most.is_finite():
        raise BadParameter(f"a limit must be finite, got {epsilon!r}. For no limit, pass 'none'.")
    with closing(Ledger(ledger, create=True)) as opened:
        opened.set_limit(most, EVERYBODY if person is None else person)
    whom = "everybody without a limit of their own" if person is None else repr(person)
    click.echo(f"Limit for {whom}: {'none' if most is None else f'epsilon {epsilon}'}.")


def _all(ledger: Ledger) -> dict[str, object]:
    from dpbart.privacy.decimals import written

    summary, everybody = ledger.summary(), ledger.limit()
    return {
        "people": summary.people,
        "texts": summary.texts,
        "limit": None if everybody is None else written(everybody),
        "own_limits": ledger.own_limits(),
        "most_spent": None if summary.most is None else written(summary.most[1].epsilon),
        "by": None if summary.most is None else summary.most[0],
        "runs": [_line(each) for each in summary.runs],
    }


def _one(ledger: Ledger, person: str) -> dict[str, object]:
    from dpbart.privacy.decimals import minus, written

    spent, most = ledger.spent(person), ledger.limit(person)
    left = most if most is None or spent is None else minus(most, spent.epsilon)
    return {
        "person": person,
        "spent": "0" if spent is None else written(spent.epsilon),
        "delta": "0" if spent is None else written(spent.delta),
        "composition": None if spent is None else spent.rule,
        "limit": None if most is None else written(most),
        "left": None if left is None else written(left),
        "runs": [_line(each) for each in ledger.entries(person)],
    }


def _line(entry: Entry) -> dict[str, object]:
    from dpbart.privacy.decimals import written

    run = entry.run
    return {
        "run": run.name,
        "begun": run.begun,
        "last": entry.last,
        "texts": entry.texts,
        "mechanism": run.mechanism,
        "epsilon": written(run.release.epsilon),
        "delta": written(run.release.delta),
        "model": run.model,
    }
