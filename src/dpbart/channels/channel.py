"""The channel protocol. A channel is the only path from the encoder to the decoder."""

from __future__ import annotations

from typing import Protocol, TypeVar

from dpbart.privacy.facts import Facts, Private
from dpbart.privacy.sampling import Entropy

Encoded = TypeVar("Encoded", contravariant=True)
Received = TypeVar("Received")


class Channel(Protocol[Encoded, Received]):
    """Bounds its input, randomises it, and restores the shape that the decoder expects."""

    @property
    def facts(self) -> Facts:
        """The public facts of this channel, if the entropy is private."""

    def send(self, encoded: Encoded, entropy: Entropy) -> Private[Received]:
        """The decoder's input: a private value with the facts of the channel."""
