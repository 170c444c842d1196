"""dpbart advise: which epsilon to choose."""

from __future__ import annotations

import json
from pathlib import Path

import click

from dpbart.cli.command import Command, json_option, options_of
from dpbart.errors import BadParameter, require_extra
from dpbart.options.evidence import AdviceRequest


@click.command(cls=Command)
@options_of(AdviceRequest, "asked")
@json_option
def advise(asked: AdviceRequest, as_json: bool) -> None:
    """Advise which epsilon to choose, from public texts like the private ones.

    For single texts, shuffled texts and the collection as a whole, at several budgets: what is kept, what attackers
    get, and what all texts of a person add up to. Then a recommendation, its reasons, and what would change it, as a
    page that you can file. Never give it the private texts.

    The figures are kept next to the page, without any text. A run that was interrupted continues, and the same question
    is answered at once.

    \b
        dpbart advise public.csv --public --texts-per-person 3 --people 4000 --out advice.html
        dpbart advise public.csv --public --label-column intent --texts-per-person 1 --people 20000 \\
            --trusted-curator --out advice.html --json
    """
    if asked.out.suffix.lower() not in (".html", ".htm"):
        raise BadParameter(f"--out must be an .html file, got '{asked.out.name}'.")
    require_extra("evaluate", "advice needs", "sklearn")
    from dpbart.evidence.advice_page import advice_page
    from dpbart.evidence.recommend import advise as measured_advice
    from dpbart.files import write_whole

    advice = measured_advice(asked, kept=figures_file(asked.out))
    write_whole(asked.out, advice_page(advice))
    if as_json:
        click.echo(json.dumps(advice.as_dict(), allow_nan=False))
        return
    for line in (advice.headline, *advice.reasons, "", *advice.changes):
        click.echo(line)
    click.echo(f"The page: {asked.out}", err=True)


def figures_file(page: Path) -> Path:
    """Where the figures of a page are kept."""
    return page.with_name(f"{page.name}.figures.json")
