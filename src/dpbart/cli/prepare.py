"""dpbart prepare: make a model from public text. The settings of each training are in dpbart.options.recipes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from dpbart.cli.command import Group, corpus_option, json_option, options_of
from dpbart.errors import BadParameter, require_extra
from dpbart.options.recipes import (
    AdeptRecipe,
    BookRecipe,
    CodeRecipe,
    NoisyRecipe,
    PretrainRecipe,
    PruneRecipe,
)

if TYPE_CHECKING:
    from dpbart.models.bundle import Bundle
    from dpbart.prepare.clip import ClipChoice
    from dpbart.prepare.code.sentences import Sentences

_TEXTS = 2_000
_TEXTS_FOR_CODE = 200


def _with_a_name(context: click.Context, parameter: click.Parameter, out: Path) -> Path:
    if not out.name:
        raise click.BadParameter(f"must be a directory with a name, got '{out}'. Checkpoints go into NAME.training.")
    return out


out_option = click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    callback=_with_a_name,
    required=True,
    help="Model directory to create.",
)
texts_option = click.option(
    "--texts", type=int, default=_TEXTS, show_default=True, help="Held-out texts to measure on."
)


@click.group(cls=Group)
def prepare() -> None:
    """Make a model from public text. Never use private text: a model is public."""


@prepare.command()
@corpus_option
@out_option
@options_of(PretrainRecipe, "recipe")
@texts_option
@json_option
def pretrain(corpus: tuple[Path, ...], out: Path, recipe: PretrainRecipe, texts: int, as_json: bool) -> None:
    """Train a tokenizer and a BART from scratch.

    You can stop at any time; the same command resumes from the last checkpoint (OUT.training). To use several GPUs:
    accelerate launch -m dpbart prepare pretrain ...

    \b
        dpbart prepare pretrain --corpus corpus/ --out models/mini --steps 12000
    """
    _require_extras(measuring=True)
    from dpbart.prepare.clip import UNCLIPPED, Copier
    from dpbart.prepare.corpus import find_corpus, held_out_texts
    from dpbart.prepare.pretrain import pretrain, write_bundle

    files = find_corpus(corpus)
    held_out = held_out_texts(files, texts)
    trained = pretrain(files, recipe, _training(out))
    if trained is None:
        return  # one of several processes; only the first writes
    bundle = write_bundle(trained, _training(out) / "tokenizer.json", files, recipe, out)
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
    _require_extras(measuring=True)
    from dpbart.models.bundle import Bundle

    bundle = Bundle.at(model)  # what can be refused is refused before torch is loaded
    bundle.require_bart("its clip is part of its training. Train another model with: dpbart prepare adept --clip")
    bundle.require_before_noise("its clip is part of that training. Train another model with: dpbart prepare noisy")

    from accelerate import Accelerator

    from dpbart.prepare.clip import Copier, choose_clip, draw_clip
    from dpbart.prepare.corpus import find_corpus, held_out_texts

    if not Accelerator().is_main_process:
        return  # only the main process measures and writes
    choice = choose_clip(Copier.load(bundle), held_out_texts(find_corpus(corpus), texts))
    draw_clip(choice, bundle.folder / "clip.png")
    figures = {"held_out_texts": texts, **choice.figures()}
    bundle.record(clip=choice.chosen, figures=figures)
    if as_json:
        click.echo(json.dumps({"clip": choice.chosen, "why": choice.why, **figures}))
    else:
        _show_clip(choice)


def _show_clip(choice: ClipChoice) -> None:
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


@prepare.command()
@click.option("-m", "--model", required=True, help="Model to prune: bundled name, directory, or hub id.")
@corpus_option
@out_option
@options_of(PruneRecipe, "recipe")
@click.option("--round", "chosen", type=int, help="Keep the columns of this round; by default the last but one.")
@texts_option
@json_option
def prune(
    model: str,
    corpus: tuple[Path, ...],
    out: Path,
    recipe: PruneRecipe,
    chosen: int | None,
    texts: int,
    as_json: bool,
) -> None:
    """Prune a model's latent in rounds (DP-BART-PR).

    You can stop at any time; the same command resumes from the last checkpoint (OUT.training).

    \b
        dpbart prepare prune --model mini --corpus corpus/ --out models/pr
    """
    _require_extras(measuring=True)
    bundle, chosen = _base(model, out), recipe.columns_of_round(chosen)

    from dpbart.prepare.corpus import find_corpus
    from dpbart.prepare.prune import BUDGETS, draw_rounds, prune, write_pruned

    files = find_corpus(corpus)
    pruned = prune(bundle, files, recipe, _training(out), texts)
    if pruned is None:
        return  # only the main process writes
    write_pruned(bundle, pruned, files, recipe, chosen, out)
    draw_rounds(pruned.rounds, bundle.facts.length, out / "rounds.png")
    rounds = [done.figures(bundle.facts.length) for done in pruned.rounds]
    if as_json:
        click.echo(json.dumps({"rounds": rounds}))
        return
    budgets = ", ".join(f"{budget:,}" for budget in BUDGETS)
    click.echo(f"round  kept    loss    BLEU   noise in bounds at epsilon {budgets}")
    for row in rounds:
        noise = "  ".join(f"{scale:6.2f}" for scale in row["noise_in_bounds"].values())
        click.echo(f"{row['round']:5}  {row['kept']:4}  {row['loss']:6.3f}  {row['bleu']:6.2f}   {noise}")
    click.echo(f"Next, choose its clip: dpbart prepare clip --model {out} --corpus ...")


@prepare.command()
@click.option("-m", "--model", required=True, help="Pruned model: bundled name or directory.")
@corpus_option
@out_option
@click.option(
    "--epsilon-range",
    type=(float, float),
    default=tuple(NoisyRecipe.model_fields[name].default for name in ("epsilon_low", "epsilon_high")),
    show_default=True,
    help="Budgets to train for, sampled per text. Pass the same number twice for one budget.",
)
@options_of(NoisyRecipe, "recipe")
def noisy(
    model: str, corpus: tuple[Path, ...], out: Path, epsilon_range: tuple[float, float], recipe: NoisyRecipe
) -> None:
    """Train a pruned model further under clip and noise (DP-BART-PR+).

    You can stop at any time; the same command resumes from the last checkpoint (OUT.training).

    \b
        dpbart prepare noisy --model models/pr --corpus corpus/ --out models/pr-plus --epsilon-range 10 500
    """
    _require_extras(measuring=False)
    low, high = epsilon_range
    bundle, recipe = _base(model, out), recipe.changed(epsilon_low=low, epsilon_high=high)

    from dpbart.prepare.corpus import find_corpus
    from dpbart.prepare.noisy import train_noisy, write_noisy

    files = find_corpus(corpus)
    trained = train_noisy(bundle, files, recipe, _training(out))
    if trained is None:
        return  # only the main process writes
    write_noisy(bundle, trained, files, recipe, _training(out), out)
    click.echo(f"Rewrite with it: dpbart rewrite IN OUT --epsilon {recipe.epsilon_low:g} --model {out}")


@prepare.command()
@corpus_option
@out_option
@click.option(
    "--glove",
    type=click.Path(path_type=Path),
    help="Word vectors to start from, one word and its numbers per line: plain text, .gz or .zst.",
)
@options_of(AdeptRecipe, "recipe")
@texts_option
@json_option
def adept(
    corpus: tuple[Path, ...], out: Path, glove: Path | None, recipe: AdeptRecipe, texts: int, as_json: bool
) -> None:
    """Train ADePT from scratch: one LSTM reads, another writes. Training uses the clip but no noise.

    You can stop at any time; the same command resumes from the last checkpoint (OUT.training).

    \b
        dpbart prepare adept --corpus corpus/ --out models/adept --glove glove.6B.300d.txt
    """
    _require_extras(measuring=True)
    from dpbart.models.families import clip_of
    from dpbart.prepare.adept import train_adept, write_adept
    from dpbart.prepare.clip import Copier
    from dpbart.prepare.corpus import find_corpus, held_out_texts

    files = find_corpus(corpus)
    held_out = held_out_texts(files, texts)
    trained = train_adept(files, recipe, glove, _training(out))
    if trained is None:
        return  # one of several processes; only the first writes
    bundle = write_adept(trained, _training(out), files, recipe, glove, out)
    figures = Copier.load(bundle).copy(held_out, clip_of(bundle)).figures()
    bundle.record(figures=figures)
    if as_json:
        click.echo(json.dumps(figures))
        return
    if glove is not None:
        words = trained.model.config.vocab_size
        click.echo(f"{glove.name}: has vectors for {trained.known_words:,} of {words:,} words.")
    for name, row in figures.items():
        click.echo(
            f"{name.replace('_', ' ')}: BLEU {row['bleu']:.2f} on {row['held_out_texts']:,} held-out texts as the "
            f"model reads them, {row['bleu_of_whole']:.2f} on the texts themselves (ignoring case); clip, no noise."
        )
    click.echo(f"Rewrite with it: dpbart rewrite IN OUT --epsilon 250 --model {out}")


@prepare.command()
@click.option(
    "--sentences",
    "file",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    required=True,
    help="Public sentences of any language, one in each line; or area, topic and sentence with tabs between them. "
    "Plain text, .gz or .zst.",
)
@out_option
@options_of(BookRecipe, "recipe")
@json_option
def book(file: Path, out: Path, recipe: BookRecipe, as_json: bool) -> None:
    """Make a model for your domain or language: a book of public sentences, and a sentence encoder.

    Nothing is trained; it takes minutes. The book has 2^b sentences of the file, those first that cover it best.
    Repeated sentences, near-duplicates and listed terms are left out. Only sentences of the book can come out of the
    model. If they have areas, 'dpbart rewrite --areas' chooses among them.

    \b
        dpbart prepare book --sentences public-like-mine.txt --public --encoder mini-code --out mine
        dpbart prepare book --sentences saetze.txt --public --language German --out german \\
            --encoder sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2
    """
    recipe.require_public()
    from dpbart.prepare.code.book import make_book

    sentences = _sentences(file)
    bundle = make_book(sentences, recipe, out)
    facts = bundle.facts
    if as_json:
        click.echo(json.dumps({"recipe": facts.recipe["book"], "code": facts.code, "figures": facts.figures}))
        return
    _show_book(bundle, sentences)


def _sentences(file: Path) -> Sentences:
    """The sentences of a file, with a warning about those that look private."""
    from dpbart.prepare.code.sentences import read_sentences

    sentences = read_sentences(file)
    if sentences.warning is not None:
        click.echo(f"Warning: {sentences.warning}", err=True)
    return sentences


def _show_book(bundle: Bundle, sentences: Sentences) -> None:
    from dpbart.models.code.book import read_book

    made, lines = bundle.facts.recipe["book"], read_book(bundle.folder)
    areas = {line.area for line in lines if line.area}
    click.echo(
        f"{bundle.folder}: a book of {len(lines):,} sentences{f' in {len(areas):,} areas' if areas else ''}, "
        f"from {sentences.file.texts:,} lines of {sentences.file.path.name}."
    )
    if made["left_out"]:
        click.echo("Left out: " + ", ".join(f"{count:,} {reason}" for reason, count in made["left_out"].items()) + ".")
    rows = (bundle.facts.code or {})["table"]
    several = [row for row in rows if row[2] > 1]
    click.echo(
        f"Epsilon {rows[0][0]:g} to {rows[-1][0]:g}; one sentence for a text, from {several[0][0]:g} on up to "
        f"{rows[-1][2]}."
    )
    click.echo(f"Rewrite with it: dpbart rewrite IN OUT --epsilon 10 --model {bundle.folder}")


@prepare.command()
@corpus_option
@click.option(
    "--teacher",
    required=True,
    help="Public sentence encoder that the reader learns from: a sentence-transformers directory or hub id.",
)
@click.option(
    "--book",
    "book_file",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    required=True,
    help="The sentences of the book, all public: area, topic and sentence with tabs between them, or one sentence in "
    "each line.",
)
@out_option
@options_of(CodeRecipe, "recipe")
@click.option(
    "--tokenizer-of", help="The writer takes the tokenizer of this model. By default, a tokenizer is trained for it."
)
@click.option(
    "--texts",
    type=int,
    default=_TEXTS_FOR_CODE,
    show_default=True,
    help="Held-out texts to measure on. With 0, nothing is measured.",
)
@json_option
def code(
    corpus: tuple[Path, ...],
    teacher: str,
    book_file: Path,
    out: Path,
    recipe: CodeRecipe,
    tokenizer_of: str | None,
    texts: int,
    as_json: bool,
) -> None:
    """Make a code model (DP-BART-CODE) from public text.

    The reader learns from the teacher, the writer from the text. The book is put into the order in which it covers the
    text. For a book without a writer, which takes minutes instead of hours, see 'dpbart prepare book'.

    Lines with slurs, sexual or hateful words are left out. You can stop at any time; the same command resumes from the
    last checkpoint (OUT.training).

    \b
        dpbart prepare code --corpus corpus/ --book book.tsv --out models/code \\
            --teacher sentence-transformers/all-MiniLM-L6-v2
    """
    _require_extras(measuring=False)
    from dpbart.models.bundle import Bundle

    if recipe.minutes is not None and _given("steps"):
        raise BadParameter("give either --steps or --minutes, not both.")
    tokenizer = None if tokenizer_of is None else Bundle.find(tokenizer_of)  # refused before torch is loaded

    from accelerate import Accelerator

    if not Accelerator().is_main_process:
        return  # one process is enough
    from dpbart.prepare.code.making import make_code
    from dpbart.prepare.code.reading import load_teacher
    from dpbart.prepare.corpus import find_corpus, held_out_texts

    learned_from, files = load_teacher(teacher), find_corpus(corpus)
    held_out = held_out_texts(files, texts) if texts else []
    sentences, folder = _sentences(book_file), _training(out)
    bundle = make_code(files, learned_from, sentences, recipe, folder, out, held_out=held_out, tokenizer_of=tokenizer)
    made, figures = bundle.facts.recipe["code"], bundle.facts.figures
    if as_json:
        click.echo(json.dumps({"recipe": made, "figures": figures}))
        return
    dropped = sum(counts["dropped"] for counts in made["lines_of_each_file"].values())
    click.echo(
        f"{made['lines_kept']:,} lines, {dropped:,} offensive ones left out; a book of {made['sentences']:,} sentences."
    )
    if figures:
        click.echo(
            f"On {figures['held_out_texts']:,} held-out texts: correlation of the reader's cosines with its teacher's "
            f"{figures['correlation_with_teacher']}, mean cosine with the nearest sentence of the book "
            f"{figures['covered']}."
        )
    click.echo(f"Rewrite with it: dpbart rewrite IN OUT --epsilon 10 --model {bundle.folder}")


def _given(option: str) -> bool:
    """Whether an option of the current command was given, and is not at its default."""
    return click.get_current_context().get_parameter_source(option) is not ParameterSource.DEFAULT


def _require_extras(*, measuring: bool) -> None:
    """Refuse to begin without the packages for training and, if needed, those for BLEU and plots."""
    require_extra("bart", "dpbart prepare needs", "accelerate", "transformers")
    if measuring:
        require_extra("evaluate", "measuring a model needs", "matplotlib", "sacrebleu")


def _training(out: Path) -> Path:
    """Where the checkpoints of a model go."""
    return out.with_name(out.name + ".training")


def _base(name: str, out: Path) -> Bundle:
    """The model to train further. An unknown one is refused before torch is loaded."""
    from dpbart.models.bundle import Bundle

    bundle = Bundle.find(name)
    if out.resolve() == bundle.folder.resolve():
        raise BadParameter(
            f"--out must differ from the model's own directory, got '{out}'. The model would be overwritten."
        )
    return bundle
