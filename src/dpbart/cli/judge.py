"""dpbart evaluate similarity, names and fluency: what a reader gets, each with its control."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import click

from dpbart import DEFAULT_MODEL
from dpbart.cli.command import Command
from dpbart.cli.options import corpus_option, json_option, text_option

INSIDE_CODE = (
    "Warning: this sentence encoder is the one inside the code model, so it flatters the texts of that model. "
    "For a fair figure, pass another one with --encoder."
)


@click.command(cls=Command)
@click.argument("original", type=click.Path(path_type=Path))
@click.argument("rewritten", type=click.Path(path_type=Path))
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
    from dpbart.evaluate.data.pairs import read_pairs
    from dpbart.evaluate.sentences.files import SentenceEncoderFiles

    files = SentenceEncoderFiles.inside_default() if encoder is None else SentenceEncoderFiles.find(encoder)
    if files.inside_code:
        click.echo(INSIDE_CODE, err=True)
    pairs = read_pairs(original, rewritten, text_column=text_column)

    from dpbart.evaluate.scores.similarity import measure_similarity
    from dpbart.evaluate.sentences.vectors import load_vectors

    found = measure_similarity(*pairs, load_vectors(files))
    if as_json:
        figures = {"similarity": found.mean, "spread": found.spread, "unrelated": found.unrelated}
        click.echo(json.dumps({**figures, "texts": found.texts, "encoder": files.recipe}))
        return
    spread = "" if found.spread is None else f" ± {found.spread:.3f}"
    click.echo(f"Similarity  {found.mean:.3f}{spread} (standard deviation of the mean) over {found.texts:,} texts")
    if found.unrelated is not None:
        click.echo(f"Unrelated   {found.unrelated:.3f} between rewritten texts and other originals")


@click.command(cls=Command)
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

    made = make_up(texts)

    from dpbart.evaluate.scores.names import recovered
    from dpbart.progress import progress
    from dpbart.rewrite.rewriter import Rewriter

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


@click.command(cls=Command)
@click.argument("rewritten", type=click.Path(path_type=Path))
@corpus_option
@click.option("--original", type=click.Path(path_type=Path), help="Original texts, to compare with.")
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
    from dpbart.evaluate.data.pairs import read_texts
    from dpbart.evaluate.scores.fluency import measure_fluency
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
