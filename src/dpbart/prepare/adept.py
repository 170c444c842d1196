"""Train ADePT on public text: read a text, clip its latent to a ball, write the text again. Training has no noise.

The vocabulary comes from public text and the clip from the recipe. Both are fixed in the model. Words may start from
GloVe vectors (Pennington, Socher and Manning 2014, https://nlp.stanford.edu/projects/glove/), in their text format:
a word and its numbers on each line.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from accelerate import Accelerator
from tokenizers import Tokenizer, trainers

from dpbart.errors import BadTable
from dpbart.files import digest_of
from dpbart.models.adept import AdeptConfig, AdeptForGeneration, Decoder, Encoder
from dpbart.models.bundle import Bundle, ModelFacts, save_bundle
from dpbart.models.families import ADEPT
from dpbart.models.text import SPECIAL_WORDS, Tokens, word_tokenizer
from dpbart.options.recipes import AdeptRecipe
from dpbart.prepare.corpus import CorpusFile, open_text, tokenize_corpus, vocabulary_texts
from dpbart.prepare.training import Ids, hold_to_recipe, train_on_corpus


@dataclass(frozen=True, eq=False)
class WordVectors:
    """The vectors of the vocabulary words that occur in a file."""

    ids: npt.NDArray[np.int64]  # (known,)
    values: npt.NDArray[np.float32]  # (known, dimension)


def read_glove(file: Path, vocabulary: Mapping[str, int], *, dimension: int) -> WordVectors:
    """Read the vectors of the vocabulary words. Every line is checked. If a word repeats, its last line counts."""
    vectors: dict[int, npt.NDArray[np.float32]] = {}
    with open_text(file, what="word vectors") as lines:
        for number, line in enumerate(lines, start=1):
            # Split from the right: a few words of glove.840B contain spaces.
            word, *values = line.rstrip("\n").rsplit(" ", dimension)
            if len(values) != dimension or (number == 1 and " " in word):
                raise BadTable(
                    f"line {number} of '{file}' must be a word and {dimension} numbers, "
                    f"got {len(line.split()) - 1}. Give vectors with {dimension} numbers, or change --embedding."
                )
            if word in vocabulary:
                vectors[vocabulary[word]] = _numbers(values, file, number)
    ids = np.array(sorted(vectors), dtype=np.int64)
    return WordVectors(ids, np.array([vectors[word] for word in ids], dtype=np.float32).reshape(len(ids), dimension))


def glove_provenance(file: Path | None) -> dict[str, object] | None:
    """Name and hash of a file of vectors, as recorded in the recipe of a model."""
    if file is None:
        return None
    if not file.is_file():
        raise BadTable(f"no file of word vectors at '{file}'. Check the path.")
    return {"name": file.name, "sha256": digest_of(file)}


def _numbers(values: list[str], file: Path, number: int) -> npt.NDArray[np.float32]:
    try:
        vector = np.array(values, dtype=np.float32)
    except ValueError:
        vector = np.array([np.nan], dtype=np.float32)
    if not np.isfinite(vector).all():
        raise BadTable(f"line {number} of '{file}' must hold only finite numbers after its word; it does not.")
    return vector


FREQUENCY_TEXTS = 100_000


@dataclass(frozen=True)
class TrainedAdept:
    """The model, and how many words of its vocabulary started from a GloVe vector."""

    model: AdeptForGeneration
    known_words: int


class WordObjective(torch.nn.Module):
    """The loss of writing a text from its clipped latent, as a module that accelerate can spread over several GPUs.

    A softmax over all words would be most of the work of a step. Instead, the words of the batch compete with a sample
    of the vocabulary. Each candidate is weighted by one over its chance of being a candidate, which keeps the sum of
    the softmax right on average (Jean et al. 2015, https://arxiv.org/abs/1412.2007). If all words are sampled, this
    is the full softmax.
    """

    def __init__(self, adept: AdeptForGeneration, radius: float, frequency: torch.Tensor) -> None:
        super().__init__()
        self.adept = adept
        self.radius = radius
        self.frequency = frequency  # (vocabulary,), share of each word in public text

    def forward(self, whole: torch.Tensor, sampled: torch.Tensor) -> torch.Tensor:
        """Cross-entropy of writing texts from their clipped latents, without padding.

        Args:
            whole: ids of texts, (batch, length).
            sampled: distinct ids of words, sampled uniformly from the vocabulary, (candidates,).
        """
        latent = self.adept.encoder(whole).last_hidden_state  # (batch, 1, 2 hidden)
        states = self.adept.decoder(whole[:, :-1], into_ball(latent, self.radius))  # (batch, length - 1, hidden)
        wanted = whole[:, 1:]
        counted = wanted != self.adept.config.pad_token_id
        states, wanted = states[counted], wanted[counted]  # (words, hidden), (words,)
        rivals = torch.unique(torch.cat([wanted, sampled]))  # ascending
        share = len(sampled) / len(self.frequency)
        missed = (1 - self.frequency[rivals]) ** len(wanted) * (1 - share)  # chance that a word is no candidate
        generator = self.adept.decoder.generator
        logits = torch.nn.functional.linear(states, generator.weight[rivals], generator.bias[rivals])
        return torch.nn.functional.cross_entropy(logits - torch.log1p(-missed), torch.searchsorted(rivals, wanted))


def into_ball(latent: torch.Tensor, radius: float) -> torch.Tensor:
    """`ByNorm(radius)` with a gradient: (batch, 1, width), each row at most `radius` long."""
    length: torch.Tensor = torch.linalg.vector_norm(latent, dim=2, keepdim=True)  # (batch, 1, 1)
    return latent * (radius / length.clamp(min=radius))


def count_words(files: tuple[CorpusFile, ...], recipe: AdeptRecipe) -> Tokenizer:
    """A tokenizer for the most frequent words of public text."""
    tokenizer = word_tokenizer({word: number for number, word in enumerate(SPECIAL_WORDS)})
    trainer = trainers.WordLevelTrainer(
        vocab_size=recipe.vocabulary, special_tokens=list(SPECIAL_WORDS), show_progress=False
    )
    tokenizer.train_from_iterator(vocabulary_texts(files), trainer)
    return tokenizer


def word_frequency(corpus: npt.NDArray[np.uint32], tokens: Tokens) -> torch.Tensor:
    """The share of each word in public text, without padding: (vocabulary,)."""
    stride = max(1, len(corpus) // FREQUENCY_TEXTS)
    counts = np.bincount(corpus[::stride, 1:].ravel(), minlength=tokens.size).astype(np.float32)
    counts[tokens.id_of("<pad>")] = 0
    return torch.from_numpy(counts / counts.sum())


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
            # A forget gate that starts open lets gradients pass all positions: Jozefowicz et al. 2015.
            forget = slice(recipe.hidden, 2 * recipe.hidden)  # of the gates i, f, g, o
            half.rnn.get_parameter("bias_ih_l0")[forget] = 1.0
            if vectors is not None:
                half.embeds.weight[torch.from_numpy(vectors.ids)] = torch.from_numpy(vectors.values)
    return model


def train_adept(
    files: tuple[CorpusFile, ...], recipe: AdeptRecipe, glove: Path | None, folder: Path
) -> TrainedAdept | None:
    """Train to the last step, or resume from the state saved in `folder`. Only the main process gets the model."""
    accelerator = Accelerator()
    hold_to_recipe(folder, {**recipe.model_dump(), "glove": glove_provenance(glove)}, files)
    with accelerator.main_process_first():
        make = partial(count_words, files, recipe)
        tokens, corpus = tokenize_corpus(files, make, folder, length=recipe.length)
    words = tokens.tokenizer.get_vocab()
    vectors = None if glove is None else read_glove(glove, words, dimension=recipe.embedding)
    model = new_adept(recipe, tokens, vectors)

    def show_whole(whole: Ids, random: np.random.Generator, step: int) -> tuple[torch.Tensor, ...]:
        count = recipe.candidates_at(step, words=tokens.size)
        sampled = random.choice(tokens.size, size=count, replace=False)
        return torch.from_numpy(whole), torch.from_numpy(sampled)

    train_on_corpus(
        WordObjective(model, recipe.clip, word_frequency(corpus, tokens).to(accelerator.device)),
        corpus,
        recipe,
        show_whole,
        accelerator=accelerator,
        folder=folder,
        title="Training ADePT",
    )
    known = 0 if vectors is None else len(vectors.ids)
    return TrainedAdept(model, known) if accelerator.is_main_process else None


def write_adept(
    trained: TrainedAdept,
    folder: Path,
    files: tuple[CorpusFile, ...],
    recipe: AdeptRecipe,
    glove: Path | None,
    out: Path,
) -> Bundle:
    """Write a model directory in half precision, with the clip used in training."""
    vectors = glove_provenance(glove)
    known = None if vectors is None else {**vectors, "words_known": trained.known_words}
    facts = ModelFacts(
        variant=ADEPT.name,
        length=recipe.length,
        width=2 * recipe.hidden,
        clip=recipe.clip,
        corpora=tuple(file.provenance() for file in files),
        recipe={"adept": {**recipe.model_dump(), "glove": known}},
    )
    return save_bundle(trained.model.half(), folder / "tokenizer.json", facts, out)
