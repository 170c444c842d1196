"""The beam search of BART and ADePT: every setting, so that none comes from a model's own config."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpbart.errors import BadParameter

if TYPE_CHECKING:
    from transformers import GenerationConfig, PreTrainedModel

MOST_BEAMS = 100  # memory grows with beams times vocabulary


@dataclass(frozen=True)
class BeamSearch:
    """All settings of the beam search.

    A model's own config would add hidden ones; that of bart-base has no_repeat_ngram_size 3, and forces the first and
    the last token.
    """

    beams: int = 10
    length_penalty: float = 1.0
    early_stopping: bool = True  # stop when `beams` texts are finished
    start_id: int | None = None  # the decoder's start token: a budget token, or None for the model's own

    def __post_init__(self) -> None:
        check_beams(self.beams)

    @property
    def recipe(self) -> str:
        return (
            f"beam search, {self.beams} beams, length penalty {self.length_penalty:g}, "
            f"early stopping {'on' if self.early_stopping else 'off'}, no n-gram blocking, no forced tokens"
        )

    def config(self, model: PreTrainedModel, new_tokens: int) -> GenerationConfig:
        from transformers import GenerationConfig  # slow to import, so only when a model is loaded

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
            use_cache=model.config.use_cache,  # whether a step reuses the states of the last one
            **(several if self.beams > 1 else {}),
        )


def check_beams(beams: int) -> None:
    """Refuse a beam width that is out of range."""
    if not 1 <= beams <= MOST_BEAMS:
        raise BadParameter(f"beams must be from 1 to {MOST_BEAMS}, got {beams}.")
