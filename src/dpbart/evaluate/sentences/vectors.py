"""Texts to unit vectors: those of texts with a similar meaning have a large cosine.

They only judge rewritten texts. This is not on the private path, so it may use masks and lengths.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from transformers import AutoConfig, AutoModel
from transformers.utils import logging as transformers_logging

from dpbart.errors import NotPrepared
from dpbart.evaluate.classifiers.encoder_model import TextReader, load_tokenizer
from dpbart.evaluate.sentences.files import SentenceEncoderFiles
from dpbart.models.bundle import Bundle
from dpbart.models.code import CODE
from dpbart.models.code.encoder import CodeEncoder
from dpbart.privacy.mechanisms import NonPrivate
from dpbart.privacy.sampling import SystemEntropy

Floats = npt.NDArray[np.float32]
BATCH_SIZE = 64
_LONGEST = 512  # tokens, where neither the encoder nor its tokenizer has a limit


class SentenceVectors(Protocol):
    """A sentence encoder that is loaded."""

    def of(self, texts: Sequence[str]) -> Floats:
        """Unit vectors, (texts, width)."""


@dataclass(frozen=True)
class TransformerVectors:
    """A BERT-like model: the mean of its last hidden states, or the first of them."""

    model: torch.nn.Module
    reader: TextReader
    pooling: str

    @torch.inference_mode()
    def of(self, texts: Sequence[str]) -> Floats:
        rows = self.reader.read(texts)
        order = sorted(range(len(rows)), key=lambda row: len(rows[row]))  # similar lengths together: less padding
        device = next(self.model.parameters()).device
        found: list[Floats] = [np.zeros(0, np.float32)] * len(rows)
        for start in range(0, len(rows), BATCH_SIZE):
            part = order[start : start + BATCH_SIZE]
            ids, mask = self.reader.pad([rows[row] for row in part], device)  # both (batch, longest row)
            hidden = self.model(input_ids=ids, attention_mask=mask).last_hidden_state  # (batch, longest row, width)
            vectors = torch.nn.functional.normalize(self._pool(hidden, mask), dim=-1).cpu().numpy()
            for row, vector in zip(part, vectors, strict=True):
                found[row] = vector
        return np.stack(found)

    def _pool(self, hidden: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """(batch, width)"""
        if self.pooling == "cls":
            return hidden[:, 0]
        weight = mask.unsqueeze(-1).to(hidden.dtype)  # (batch, longest row, 1)
        return (hidden * weight).sum(1) / weight.sum(1).clamp(min=1)


@dataclass(frozen=True)
class CodeVectors:
    """The sentence encoder inside a code model. It reads whole documents."""

    encoder: CodeEncoder

    def of(self, texts: Sequence[str]) -> Floats:
        return self.encoder.vectors(self.encoder.tokens(texts))


def load_vectors(files: SentenceEncoderFiles) -> SentenceVectors:
    """Load a sentence encoder from its directory; nothing is fetched.

    Raises:
        NotPrepared: If it cannot be loaded.
    """
    return CodeVectors(_code_encoder(files.folder)) if files.inside_code else _transformer(files)


def _code_encoder(folder: Path) -> CodeEncoder:
    bundle = Bundle.at(folder)
    length = bundle.facts.length
    channel = CODE.channel(bundle, mechanism=NonPrivate.name, epsilon=None, delta=0.0, length=length)  # nothing is sent
    return CODE.load(bundle, channel, length=length, beams=None, entropy=SystemEntropy()).encoder


def _transformer(files: SentenceEncoderFiles) -> TransformerVectors:
    transformers_logging.disable_progress_bar()
    transformers_logging.set_verbosity_error()  # it would report weights that a sentence vector does not need
    folder = str(files.folder)
    try:
        config = AutoConfig.from_pretrained(folder, local_files_only=True)
        model = AutoModel.from_pretrained(folder, dtype=torch.float32, local_files_only=True, use_safetensors=True)
        tokenizer = load_tokenizer(folder)
    except Exception as error:  # damaged, or of an unknown kind: each has its own type
        raise NotPrepared(
            f"the sentence encoder in '{folder}' could not be loaded ({type(error).__name__}). Download it again."
        ) from error
    if config.is_encoder_decoder:
        model = model.get_encoder()
    positions = int(getattr(config, "max_position_embeddings", _LONGEST))
    length = min(positions, int(tokenizer.model_max_length), files.longest or positions)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return TransformerVectors(model.eval().to(device), TextReader(tokenizer, length), files.pooling)
