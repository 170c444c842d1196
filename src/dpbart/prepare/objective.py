"""The training objective of every BART: write a public text from its latent, through a channel.

The channel connects encoder and decoder. It does nothing, clips, or clips and adds noise. No position is masked: the
decoder sees the whole latent, as it does when it rewrites.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from transformers import BartForConditionalGeneration

from dpbart.prepare.training import Ids

Channel = Callable[..., torch.Tensor]


def untouched(latent: torch.Tensor) -> torch.Tensor:
    return latent


class Reconstruction(torch.nn.Module):
    """The objective as a module, so that accelerate can spread it over several GPUs."""

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
