"""dpbart noise: what a budget means, computed without loading weights."""

from __future__ import annotations

import json
import math
import textwrap
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from dpbart import DEFAULT_MODEL
from dpbart.cli.command import Command

if TYPE_CHECKING:
    from dpbart.privacy.facts import Facts
    from dpbart.privacy.guarantee import Guarantee
    from dpbart.privacy.shuffling.release import ShuffledRelease


@click.command(cls=Command)
@click.option("-e", "--epsilon", type=float, required=True, help="Privacy budget of one text; smaller is more private.")
@click.option("-d", "--delta", type=float, default=1e-5, show_default=True, help="Slack in the guarantee.")
@click.option("-m", "--model", default=DEFAULT_MODEL, show_default=True, help="Bundled name, directory, or hub id.")
@click.option("--mechanism", metavar="NAME", help="response, gaussian or laplace; by default the model's own.")
@click.option("--length", type=int, help="Instead of a model: positions in a latent.  [default: 20]")
@click.option("--columns", type=int, help="Instead of a model: columns kept per position.  [default: 768]")
@click.option("--clip", type=float, help="Instead of a model: bound on each entry of a latent.  [default: 0.1]")
@click.option("--people", type=int, help="Also show the guarantee of a shuffled output with one row for each of these.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def noise(
    epsilon: float,
    delta: float,
    model: str,
    mechanism: str | None,
    length: int | None,
    columns: int | None,
    clip: float | None,
    people: int | None,
    as_json: bool,
) -> None:
    """Show what a budget means: how much is randomised, what gets through, and how well an attacker can guess.

    It loads no weights. Give a model, or the shape of a latent.

    \b
        dpbart noise --epsilon 10
        dpbart noise --epsilon 6 --people 100000 --delta 1e-6
        dpbart noise --epsilon 500 --model mini-pr-plus
        dpbart noise --epsilon 500 --delta 1e-5 --length 20 --columns 182 --clip 0.1
    """
    if (length, columns, clip) == (None, None, None):
        from dpbart.rewrite.settings import Settings

        facts = Settings(model, epsilon, delta, mechanism).channel.facts
    else:
        facts = _latent_facts(epsilon, delta, mechanism or "gaussian", length or 20, columns, clip)
    shuffled = None if people is None else _shuffled(facts, people, delta)
    show = _show_json if as_json else _show_words
    show(facts, shuffled)


def _shuffled(facts: Facts, people: int, delta: float) -> ShuffledRelease:
    from dpbart.rewrite.shuffle import promise_to

    return promise_to(people, facts, delta=delta)


def _show_json(facts: Facts, shuffled: ShuffledRelease | None) -> None:
    from dpbart.privacy.scale import A_MILLION_LOG2

    figures = {
        "mechanism": facts.mechanism,
        "epsilon": facts.guarantee.epsilon,
        "delta": facts.guarantee.delta,
        **facts.figures,
        "bits": facts.bits,
        "right_of_two": facts.right_of_two,
        "right_of_a_million": facts.right_of_many(candidates_log2=A_MILLION_LOG2),
        **({} if shuffled is None else {"shuffled": asdict(shuffled)}),
    }
    click.echo(json.dumps(figures))


def _show_words(facts: Facts, shuffled: ShuffledRelease | None) -> None:
    from dpbart.privacy.scale import in_words

    for name, words in (*in_words(facts), *([] if shuffled is None else _shuffled_lines(shuffled))):
        click.echo(textwrap.fill(words, 100, initial_indent=f"{name:<13}", subsequent_indent=" " * 13))


def _shuffled_lines(shuffled: ShuffledRelease) -> list[tuple[str, str]]:
    """The central guarantee next to the local one above, and who is trusted for what."""
    return [
        ("Shuffled", f"{_rounded_up(shuffled.guarantee)} to those who see only the output of --shuffle"),
        (
            "Known rows",
            f"{_rounded_up(shuffled.known_guarantee)} to those who also know {shuffled.known:,} of the rows",
        ),
        (
            "Trust",
            "Whoever runs the command sees the order of the rows. The guarantee at the top holds for them and for "
            "everybody else. The shuffled one counts the other people as honest and unknown.",
        ),
    ]


def _rounded_up(guarantee: Guarantee) -> str:
    """With few digits, so that nobody takes the bound for exact.

    >>> from dpbart.privacy.guarantee import Guarantee
    >>> _rounded_up(Guarantee(0.52341, 1e-06))
    '(epsilon 0.524, delta 1e-06)'
    """
    digits = 2 - math.floor(math.log10(guarantee.epsilon))
    return f"(epsilon {math.ceil(guarantee.epsilon * 10**digits) / 10**digits:g}, delta {guarantee.delta:g})"


def _latent_facts(
    epsilon: float, delta: float, mechanism: str, length: int, columns: int | None, clip: float | None
) -> Facts:
    """The facts of a channel for a latent of this shape, clipped by value."""
    from dpbart.channels.columns import Columns, ColumnsChannel
    from dpbart.errors import BadParameter
    from dpbart.privacy.clipping import ByValue
    from dpbart.privacy.mechanisms import make_noise

    width = 768 if columns is None else columns
    for name, value in (("length", length), ("columns", width)):
        if value < 1:
            raise BadParameter(f"{name} must be at least 1, got {value}.")
    chosen = make_noise(mechanism, epsilon=epsilon, delta=delta)
    return ColumnsChannel(Columns.all(width), ByValue(0.1 if clip is None else clip), chosen, length).facts
