"""Train a tokenizer and a BART from scratch on public text: corrupted text in, original text out."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from accelerate import Accelerator
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import BartConfig, BartForConditionalGeneration

from dpbart.errors import BadParameter
from dpbart.models.bundle import Bundle, ModelFacts, save_bundle
from dpbart.models.text import SPECIAL_TOKENS, Tokens
from dpbart.prepare.corpus import CorpusFile, tokenize_corpus, vocabulary_texts
from dpbart.prepare.corruption import Corruption
from dpbart.prepare.objective import Reconstruction, batch_of
from dpbart.prepare.training import Ids, Schedule, hold_to_recipe, train


@dataclass(frozen=True)
class PretrainRecipe(Schedule):
    """All settings of the training. Together with the corpus they determine the model."""

    length: int = 20
    vocabulary: int = 12_000
    width: int = 256
    layers: int = 3  # in the encoder, and as many in the decoder
    heads: int = 4
    batch_size: int = 32
    steps: int = 8_000
    learning_rate: float = 1e-3
    warmup: int = 300  # steps
    decay: float = 0.35  # share of the steps, at the end, over which the learning rate falls to 0
    corrupted: float = 0.25  # share of the texts
    hidden: float = 0.3  # share of the tokens of a corrupted text
    seed: int = 0

    def __post_init__(self) -> None:
        if self.heads < 1 or self.width % self.heads:
            raise BadParameter(f"width must be a multiple of heads ({self.heads}), got {self.width}.")
        if self.layers < 1:
            raise BadParameter(f"layers must be at least 1, got {self.layers}.")
        super().__post_init__()


def train_tokenizer(files: tuple[CorpusFile, ...], recipe: PretrainRecipe) -> Tokenizer:
    """A byte-level BPE: it can encode every string, so no token is unknown."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=recipe.vocabulary,
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(vocabulary_texts(files), trainer)
    begin, end = (tokenizer.token_to_id(token) for token in ("<s>", "</s>"))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", begin), ("</s>", end)]
    )
    return tokenizer


def new_bart(recipe: PretrainRecipe, tokens: Tokens) -> BartForConditionalGeneration:
    torch.manual_seed(recipe.seed)
    config = BartConfig(
        vocab_size=tokens.tokenizer.get_vocab_size(),
        max_position_embeddings=recipe.length,
        d_model=recipe.width,
        encoder_layers=recipe.layers,
        decoder_layers=recipe.layers,
        encoder_attention_heads=recipe.heads,
        decoder_attention_heads=recipe.heads,
        encoder_ffn_dim=4 * recipe.width,
        decoder_ffn_dim=4 * recipe.width,
        dropout=0.0,  # training sees far less than one epoch, so it cannot overfit
        attention_dropout=0.0,
        activation_dropout=0.0,
        bos_token_id=tokens.id_of("<s>"),
        pad_token_id=tokens.id_of("<pad>"),
        eos_token_id=tokens.id_of("</s>"),
        decoder_start_token_id=tokens.id_of("</s>"),
        forced_eos_token_id=None,
    )
    return BartForConditionalGeneration(config)


def pretrain(
    files: tuple[CorpusFile, ...], recipe: PretrainRecipe, folder: Path
) -> BartForConditionalGeneration | None:
    """Train to the last step, or resume from the state saved in `folder`. Only the main process gets the model."""
    accelerator = Accelerator()
    hold_to_recipe(accelerator, folder, asdict(recipe), files)
    with accelerator.main_process_first():
        make = partial(train_tokenizer, files, recipe)
        tokens, corpus = tokenize_corpus(files, make, folder, length=recipe.length)
    model = new_bart(recipe, tokens)
    corruption = Corruption(
        share=recipe.corrupted,
        tokens=recipe.hidden,
        end_id=tokens.id_of("</s>"),
        pad_id=tokens.id_of("<pad>"),
        mask_id=tokens.id_of("<mask>"),
    )

    def show_corrupted(whole: Ids, random: np.random.Generator, step: int) -> tuple[torch.Tensor, ...]:
        shown = corruption.corrupt(whole, random)
        return batch_of(shown=shown, whole=whole, start=model.config.decoder_start_token_id)

    train(
        Reconstruction(model),
        corpus,
        recipe,
        show_corrupted,
        accelerator=accelerator,
        folder=folder,
        title="Pre-training",
    )
    return model if accelerator.is_main_process else None


def write_bundle(
    model: BartForConditionalGeneration,
    tokenizer: Path,
    files: tuple[CorpusFile, ...],
    recipe: PretrainRecipe,
    out: Path,
) -> Bundle:
    """Write a model directory in half precision. Its clip is chosen later."""
    facts = ModelFacts(
        variant="clv",
        length=recipe.length,
        width=recipe.width,
        corpora=tuple(file.provenance() for file in files),
        recipe={"pretrain": asdict(recipe)},
    )
    return save_bundle(model.half(), tokenizer, facts, out)
