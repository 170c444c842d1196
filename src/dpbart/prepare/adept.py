"""ADePT on public text: read a text, clip its latent into the ball, write the text again. No noise in training.

Word vocabulary and clip come from public text and the recipe, and are frozen in the model.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from accelerate import Accelerator
from tokenizers import Tokenizer, trainers

from dpbart.errors import BadParameter
from dpbart.models.adept import AdeptConfig, AdeptForGeneration, Decoder, Encoder
from dpbart.models.bundle import ADEPT, Bundle, ModelFacts, save_bundle
from dpbart.models.text import SHORTEST, Tokens
from dpbart.models.words import SPECIAL_WORDS, word_tokenizer
from dpbart.prepare.corpus import CorpusFile, encode_corpus, training_texts
from dpbart.prepare.glove import WordVectors, glove_provenance, read_glove
from dpbart.prepare.training import Ids, Schedule, hold_to_recipe, train
from dpbart.privacy.clipping import ByNorm

VOCABULARY_TEXTS = 1_000_000  # more change the vocabulary little and cost time


@dataclass(frozen=True)
class AdeptRecipe:
    """Everything that decides what the model becomes, beside the corpus and the word vectors; the paper's sizes."""

    length: int = 20
    vocabulary: int = 20_000
    embedding: int = 300
    hidden: int = 512  # of h, and of c
    clip: float = 5.0  # radius of the L2 ball
    batch_size: int = 64
    steps: int = 20_000
    learning_rate: float = 1e-3
    warmup: int = 300  # steps
    decay: float = 0.35  # share of the steps, at the end, over which the learning rate falls to 0
    seed: int = 0

    def __post_init__(self) -> None:
        least = {"length": SHORTEST, "vocabulary": len(SPECIAL_WORDS) + 1, "embedding": 1, "hidden": 1}
        for name, lowest in least.items():
            if getattr(self, name) < lowest:
                raise BadParameter(f"{name} must be at least {lowest}, got {getattr(self, name)}.")
        ByNorm(self.clip)  # refuses a radius that is not above 0
        _ = self.schedule

    @property
    def schedule(self) -> Schedule:
        return Schedule(
            steps=self.steps,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            warmup=self.warmup,
            decay=self.decay,
            seed=self.seed,
        )


@dataclass(frozen=True)
class TrainedAdept:
    """The model, and how many words of its vocabulary began with a vector of GloVe."""

    model: AdeptForGeneration
    known_words: int


class Reconstruction(torch.nn.Module):
    """The objective as a module, so that accelerate can spread it over several GPUs."""

    def __init__(self, adept: AdeptForGeneration, radius: float) -> None:
        super().__init__()
        self.adept = adept
        self.radius = radius

    def forward(self, whole: torch.Tensor) -> torch.Tensor:
        """Cross-entropy of writing `whole` (batch, length) from its clipped latent, over what is not padding."""
        latent = self.adept.encoder(whole).last_hidden_state  # (batch, 1, 2 hidden)
        states = self.adept.decoder(whole[:, :-1], into_ball(latent, self.radius))  # (batch, length - 1, hidden)
        wanted = whole[:, 1:]
        counted = wanted != self.adept.config.pad_token_id
        logits = self.adept.decoder.generator(states[counted])  # (words, vocabulary)
        return torch.nn.functional.cross_entropy(logits, wanted[counted])


def into_ball(latent: torch.Tensor, radius: float) -> torch.Tensor:
    """`ByNorm(radius)` with a gradient: (batch, 1, width), each row at most so long."""
    length: torch.Tensor = torch.linalg.vector_norm(latent, dim=2, keepdim=True)  # (batch, 1, 1)
    return latent * (radius / length.clamp(min=radius))


def count_words(files: tuple[CorpusFile, ...], recipe: AdeptRecipe) -> Tokenizer:
    """A tokenizer of the most frequent words of public text."""
    tokenizer = word_tokenizer({word: number for number, word in enumerate(SPECIAL_WORDS)})
    trainer = trainers.WordLevelTrainer(
        vocab_size=recipe.vocabulary, special_tokens=list(SPECIAL_WORDS), show_progress=False
    )
    stride = max(1, sum(file.training_texts for file in files) // VOCABULARY_TEXTS)
    texts = (text for number, text in enumerate(training_texts(files)) if number % stride == 0)
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def new_adept(recipe: AdeptRecipe, tokens: Tokens, vectors: WordVectors | None) -> AdeptForGeneration:
    torch.manual_seed(recipe.seed)
    config = AdeptConfig(
        vocab_size=tokens.size,
        embedding=recipe.embedding,
        hidden=recipe.hidden,
        max_position_embeddings=recipe.length,
        bos_token_id=tokens.id_of("<s>"),
        pad_token_id=tokens.id_of("<pad>"),
        eos_token_id=tokens.id_of("</s>"),
    )
    model = AdeptForGeneration(config)
    halves: tuple[Encoder, Decoder] = (model.encoder, model.decoder)
    with torch.no_grad():
        for half in halves:
            # A forget gate that begins open lets gradients through all positions: Jozefowicz et al. 2015.
            forget = slice(recipe.hidden, 2 * recipe.hidden)  # of the gates i, f, g, o
            half.rnn.get_parameter("bias_ih_l0")[forget] = 1.0
            if vectors is not None:
                half.embeds.weight[torch.from_numpy(vectors.ids)] = torch.from_numpy(vectors.values)
    return model


def train_adept(
    files: tuple[CorpusFile, ...], recipe: AdeptRecipe, glove: Path | None, folder: Path
) -> TrainedAdept | None:
    """Train to the recipe's last step, saving state in `folder` on the way, from where it stopped before.

    With several processes, the first gets the model and the others None.
    """
    accelerator = Accelerator()
    with accelerator.main_process_first():
        tokens, corpus = _prepare_corpus(files, recipe, glove, folder)
    words = tokens.tokenizer.get_vocab()
    vectors = None if glove is None else read_glove(glove, words, dimension=recipe.embedding)
    model = new_adept(recipe, tokens, vectors)

    def show_whole(whole: Ids, random: np.random.Generator, step: int) -> tuple[torch.Tensor, ...]:
        return (torch.from_numpy(whole),)

    train(
        Reconstruction(model, recipe.clip),
        corpus,
        recipe.schedule,
        show_whole,
        accelerator=accelerator,
        folder=folder,
        title="Training ADePT",
    )
    known = 0 if vectors is None else len(vectors.ids)
    return TrainedAdept(model, known) if accelerator.is_main_process else None


def _prepare_corpus(
    files: tuple[CorpusFile, ...], recipe: AdeptRecipe, glove: Path | None, folder: Path
) -> tuple[Tokens, npt.NDArray[np.uint32]]:
    corpus = [file.sha256 for file in files]
    hold_to_recipe(folder, {**asdict(recipe), "glove": glove_provenance(glove), "corpus": corpus})
    tokenizer_file = folder / "tokenizer.json"
    if not tokenizer_file.is_file():
        count_words(files, recipe).save(str(tokenizer_file))
    tokens = Tokens.load(tokenizer_file, length=recipe.length)
    return tokens, encode_corpus(files, tokens, folder)


def write_adept(
    trained: TrainedAdept,
    folder: Path,
    files: tuple[CorpusFile, ...],
    recipe: AdeptRecipe,
    glove: Path | None,
    out: Path,
) -> Bundle:
    """A model directory, in half precision, with the clip of its training."""
    vectors = glove_provenance(glove)
    known = None if vectors is None else {**vectors, "words_known": trained.known_words}
    facts = ModelFacts(
        variant=ADEPT,
        length=recipe.length,
        width=2 * recipe.hidden,
        clip=recipe.clip,
        corpora=tuple(file.provenance() for file in files),
        recipe={"adept": {**asdict(recipe), "glove": known}},
    )
    return save_bundle(trained.model.half(), folder / "tokenizer.json", facts, out)
