"""A model split at the encoder's output into two halves: ids to latent, and private latent to ids.

The decoder gets only the values of a `Private` latent: no mask, no length, and no ids of the text.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from transformers import BartForConditionalGeneration, GenerationConfig, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput
from transformers.utils import logging as transformers_logging

from dpbart.errors import NotPrepared
from dpbart.models.search import BeamSearch
from dpbart.privacy.mechanisms import Noised

Ids = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]
Kind = TypeVar("Kind", bound="Halves")


class Halves:
    """The two halves of one model; each subclass names the class that it loads."""

    model_class: ClassVar[type[PreTrainedModel]]

    def __init__(self, model: PreTrainedModel, device: torch.device) -> None:
        self.model = model.to(device).eval()
        self.model.generation_config = (
            GenerationConfig()
        )  # otherwise generate() would add settings from the model's own
        self.device = device

    @classmethod
    def load(cls: type[Kind], folder: Path, *, device: torch.device | None = None) -> Kind:
        """Load a model directory in the Hugging Face format, always in single precision."""
        transformers_logging.disable_progress_bar()
        try:
            model, loaded = cls.model_class.from_pretrained(folder, dtype=torch.float32, output_loading_info=True)
        except Exception as error:  # damaged files raise many kinds of errors
            raise NotPrepared(
                f"the weights in '{folder}' cannot be loaded ({type(error).__name__}). Download or make them again."
            ) from error
        lacking = sorted(loaded["missing_keys"]) + sorted(str(each[0]) for each in loaded["mismatched_keys"])
        if lacking:  # transformers would fill them with random numbers
            raise NotPrepared(f"the weights in '{folder}' lack {', '.join(lacking[:3])} ({len(lacking)} in total).")
        return cls(model, device or torch.device("cuda" if torch.cuda.is_available() else "cpu"))

    @property
    def width(self) -> int:
        return int(self.model.config.d_model)

    @property
    def vocabulary(self) -> int:
        """The number of tokens that the model has embeddings for."""
        return int(self.model.config.vocab_size)

    @property
    def longest(self) -> int:
        """The most ids of a text that the model can read."""
        return int(self.model.config.max_position_embeddings)

    @torch.inference_mode()
    def encode(self, ids: Ids) -> Floats:
        """Ids (batch, length) to latent (batch, positions, width); padding is read like any other token."""
        on_device = torch.from_numpy(ids).to(self.device)
        encoded = self.model.get_encoder()(input_ids=on_device)  # the encoder itself adds no mask
        values: Floats = encoded.last_hidden_state.float().cpu().numpy()
        return values

    @torch.inference_mode()
    def decode(self, private: Noised, search: BeamSearch, *, length: int) -> Ids:
        """Private latent (batch, positions, width) to ids (batch, at most length + 1)."""
        latent = torch.from_numpy(private.values).to(self.device)
        written = self.model.generate(
            encoder_outputs=BaseModelOutput(last_hidden_state=latent),
            generation_config=search.config(self.model, new_tokens=length),
        )
        ids: Ids = written.cpu().numpy()
        return ids


class SplitBart(Halves):
    """The two halves of one BART."""

    model_class = BartForConditionalGeneration
