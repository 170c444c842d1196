"""The protocols of models and model families.

A model encodes texts into the channel's input and decodes the channel's output into texts. A family knows which channel
its models use and how to load them. It reads that from the model directory, without loading weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

from dpbart.card.record import ModelLine
from dpbart.channels.channel import Channel
from dpbart.models.bundle import Bundle
from dpbart.models.code.book import Book, BookUse, Line
from dpbart.models.code.weights import Floats
from dpbart.privacy.facts import Private
from dpbart.privacy.sampling import Entropy
from dpbart.privacy.shuffling.amplification import Steps

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


class BookReader(Protocol):
    """Reads texts with the eyes of a model's book: both have vectors of one kind."""

    @property
    def book(self) -> Book:
        """The sentences that may come out."""

    def read(self, texts: Sequence[str]) -> Floats:
        """A unit vector for each whole text, (texts, vector)."""


class Family(Protocol):
    """One family of models."""

    @property
    def name(self) -> str:
        """The model_type in config.json."""

    @property
    def mechanisms(self) -> tuple[str, ...]:
        """The mechanisms that its channel can use; the first is the default."""

    @property
    def network(self) -> str:
        """The module that loads its models, with all that they need."""

    def forks(self, bundle: Bundle) -> bool:
        """Whether a process may be forked after it has loaded a model: loading starts no threads."""

    def on_gpu(self, bundle: Bundle, device: str | None) -> bool:
        """Whether a model runs on a GPU here, if this device was asked for."""

    def channel(
        self, bundle: Bundle, *, mechanism: str, epsilon: float | None, delta: float, length: int, use: BookUse
    ) -> Channel[Any, Any]:
        """The channel of a model for one budget. Loads no weights."""

    def summary(self, bundle: Bundle) -> str:
        """One line about a model, for a list of models."""

    def book(self, bundle: Bundle) -> tuple[Line, ...]:
        """The lines of its book of public sentences; none if it has no book."""

    def book_reader(self, bundle: Bundle, use: BookUse) -> BookReader:
        """Load what reads texts for the book, and nothing that writes. Raises BadParameter if it has no book."""

    def options(self, bundle: Bundle, use: BookUse) -> Steps | None:
        """The number of codes at each epsilon; None if texts do not become codes."""

    def reads(self, bundle: Bundle, *, length: int) -> int:
        """Tokens read, given the output `length`."""

    def writes(self, bundle: Bundle, *, length: int) -> int:
        """At most this many tokens are written, given `length`."""

    def line(self, bundle: Bundle, *, length: int, beams: int | None, use: BookUse) -> ModelLine:
        """The card's entry about a model. Hashes the weights, but does not load them."""

    def load(
        self,
        bundle: Bundle,
        channel: Any,
        *,
        length: int,
        beams: int | None,
        use: BookUse,
        entropy: Entropy,
        device: str | None = None,
    ) -> Model[Any, Any]:
        """Load the model for a channel made by `channel`.

        Args:
            bundle: the model directory.
            channel: the channel of its texts.
            length: the most tokens of a text.
            beams: width of the decoder's search; None for the model's own.
            use: which sentences may come out of a model with a book.
            entropy: for a model that draws at random while it writes; no guarantee rests on it.
            device: where it runs, such as "cpu" or "cuda:0"; by default on a GPU if there is one and the model can.

        Raises:
            BadParameter: There is no such device, or the model cannot use it.
        """
