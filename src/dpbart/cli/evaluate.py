"""dpbart evaluate: how much a rewriting kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dpbart.cli.command import Group
from dpbart.cli.judge import INSIDE_CODE, fluency, names, similarity
from dpbart.cli.options import json_option, text_option
from dpbart.evaluate.classifiers import CLASSIFIERS, make_classifier
from dpbart.evaluate.classifiers.vectors import VectorsClassifier

if TYPE_CHECKING:
    from dpbart.evaluate.data.splits import Splits


@click.group(cls=Group)
def evaluate() -> None:
    """Measure how much a rewriting kept: wording, meaning, names, fluency, and what a classifier can still learn."""


for command in (similarity, names, fluency):
    evaluate.add_command(command)


@evaluate.command()
@click.argument("original", type=click.Path(path_type=Path))
@click.argument("rewritten", type=click.Path(path_type=Path))
@text_option
@json_option
def bleu(original: Path, rewritten: Path, text_column: str, as_json: bool) -> None:
    """Corpus BLEU of REWRITTEN against ORIGINAL, row by row, and its signature.

    Originals count as a whole. A model that reads only the first tokens of a text loses the rest, and BLEU shows it.

    \b
        dpbart evaluate bleu reviews.csv private.csv
    """
    from dpbart.evaluate.data.pairs import read_pairs
    from dpbart.evaluate.scores.bleu import measure_kept

    texts = read_pairs(original, rewritten, text_column=text_column)
    kept = measure_kept(*texts)
    if as_json:
        figures = {"bleu": kept.bleu, "content_words": kept.content_words, "texts": len(texts[0]), "originals": "whole"}
        click.echo(json.dumps({**figures, "signature": kept.signature}))
        return
    click.echo(f"BLEU           {kept.bleu:.2f} of 100 over {len(texts[0]):,} texts")
    click.echo(f"Content words  {kept.content_words:.1%} kept")
    click.echo("Originals      whole texts: whatever the model did not read counts as lost")
    click.echo(f"Signature      {kept.signature}")


@evaluate.command()
@click.option("--train", type=click.Path(path_type=Path), required=True, help="Rewritten texts to learn from.")
@click.option("--valid", type=click.Path(path_type=Path), required=True, help="Rewritten texts to tune on.")
@click.option("--test", type=click.Path(path_type=Path), required=True, help="ORIGINAL texts to test on.")
@click.option("--classifier", type=click.Choice(list(CLASSIFIERS)), default="encoder", show_default=True)
@click.option(
    "--encoder", default="mini", show_default=True, help="Bundled name, directory, or hub id. Encoder and vectors only."
)
@click.option(
    "--learning-rate",
    type=float,
    multiple=True,
    default=(5e-4, 2e-4),
    show_default=True,
    help="To search among; may be repeated. Encoder only.",
)
@click.option(
    "--seeds", type=int, default=3, show_default=True, help="Number of trainings to average over. Encoder only."
)
@click.option("--epochs", type=int, default=50, show_default=True, help="Most epochs to train. Encoder only.")
@click.option(
    "--patience",
    type=int,
    default=5,
    show_default=True,
    help="Stop after this many epochs without a better F1 on valid. Encoder only.",
)
@click.option("-e", "--epsilon", type=float, help="Epsilon of the rewriting; adds the label-alone control.")
@text_option
@click.option("--label-column", default="label", show_default=True, help="Column that holds the labels.")
@json_option
def downstream(
    train: Path,
    valid: Path,
    test: Path,
    classifier: str,
    encoder: str,
    learning_rate: tuple[float, ...],
    seeds: int,
    epochs: int,
    patience: int,
    epsilon: float | None,
    text_column: str,
    label_column: str,
    as_json: bool,
) -> None:
    """Macro F1 on original texts of a classifier trained only on rewritten texts.

    For comparison, it also prints the F1 of guessing the most frequent label, and two controls: training on the same
    texts with shuffled labels, and, with --epsilon, releasing the label alone by randomised response.

    \b
        dpbart evaluate downstream --train train.csv --valid valid.csv --test test.csv --epsilon 500
    """
    search = {"learning_rates": learning_rate, "seeds": tuple(range(seeds))}
    chosen = make_classifier(classifier, {"encoder": encoder, "epochs": epochs, "patience": patience, **search})
    if isinstance(chosen, VectorsClassifier) and chosen.files.inside_code:
        click.echo(INSIDE_CODE, err=True)

    from dpbart.evaluate.experiment.classification import classify_once

    data = _read({"train": train, "valid": valid, "test": test}, text_column, label_column)
    for label in data.unseen:
        click.echo(f"Label '{label}' is in {test} but not in {train}: no classifier can predict it.", err=True)
    for label in data.untested:
        click.echo(f"Label '{label}' is in {train} but not in {test}: it has no F1.", err=True)
    figures = classify_once(chosen, data, epsilon=epsilon)
    if as_json:
        click.echo(json.dumps({**figures, "unseen": data.unseen, "untested": data.untested}))
        return
    _show(figures)


def _read(files: dict[str, Path], text_column: str, label_column: str) -> Splits:
    from dpbart.evaluate.data.splits import Splits
    from dpbart.evaluate.data.tables import read_table

    return Splits.of(
        (split, row)
        for split, file in files.items()
        for _, row in read_table(file, text_column=text_column, label_column=label_column, split_column=None)
    )


def _show(figures: dict[str, object]) -> None:
    """Print the figures for a person to read."""

    def spread(name: str) -> str:
        deviation = figures[f"{name}_deviation"]
        return f"{figures[f'{name}_mean']:.4f}" + (f" ± {deviation:.4f}" if deviation is not None else "")

    click.echo(f"Macro F1        {spread('f1')} over {figures['seeds']} trainings")
    click.echo(f"Accuracy        {spread('accuracy')}")
    click.echo(f"Most frequent   {figures['majority_f1']:.4f} macro F1 by always guessing the most frequent label")
    click.echo(f"Shuffled        {figures['shuffled_f1']:.4f} macro F1 after training on shuffled labels")
    if figures["label_only_f1"] is not None:
        click.echo(
            f"Label alone     {figures['label_only_f1']:.4f} macro F1 of the label by randomised response, no text"
        )
    classes = figures["class_f1"]
    assert isinstance(classes, dict)  # label to F1
    for label, value in classes.items():
        click.echo(f"  {label:<30} {value:.4f}")
