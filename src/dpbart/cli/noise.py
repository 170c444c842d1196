"""dpbart noise: what a budget means, computed without loading weights."""

from __future__ import annotations

import json
import textwrap
from typing import TYPE_CHECKING

import click

from dpbart.cli.command import Configured, json_option, options_of
from dpbart.errors import BadParameter
from dpbart.options.settings import Budget, NoiseQuestion, Settings

if TYPE_CHECKING:
    from dpbart.privacy.facts import Facts
    from dpbart.rewrite.chosen import ChosenModel


@click.command(cls=Configured)
@options_of(NoiseQuestion, "asked")
@json_option
def noise(asked: NoiseQuestion, as_json: bool) -> None:
    """Show what a budget means: how much is randomised, what gets through, and how well an attacker can guess.

    It loads no weights. Give a model, or the shape of a latent.

    \b
        dpbart noise --epsilon 10
        dpbart noise --epsilon 4 --areas assistants
        dpbart noise --epsilon 6 --people 100000 --delta 1e-6
        dpbart noise --epsilon 1 --people 4000 --collection --labels 5
        dpbart noise --epsilon 500 --model mini-pr-plus
        dpbart noise --epsilon 500 --delta 1e-5 --length 20 --columns 182 --clip 0.1
    """
    if asked.collection:
        _collection(asked, as_json=as_json)
        return
    from dpbart.rewrite.chosen import refuse_idle_delta
    from dpbart.rewrite.figures import noise_json, noise_words, shuffled_json, shuffled_words
    from dpbart.rewrite.shuffle import promise_to

    chosen = _chosen(asked)
    facts = _of_a_latent(asked) if chosen is None else chosen.channel.facts
    people, delta = asked.people, asked.delta
    refuse_idle_delta(delta, facts, used=people is not None)
    if as_json:
        shuffled = {} if people is None else {"shuffled": shuffled_json(facts, people=people, delta=delta)}
        click.echo(json.dumps({**noise_json(facts, chosen), **shuffled}, allow_nan=False))
        return
    shuffled_lines = () if people is None else shuffled_words(promise_to(people, facts, delta=delta), facts)
    _show([*noise_words(facts, chosen), *shuffled_lines])


def _collection(asked: NoiseQuestion, *, as_json: bool) -> None:
    """What to expect of a whole collection."""
    from dpbart.collect.expect import Expected
    from dpbart.options.collecting import CollectionBudget
    from dpbart.options.declare import from_flat, leaves

    budget = from_flat(CollectionBudget, {leaf.name: leaf.value(asked) for leaf in leaves(CollectionBudget)})
    expected = Expected.of(budget, people=asked.people or 0, labels=asked.labels or 0)
    if as_json:
        click.echo(json.dumps(expected.as_json(), allow_nan=False))
    else:
        _show(expected.lines)


def _show(lines: list[tuple[str, str]]) -> None:
    for name, words in lines:
        click.echo(textwrap.fill(words, 100, initial_indent=f"{name:<13}", subsequent_indent=" " * 13))


def _chosen(asked: NoiseQuestion) -> ChosenModel | None:
    """The model; None if the shape of a latent is given."""
    from dpbart.options.declare import from_flat, leaves
    from dpbart.rewrite.chosen import ChosenModel

    if (asked.length, asked.columns, asked.clip) == (None, None, None):
        return ChosenModel(from_flat(Settings, {leaf.name: leaf.value(asked) for leaf in leaves(Budget)}))
    if asked.areas or asked.topics or asked.book_only:
        raise BadParameter("a latent of a given shape has no book. Leave out --length, --columns and --clip.")
    return None


def _of_a_latent(asked: NoiseQuestion) -> Facts:
    """The facts of a channel for a latent of the given shape, clipped by value."""
    from dpbart.channels.columns import Columns, ColumnsChannel
    from dpbart.privacy.clipping import ByValue
    from dpbart.privacy.mechanisms import make_noise

    mechanism = make_noise(asked.mechanism or "gaussian", epsilon=asked.epsilon, delta=asked.delta)
    clip = ByValue(0.1 if asked.clip is None else asked.clip)
    return ColumnsChannel(Columns.all(asked.columns or 768), clip, mechanism, asked.length or 20).facts
