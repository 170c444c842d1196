"""Models with a real-valued latent: BART and ADePT.

They differ in their network, in how their latent is clipped, and in how many rows it has. A family defines these.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
from dpbart.privacy.sampling import Entropy

if TYPE_CHECKING:
    from dpbart.models.bundle import Bundle
    from dpbart.models.halves import Halves


@dataclass(frozen=True)
class LatentModel:
    """Encodes texts to ids to a latent, and decodes a private latent to ids to texts."""

    line: ModelLine
    tokens: Tokens
    halves: Halves
    search: BeamSearch

    @property
    def recipe(self) -> str:
        return f"len:{self.tokens.length}|beams:{self.search.beams}|model:{self.line.identity}"

    def encode(self, texts: Sequence[str]) -> Floats:
        """The latent of the texts (batch, positions, width)."""
        return self.halves.encode(self.tokens.encode(texts))

    def decode(self, private: Noised) -> list[str]:
        """Texts of at most `length` tokens, from a private latent (batch, positions, width)."""
        return self.tokens.decode(self.halves.decode(private, self.search, length=self.tokens.length))

    def read(self, texts: Sequence[str]) -> list[str]:
        """The texts as the model sees them: cut to its length, and limited to its vocabulary."""
        return self.tokens.decode(self.tokens.encode(texts))


@dataclass(frozen=True)
class LatentFamily:
    """A family of models with a latent.

    Attributes:
        name: the model_type in config.json.
        variants: the variants that dpbart.json may name, each with what it is for.
        clip: makes the clip for a bound.
        positions: the number of rows of a latent, given the length of a text in ids.
        halves: loads the two halves from a model directory; imports torch.
    """

    name: str
    variants: Mapping[str, str]
    clip: Callable[[float], Clip]
    positions: Callable[[int], int]
    halves: Callable[[Bundle], Halves]
    mechanisms: tuple[str, ...] = tuple(NOISES)  # the first is the default
    network: str = "dpbart.models.halves"  # imports transformers

    def channel(
        self, bundle: Bundle, *, mechanism: str, epsilon: float | None, delta: float, length: int
    ) -> ColumnsChannel:
        """Kept columns, clip and noise; a model trained with noise also gets side information."""
        noise, columns = make_noise(mechanism, epsilon=epsilon, delta=delta), bundle.columns
        clip = clip_of(bundle)
        if length > bundle.longest:
            raise BadParameter(f"length must be at most {bundle.longest} for the model '{bundle.name}', got {length}.")
        public = SideInformation.of(noise, clip, columns, length=length) if bundle.facts.told else None
        return ColumnsChannel(columns, clip, noise, self.positions(length), public)

    def options(self, bundle: Bundle) -> None:
        """A text does not become a code."""

    def summary(self, bundle: Bundle) -> str:
        """Length, clip and columns."""
        facts, clip = bundle.facts, bundle.facts.clip
        bound = "not chosen yet (run: dpbart prepare clip)" if clip is None else f"{clip:g}"
        return f"length {facts.length}, clip {bound}, {len(bundle.columns.kept)} of {facts.width} columns"

    def reads(self, bundle: Bundle, *, length: int) -> int:
        """As many tokens as are written."""
        return length

    def writes(self, bundle: Bundle, *, length: int) -> int:
        """As many tokens as its length."""
        return length

    def line(self, bundle: Bundle, *, length: int, beams: int | None) -> ModelLine:
        """The card's entry about a model."""
        columns = bundle.columns
        return ModelLine(
            name=bundle.name,
            fingerprint=bundle.fingerprint,
            variant=bundle.facts.variant,
            length=length,
            decoding=_search(beams).recipe,
            public_data=bundle.facts.corpora,
            reads=self.reads(bundle, length=length),
            writes=self.writes(bundle, length=length),
            language=bundle.facts.language,
            kept=len(columns.kept),
            width=columns.width,
            files=bundle.files,
        )

    def load(
        self, bundle: Bundle, channel: ColumnsChannel, *, length: int, beams: int | None, entropy: Entropy
    ) -> LatentModel:
        """Tokenizer and both halves. Beam search draws nothing, so the entropy is not used."""
        line = self.line(bundle, length=length, beams=beams)  # hashes the files before they are loaded
        tokens, search = Tokens.load(bundle.folder / "tokenizer.json", length=length), _search(beams)
        if channel.public is not None:
            tokens = replace(tokens, begin=channel.public.token)
            search = replace(search, start_id=tokens.id_of(channel.public.token))
        halves = self.halves(bundle)
        if tokens.reach > halves.vocabulary:  # otherwise a rare word in a private text would stop the run
            raise NotPrepared(
                f"the tokenizer of '{bundle.name}' must fit its weights, got ids up to {tokens.reach - 1} "
                f"for {halves.vocabulary} embeddings. They come from different models."
            )
        bundle.check_unchanged()
        return LatentModel(line, tokens, halves, search)


def _search(beams: int | None) -> BeamSearch:
    return BeamSearch() if beams is None else BeamSearch(beams)


def latent_family(bundle: Bundle) -> LatentFamily:
    """The family of a model with a latent.

    Raises:
        NotPrepared: The model has no latent.
    """
    if not isinstance(bundle.family, LatentFamily):
        raise NotPrepared(f"'{bundle.name}' has no real-valued latent. Use a BART or an ADePT.")
    return bundle.family


def clip_of(bundle: Bundle) -> Clip:
    """The clip of a model's latent.

    Raises:
        NotPrepared: No clip has been chosen, or the model has no latent.
    """
    if bundle.facts.clip is None:
        raise NotPrepared(
            f"'{bundle.name}' has no clip yet: every model's latent has its own scale. "
            f"Choose one on public text with: dpbart prepare clip --model {bundle.folder} --corpus FILES"
        )
    return latent_family(bundle).clip(bundle.facts.clip)
