"""A model split at the encoder's output into two halves: ids to latent, and private latent to ids.

The decoder gets only the values of a `Private` latent: no mask, no length, and no ids of the text.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from safetensors.torch import load_file
from transformers import BartForConditionalGeneration, GenerationConfig, PreTrainedConfig, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput
from transformers.utils import logging as transformers_logging

from dpbart.errors import NotPrepared
from dpbart.models.config import read_config
from dpbart.models.search import BeamSearch
from dpbart.privacy.mechanisms import Noised

Ids = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]
Kind = TypeVar("Kind", bound="Halves")


class Halves:
    """The two halves of one model; each subclass names the class that it loads, and its settings in config.json."""

    model_class: ClassVar[type[PreTrainedModel]]
    settings: ClassVar[frozenset[str]]  # all others are ignored: transformers has many that change what it loads

    def __init__(self, model: PreTrainedModel, device: torch.device) -> None:
        self.model = model.to(device).eval()
        self.model.generation_config = (
            GenerationConfig()
        )  # otherwise generate() would add settings from the model's own
        self.device = device

    @classmethod
    def load(cls: type[Kind], folder: Path, *, device: torch.device | None = None) -> Kind:
        """Load a model directory in the Hugging Face format, always in single precision.

        The weights are those of model.safetensors, the file that the fingerprint is of. Transformers gets them from
        here and is given no directory, because it would look for further files there.
        """
        transformers_logging.disable_progress_bar()
        config = cls.config(folder)
        try:
            model, loaded = cls.model_class.from_pretrained(
                None,
                config=config,
                state_dict=load_file(folder / "model.safetensors"),
                dtype=torch.float32,
                output_loading_info=True,
            )
        except Exception as error:  # damaged files raise many kinds of errors
            raise NotPrepared(
                f"the weights in '{folder}' cannot be loaded ({type(error).__name__}). Download or make them again."
            ) from error
        lacking = sorted(loaded["missing_keys"]) + sorted(str(each[0]) for each in loaded["mismatched_keys"])
        if lacking:  # transformers would fill them with random numbers
            raise NotPrepared(f"the weights in '{folder}' lack {', '.join(lacking[:3])} ({len(lacking)} in total).")
        return cls(model, device or torch.device("cuda" if torch.cuda.is_available() else "cpu"))

    @classmethod
    def config(cls, folder: Path) -> PreTrainedConfig:
        """The network's settings in config.json."""
        held = {name: value for name, value in read_config(folder).items() if name in cls.settings}
        try:
            return cls.model_class.config_class(**held)
        except Exception as error:  # transformers raises many kinds for settings that it cannot use
            raise NotPrepared(
                f"the config.json in '{folder}' has settings that cannot be used ({type(error).__name__}). "
                "Download or make it again."
            ) from error

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
    settings = frozenset(
        f"{half}_{name}"
        for half in ("encoder", "decoder")
        for name in ("layers", "attention_heads", "ffn_dim", "layerdrop")
    ) | {
        "activation_dropout",
        "activation_function",
        "attention_dropout",
        "bos_token_id",
        "d_model",
        "decoder_start_token_id",
        "dropout",
        "eos_token_id",
        "init_std",
        "max_position_embeddings",
        "pad_token_id",
        "scale_embedding",
        "tie_word_embeddings",
        "use_cache",
        "vocab_size",
    }
