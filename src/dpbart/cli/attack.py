"""dpbart attack: what a curious recipient gets, as a table and a picture over epsilon."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from dpbart.cli.command import Command, json_option, options_of
from dpbart.options.evidence import AttackRequest

if TYPE_CHECKING:
    from dpbart.evidence.attack import AttackReport

_WIDTH = 140  # of a table that no terminal shows


@click.command(cls=Command)
@options_of(AttackRequest, "asked")
@json_option
def attack(asked: AttackRequest, as_json: bool) -> None:
    """Show what a curious recipient gets: attack rewritten public texts, over several budgets.

    TEXTS are public or made up, never private. A part of them becomes a file that is rewritten and attacked: which of
    many candidates a text came from, whether a text is in the file, who wrote it, which attribute its author has,
    names, numbers and rare words, lengths, and which rows were replaced at random.

    Beside each score stand chance, the bound that the guarantee gives, and three controls. On the original texts the
    attack must succeed. On the rewritings of unrelated texts it must not. On the rewritings of phantoms, which are the
    most similar texts outside the file, it shows what general knowledge gives: that much is no leak.

    With --release collection, each text is that of a person, and the attacker sees a collection that was synthesised
    from half of them: who took part, and whether their names, numbers and rare words stand in it.

    \b
        dpbart attack reviews.csv --public --epsilon 1,4,10,20 --plot attack.png
        dpbart attack reviews.csv --public --release collection --epsilon .5,1,2,4
        dpbart attack novels.parquet --public --author-column author --group-column part --epsilon 10 --json
    """
    if asked.plot is not None:
        from dpbart.collect.picture import check_picture

        check_picture(asked.plot)
    if asked.release == "collection":
        from dpbart.evidence.collected import attack_collections

        found = attack_collections(asked)
    else:
        from dpbart.evidence.attack import attack_file

        found = attack_file(asked)
    if asked.plot is not None:
        from dpbart.evidence.attack_picture import draw_attacks

        draw_attacks(found, asked.plot)
    if as_json:
        click.echo(json.dumps(found.as_dict()))
    else:
        _show(found)


def _show(found: AttackReport) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False, markup=False)
    if not console.is_terminal:
        console = Console(highlight=False, markup=False, width=_WIDTH)
    own = f", {found.own:,} the attacker's own" if found.own else ""
    what = "texts in the file" if found.release == "single" else "people in each collection"
    console.print(f"{found.model}: {found.in_file:,} {what}, {found.outside:,} outside it{own}.")
    for budget in found.budgets:
        table = Table(box=None, padding=(0, 1), title=f"epsilon {budget.epsilon:g}", title_justify="left")
        for name in ("attack", "score", "±", "chance", "bound", "phantom", "unrelated", "originals", "counts", "by"):
            table.add_column(name, justify="left" if name in ("attack", "counts", "by") else "right", no_wrap=True)
        for each in budget.scores:
            figures = (each.chance, each.bound, each.phantom, each.unrelated, each.originals)
            table.add_row(
                each.attack,
                f"{each.score:.3f}",
                f"{each.spread:.3f}",
                *("" if figure is None else f"{figure:.3f}" for figure in figures),
                each.measure,
                each.by,
            )
        console.print(table)
    console.print(
        "A score above its phantom is what the attack learns about the texts of the file. ± is one standard error."
    )
