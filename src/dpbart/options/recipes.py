"""The recipes of `dpbart prepare`: every setting of a training, with its type, range, default and help.

A recipe and the public text determine a model. The command line follows from these records, a model directory keeps
them in dpbart.json, and a training resumes only with the same recipe. Only the number of steps may change.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import model_validator

from dpbart.errors import BadParameter
from dpbart.options.declare import Record, option

SHORTEST = 6  # tokens of a text that a code model can write


def _steps(default: int, help: str = "Training steps; you may raise this later.") -> Any:
    return option(default, ge=1, help=help)


def _batch_size(default: int) -> Any:
    return option(default, ge=1, help="Texts per step, over all devices.")


def _learning_rate(default: float) -> Any:
    return option(default, gt=0, help="Peak learning rate.")


def _seed() -> Any:
    return option(0, ge=0, help="Seed of the training. It is public and never used for private noise.")


class Schedule(Record):
    """How many steps, how many texts in each, and how large the steps are."""

    steps: int = _steps(8_000)
    batch_size: int = _batch_size(32)
    learning_rate: float = _learning_rate(1e-3)
    warmup: int = option(300, ge=1, flags=None, help="Steps over which the learning rate rises.")
    decay: float = option(
        0.35, ge=0, le=1, flags=None, help="Share of the steps, at the end, over which the learning rate falls to 0."
    )
    seed: int = _seed()

    def learning_rate_at(self, step: int) -> float:
        """Warm-up, a plateau, and a linear decay to 0. On the plateau, `steps` may still be raised."""
        falling = max(1.0, self.decay * self.steps)
        return self.learning_rate * min(1.0, (step + 1) / self.warmup, (self.steps - step) / falling)


class PretrainRecipe(Schedule):
    """A BART from scratch."""

    length: int = option(20, ge=3, help="Tokens per text, begin and end included.")
    vocabulary: int = option(12_000, ge=1, help="Tokens in the vocabulary.")
    width: int = option(256, ge=1, help="Columns in the latent.")
    layers: int = option(3, ge=1, help="Layers in the encoder, and in the decoder.")
    heads: int = option(4, ge=1, help="Attention heads.")
    corrupted: float = option(0.25, ge=0, le=1, help="Share of texts that are corrupted.")
    hidden: float = option(0.3, ge=0, le=1, flags=None, help="Share of the tokens of a corrupted text that are hidden.")

    @model_validator(mode="after")
    def _check(self) -> PretrainRecipe:
        if self.width % self.heads:
            raise BadParameter(f"width must be a multiple of heads ({self.heads}), got {self.width}.")
        return self


class AdeptRecipe(Schedule):
    """ADePT from scratch, with the paper's sizes by default."""

    steps: int = _steps(20_000)
    batch_size: int = _batch_size(64)
    length: int = option(20, ge=3, help="Tokens per text, begin and end included.")
    vocabulary: int = option(20_000, ge=5, help="Words in the vocabulary, four special ones included.")
    embedding: int = option(300, ge=1, help="Size of a word vector.")
    hidden: int = option(512, ge=1, help="Size of h and of c; the latent is [h; c].")
    clip: float = option(5.0, help="Bound on the L2 norm of the latent.")
    candidates: int = option(
        1000, ge=1, flags=None, help="Words sampled in each step. The words of the batch compete with them."
    )
    all_candidates: float = option(
        0.1, ge=0, le=1, flags=None, help="Share of the steps, at the end, in which all words compete."
    )

    @model_validator(mode="after")
    def _check(self) -> AdeptRecipe:
        from dpbart.privacy.clipping import ByNorm  # imports numpy, and --help must not wait for it

        ByNorm(self.clip)  # refuses an impossible radius
        return self

    def candidates_at(self, step: int, *, words: int) -> int:
        """How many words to sample from a vocabulary of `words`."""
        return words if step >= (1 - self.all_candidates) * self.steps else min(self.candidates, words)


class PruneRecipe(Record):
    """DP-BART-PR, with the paper's values by default."""

    rounds: int = option(6, ge=1, help="Rounds of pruning and training.")
    steps: int = _steps(500, "Training steps per round.")
    batch_size: int = _batch_size(32)
    learning_rate: float = _learning_rate(5e-4)
    quantile: float = option(0.25, gt=0, lt=1, help="Share of the kept columns to drop per round.")
    by: Literal["k", "v", "random"] = option("k", help="What to rank columns by: the K or V projection, or at random.")
    layer: int = option(0, ge=0, help="Decoder layer to take the projection from.")
    clip: float | None = option(
        None, help="Clip bound during training; by default twice the model's own (bart-base: 0.2, as in the paper)."
    )
    seed: int = _seed()

    @model_validator(mode="after")
    def _check(self) -> PruneRecipe:
        if self.clip is not None:
            from dpbart.privacy.clipping import ByValue  # imports numpy, and --help must not wait for it

            ByValue(self.clip)  # refuses an impossible bound
        return self

    def columns_of_round(self, asked: int | None) -> int:
        """The round that supplies the columns for rewriting: by default the second to last."""
        chosen = max(1, self.rounds - 1) if asked is None else asked
        if not 1 <= chosen <= self.rounds:
            raise BadParameter(f"the round to rewrite with must be from 1 to {self.rounds}, got {chosen}.")
        return chosen

    def schedule(self, number: int) -> Schedule:
        """The schedule of one round."""
        return Schedule(
            steps=self.steps,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            warmup=min(50, self.steps),
            decay=0.2,
            seed=self.seed + number,  # a different order of texts in each round
        )


class NoisyRecipe(Record):
    """DP-BART-PR+: for one budget if both epsilons are equal, otherwise for the range."""

    epsilon_low: float = option(10.0, gt=0, flags=None, help="Lowest budget to train for.")
    epsilon_high: float = option(5000.0, gt=0, flags=None, help="Highest budget to train for.")
    delta: float = option(1e-5, gt=0, lt=1, flags="-d --delta", help="Slack in the guarantee.")
    noiseless: float = option(0.05, ge=0, le=1, flags=None, help="Share of the texts without noise.")
    easing: float = option(
        0.2, ge=0, le=1, flags=None, help="Share of the steps over which the lowest budget falls from high to low."
    )
    gain: float = option(
        1.5, gt=0, flags=None, help="Initial standard deviation of a column before the clip, in units of the bound."
    )
    steps: int = _steps(8_000, "Training steps.")
    batch_size: int = _batch_size(32)
    learning_rate: float = _learning_rate(1e-3)
    seed: int = _seed()

    @model_validator(mode="after")
    def _check(self) -> NoisyRecipe:
        from dpbart.privacy.mechanisms import Gaussian  # imports numpy, and --help must not wait for it

        for epsilon in (self.epsilon_low, self.epsilon_high):
            Gaussian(epsilon, self.delta)  # refuses a budget that cannot be calibrated
        if self.epsilon_low > self.epsilon_high:
            raise BadParameter(
                f"the lower epsilon must not be above the higher {self.epsilon_high:g}, got {self.epsilon_low:g}."
            )
        return self

    @property
    def schedule(self) -> Schedule:
        return Schedule(
            steps=self.steps,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            warmup=min(200, self.steps),
            decay=0.4,
            seed=self.seed,
        )


class BookRecipe(Record):
    """A code model that is a book and a sentence encoder, without any training."""

    encoder: str = option(
        metavar="NAME|DIR|HUB-ID",
        help="Sentence encoder that reads for the model: the name of a code model such as mini-code for the one inside "
        "it, or a directory or hub id of sentence-transformers or model2vec. It is copied into the model.",
    )
    language: str | None = option(None, help="Language of the sentences, as an English word, for the card.")
    bits: int = option(15, ge=6, le=15, help="Size of the book: at most 2^BITS sentences.")
    public: bool = option(
        False, help="State that the file is public. Every sentence of the book is published and can come out of it."
    )
    seed: int = option(0, ge=0, flags=None, help="Seed of the sample of a large file.")

    def require_public(self) -> None:
        """Refuse a file that nobody said is public."""
        if not self.public:
            raise BadParameter(
                "a book must be made from public sentences: all of them are published with the model, and any of them "
                "can come out, whatever the budget. If this file is public, pass --public."
            )


class WriterPlan(Record):
    """How the writer of a code model is trained, and on how much text."""

    steps: int = _steps(2_400, "Training steps of the writer, about 50 a minute on one core; you may raise this later.")
    minutes: float | None = option(
        None,
        gt=0,
        help="Instead of --steps: as many steps as fit into this time. Their number is found at the start and kept.",
    )
    decay: float = option(
        0.4, ge=0, le=1, flags=None, help="Share of the steps, at the end, over which the learning rate falls."
    )
    warmup: int = option(100, ge=1, flags=None, help="Steps over which the learning rate rises.")
    rows: int = option(48, ge=1, flags=None, help="Rows of one step.")
    row_tokens: int = option(64, ge=1, flags=None, help="Tokens in a row, of several texts.")
    matrix_rate: float = option(0.01, gt=0, flags=None, help="Peak learning rate of Muon.")
    other_rate: float = option(0.0012, gt=0, flags=None, help="Peak learning rate of Adam.")
    pair_steps: int = option(250, ge=1, flags=None, help="Training steps of the writer's first token tables.")
    vocabulary: int = option(12_000, ge=1, flags=None, help="Tokens of the writer, if it gets a new tokenizer.")
    length: int = option(38, flags=None, help="Tokens of a text that can be written.")
    writer_width: int = option(256, ge=1, flags=None, help="Width of the writer.")
    writer_layers: int = option(3, ge=1, flags=None, help="Layers of the writer.")
    common: int = option(12, ge=1, flags=None, help="How often a common word stands in the text, at least.")

    def rate_at(self, step: int, steps: int) -> float:
        """The learning rate as a share of its peak: it rises, stays, and falls to 2%."""
        falling = max(1.0, self.decay * steps)
        return max(0.02, min(1.0, (steps - step) / falling)) * min(1.0, (step + 1) / self.warmup)


class ReaderPlan(Record):
    """How the reader of a code model learns from its teacher. Start sizes fit all-MiniLM-L6-v2."""

    reader_steps: int = option(
        6_500, ge=1, help="Training steps of the reader, about 160 a minute on one core; the teacher reads before."
    )
    taught: int = option(100_000, ge=1, help="Lines that the teacher reads, at most; about 10,000 a minute.")
    batch: int = option(64, ge=2, flags=None, help="Texts in a step.")
    reader_rate: float = option(4e-4, gt=0, flags=None, help="Peak learning rate of the layers.")
    bag_rate: float = option(2e-3, gt=0, flags=None, help="Peak learning rate of the bag of words.")
    angles: float = option(2.0, ge=0, flags=None, help="Weight of the angles among the texts of a step.")
    reader_width: int = option(384, ge=1, flags=None, help="Width of the reader.")
    reader_layers: int = option(3, ge=1, flags=None, help="Layers of the reader.")
    heads: int = option(8, ge=1, flags=None, help="Attention heads of a layer.")
    head: int = option(32, ge=1, flags=None, help="Entries of a head.")
    inner: int = option(896, ge=1, flags=None, help="Inner width of a layer.")
    windows: int = option(16, ge=1, flags=None, help="Windows of a document.")
    window: int = option(34, ge=4, flags=None, help="Tokens in a window, begin and end included.")
    meaning: int = option(192, ge=1, flags=None, help="Entries of a vector from close reading, at most.")
    words: int = option(64, ge=1, flags=None, help="Entries of a vector from the bag of words, at most.")
    pieces: int = option(30_000, ge=100, flags=None, help="Word pieces, if the teacher's tokenizer cannot be used.")


class CodeRecipe(WriterPlan, ReaderPlan):
    """A code model from scratch."""

    language: str | None = option(None, help="Language of the text, as an English word, for the card.")
    lines: int = option(200_000, ge=1, help="Training lines of each file, at most.")
    seed: int = _seed()

    @model_validator(mode="after")
    def _check(self) -> CodeRecipe:
        if not SHORTEST <= self.length < self.row_tokens:
            raise BadParameter(f"length must be from {SHORTEST} to {self.row_tokens - 1}, got {self.length}.")
        return self

    def held(self) -> dict[str, object]:
        """The settings that a resumed run must share. Minutes only decide the number of steps, which may change."""
        return self.model_dump(exclude={"minutes"})
