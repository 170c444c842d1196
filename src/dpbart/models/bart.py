"""BART cut in two at the encoder's output: ids to latent, and private latent to ids.

The decoder is given the values of a `PrivateLatent` and nothing else: no mask, no length, no ids of the text.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from transformers import BartForConditionalGeneration, GenerationConfig
from transformers.modeling_outputs import BaseModelOutput
from transformers.utils import logging as transformers_logging

from dpbart.errors import BadParameter, NotPrepared
from dpbart.privacy.mechanisms import PrivateLatent

Ids = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]

MOST_BEAMS = 100  # memory grows with beams times vocabulary


@dataclass(frozen=True)
class BeamSearch:
    """How the decoder looks for its text: all of it, since a model's own config brings hidden settings
    (bart-base: no_repeat_ngram_size 3 and forced first and last tokens)."""

    beams: int = 10
    length_penalty: float = 1.0
    early_stopping: bool = True  # stop when `beams` texts are finished
    start_id: int | None = None  # the token before the first: the model's own, or a budget token

    def __post_init__(self) -> None:
        if not 1 <= self.beams <= MOST_BEAMS:
            raise BadParameter(f"beams must be from 1 to {MOST_BEAMS}, got {self.beams}.")

    @property
    def recipe(self) -> str:
        return (
            f"beam search, {self.beams} beams, length penalty {self.length_penalty:g}, "
            f"early stopping {'on' if self.early_stopping else 'off'}, no n-gram blocking, no forced tokens"
        )

    def config(self, model: BartForConditionalGeneration, new_tokens: int) -> GenerationConfig:
        start = model.config.decoder_start_token_id if self.start_id is None else self.start_id
        several = {"early_stopping": self.early_stopping, "length_penalty": self.length_penalty}
        return GenerationConfig(
            num_beams=self.beams,
            do_sample=False,
            max_new_tokens=new_tokens,
            no_repeat_ngram_size=0,
            decoder_start_token_id=start,
            bos_token_id=model.config.bos_token_id,
            eos_token_id=model.config.eos_token_id,
            pad_token_id=model.config.pad_token_id,
            **(several if self.beams > 1 else {}),
        )


class SplitBart:
    """The two halves of one BART."""

    def __init__(self, model: BartForConditionalGeneration, device: torch.device) -> None:
        self.model = model.to(device).eval()
        self.model.generation_config = GenerationConfig()  # generate() fills gaps of ours from the model's own
        self.device = device

    @classmethod
    def load(cls, folder: Path, *, device: torch.device | None = None) -> SplitBart:
        """A BART directory in the Hugging Face format, in single precision whatever it has on disk."""
        transformers_logging.disable_progress_bar()
        try:
            model, loaded = BartForConditionalGeneration.from_pretrained(
                folder, dtype=torch.float32, output_loading_info=True
            )
        except Exception as error:  # a damaged file shows itself in many kinds of error
            raise NotPrepared(f"the weights in '{folder}' cannot be loaded ({type(error).__name__}).") from error
        lacking = sorted(loaded["missing_keys"]) + sorted(str(each[0]) for each in loaded["mismatched_keys"])
        if lacking:  # they would be filled with random numbers
            raise NotPrepared(f"the weights in '{folder}' lack {', '.join(lacking[:3])} (of {len(lacking)} in all).")
        return cls(model, device or torch.device("cuda" if torch.cuda.is_available() else "cpu"))

    @property
    def width(self) -> int:
        return int(self.model.config.d_model)

    @property
    def vocabulary(self) -> int:
        """Tokens that the model has embeddings for."""
        return int(self.model.config.vocab_size)

    @property
    def longest(self) -> int:
        """Positions that the model has embeddings for."""
        return int(self.model.config.max_position_embeddings)

    @torch.inference_mode()
    def encode(self, ids: Ids) -> Floats:
        """Ids (batch, length) to latent (batch, length, width); padding is attended to like any other token."""
        on_device = torch.from_numpy(ids).to(self.device)
        encoded = self.model.get_encoder()(input_ids=on_device)  # the encoder alone makes no mask of its own
        values: Floats = encoded.last_hidden_state.float().cpu().numpy()
        return values

    @torch.inference_mode()
    def decode(self, private: PrivateLatent, search: BeamSearch) -> Ids:
        """Private latent (batch, length, width) to ids (batch, at most length + 1)."""
        latent = torch.from_numpy(private.values).to(self.device)
        written = self.model.generate(
            encoder_outputs=BaseModelOutput(last_hidden_state=latent),
            generation_config=search.config(self.model, new_tokens=latent.shape[1]),
        )
        ids: Ids = written.cpu().numpy()
        return ids
