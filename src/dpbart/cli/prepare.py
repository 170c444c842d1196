"""dpbart prepare: make a model from public text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dpbart.cli.adept import adept
from dpbart.cli.command import Group
from dpbart.cli.options import corpus_option, json_option, out_option, seed_option, texts_option
from dpbart.cli.prepare_code import code
from dpbart.errors import BadParameter

if TYPE_CHECKING:
    from dpbart.models.bundle import Bundle
    from dpbart.prepare.clip import ClipChoice


@click.group(cls=Group)
def prepare() -> None:
    """Make a model from public text. Never use private text: a model is public."""


prepare.add_command(adept)
prepare.add_command(code)


@prepare.command()
@corpus_option
@out_option
@click.option("--steps", type=int, default=8000, show_default=True, help="Training steps; you may raise this later.")
@click.option("--batch-size", type=int, default=32, show_default=True, help="Texts per step, over all devices.")
@click.option("--length", type=int, default=20, show_default=True, help="Tokens per text.")
@click.option("--vocabulary", type=int, default=12_000, show_default=True, help="Tokens in the vocabulary.")
@click.option("--width", type=int, default=256, show_default=True, help="Columns in the latent.")
@click.option("--layers", type=int, default=3, show_default=True, help="Layers in the encoder, and in the decoder.")
@click.option("--heads", type=int, default=4, show_default=True, help="Attention heads.")
@click.option("--learning-rate", type=float, default=1e-3, show_default=True, help="Peak learning rate.")
@click.option("--corrupted", type=float, default=0.25, show_default=True, help="Share of texts that are corrupted.")
@seed_option
@texts_option
@json_option
def pretrain(
    corpus: tuple[Path, ...],
    out: Path,
    steps: int,
    batch_size: int,
    length: int,
    vocabulary: int,
    width: int,
    layers: int,
    heads: int,
    learning_rate: float,
    corrupted: float,
    seed: int,
    texts: int,
    as_json: bool,
) -> None:
    """Train a tokenizer and a BART from scratch.

    You can stop at any time; the same command resumes from the last checkpoint (OUT.training). To use several GPUs:
    accelerate launch -m dpbart prepare pretrain ...

    \b
        dpbart prepare pretrain --corpus corpus/ --out models/mini --steps 12000
    """
    from dpbart.prepare.corpus import find_corpus, held_out_texts
    from dpbart.prepare.pretrain import PretrainRecipe, pretrain, write_bundle
    from dpbart.prepare.quality import UNCLIPPED, Copier

    recipe = PretrainRecipe(
        length=length,
        vocabulary=vocabulary,
        width=width,
        layers=layers,
        heads=heads,
        batch_size=batch_size,
        steps=steps,
        learning_rate=learning_rate,
        corrupted=corrupted,
        seed=seed,
    )
    files = find_corpus(corpus)
    held_out = held_out_texts(files, texts)
    training = out.with_name(out.name + ".training")
    trained = pretrain(files, recipe, training)
    if trained is None:
        return  # one of several processes; only the first writes
    bundle = write_bundle(trained, training / "tokenizer.json", files, recipe, out)
    bleu = Copier.load(bundle).copy(held_out, UNCLIPPED).bleu
    figures = {"held_out_texts": texts, "bleu_unclipped": round(bleu, 2)}
    bundle.record(figures=figures)
    if as_json:
        click.echo(json.dumps(figures))
        return
    click.echo(f"{out}: BLEU {bleu:.2f} on {texts:,} held-out texts, no clip, no noise.")
    click.echo(f"Next, choose its clip: dpbart prepare clip --model {out} --corpus ...")


@prepare.command()
@click.option(
    "-m",
    "--model",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    required=True,
    help="Model directory. The clip goes into its dpbart.json, and a plot into clip.png.",
)
@corpus_option
@texts_option
@json_option
def clip(model: Path, corpus: tuple[Path, ...], texts: int, as_json: bool) -> None:
    """Measure a model's latent on public text and choose its clip.

    \b
        dpbart prepare clip --model models/mini --corpus corpus/
    """
    from dpbart.models.bundle import Bundle

    bundle = Bundle.at(model)  # what can be refused is refused before torch is loaded
    bundle.require_bart("its clip is part of its training. Train another model with: dpbart prepare adept --clip")
    bundle.require_before_noise("its clip is part of that training. Train another model with: dpbart prepare noisy")

    from accelerate import Accelerator

    from dpbart.prepare.clip import choose_clip, draw_clip
    from dpbart.prepare.corpus import find_corpus, held_out_texts
    from dpbart.prepare.quality import Copier

    if not Accelerator().is_main_process:
        return  # only the main process measures and writes
    choice = choose_clip(Copier.load(bundle), held_out_texts(find_corpus(corpus), texts))
    draw_clip(choice, bundle.folder / "clip.png")
    figures = _clip_figures(choice, texts)
    bundle.record(clip=choice.chosen, figures=figures)
    if as_json:
        click.echo(json.dumps({"clip": choice.chosen, "why": choice.why, **figures}))
        return
    measured = choice.statistics
    click.echo(
        f"entries    {measured.entries:,}, mean {measured.mean:.4f}, standard deviation {measured.deviation:.4f}"
    )
    click.echo("quantiles  " + ", ".join(f"{name}: {value:.3f}" for name, value in measured.quantiles.items()))
    click.echo(f"unclipped  BLEU {choice.unclipped:.2f}")
    for bound, bleu in choice.tried.items():
        mark = "  <- chosen" if bound == choice.chosen else ""
        click.echo(f"C = {bound:<7g}BLEU {bleu:.2f} ({bound / measured.deviation:.2f} standard deviations){mark}")
    click.echo(f"C = {choice.chosen:g}: {choice.why}.")


def _clip_figures(choice: ClipChoice, texts: int) -> dict[str, object]:
    return {
        "held_out_texts": texts,
        "latent_mean": round(choice.statistics.mean, 5),
        "latent_deviation": round(choice.statistics.deviation, 5),
        "latent_quantiles": {name: round(value, 4) for name, value in choice.statistics.quantiles.items()},
        "bleu_unclipped": round(choice.unclipped, 2),
        "bleu_at_clip": {f"{bound:g}": round(bleu, 2) for bound, bleu in choice.tried.items()},
    }


def _require_apart(bundle: Bundle, out: Path) -> None:
    if out.resolve() == bundle.folder.resolve():
        raise BadParameter(
            f"--out must differ from the model's own directory, got '{out}'. The model would be overwritten."
        )


@prepare.command()
@click.option("-m", "--model", required=True, help="Model to prune: bundled name, directory, or hub id.")
@corpus_option
@out_option
@click.option("--rounds", type=int, default=6, show_default=True, help="Rounds of pruning and training.")
@click.option("--steps", type=int, default=500, show_default=True, help="Training steps per round.")
@click.option("--batch-size", type=int, default=32, show_default=True, help="Texts per step, over all devices.")
@click.option("--learning-rate", type=float, default=5e-4, show_default=True, help="Peak learning rate.")
@click.option(
    "--quantile", type=float, default=0.25, show_default=True, help="Share of the kept columns to drop per round."
)
@click.option(
    "--by",
    type=click.Choice(["k", "v", "random"]),
    default="k",
    show_default=True,
    help="What to rank columns by: the K or V projection, or at random.",
)
@click.option("--layer", type=int, default=0, show_default=True, help="Decoder layer to take the projection from.")
@click.option(
    "--clip", type=float, help="Clip bound during training; by default twice the model's own (bart-base: 0.2)."
)
@click.option("--round", "chosen", type=int, help="Keep the columns of this round; by default the last but one.")
@seed_option
@texts_option
@json_option
def prune(
    model: str,
    corpus: tuple[Path, ...],
    out: Path,
    rounds: int,
    steps: int,
    batch_size: int,
    learning_rate: float,
    quantile: float,
    by: str,
    layer: int,
    clip: float | None,
    chosen: int | None,
    seed: int,
    texts: int,
    as_json: bool,
) -> None:
    """Prune a model's latent in rounds (DP-BART-PR).

    You can stop at any time; the same command resumes from the last checkpoint (OUT.training).

    \b
        dpbart prepare prune --model mini --corpus corpus/ --out models/pr
    """
    from dpbart.models.bundle import Bundle

    bundle = Bundle.find(model)  # refuses an unknown model before torch is loaded
    _require_apart(bundle, out)

    from dpbart.prepare.corpus import find_corpus
    from dpbart.prepare.prune import BUDGETS, PruneRecipe, draw_rounds, prune, write_pruned

    recipe = PruneRecipe(
        rounds=rounds,
        steps=steps,
        batch_size=batch_size,
        learning_rate=learning_rate,
        quantile=quantile,
        by=by,
        layer=layer,
        clip=clip,
        seed=seed,
    )
    chosen = recipe.columns_of_round(chosen)
    files = find_corpus(corpus)
    pruned = prune(bundle, files, recipe, out.with_name(out.name + ".training"), texts)
    if pruned is None:
        return  # only the main process writes
    write_pruned(bundle, pruned, files, recipe, chosen, out)
    draw_rounds(pruned.rounds, bundle.facts.length, out / "rounds.png")
    figures = [each.figures(bundle.facts.length) for each in pruned.rounds]
    if as_json:
        click.echo(json.dumps({"rounds": figures}))
        return
    click.echo("round  kept    loss    BLEU   noise in bounds at epsilon " + ", ".join(f"{each:,}" for each in BUDGETS))
    for each in figures:
        noise = "  ".join(f"{scale:6.2f}" for scale in each["noise_in_bounds"].values())
        click.echo(f"{each['round']:5}  {each['kept']:4}  {each['loss']:6.3f}  {each['bleu']:6.2f}   {noise}")
    click.echo(f"Next, choose its clip: dpbart prepare clip --model {out} --corpus ...")


@prepare.command()
@click.option("-m", "--model", required=True, help="Pruned model: bundled name or directory.")
@corpus_option
@out_option
@click.option(
    "--epsilon-range",
    type=(float, float),
    default=(10.0, 5000.0),
    show_default=True,
    help="Budgets to train for, sampled per text. Pass the same number twice for one budget.",
)
@click.option("-d", "--delta", type=float, default=1e-5, show_default=True, help="Slack in the guarantee.")
@click.option("--steps", type=int, default=8000, show_default=True, help="Training steps.")
@click.option("--batch-size", type=int, default=32, show_default=True, help="Texts per step, over all devices.")
@click.option("--learning-rate", type=float, default=1e-3, show_default=True, help="Peak learning rate.")
@seed_option
def noisy(
    model: str,
    corpus: tuple[Path, ...],
    out: Path,
    epsilon_range: tuple[float, float],
    delta: float,
    steps: int,
    batch_size: int,
    learning_rate: float,
    seed: int,
) -> None:
    """Train a pruned model further under clip and noise (DP-BART-PR+).

    You can stop at any time; the same command resumes from the last checkpoint (OUT.training).

    \b
        dpbart prepare noisy --model models/pr --corpus corpus/ --out models/pr-plus --epsilon-range 10 500
    """
    from dpbart.models.bundle import Bundle

    bundle = Bundle.find(model)  # refuses an unknown model before torch is loaded
    _require_apart(bundle, out)

    from dpbart.prepare.corpus import find_corpus
    from dpbart.prepare.noisy import NoisyRecipe, train_noisy, write_noisy

    low, high = epsilon_range
    recipe = NoisyRecipe(
        epsilon_low=low,
        epsilon_high=high,
        delta=delta,
        steps=steps,
        batch_size=batch_size,
        learning_rate=learning_rate,
        seed=seed,
    )
    training = out.with_name(out.name + ".training")
    files = find_corpus(corpus)
    trained = train_noisy(bundle, files, recipe, training)
    if trained is None:
        return  # only the main process writes
    write_noisy(bundle, trained, files, recipe, training, out)
    click.echo(f"Rewrite with it: dpbart rewrite IN OUT --epsilon {recipe.epsilon_low:g} --model {out}")
