"""dpbart experiment: the paper's three settings over models, budgets and data."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dpbart.cli.datasets import data_option, different_option, json_option

if TYPE_CHECKING:
    from dpbart.evaluate.experiment.results import Result, Sample


@click.group()
def experiment() -> None:
    """Run the paper's experiments, or your own, and make their tables and figures."""


@experiment.command()
@click.argument("config")
@data_option
@click.option("--out", type=click.Path(path_type=Path), help="Folder of the results; CONFIG-results here by default.")
@different_option
@json_option
def run(config: str, folder: Path | None, out: Path | None, allow_different: bool, as_json: bool) -> None:
    """Rewrite, train, test: every cell of CONFIG, a TOML file or a preset (mini, paper).

    Stop it at any time; the same command goes on where it was, and computes nothing twice. A cell that fails is
    recorded with its error, the others go on, and the exit status is 1.

    \b
        dpbart experiment run mini --data data/ --out results/
    """
    from dpbart.evaluate.data.datasets import data_folder
    from dpbart.evaluate.experiment.plan import read_plan

    plan = read_plan(config)
    place = data_folder(folder)

    from dpbart.evaluate.experiment.experiment import Experiment, Task

    out = Path(f"{plan.name}-results") if out is None else out
    prepared = Experiment.prepare(Task(plan, place, out, allow_different))
    for name, data in prepared.data.items():
        if data.unseen:
            click.echo(f"{name}: in test but not in train, so never right: {', '.join(data.unseen)}.", err=True)
        if data.untested:
            click.echo(f"{name}: in train but not in test, so without an F1: {', '.join(data.untested)}.", err=True)
    results = prepared.run()
    failed = [each for each in results if each.error is not None]
    if as_json:
        click.echo(
            json.dumps({"results": len(results), "failed": [_as_json(each) for each in failed], "out": str(out)})
        )
    else:
        click.echo(f"{len(results) - len(failed)} results in {out / 'results.csv'}, {len(failed)} failed.")
    for each in failed:
        setting = each.setting if each.epsilon is None else f"{each.model} {each.mechanism} {each.epsilon:g}"
        click.echo(f"Failed: {each.data} {setting}: {each.error}", err=True)
    if failed:
        raise SystemExit(1)


@experiment.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--latex", is_flag=True, help="LaTeX (booktabs) instead of Markdown.")
@click.option("--samples", is_flag=True, help="Texts and what became of them instead of figures.")
@json_option
def table(folder: Path, latex: bool, samples: bool, as_json: bool) -> None:
    """The paper's table of a folder of results: BLEU, F1 and its deviation, the original, the controls.

    \b
        dpbart experiment table results/ > table.md
        dpbart experiment table results/ --latex > table.tex
        dpbart experiment table results/ --samples > samples.md
    """
    from dpbart.evaluate.experiment.report import paper_tables, sample_tables
    from dpbart.evaluate.experiment.results import read_results, read_samples

    if samples and latex:
        raise click.UsageError("--samples are Markdown, or JSON with --json. Leave out --latex.")
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
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "--out", type=click.Path(path_type=Path), help="Image to make (.png, .pdf, .svg); DIR/figure.png by default."
)
@click.option("--classifier", help="Whose F1 to draw; the first by default.")
def plot(folder: Path, out: Path | None, classifier: str | None) -> None:
    """The paper's figure of a folder of results: F1 against epsilon, one panel a data set.

    \b
        dpbart experiment plot results/ --out figure.pdf
    """
    from dpbart.evaluate.experiment.figure import draw, panels
    from dpbart.evaluate.experiment.results import read_results

    file = folder / "figure.png" if out is None else out
    draw(panels(read_results(folder), classifier), file)
    click.echo(f"Drawn to {file}.")


def _as_json(row: Result | Sample) -> dict[str, object]:
    """An infinite epsilon is null, as on a card: JSON knows no infinity. The mechanism "none" tells it."""
    return {name: None if value == math.inf else value for name, value in asdict(row).items()}
