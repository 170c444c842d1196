"""A pre-trained encoder with a feed-forward layer on the mean of its last hidden states: text to label.

It only evaluates rewritten texts. It is not on the private path, so it may use masks and lengths.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from transformers import AutoConfig, AutoModel, AutoTokenizer, PreTrainedTokenizerFast
from transformers.utils import logging as transformers_logging

from dpbart.errors import NotPrepared
from dpbart.files import digest_of
from dpbart.models.bundle import BUNDLED, bundled_names
from dpbart.models.config import read_config

Ids = list[list[int]]


class TextReader:
    """Texts to ids, truncated to a length."""

    def __init__(self, tokenizer: PreTrainedTokenizerFast, length: int) -> None:
        self.tokenizer, self.length = tokenizer, length

    def read(self, texts: Sequence[str]) -> Ids:
        clean = [text.encode("utf-8", "replace").decode("utf-8") for text in texts]
        ids: Ids = self.tokenizer(clean, truncation=True, max_length=self.length)["input_ids"]
        return ids

    def pad(self, rows: Ids, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
        """Ids and mask, both (batch, longest row)."""
        longest = max(len(row) for row in rows)
        fill = self.tokenizer.pad_token_id
        ids = torch.tensor([row + [fill] * (longest - len(row)) for row in rows], device=device)
        mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows], device=device)
        return ids, mask


class LabelModel(torch.nn.Module):
    """Ids to a score for each label. A text longer than the encoder's window is read in pieces of that length."""

    def __init__(self, encoder: torch.nn.Module, width: int, labels: int, *, window: int, dropout: float = 0.1) -> None:
        super().__init__()
        self.encoder, self.window = encoder, window
        self.head = torch.nn.Sequential(
            torch.nn.Linear(width, width), torch.nn.Tanh(), torch.nn.Dropout(dropout), torch.nn.Linear(width, labels)
        )

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        batch, longest = ids.shape
        window = min(self.window, longest)
        fill = (0, -longest % window)  # to whole pieces
        ids, mask = (torch.nn.functional.pad(each, fill) for each in (ids, mask))  # (batch, pieces x window)
        pieces, seen = ids.view(-1, window), mask.view(-1, window)  # (batch x pieces, window)
        seen = torch.where(seen.any(1, keepdim=True), seen, 1)  # a piece of padding must see something; its weight is 0
        hidden = self.encoder(input_ids=pieces, attention_mask=seen).last_hidden_state
        hidden = hidden.reshape(batch, ids.shape[1], -1)  # (batch, pieces x window, width)
        weight = mask.unsqueeze(-1).to(hidden.dtype)  # (batch, pieces x window, 1)
        mean = (hidden * weight).sum(1) / weight.sum(1).clamp(min=1)  # (batch, width)
        scores: torch.Tensor = self.head(mean)  # (batch, labels)
        return scores


def load_encoder(name: str, *, labels: int, length: int) -> tuple[LabelModel, TextReader]:
    """Load an encoder by bundled name, directory, or hub id; from an encoder-decoder, only the encoder.

    Args:
        name: such as "mini", which needs no network, or "bert-base-uncased".
        labels: the number of labels.
        length: the most tokens of a text to read; an encoder with fewer positions (mini: 20) reads them in pieces.

    Raises:
        NotPrepared: if it cannot be loaded.
    """
    transformers_logging.disable_progress_bar()
    transformers_logging.set_verbosity_error()  # it would report the decoder's unused weights
    folder = _place(name)
    if Path(folder).is_dir():
        read_config(Path(folder))  # refuses one that leads to other weights than those that `weights_of` hashes
    try:
        config = AutoConfig.from_pretrained(folder)
        model = AutoModel.from_pretrained(folder, dtype=torch.float32)
        tokenizer = load_tokenizer(folder)
    except Exception as error:  # offline, unknown, damaged: each has its own type
        raise NotPrepared(
            f"the encoder '{name}' could not be loaded ({type(error).__name__}). "
            "Pass 'mini', a directory, or, with a network, a hub id such as bert-base-uncased."
        ) from error
    if config.is_encoder_decoder:
        model = model.get_encoder()
    window = min(int(getattr(config, "max_position_embeddings", length)), int(tokenizer.model_max_length))
    return LabelModel(model, int(config.hidden_size), labels, window=window), TextReader(tokenizer, length)


def weights_of(name: str) -> str:
    """Identifies the weights: the first 12 digits of their SHA-256 if they are on this machine, otherwise the name."""
    file = Path(_place(name)) / "model.safetensors"
    return digest_of(file)[:12] if file.is_file() else name


def _place(name: str) -> str:
    return str(BUNDLED / name) if name in bundled_names() else name


def load_tokenizer(folder: str) -> PreTrainedTokenizerFast:
    """The tokenizer of a model directory or hub id. One of our own model directories has no tokenizer_config.json."""
    file = Path(folder) / "tokenizer.json"
    if not file.is_file() or (Path(folder) / "tokenizer_config.json").is_file():
        return AutoTokenizer.from_pretrained(folder)
    return PreTrainedTokenizerFast(tokenizer_file=str(file), pad_token="<pad>")
