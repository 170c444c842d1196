"""The model and its privacy budget: everything that is known before any weights are loaded."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

from dpbart import DEFAULT_MODEL
from dpbart.channels.channel import Channel
from dpbart.errors import BadParameter
from dpbart.models.bundle import Bundle
from dpbart.models.search import check_beams
from dpbart.privacy.calibration import check_delta, check_epsilon
from dpbart.privacy.card.card import ModelLine
from dpbart.privacy.facts import Facts
from dpbart.privacy.mechanisms import known
from dpbart.privacy.sampling import Entropy, ReplaySeed, SystemEntropy
from dpbart.privacy.shuffling.steps import Steps


@dataclass(frozen=True)
class Described:
    """A rewriter without its weights. Plans, cards, resumed runs and ledgers use this.

    Attributes:
        facts: the facts of the channel as this run uses it.
        model: the card's entry about the model.
        files: a hash of the model's files other than its weights.
        reads: the number of tokens that the model reads of a text.
        batch_size: texts per batch.
        delta: of the run, even if its mechanism does not use it for a text.
        replay_seed: None if the randomness comes from the operating system.
    """

    facts: Facts
    model: ModelLine
    files: str
    reads: int
    batch_size: int
    delta: float
    replay_seed: int | None = None

    @property
    def entropy(self) -> Entropy:
        """The source of random bits for each process of this run."""
        return SystemEntropy() if self.replay_seed is None else ReplaySeed(self.replay_seed)


@dataclass(frozen=True)
class Settings:
    """A model by name, and how it rewrites. Only plain values are sent to workers, which load the model themselves.

    Attributes:
        model: a bundled name such as "mini-code", a directory, or a hub id such as "facebook/bart-base".
        epsilon: the privacy budget of one text; may be left out only with the mechanism "none".
        delta: the slack in the guarantee; choose it below 1 / (number of texts). Pure mechanisms do not use it.
        mechanism: "response", "gaussian", "laplace" or "none" (NOT PRIVATE); the model's default if left out.
        length: tokens written per text; the model's default if left out.
        beams: the width of the decoder's search; the model's default if left out.
        batch_size: texts per batch.
        replay_seed: NOT PRIVATE: takes the randomness from this seed, for tests and replays.
    """

    model: str = DEFAULT_MODEL
    epsilon: float | None = None
    delta: float = 1e-5
    mechanism: str | None = None
    length: int | None = None
    beams: int | None = None
    batch_size: int = 32
    replay_seed: int | None = None

    def __post_init__(self) -> None:
        if self.batch_size < 1:
            raise BadParameter(f"batch size must be at least 1, got {self.batch_size}.")
        if self.beams is not None:
            check_beams(self.beams)
        if self.mechanism is not None:
            known(self.mechanism)
        if self.mechanism is not None and self.epsilon is not None:  # without one, the channel asks for it
            known(self.mechanism).check_budget(self.epsilon, self.delta)
        elif self.epsilon is not None:
            check_epsilon(self.epsilon)
        check_delta(self.delta)

    def __reduce__(self) -> tuple[type[Settings], tuple[object, ...]]:
        """Workers get the plain values and work out the rest themselves."""
        return Settings, tuple(getattr(self, field.name) for field in fields(self))

    @cached_property
    def bundle(self) -> Bundle:
        """The model directory. Raises NotPrepared if there is none."""
        return Bundle.find(self.model)

    @property
    def tokens(self) -> int:
        """Tokens per text."""
        return self.bundle.facts.length if self.length is None else self.length

    @cached_property
    def channel(self) -> Channel[Any, Any]:
        """The channel that every text goes through."""
        family = self.bundle.family
        mechanism = family.mechanisms[0] if self.mechanism is None else self.mechanism
        if mechanism not in family.mechanisms:
            raise BadParameter(
                f"the mechanism of '{self.bundle.name}' must be one of {', '.join(family.mechanisms)}, "
                f"got {mechanism!r}. Choose one of these, or another model."
            )
        known(mechanism).check_budget(self.epsilon, self.delta)
        return family.channel(
            self.bundle, mechanism=mechanism, epsilon=self.epsilon, delta=self.delta, length=self.tokens
        )

    @property
    def options(self) -> Steps | None:
        """How many codes a text may become at each epsilon; None if it does not become a code."""
        return self.bundle.family.options(self.bundle)

    @cached_property
    def described(self) -> Described:
        """Everything a plan needs. Hashes the weights, but does not load them."""
        facts, line = self.channel.facts, self.bundle.family.line(self.bundle, length=self.tokens, beams=self.beams)
        return Described(
            facts=facts if self.replay_seed is None else facts.replayed(),
            model=line,
            files=self.bundle.files,
            reads=self.bundle.family.reads(self.bundle, length=self.tokens),
            batch_size=self.batch_size,
            delta=self.delta,
            replay_seed=self.replay_seed,
        )
