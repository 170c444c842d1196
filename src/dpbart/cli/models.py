"""dpbart models: list, show and import models."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dpbart import DEFAULT_MODEL
from dpbart.cli.command import Group

if TYPE_CHECKING:
    from dpbart.models.bundle import Bundle


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
        click.echo(f"  details   {each.facts.variant}: {each.family.summary(each)}")


@models.command()
@click.argument("model")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def show(model: str, as_json: bool) -> None:
    """Show what a model is: its channel, public data, recipe and figures.

    \b
        dpbart models show mini
    """
    from dpbart.models.bundle import Bundle

    bundle = Bundle.find(model)
    held = {"name": bundle.name, "weights": bundle.fingerprint, **asdict(bundle.facts)}
    if as_json:
        click.echo(json.dumps(held))
        return
    click.echo(f"{'about':<12} {bundle.family.summary(bundle)}")
    for name, value in held.items():
        if value is not None:
            click.echo(f"{name:<12} {_line(value)}")


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
    from dpbart.models.imported.checkpoint import import_checkpoint

    bundle = import_checkpoint(source, base=base, pruned_file=pruned, clip=clip, length=length, out=out)
    kept = bundle.facts.width if bundle.facts.kept is None else len(bundle.facts.kept)
    click.echo(f"Imported to {out}: {kept} of {bundle.facts.width} columns kept. Rewrite with --model {out}")


def _purpose(bundle: Bundle) -> dict[str, object]:
    """What somebody who chooses a model wants to know."""
    facts, family = bundle.facts, bundle.family
    return {
        "name": bundle.name,
        "default": bundle.name == DEFAULT_MODEL,
        "purpose": family.variants[facts.variant],
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
