"""Train a tokenizer and a BART from scratch on public text.

The model sees a corrupted text and learns to write the original. The corruptions are token masking, token deletion and
text infilling (Lewis et al. 2020, section 2.2, https://arxiv.org/abs/1910.13461). Every row has the same length:
begin, tokens, end, padding.

`Reconstruction` is the objective of every BART here: write a public text from its latent, through a channel. The
channel connects encoder and decoder. It does nothing, clips, or clips and adds noise. No position is masked: the
decoder sees the whole latent, as it does when it rewrites.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from accelerate import Accelerator
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import BartConfig, BartForConditionalGeneration

from dpbart.models.bundle import Bundle, ModelFacts, save_bundle
from dpbart.models.text import SPECIAL_TOKENS, Tokens
from dpbart.options.recipes import PretrainRecipe
from dpbart.prepare.corpus import CorpusFile, tokenize_corpus, vocabulary_texts
from dpbart.prepare.training import hold_to_recipe, train_on_corpus

Ids = npt.NDArray[np.int64]
SPAN_MEAN = 3.0  # Poisson mean of an infilled span (Lewis et al., "Text Infilling")


@dataclass(frozen=True)
class Corruption:
    """Corrupts a share of the texts in a batch, each in one of the three ways."""

    share: float  # of the texts; the others stay unchanged, to be copied
    tokens: float  # share of the tokens of a corrupted text that are hidden
    end_id: int
    pad_id: int
    mask_id: int

    def corrupt(self, ids: Ids, random: np.random.Generator) -> Ids:
        """A corrupted copy of the ids, (batch, length)."""
        rows: Ids = ids.copy()
        for number in np.flatnonzero(random.random(len(ids)) < self.share):
            row = ids[number]
            body = row[1 : int(np.flatnonzero(row == self.end_id)[0])]  # between begin and end
            changed = (self._mask, self._delete, self._infill)[random.integers(3)](body, random)
            rows[number] = self._whole(row, changed)
        return rows

    def _mask(self, body: Ids, random: np.random.Generator) -> Ids:
        return np.where(random.random(len(body)) < self.tokens, self.mask_id, body)

    def _delete(self, body: Ids, random: np.random.Generator) -> Ids:
        return body[random.random(len(body)) >= self.tokens]

    def _infill(self, body: Ids, random: np.random.Generator) -> Ids:
        """Replace each span by one mask. A span of length 0 inserts a mask."""
        pieces: list[Ids] = []
        at, budget = 0, round(self.tokens * len(body))
        while at < len(body):
            if budget > 0 and random.random() < self.tokens / SPAN_MEAN:
                span = min(int(random.poisson(SPAN_MEAN)), budget)
                pieces.append(np.array([self.mask_id]))
                at, budget = at + span, budget - max(span, 1)
            pieces.append(body[at : at + 1])
            at += 1
        return np.concatenate(pieces) if pieces else body

    def _whole(self, row: Ids, body: Ids) -> Ids:
        """Begin, body, end and padding, at the length of the row. An insertion may push out the last token."""
        body = body[: len(row) - 2]
        padding = np.full(len(row) - 2 - len(body), self.pad_id)
        return np.concatenate([row[:1], body, [self.end_id], padding])


Channel = Callable[..., torch.Tensor]


def untouched(latent: torch.Tensor) -> torch.Tensor:
    return latent


class Reconstruction(torch.nn.Module):
    """The loss of writing a text through a channel, as a module that accelerate can spread over several GPUs."""

    def __init__(self, bart: BartForConditionalGeneration, channel: Channel = untouched) -> None:
        super().__init__()
        self.bart = bart
        self.channel = channel

    def forward(
        self, shown: torch.Tensor, before: torch.Tensor, whole: torch.Tensor, *setting: torch.Tensor
    ) -> torch.Tensor:
        """Cross-entropy of writing `whole` from `shown`, without padding. All ids are (batch, length).

        Args:
            shown: the input of the encoder.
            before: the input of the decoder: at each position, the token before the target.
            whole: the targets of the decoder.
            setting: further arguments of the channel, such as the scale of the noise.
        """
        bart = self.bart
        latent = bart.model.encoder(input_ids=shown).last_hidden_state
        received = self.channel(latent, *setting)  # (batch, length, width)
        hidden = bart.model.decoder(
            input_ids=before, encoder_hidden_states=received, use_cache=False
        ).last_hidden_state  # (batch, length, width)
        counted = whole != bart.config.pad_token_id
        logits = bart.lm_head(hidden[counted]) + bart.final_logits_bias[0]  # (tokens, vocabulary)
        return torch.nn.functional.cross_entropy(logits, whole[counted])


def batch_of(*, shown: Ids, whole: Ids, start: Ids | int) -> tuple[torch.Tensor, ...]:
    """The arguments of `Reconstruction`. `start` is the first token of the decoder: one for all texts, or one each."""
    before = np.roll(whole, 1, axis=1)  # (batch, length)
    before[:, 0] = start
    return torch.from_numpy(shown), torch.from_numpy(before), torch.from_numpy(whole)


def train_tokenizer(files: tuple[CorpusFile, ...], *, vocabulary: int) -> Tokenizer:
    """A byte-level BPE: it can encode every string, so no token is unknown."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
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
    hold_to_recipe(folder, recipe.model_dump(), files)
    with accelerator.main_process_first():
        make = partial(train_tokenizer, files, vocabulary=recipe.vocabulary)
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

    train_on_corpus(
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
        recipe={"pretrain": recipe.model_dump()},
    )
    return save_bundle(model.half(), tokenizer, facts, out)
