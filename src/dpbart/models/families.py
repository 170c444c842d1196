"""The model families, by the model_type in config.json.

BART: the latent has one row for each position of the text, clipped entry by entry.
ADePT: the latent has one row for the whole text, clipped by its L2 norm.
Code models have a room of their own (models/code): a text becomes one string of bits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NoReturn

from dpbart.card.record import ModelLine
from dpbart.channels.columns import ColumnsChannel, Floats, SideInformation
from dpbart.errors import BadParameter, NotPrepared, require_extra
from dpbart.models.bundle import Bundle
from dpbart.models.code import CODE
from dpbart.models.code.book import BookUse, Line
from dpbart.models.model import Family
from dpbart.models.search import BeamSearch
from dpbart.models.text import Tokens
from dpbart.privacy.clipping import ByNorm, ByValue, Clip
from dpbart.privacy.mechanisms import NOISES, Noised, make_noise
from dpbart.privacy.sampling import Entropy
from dpbart.version import DEFAULT_MODEL

if TYPE_CHECKING:
    from dpbart.models.adept import SplitAdept
    from dpbart.models.bart import Halves, SplitBart


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
        clip: makes the clip for a bound.
        positions: the number of rows of a latent, given the length of a text in ids.
        halves: loads the two halves from a model directory; imports torch.
    """

    name: str
    clip: Callable[[float], Clip]
    positions: Callable[[int], int]
    halves: Callable[[Bundle, str | None], Halves]  # and the device; None: a GPU if there is one
    mechanisms: tuple[str, ...] = tuple(NOISES)  # the first is the default
    network: str = "dpbart.models.bart"  # imports transformers

    def channel(
        self, bundle: Bundle, *, mechanism: str, epsilon: float | None, delta: float, length: int, use: BookUse
    ) -> ColumnsChannel:
        """Kept columns, a clip and noise; also side information for a model trained with noise."""
        if use != BookUse():
            raise BadParameter(
                f"'{bundle.name}' has no book. Leave out --areas, --topics and --book-only, or choose another model."
            )
        noise, columns = make_noise(mechanism, epsilon=epsilon, delta=delta), bundle.columns
        clip = self.clip_of(bundle)
        if length > bundle.longest:
            raise BadParameter(f"length must be at most {bundle.longest} for the model '{bundle.name}', got {length}.")
        public = SideInformation.of(noise, clip, columns, length=length) if bundle.facts.told else None
        return ColumnsChannel(columns, clip, noise, self.positions(length), public)

    def forks(self, bundle: Bundle) -> bool:
        """No: torch may start threads."""
        return False

    def on_gpu(self, bundle: Bundle, device: str | None) -> bool:
        """On one that torch can use."""
        import torch

        return device != "cpu" and torch.cuda.is_available()

    def clip_of(self, bundle: Bundle) -> Clip:
        """The clip of a model's latent.

        Raises:
            NotPrepared: No clip has been chosen.
        """
        if bundle.facts.clip is None:
            raise NotPrepared(
                f"'{bundle.name}' has no clip yet: every model's latent has its own scale. "
                f"Choose one on public text with: dpbart prepare clip --model {bundle.folder} --corpus FILES"
            )
        return self.clip(bundle.facts.clip)

    def book(self, bundle: Bundle) -> tuple[Line, ...]:
        """It has none."""
        return ()

    def book_reader(self, bundle: Bundle, use: BookUse) -> NoReturn:
        """It has none."""
        raise BadParameter(f"'{bundle.name}' has no book. Choose a model with one, such as {DEFAULT_MODEL}.")

    def options(self, bundle: Bundle, use: BookUse) -> None:
        """A text does not become a code."""

    def summary(self, bundle: Bundle) -> str:
        """Length, clip and columns."""
        facts, clip = bundle.facts, bundle.facts.clip
        bound = "not chosen yet (run: dpbart prepare clip)" if clip is None else f"{clip:g}"
        return f"length {facts.length}, clip {bound}, {len(bundle.columns.kept)} of {facts.width} columns"

    def reads(self, bundle: Bundle, *, length: int) -> int:
        """At most `length` tokens."""
        return length

    def writes(self, bundle: Bundle, *, length: int) -> int:
        """At most `length` tokens."""
        return length

    def line(self, bundle: Bundle, *, length: int, beams: int | None, use: BookUse) -> ModelLine:
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
        self,
        bundle: Bundle,
        channel: ColumnsChannel,
        *,
        length: int,
        beams: int | None,
        use: BookUse,
        entropy: Entropy,
        device: str | None = None,
    ) -> LatentModel:
        """Tokenizer and both halves. Beam search draws nothing, so the entropy is not used."""
        line = self.line(bundle, length=length, beams=beams, use=use)  # hashes the files before they are loaded
        halves = self.halves(bundle, device)
        tokens, search = Tokens.load(bundle.folder / "tokenizer.json", length=length), _search(beams)
        if channel.public is not None:
            tokens = replace(tokens, begin=channel.public.token)
            search = replace(search, start_id=tokens.id_of(channel.public.token))
        if tokens.reach > halves.vocabulary:  # otherwise a rare word in a private text would stop the run
            raise NotPrepared(
                f"the tokenizer of '{bundle.name}' must fit its weights, got ids up to {tokens.reach - 1} "
                f"for {halves.vocabulary} embeddings. They come from different models."
            )
        bundle.check_unchanged()
        return LatentModel(line, tokens, halves, search)


def _search(beams: int | None) -> BeamSearch:
    return BeamSearch() if beams is None else BeamSearch(beams)


def load_bart(bundle: Bundle, device: str | None = None) -> SplitBart:
    """Load both halves of a BART. Torch and transformers are imported only here."""
    require_extra("bart", f"the BART '{bundle.name}' needs", "torch", "transformers")
    from dpbart.models.bart import SplitBart

    return SplitBart.load(bundle.folder, device=device)


def load_adept(bundle: Bundle, device: str | None = None) -> SplitAdept:
    """Load both halves of an ADePT. Torch and transformers are imported only here."""
    require_extra("bart", f"the ADePT '{bundle.name}' needs", "torch", "transformers")
    from dpbart.models.adept import SplitAdept

    return SplitAdept.load(bundle.folder, device=device)


BART = LatentFamily(name="bart", clip=ByValue, positions=lambda length: length, halves=load_bart)
ADEPT = LatentFamily(name="adept", clip=ByNorm, positions=lambda _: 1, halves=load_adept)
FAMILIES: Mapping[str, Family] = {family.name: family for family in (BART, ADEPT, CODE)}


def family_of(bundle: Bundle) -> Family:
    """The family of a model."""
    return FAMILIES[bundle.kind]


def latent_family(bundle: Bundle) -> LatentFamily:
    """The family of a model with a latent.

    Raises:
        NotPrepared: The model has no latent.
    """
    family = family_of(bundle)
    if not isinstance(family, LatentFamily):
        raise NotPrepared(f"'{bundle.name}' has no real-valued latent. Use a BART or an ADePT.")
    return family


def clip_of(bundle: Bundle) -> Clip:
    """The clip of a model's latent.

    Raises:
        NotPrepared: No clip has been chosen, or the model has no latent.
    """
    return latent_family(bundle).clip_of(bundle)
