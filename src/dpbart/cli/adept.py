"""dpbart prepare adept: train the LSTM baseline on public text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dpbart.cli.command import Command
from dpbart.cli.options import corpus_option, json_option, out_option, seed_option, texts_option

if TYPE_CHECKING:
    from dpbart.prepare.quality import Copies

SHORT = 12  # words


@click.command(cls=Command)
@corpus_option
@out_option
@click.option(
    "--glove",
    type=click.Path(path_type=Path),
    help="Word vectors to start from, one word and its numbers per line: plain text, .gz or .zst.",
)
@click.option("--steps", type=int, default=20_000, show_default=True, help="Training steps; you may raise this later.")
@click.option("--batch-size", type=int, default=64, show_default=True, help="Texts per step, over all devices.")
@click.option("--length", type=int, default=20, show_default=True, help="Tokens per text.")
@click.option("--vocabulary", type=int, default=20_000, show_default=True, help="Words in the vocabulary.")
@click.option("--embedding", type=int, default=300, show_default=True, help="Size of a word vector.")
@click.option("--hidden", type=int, default=512, show_default=True, help="Size of h and of c; the latent is [h; c].")
@click.option("--clip", type=float, default=5.0, show_default=True, help="Bound on the L2 norm of the latent.")
@click.option("--learning-rate", type=float, default=1e-3, show_default=True, help="Peak learning rate.")
@seed_option
@texts_option
@json_option
def adept(
    corpus: tuple[Path, ...],
    out: Path,
    glove: Path | None,
    steps: int,
    batch_size: int,
    length: int,
    vocabulary: int,
    embedding: int,
    hidden: int,
    clip: float,
    learning_rate: float,
    seed: int,
    texts: int,
    as_json: bool,
) -> None:
    """Train ADePT from scratch: one LSTM reads, another writes. Training uses the clip but no noise.

    You can stop at any time; the same command resumes from the last checkpoint (OUT.training).

    \b
        dpbart prepare adept --corpus corpus/ --out models/adept --glove glove.6B.300d.txt
    """
    from dpbart.models.latent import clip_of
    from dpbart.prepare.adept import AdeptRecipe, train_adept, write_adept
    from dpbart.prepare.corpus import find_corpus, held_out_texts
    from dpbart.prepare.quality import Copier

    recipe = AdeptRecipe(
        length=length,
        vocabulary=vocabulary,
        embedding=embedding,
        hidden=hidden,
        clip=clip,
        batch_size=batch_size,
        steps=steps,
        learning_rate=learning_rate,
        seed=seed,
    )
    files = find_corpus(corpus)
    held_out = held_out_texts(files, texts)
    training = out.with_name(out.name + ".training")
    trained = train_adept(files, recipe, glove, training)
    if trained is None:
        return  # one of several processes; only the first writes
    bundle = write_adept(trained, training, files, recipe, glove, out)
    copies = Copier.load(bundle).copy(held_out, clip_of(bundle))
    figures = figures_of(copies)
    bundle.record(figures=figures)
    if as_json:
        click.echo(json.dumps(figures))
        return
    if glove is not None:
        click.echo(
            f"{glove.name}: has vectors for {trained.known_words:,} of {trained.model.config.vocab_size:,} words."
        )
    for name, each in figures.items():
        click.echo(
            f"{name.replace('_', ' ')}: BLEU {each['bleu']:.2f} on {each['held_out_texts']:,} held-out texts as the "
            f"model reads them, {each['bleu_of_whole']:.2f} on the texts themselves (ignoring case); clip, no noise."
        )
    click.echo(f"Rewrite with it: dpbart rewrite IN OUT --epsilon 250 --model {out}")


def figures_of(copies: Copies) -> dict[str, dict[str, float]]:
    """Figures for all texts, and for the short ones if there are any."""
    parts = {"all_texts": copies, f"up_to_{SHORT}_words": copies.up_to(SHORT)}
    return {
        name: {
            "held_out_texts": len(each.texts),
            "bleu": round(each.bleu, 2),
            "bleu_of_whole": round(each.bleu_of_whole, 2),
        }
        for name, each in parts.items()
        if each.texts
    }
