"""dpbart evaluate: how much a rewriting kept, each measure with its control."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import click

from dpbart.cli.command import Group, corpus_option, json_option, text_option
from dpbart.cli.datasets import PATH
from dpbart.evaluate.classifiers import CLASSIFIERS, VectorsClassifier, make_classifier
from dpbart.version import DEFAULT_MODEL

INSIDE_CODE = (
    "Warning: this sentence encoder is the one inside the code model, so it flatters the texts of that model. "
    "For a fair figure, pass another one with --encoder."
)


@click.group(cls=Group)
def evaluate() -> None:
    """Measure how much a rewriting kept: wording, meaning, names, fluency, and what a classifier can still learn."""


@evaluate.command()
@click.argument("original", type=PATH)
@click.argument("rewritten", type=PATH)
@text_option
@json_option
def bleu(original: Path, rewritten: Path, text_column: str, as_json: bool) -> None:
    """Corpus BLEU of REWRITTEN against ORIGINAL, row by row, and its signature.

    Originals count as a whole. A model that reads only the first tokens of a text loses the rest, and BLEU shows it.

    \b
        dpbart evaluate bleu reviews.csv private.csv
    """
    from dpbart.evaluate.data.loading import read_pairs
    from dpbart.evaluate.scores import measure_kept

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
@click.argument("original", type=PATH)
@click.argument("rewritten", type=PATH)
@click.option(
    "--encoder",
    metavar="DIR|HUB-ID",
    help="Sentence encoder: a sentence-transformers directory or hub id. Default: the one inside the code model, "
    "with a warning.",
)
@text_option
@json_option
def similarity(original: Path, rewritten: Path, encoder: str | None, text_column: str, as_json: bool) -> None:
    """Mean cosine of the sentence vectors of ORIGINAL and REWRITTEN, row by row.

    The control pairs each rewritten text with all other originals. If the similarity is not above it, the rewriting
    kept nothing of the meaning. Use an encoder that is not part of the model that rewrote the texts.

    \b
        dpbart evaluate similarity reviews.csv private.csv --encoder sentence-transformers/all-MiniLM-L6-v2
    """
    from dpbart.evaluate.data.loading import read_pairs
    from dpbart.evaluate.scores import measure_similarity
    from dpbart.models.sentences import SentenceEncoderFiles
    from dpbart.models.vectors import load_vectors

    files = SentenceEncoderFiles.inside_default() if encoder is None else SentenceEncoderFiles.find(encoder)
    if files.inside_code:
        click.echo(INSIDE_CODE, err=True)
    pairs = read_pairs(original, rewritten, text_column=text_column)
    found = measure_similarity(*pairs, load_vectors(files))
    if as_json:
        figures = {"similarity": found.mean, "spread": found.spread, "unrelated": found.unrelated}
        click.echo(json.dumps({**figures, "texts": found.texts, "encoder": files.recipe}))
        return
    spread = "" if found.spread is None else f" ± {found.spread:.3f}"
    click.echo(f"Similarity  {found.mean:.3f}{spread} (standard deviation of the mean) over {found.texts:,} texts")
    if found.unrelated is not None:
        click.echo(f"Unrelated   {found.unrelated:.3f} between rewritten texts and other originals")


@evaluate.command()
@click.option(
    "-m", "--model", default=DEFAULT_MODEL, show_default=True, help="Model: a bundled name, a directory or a hub id."
)
@click.option("-e", "--epsilon", type=float, required=True, help="Privacy budget of one text.")
@click.option("--texts", type=int, default=500, show_default=True, help="Made-up texts to rewrite.")
@json_option
def names(model: str, epsilon: float, texts: int, as_json: bool) -> None:
    """Share of the names and numbers in made-up texts that a rewriting gives away.

    The control is the share that occurs in rewritings of other texts, by chance. Whole words count, whatever their
    case.

    \b
        dpbart evaluate names --model mini-pr-plus --epsilon 500
    """
    from dpbart.evaluate.data.made_up import make_up
    from dpbart.evaluate.scores import recovered
    from dpbart.progress import progress
    from dpbart.rewrite.rewriter import Rewriter

    made = make_up(texts)
    rewriter, originals, written = Rewriter.load(model, epsilon=epsilon), [each.text for each in made], list[str]()
    with progress("Rewriting", total=texts, unit="texts") as bar:
        for start in range(0, texts, rewriter.batch_size):
            written += rewriter.rewrite(originals[start : start + rewriter.batch_size]).texts
            bar.advance(len(written) - start)
    found = {
        "names": recovered(originals, written, [each.names for each in made]),
        "numbers": recovered(originals, written, [each.numbers for each in made]),
    }
    if as_json:
        shares = {name: asdict(each) for name, each in found.items()}
        guarantee = rewriter.facts.guarantee
        click.echo(json.dumps({**shares, "texts": texts, "epsilon": guarantee.epsilon, "delta": guarantee.delta}))
        return
    for name, each in found.items():
        elsewhere = "" if each.elsewhere is None else f"; {each.elsewhere:.2%} in rewritings of other texts"
        click.echo(f"{name.capitalize():<8} {each.share:.2%} of {each.details:,} came through{elsewhere}")


@evaluate.command()
@click.argument("rewritten", type=PATH)
@corpus_option
@click.option("--original", type=PATH, help="Original texts, to compare with.")
@text_option
@json_option
def fluency(rewritten: Path, corpus: tuple[Path, ...], original: Path | None, text_column: str, as_json: bool) -> None:
    """Share of three words in a row in REWRITTEN that also occur in public text.

    The control is the same share with the words of each text in random order. Texts are fluent if their share is close
    to that of the originals. Dull texts score high too, so read it together with the similarity. The last 1% of each
    corpus file is left out, as in the training of models, so held-out texts can be the originals.

    \b
        dpbart evaluate fluency private.csv --corpus public.txt.zst --original reviews.csv
    """
    from dpbart.evaluate.data.loading import read_texts
    from dpbart.evaluate.scores import measure_fluency
    from dpbart.prepare.corpus import find_corpus, training_texts

    texts = read_texts(rewritten, text_column=text_column)
    originals = [] if original is None else read_texts(original, text_column=text_column)
    found = measure_fluency(texts, training_texts(find_corpus(corpus)), originals=originals)
    if as_json:
        click.echo(json.dumps({**asdict(found), "texts": len(texts)}))
        return
    for title, share, what in (
        ("Rewritten", found.share, f"of {found.triples:,} triples of words occur in the public text"),
        ("Original", found.original, "of the triples in the original texts do"),
        ("Shuffled", found.shuffled, "do with the words of each text in random order"),
    ):
        if share is not None:
            click.echo(f"{title:<10} {share:.1%} {what}")


@evaluate.command()
@click.option("--train", type=PATH, required=True, help="Rewritten texts to learn from.")
@click.option("--valid", type=PATH, required=True, help="Rewritten texts to tune on.")
@click.option("--test", type=PATH, required=True, help="ORIGINAL texts to test on.")
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
        dpbart evaluate downstream --train train.csv --valid valid.csv --test test.csv --epsilon 10
    """
    search = {"learning_rates": learning_rate, "seeds": tuple(range(seeds))}
    chosen = make_classifier(classifier, {"encoder": encoder, "epochs": epochs, "patience": patience, **search})
    if isinstance(chosen, VectorsClassifier) and chosen.files.inside_code:
        click.echo(INSIDE_CODE, err=True)

    from dpbart.evaluate.data.splits import Splits, read_table
    from dpbart.evaluate.experiment.experiment import classify_once

    data = Splits.of(
        (split, row)
        for split, file in (("train", train), ("valid", valid), ("test", test))
        for _, row in read_table(file, text_column=text_column, label_column=label_column, split_column=None)
    )
    for label in data.unseen:
        click.echo(f"Label '{label}' is in {test} but not in {train}: no classifier can predict it.", err=True)
    for label in data.untested:
        click.echo(f"Label '{label}' is in {train} but not in {test}: it has no F1.", err=True)
    figures = classify_once(chosen, data, epsilon=epsilon)
    if as_json:
        click.echo(json.dumps({**figures, "unseen": data.unseen, "untested": data.untested}))
        return
    _show(figures)


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
        alone = figures["label_only_f1"]
        click.echo(f"Label alone     {alone:.4f} macro F1 of the label by randomised response, no text")
    classes = figures["class_f1"]
    assert isinstance(classes, dict)  # label to F1
    for label, value in classes.items():
        click.echo(f"  {label:<30} {value:.4f}")
