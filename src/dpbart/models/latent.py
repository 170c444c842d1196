"""Models whose channel sends a real latent: BART and ADePT.

They differ in their network, in how their latent is clipped, and in how many rows it has. A family says that once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dpbart.channels.columns import ColumnsChannel, Floats
from dpbart.channels.side_information import SideInformation
from dpbart.errors import BadParameter, NotPrepared
from dpbart.models.search import BeamSearch
from dpbart.models.text import Tokens
from dpbart.privacy.card.card import ModelLine
from dpbart.privacy.clipping import Clip
from dpbart.privacy.mechanisms import NOISES, Noised, make_noise

if TYPE_CHECKING:
    from dpbart.models.bundle import Bundle
    from dpbart.models.halves import Halves


@dataclass(frozen=True)
class LatentModel:
    """Texts to ids to a latent; a private latent to ids to texts."""

    line: ModelLine
    tokens: Tokens
    halves: Halves
    search: BeamSearch

    @property
    def recipe(self) -> str:
        return f"len:{self.tokens.length}|beams:{self.search.beams}|model:{self.line.identity}"

    def encode(self, texts: Sequence[str]) -> Floats:
        """A latent (batch, positions, width)."""
        return self.halves.encode(self.tokens.encode(texts))

    def decode(self, private: Noised) -> list[str]:
        """Texts of at most `length` tokens, from a private latent (batch, positions, width)."""
        return self.tokens.decode(self.halves.decode(private, self.search, length=self.tokens.length))

    def read(self, texts: Sequence[str]) -> list[str]:
        """The texts as the model reads them: as far as they fit its length and its vocabulary."""
        return self.tokens.decode(self.tokens.encode(texts))


@dataclass(frozen=True)
class LatentFamily:
    """One kind of encoder and decoder.

    Attributes:
        name: the model_type of its config.json.
        variants: that its dpbart.json may name.
        clip: the clip of a bound.
        positions: rows of the latent of a text of so many ids.
        halves: loads the two halves of a model directory; imports torch.
    """

    name: str
    variants: tuple[str, ...]
    clip: Callable[[float], Clip]
    positions: Callable[[int], int]
    halves: Callable[[Bundle], Halves]
    mechanisms: tuple[str, ...] = tuple(NOISES)  # the first is the default

    def channel(
        self, bundle: Bundle, *, mechanism: str, epsilon: float | None, delta: float, length: int
    ) -> ColumnsChannel:
        """Kept columns, clip and noise; a model trained under noise also has side information."""
        noise, columns = make_noise(mechanism, epsilon=epsilon, delta=delta), bundle.columns
        clip = clip_of(bundle)
        if length > bundle.longest:
            raise BadParameter(f"length must be at most {bundle.longest} for the model '{bundle.name}', got {length}.")
        public = SideInformation.of(noise, clip, columns, length=length) if bundle.facts.told else None
        return ColumnsChannel(columns, clip, noise, self.positions(length), public)

    def line(self, bundle: Bundle, *, length: int, beams: int) -> ModelLine:
        """What a card says about a model."""
        columns = bundle.columns
        return ModelLine(
            name=bundle.name,
            fingerprint=bundle.fingerprint,
            variant=bundle.facts.variant,
            length=length,
            decoding=BeamSearch(beams).recipe,
            public_data=bundle.facts.corpora,
            kept=len(columns.kept),
            width=columns.width,
        )

    def load(self, bundle: Bundle, channel: ColumnsChannel, *, length: int, beams: int) -> LatentModel:
        """Tokenizer and both halves."""
        tokens, search = Tokens.load(bundle.folder / "tokenizer.json", length=length), BeamSearch(beams)
        if channel.public is not None:
            tokens = replace(tokens, begin=channel.public.token)
            search = replace(search, start_id=tokens.id_of(channel.public.token))
        halves = self.halves(bundle)
        if tokens.size > halves.vocabulary:  # else a rare word of a private text would stop the run
            raise NotPrepared(
                f"the tokenizer of '{bundle.name}' must fit its weights, got {tokens.size} tokens "
                f"for {halves.vocabulary} embeddings. They belong to different models."
            )
        return LatentModel(self.line(bundle, length=length, beams=beams), tokens, halves, search)


def latent_family(bundle: Bundle) -> LatentFamily:
    """The family of a model that has a latent.

    Raises:
        NotPrepared: The model has none.
    """
    if not isinstance(bundle.family, LatentFamily):
        raise NotPrepared(f"'{bundle.name}' has no real latent. Give a BART or an ADePT.")
    return bundle.family


def clip_of(bundle: Bundle) -> Clip:
    """The clip of a model's latent.

    Raises:
        NotPrepared: None has been chosen, or the model has no latent.
    """
    if bundle.facts.clip is None:
        raise NotPrepared(
            f"'{bundle.name}' has no clip yet: every model's latent has its own scale. "
            f"Measure it on public text and choose one with: dpbart prepare clip --model {bundle.folder} --corpus FILES"
        )
    return latent_family(bundle).clip(bundle.facts.clip)
