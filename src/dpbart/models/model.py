"""The protocols of models and model families.

A model encodes texts into the channel's input and decodes the channel's output into texts. A family knows which channel
its models use and how to load them. It reads that from the model directory, without loading weights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from dpbart.channels.channel import Channel
from dpbart.privacy.card.card import ModelLine
from dpbart.privacy.private import Private
from dpbart.privacy.sampling import Entropy
from dpbart.privacy.shuffling.steps import Steps

if TYPE_CHECKING:
    from dpbart.models.bundle import Bundle

Encoded = TypeVar("Encoded", covariant=True)
Received = TypeVar("Received")


class Model(Protocol[Encoded, Received]):
    """Encodes texts for the channel, and writes new texts from its output."""

    @property
    def line(self) -> ModelLine:
        """The card's entry about the model."""

    @property
    def recipe(self) -> str:
        """The model's part of a recipe, such as "len:20|beams:10|model:mini@0123456789ab"."""

    def encode(self, texts: Sequence[str]) -> Encoded:
        """The channel's input. This may read the texts."""

    def read(self, texts: Sequence[str]) -> list[str]:
        """The texts as the model sees them: cut to its length, and limited to its vocabulary."""

    def decode(self, private: Private[Received]) -> list[str]:
        """New texts, made only from the private values."""


class Family(Protocol):
    """One family of models."""

    @property
    def name(self) -> str:
        """The model_type in config.json."""

    @property
    def variants(self) -> Mapping[str, str]:
        """The variants that dpbart.json may name, each with what it is for."""

    @property
    def mechanisms(self) -> tuple[str, ...]:
        """The mechanisms that its channel can use; the first is the default."""

    @property
    def network(self) -> str:
        """The module that loads its models. It imports torch, and transformers only if the models need it."""

    def channel(
        self, bundle: Bundle, *, mechanism: str, epsilon: float | None, delta: float, length: int
    ) -> Channel[Any, Any]:
        """The channel of a model for one budget. Loads no weights."""

    def summary(self, bundle: Bundle) -> str:
        """One line about a model, for a list of models."""

    def options(self, bundle: Bundle) -> Steps | None:
        """How many codes a text may become at each epsilon; None if it does not become a code."""

    def reads(self, bundle: Bundle, *, length: int) -> int:
        """Tokens of a text that are read, where so many are written at most."""

    def writes(self, bundle: Bundle, *, length: int) -> int:
        """Tokens that are written for a text, at most, where its length is so many."""

    def line(self, bundle: Bundle, *, length: int, beams: int | None) -> ModelLine:
        """The card's entry about a model. Hashes the weights, but does not load them."""

    def load(
        self, bundle: Bundle, channel: Any, *, length: int, beams: int | None, entropy: Entropy
    ) -> Model[Any, Any]:
        """Load the model for a channel made by `channel`.

        Args:
            bundle: the model directory.
            channel: what its texts go through.
            length: tokens of a text, at most.
            beams: width of the decoder's search; None for the model's own.
            entropy: for a model that draws at random while it writes; no guarantee rests on it.
        """
