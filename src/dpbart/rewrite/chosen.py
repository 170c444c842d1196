"""The model that settings name, and its channel: everything that is known before any weights are loaded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from dpbart.card.record import ModelLine
from dpbart.channels.channel import Channel
from dpbart.errors import BadParameter
from dpbart.models.areas import areas_of
from dpbart.models.bundle import Bundle
from dpbart.models.code.book import BookUse
from dpbart.models.families import family_of
from dpbart.options.declare import compared
from dpbart.options.settings import DEFAULT_DELTA, Settings
from dpbart.privacy.facts import Facts
from dpbart.privacy.mechanisms import known
from dpbart.privacy.sampling import Entropy, ReplaySeed, SystemEntropy
from dpbart.privacy.shuffling.amplification import Steps


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
        compared: the settings that must be the same when a run is resumed, and that are not in the above.
        areas: the names of all areas of the model's book; none if it has no book or no areas.
    """

    facts: Facts
    model: ModelLine
    files: str
    reads: int
    batch_size: int
    delta: float
    replay_seed: int | None = None
    compared: Mapping[str, object] = field(default_factory=dict)
    areas: tuple[str, ...] = ()

    @property
    def entropy(self) -> Entropy:
        """The source of random bits for each process of this run."""
        return entropy_of(self.replay_seed)


def entropy_of(replay_seed: int | None) -> Entropy:
    """The source of random bits: the operating system, unless a seed is replayed."""
    return SystemEntropy() if replay_seed is None else ReplaySeed(replay_seed)


def refuse_idle_delta(delta: float, facts: Facts, *, used: bool) -> None:
    """Refuse a delta that somebody chose and that would have no effect.

    A pure mechanism has none for one text. `used` says whether it counts elsewhere: for shuffled rows, or for several
    texts together.
    """
    promised = facts.replay_of or facts.guarantee
    if not used and promised.delta == 0 and delta not in (0, DEFAULT_DELTA):
        raise BadParameter(
            f"a delta of {delta:g} would have no effect: the mechanism '{facts.mechanism}' is pure, with delta 0. "
            "Leave delta out, or pass 0."
        )


@dataclass(frozen=True)
class ChosenModel:
    """The model that the settings name. Its files are looked for when they are first needed, and then only once."""

    settings: Settings

    def __reduce__(self) -> tuple[type[ChosenModel], tuple[Settings]]:
        """Workers get the plain settings and find the model themselves."""
        return ChosenModel, (self.settings,)

    @cached_property
    def bundle(self) -> Bundle:
        """The model directory. Raises NotPrepared if there is none."""
        return Bundle.find(self.settings.model)

    @property
    def tokens(self) -> int:
        """Tokens per text."""
        return self.bundle.facts.length if self.settings.length is None else self.settings.length

    @property
    def use(self) -> BookUse:
        """Which sentences may come out of a model with a book. A name that was given twice counts once."""
        areas, topics = (tuple(dict.fromkeys(each)) for each in (self.settings.areas, self.settings.topics))
        return BookUse(areas, topics, self.settings.book_only)

    @cached_property
    def channel(self) -> Channel[Any, Any]:
        """The channel that every text goes through."""
        family, settings = family_of(self.bundle), self.settings
        mechanism = family.mechanisms[0] if settings.mechanism is None else settings.mechanism
        if mechanism not in family.mechanisms:
            raise BadParameter(
                f"the mechanism of '{self.bundle.name}' must be one of {', '.join(family.mechanisms)}, "
                f"got {mechanism!r}. Choose one of these, or another model."
            )
        known(mechanism).check_budget(settings.epsilon, settings.delta)
        return family.channel(
            self.bundle,
            mechanism=mechanism,
            epsilon=settings.epsilon,
            delta=settings.delta,
            length=self.tokens,
            use=self.use,
        )

    @property
    def options(self) -> Steps | None:
        """How many codes a text may become at each epsilon; None if it does not become a code."""
        return family_of(self.bundle).options(self.bundle, self.use)

    @cached_property
    def described(self) -> Described:
        """Everything a plan needs. Hashes the weights, but does not load them."""
        family, settings, facts = family_of(self.bundle), self.settings, self.channel.facts
        return Described(
            facts=facts if settings.replay_seed is None else facts.replayed(),
            model=family.line(self.bundle, length=self.tokens, beams=settings.beams, use=self.use),
            files=self.bundle.files,
            reads=family.reads(self.bundle, length=self.tokens),
            batch_size=settings.batch_size,
            delta=settings.delta,
            replay_seed=settings.replay_seed,
            compared=compared(settings),
            areas=tuple(each.name for each in areas_of(family.book(self.bundle))),
        )
