"""dpbart experiment: the paper's three settings over models, budgets and data."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dpbart.cli.command import Group, json_option, options_of
from dpbart.cli.datasets import PATH, data_option, different_option
from dpbart.options.settings import Running

if TYPE_CHECKING:
    from dpbart.evaluate.experiment.results import Result, Sample


@click.group(cls=Group)
def experiment() -> None:
    """Run the paper's experiments, or your own, and make their tables and figures."""


@experiment.command()
@click.argument("config")
@data_option
@click.option("--out", type=PATH, help="Folder for the results. Default: CONFIG-results in the current folder.")
@different_option
@options_of(Running, "running")
@json_option
def run(
    config: str, folder: Path | None, out: Path | None, allow_different: bool, running: Running, as_json: bool
) -> None:
    """Rewrite, train and test every cell of CONFIG, a TOML file or a preset (mini, paper).

    You can stop it at any time. The same command continues where it stopped, and computes nothing twice. If a cell
    fails, its error is recorded, the others are still computed, and the exit status is 1.

    \b
        dpbart experiment run mini --data data/ --out results/
    """
    from dpbart.evaluate.data.loading import data_folder
    from dpbart.evaluate.experiment.plan import ExperimentRequest, read_plan

    plan = read_plan(config)
    out = Path(f"{plan.name}-results") if out is None else out
    request = ExperimentRequest(plan, data_folder(folder), out, allow_different, **dict(running))

    from dpbart.evaluate.experiment.experiment import Experiment

    prepared = Experiment.prepare(request)
    for name, data in prepared.data.items():
        if data.unseen:
            click.echo(f"{name}: in test but not in train, so never predicted: {', '.join(data.unseen)}.", err=True)
        if data.untested:
            click.echo(f"{name}: in train but not in test, so without an F1: {', '.join(data.untested)}.", err=True)
    _summarise(prepared.run(), out, as_json)


def _summarise(results: list[Result], out: Path, as_json: bool) -> None:
    """Print how many cells succeeded, and every failure; exit with status 1 if there is one."""
    failed = [each for each in results if each.error is not None]
    if as_json:
        shown = [_as_json(each) for each in failed]
        click.echo(json.dumps({"results": len(results), "failed": shown, "out": str(out)}))
    else:
        click.echo(f"{len(results) - len(failed)} results in {out / 'results.csv'}, {len(failed)} failed.")
    for each in failed:
        setting = each.setting if each.epsilon is None else f"{each.model} {each.mechanism} {each.epsilon:g}"
        click.echo(f"Failed: {each.data} {setting}: {each.error}", err=True)
    if failed:
        raise SystemExit(1)


@experiment.command()
@click.argument("folder", type=PATH)
@click.option("--latex", is_flag=True, help="LaTeX (booktabs) instead of Markdown.")
@click.option("--samples", is_flag=True, help="Sample texts and their rewritings instead of figures.")
@json_option
def table(folder: Path, latex: bool, samples: bool, as_json: bool) -> None:
    """Print a folder of results as the paper's table: BLEU, F1 and its deviation, the original, the controls.

    \b
        dpbart experiment table results/ > table.md
        dpbart experiment table results/ --latex > table.tex
        dpbart experiment table results/ --samples > samples.md
    """
    from dpbart.evaluate.experiment.results import paper_tables, read_results, read_samples, sample_tables

    if samples and latex:
        raise click.UsageError("--samples prints Markdown, or JSON with --json. Leave out --latex.")
    if samples:
        shown = read_samples(folder)
        click.echo(json.dumps([_as_json(each) for each in shown]) if as_json else sample_tables(shown), nl=as_json)
        return
    results = read_results(folder)
    if as_json:
        click.echo(json.dumps([_as_json(each) for each in results]))
        return
    grids = paper_tables(results)
    click.echo("\n".join(grid.as_latex() if latex else grid.as_markdown() for grid in grids), nl=False)


@experiment.command()
@click.argument("folder", type=PATH)
@click.option("--out", type=PATH, help="Image to make (.png, .pdf, .svg). Default: FOLDER/figure.png.")
@click.option("--classifier", help="Classifier to plot. Default: the first.")
def plot(folder: Path, out: Path | None, classifier: str | None) -> None:
    """Plot a folder of results as in the paper: F1 against epsilon, one panel per data set.

    \b
        dpbart experiment plot results/ --out figure.pdf
    """
    from dpbart.evaluate.experiment.figure import draw, panels
    from dpbart.evaluate.experiment.results import read_results

    file = folder / "figure.png" if out is None else out
    draw(panels(read_results(folder), classifier), file)
    click.echo(f"Written to {file}.")


def _as_json(row: Result | Sample) -> dict[str, object]:
    """An infinite epsilon becomes null, as on a card, since JSON has no infinity. Its mechanism is "none"."""
    return {name: None if value == math.inf else value for name, value in asdict(row).items()}
