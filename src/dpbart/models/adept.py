"""ADePT, the LSTM baseline, split like BART. Its latent is one row: the encoder's last state [h; c].

Krishna, Gupta and Dupuy 2021, https://arxiv.org/abs/2102.01502, as corrected by Habernal 2021,
https://arxiv.org/abs/2109.03175. The encoder reads all ids, including padding. A packed sequence would end each
text at its own length, and a mask would reveal that length.
"""

from __future__ import annotations

from inspect import signature

import torch
from transformers import GenerationMixin, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput, Seq2SeqLMOutput

from dpbart.models.bart import Halves


class AdeptConfig(PretrainedConfig):  # type: ignore[misc]  # transformers is untyped here
    """The content of config.json, with BART's field names where they mean the same."""

    model_type = "adept"

    def __init__(
        self,
        vocab_size: int = 20_000,
        embedding: int = 300,
        hidden: int = 512,
        max_position_embeddings: int = 20,
        reversed: bool = True,  # the encoder reads the last id first
        bos_token_id: int = 0,
        pad_token_id: int = 1,
        eos_token_id: int = 2,
        **others: object,
    ) -> None:
        fixed = {"decoder_start_token_id": bos_token_id, "is_encoder_decoder": True, "tie_word_embeddings": False}
        special = {"bos_token_id": bos_token_id, "pad_token_id": pad_token_id, "eos_token_id": eos_token_id}
        super().__init__(**{**others, **fixed, **special})
        self.vocab_size, self.embedding, self.hidden = vocab_size, embedding, hidden
        self.d_model = 2 * hidden  # width of the latent
        self.max_position_embeddings, self.reversed = max_position_embeddings, reversed
        self.initializer_range = 0.1  # only for new weights; loaded weights replace them
        self.use_cache = False  # each search step starts again from the latent; that is at most 20 ids


class Encoder(torch.nn.Module):
    """Embeddings and one LSTM layer; its last state is the latent."""

    main_input_name = "input_ids"

    def __init__(self, config: AdeptConfig) -> None:
        super().__init__()
        self.reversed = config.reversed
        self.embeds = torch.nn.Embedding(config.vocab_size, config.embedding)
        self.rnn = torch.nn.LSTM(config.embedding, config.hidden, batch_first=True)

    def forward(self, input_ids: torch.Tensor) -> BaseModelOutput:
        """Ids (batch, length) to a latent (batch, 1, 2 hidden).

        If reversed, padding is read first and the beginning of the text last, close to where the decoder starts:
        Sutskever et al. 2014, section 3.3, https://arxiv.org/abs/1409.3215.
        """
        read = input_ids.flip(1) if self.reversed else input_ids
        _, (h, c) = self.rnn(self.embeds(read))  # (1, batch, hidden) each
        return BaseModelOutput(last_hidden_state=torch.cat([h, c], dim=2).transpose(0, 1))


class Decoder(torch.nn.Module):
    """Embeddings, one LSTM layer that starts from the latent, and a linear layer for the next word."""

    def __init__(self, config: AdeptConfig) -> None:
        super().__init__()
        self.embeds = torch.nn.Embedding(config.vocab_size, config.embedding)
        self.rnn = torch.nn.LSTM(config.embedding, config.hidden, batch_first=True)
        self.generator = torch.nn.Linear(config.hidden, config.vocab_size)

    def forward(self, before: torch.Tensor, latent: torch.Tensor) -> torch.Tensor:
        """Map the words so far (batch, words) and the latent (batch, 1, 2 hidden) to states (batch, words, hidden)."""
        h, c = (half.contiguous() for half in latent.transpose(0, 1).chunk(2, dim=2))  # (1, batch, hidden) each
        states: torch.Tensor = self.rnn(self.embeds(before), (h, c))[0]
        return states


class AdeptForGeneration(PreTrainedModel, GenerationMixin):  # type: ignore[misc]  # transformers is untyped here
    """Both halves, with the weight names of the authors' checkpoints."""

    config_class = AdeptConfig
    main_input_name = "input_ids"

    def __init__(self, config: AdeptConfig) -> None:
        super().__init__(config)
        self.encoder, self.decoder = Encoder(config), Decoder(config)
        self.post_init()

    def forward(
        self, decoder_input_ids: torch.Tensor, encoder_outputs: BaseModelOutput, return_dict: bool = True
    ) -> Seq2SeqLMOutput:
        """One search step: the scores of the next word (batch, 1, vocabulary)."""
        states = self.decoder(decoder_input_ids, encoder_outputs.last_hidden_state)  # (batch, words, hidden)
        return Seq2SeqLMOutput(logits=self.decoder.generator(states[:, -1:]))

    def prepare_inputs_for_generation(
        self, input_ids: torch.Tensor, *, encoder_outputs: BaseModelOutput, **others: object
    ) -> dict[str, object]:
        """A search step gets only the words so far and the latent."""
        return {"decoder_input_ids": input_ids, "encoder_outputs": encoder_outputs}


class SplitAdept(Halves):
    """The two halves of one ADePT."""

    model_class = AdeptForGeneration
    settings = frozenset(signature(AdeptConfig.__init__).parameters) - {"self", "others"}
