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

from dpbart.errors import BadParameter, NotPrepared
from dpbart.models.decoding import search_ids
from dpbart.models.hub import foreign_errors, read_config
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
        self.model.generation_config = GenerationConfig()  # the model's own would add settings to generate()
        self.device = device

    @classmethod
    def load(cls: type[Kind], folder: Path, *, device: torch.device | str | None = None) -> Kind:
        """Load a model directory in the Hugging Face format, always in single precision.

        The weights are those of model.safetensors, the file that the fingerprint is of. Transformers gets them from
        here and is given no directory, because it would look for further files there.
        """
        transformers_logging.disable_progress_bar()
        place, config = _device(device), cls.config(folder)
        with foreign_errors(f"the weights in '{folder}' cannot be loaded", remedy="Download or make them again."):
            weights = load_file(folder / "model.safetensors")
            model, loaded = cls.model_class.from_pretrained(
                None, config=config, state_dict=weights, dtype=torch.float32, output_loading_info=True
            )
        lacking = sorted(loaded["missing_keys"]) + sorted(str(each[0]) for each in loaded["mismatched_keys"])
        if lacking:  # transformers would fill them with random numbers
            raise NotPrepared(f"the weights in '{folder}' lack {', '.join(lacking[:3])} ({len(lacking)} in total).")
        return cls(model, place)

    @classmethod
    def config(cls, folder: Path) -> PreTrainedConfig:
        """The network's settings in config.json."""
        held = {name: value for name, value in read_config(folder).items() if name in cls.settings}
        what = f"the config.json in '{folder}' has settings that cannot be used"
        with foreign_errors(what, remedy="Download or make it again."):
            return cls.model_class.config_class(**held)

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
        encoded = self.model.get_encoder()(input_ids=torch.from_numpy(ids).to(self.device))  # the encoder adds no mask
        values: Floats = encoded.last_hidden_state.float().cpu().numpy()
        return values

    @torch.inference_mode()
    def decode(self, private: Noised, search: BeamSearch, *, length: int) -> Ids:
        """Private latent (batch, positions, width) to ids (batch, at most length + 1)."""
        latent = BaseModelOutput(last_hidden_state=torch.from_numpy(private.values).to(self.device, self.model.dtype))
        config = search.config(self.model, new_tokens=length)
        ids: Ids = self.model.generate(encoder_outputs=latent, generation_config=config).cpu().numpy()
        return ids


class SplitBart(Halves):
    """The two halves of one BART. Its decoder has a search of its own, which finds the same ids as `generate`."""

    model_class = BartForConditionalGeneration
    settings = frozenset(
        {
            *("encoder_layers", "encoder_attention_heads", "encoder_ffn_dim", "encoder_layerdrop"),
            *("decoder_layers", "decoder_attention_heads", "decoder_ffn_dim", "decoder_layerdrop"),
            *("activation_dropout", "activation_function", "attention_dropout", "dropout", "init_std"),
            *("bos_token_id", "decoder_start_token_id", "eos_token_id", "pad_token_id", "vocab_size"),
            *("d_model", "max_position_embeddings", "scale_embedding", "tie_word_embeddings", "use_cache"),
        }
    )

    def decode(self, private: Noised, search: BeamSearch, *, length: int) -> Ids:
        """Private latent (batch, positions, width) to ids (batch, at most length + 1)."""
        latent = torch.from_numpy(private.values).to(self.device, self.model.dtype)
        ids: Ids = search_ids(self.model, latent, search, length=length).cpu().numpy()
        return ids


def _device(asked: torch.device | str | None) -> torch.device:
    """The device that was asked for; by default a GPU if there is one."""
    if asked is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        torch.empty(1, device=asked)
        return torch.device(asked)
    except (RuntimeError, AssertionError):  # torch says the second where it was built without CUDA
        raise BadParameter(f"there is no device '{asked}' here. Leave out --device, or pass --device cpu.") from None
