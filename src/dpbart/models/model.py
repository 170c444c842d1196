"""What a model and a family of models are.

A model reads texts into what its channel sends, and writes texts from what arrives. A family says, from a model
directory alone and without loading weights, which channel its models use and how they are loaded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from dpbart.channels.channel import Channel
from dpbart.privacy.card.card import ModelLine
from dpbart.privacy.private import Private

if TYPE_CHECKING:
    from dpbart.models.bundle import Bundle

Encoded = TypeVar("Encoded", covariant=True)
Received = TypeVar("Received")


class Model(Protocol[Encoded, Received]):
    """Reads texts, and writes others from what comes through the channel."""

    @property
    def line(self) -> ModelLine:
        """What a card says about it."""

    @property
    def recipe(self) -> str:
        """Its part of a recipe, such as "len:20|beams:10|model:mini@0123456789ab"."""

    def encode(self, texts: Sequence[str]) -> Encoded:
        """What the channel sends. This may look at the texts."""

    def read(self, texts: Sequence[str]) -> list[str]:
        """The texts as the model reads them: as far as they fit its length and its vocabulary."""

    def decode(self, private: Private[Received]) -> list[str]:
        """New texts, from what arrived and from nothing else."""


class Family(Protocol):
    """One kind of model."""

    @property
    def name(self) -> str:
        """The model_type of its config.json."""

    @property
    def variants(self) -> tuple[str, ...]:
        """The variants that its dpbart.json may name."""

    @property
    def mechanisms(self) -> tuple[str, ...]:
        """The mechanisms that its channel can use; the first is the default."""

    def channel(
        self, bundle: Bundle, *, mechanism: str, epsilon: float | None, delta: float, length: int
    ) -> Channel[Any, Any]:
        """The channel of a model for one budget. Reads no weights."""

    def line(self, bundle: Bundle, *, length: int, beams: int) -> ModelLine:
        """What a card says about a model. Reads no weights but their hash."""

    def load(self, bundle: Bundle, channel: Any, *, length: int, beams: int) -> Model[Any, Any]:
        """The model itself, for a channel that `channel` made."""
