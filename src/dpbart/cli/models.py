"""dpbart models: list, show and import models."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dpbart.cli.command import Group
from dpbart.version import DEFAULT_MODEL

if TYPE_CHECKING:
    from dpbart.models.bundle import Bundle
    from dpbart.models.code.book import Line


@click.group(cls=Group)
def models() -> None:
    """List, show and import models."""


@models.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_models(as_json: bool) -> None:
    """List the models that ship with the package: what each is for, its language, its length, and the default.

    \b
        dpbart models list
    """
    from dpbart.models.bundle import Bundle, bundled_names
    from dpbart.models.families import family_of

    bundles = [Bundle.find(name) for name in bundled_names()]
    if as_json:
        click.echo(json.dumps([{**_purpose(each), **_short(asdict(each.facts))} for each in bundles]))
        return
    for each in bundles:
        held = _purpose(each)
        click.echo(f"{each.name}{' (the default)' if held['default'] else ''}")
        click.echo(f"  for       {held['purpose']}")
        click.echo(f"  language  {held['language'] or 'not stated'}")
        click.echo(f"  length    reads {held['reads']} tokens, writes at most {held['writes']}")
        click.echo(f"  details   {each.facts.variant}: {family_of(each).summary(each)}")


@models.command()
@click.argument("model")
@click.option("--areas", is_flag=True, help="Show the areas of its book instead, with two sentences each.")
@click.option("--book", is_flag=True, help="Print its book instead: area, topic and sentence in each line.")
@click.option("--topic", help="With --book: only the sentences of this topic.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def show(model: str, areas: bool, book: bool, topic: str | None, as_json: bool) -> None:
    """Show what a model is: its channel, public data, recipe and figures. Or show its book.

    A book is the public list of sentences that can come out of a model.

    \b
        dpbart models show mini
        dpbart models show mini-code --areas
        dpbart models show mini-code --book --topic "being happy"
    """
    from dpbart.models.bundle import Bundle
    from dpbart.models.families import family_of

    if (areas and book) or (topic is not None and not book):
        raise click.UsageError("Give either --areas or --book; --topic goes with --book.")
    bundle = Bundle.find(model)
    if areas:
        _show_areas(bundle, as_json=as_json)
        return
    if book:
        _show_book(bundle, topic, as_json=as_json)
        return
    held = {"name": bundle.name, "weights": bundle.fingerprint, **asdict(bundle.facts)}
    if as_json:
        click.echo(json.dumps(held))
        return
    click.echo(f"{'about':<12} {family_of(bundle).summary(bundle)}")
    for name, value in held.items():
        if value is not None:
            click.echo(f"{name:<12} {_line(value)}")


def _show_areas(bundle: Bundle, *, as_json: bool) -> None:
    from dpbart.errors import BadParameter
    from dpbart.models.areas import areas_of

    found = areas_of(_book_of(bundle))
    if not found:
        raise BadParameter(f"the book of '{bundle.name}' has no areas. Read it with --book.")
    if as_json:
        click.echo(json.dumps([asdict(each) for each in found]))
        return
    for each in found:
        click.echo(f"{each.name}: {each.sentences:,} sentences on {len(each.topics):,} topics")
        for example in each.examples:
            click.echo(f"  {example}")
    click.echo(f"The topics and all sentences: dpbart models show {bundle.name} --book")


def _show_book(bundle: Bundle, topic: str | None, *, as_json: bool) -> None:
    from dpbart.models.code.book import BookUse, write_book

    lines = _book_of(bundle)
    chosen = BookUse(topics=() if topic is None else (topic,)).chosen(lines, model=bundle.name)
    if as_json:
        click.echo(json.dumps([lines[number]._asdict() for number in chosen], ensure_ascii=False))
    else:
        click.echo(write_book(lines[number] for number in chosen), nl=False)


def _book_of(bundle: Bundle) -> tuple[Line, ...]:
    from dpbart.errors import BadParameter
    from dpbart.models.families import family_of

    lines = family_of(bundle).book(bundle)
    if not lines:
        raise BadParameter(
            f"'{bundle.name}' has no book. Choose a model that has one: dpbart models show {DEFAULT_MODEL} --areas"
        )
    return lines


@models.command("import")
@click.argument("source", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Model directory to create.")
@click.option("--base", help="For a BART: directory or hub id that provides the config and the tokenizer.")
@click.option(
    "--pruned",
    type=click.Path(path_type=Path),
    help="For a BART: the authors' file of pruned columns, such as k_prune_neurons_0_4.pt.",
)
@click.option(
    "--clip",
    type=float,
    help="Clip bound; by default the paper's: 0.1 on each entry for BART, 5 on the L2 norm for ADePT.",
)
@click.option("--length", type=int, default=20, show_default=True, help="Tokens per text (the paper uses 20).")
def import_model(
    source: Path, out: Path, base: str | None, pruned: Path | None, clip: float | None, length: int
) -> None:
    """Import a BART or ADePT checkpoint of the paper's authors as a model directory.

    For ADePT, word2idx.json (or vocab.npy) must be next to the checkpoint. Nothing is unpickled.

    \b
        dpbart models import checkpoint.pt --base facebook/bart-base --pruned k_prune_neurons_0_4.pt --out models/pr
        dpbart models import adept/checkpoint.pt --out models/adept
    """
    from dpbart.errors import require_extra

    require_extra("bart", "importing a checkpoint needs", "torch", "transformers")
    from dpbart.models.imported import import_checkpoint

    bundle = import_checkpoint(source, base=base, pruned_file=pruned, clip=clip, length=length, out=out)
    kept = bundle.facts.width if bundle.facts.kept is None else len(bundle.facts.kept)
    click.echo(f"Imported to {out}: {kept} of {bundle.facts.width} columns kept. Rewrite with --model {out}")


def _purpose(bundle: Bundle) -> dict[str, object]:
    """What a user needs to choose a model."""
    from dpbart.models.bundle import VARIANTS
    from dpbart.models.families import family_of

    facts, family = bundle.facts, family_of(bundle)
    return {
        "name": bundle.name,
        "default": bundle.name == DEFAULT_MODEL,
        "purpose": VARIANTS[bundle.kind][facts.variant],
        "language": facts.language,
        "reads": family.reads(bundle, length=facts.length),
        "writes": family.writes(bundle, length=facts.length),
    }


def _short(facts: dict[str, object]) -> dict[str, object]:
    return {name: facts[name] for name in ("variant", "length", "width", "clip", "figures")}


def _line(value: object) -> str:
    if isinstance(value, list | tuple):
        return f"{len(value)}: " + "; ".join(_line(each) for each in value) if value else "none"
    if isinstance(value, dict):
        return ", ".join(f"{key} {_line(each)}" for key, each in value.items()) or "none"
    return str(value)
