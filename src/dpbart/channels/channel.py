"""A channel: the one way from what a model has read to what it may write from."""

from __future__ import annotations

from typing import Protocol, TypeVar

from dpbart.privacy.facts import Facts
from dpbart.privacy.private import Private
from dpbart.privacy.sampling import Entropy

Encoded = TypeVar("Encoded", contravariant=True)
Received = TypeVar("Received")


class Channel(Protocol[Encoded, Received]):
    """Bounds what comes in, randomises it, and restores the shape that the decoder reads."""

    @property
    def facts(self) -> Facts:
        """All that is public about this channel, if its entropy is private."""

    def send(self, encoded: Encoded, entropy: Entropy) -> Private[Received]:
        """What arrives at the decoder: sealed, with the facts of the channel."""
