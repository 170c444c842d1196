"""dpbart card: verify a privacy card."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import click

from dpbart.cli.command import Group


@click.group(cls=Group)
def card() -> None:
    """Verify the privacy card of an output."""


@card.command()
@click.argument("file", metavar="CARD", type=click.Path(path_type=Path))
@click.option("--key", type=click.Path(path_type=Path), help="Public key (PEM) of the expected signer.")
@click.option("--output", type=click.Path(path_type=Path), help="Output file that the card should describe.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def verify(ctx: click.Context, file: Path, key: Path | None, output: Path | None, as_json: bool) -> None:
    """Check a card's form, arithmetic, pages, signature and output file.

    Every figure is computed again from the bounds and the guarantee, for a text and for a person. The .txt and .html
    pages next to the card are rendered again and compared. The last line says which guarantee was checked.

    The exit status is 0 if no check fails, and 1 if one does. Anybody can sign a card with a key of their own, so a
    signature counts only with --key. With --key, a card without a signature by that key fails.

    \b
        dpbart card verify private.csv.card.json --output private.csv --key public.pem
    """
    from dpbart.privacy.card.verify import verify as check_card

    checks = check_card(file, key=key, output=output)
    if as_json:
        click.echo(json.dumps([asdict(each) for each in checks]))
    else:
        marks = {True: "holds", False: "FAILS", None: "-"}
        for each in checks:
            click.echo(f"{each.name:<10} {marks[each.held]:<6} {each.words}")
    ctx.exit(1 if any(each.held is False for each in checks) else 0)
