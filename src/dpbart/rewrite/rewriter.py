"""The pipeline: text ─► model.encode ─► channel.send ─► PRIVATE ─► model.decode ─► text.

Everything before the channel may read the text. Everything after it is post-processing of private values. There is no
other path.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from dpbart.channels.channel import Channel
from dpbart.errors import BadParameter
from dpbart.models.families import family_of
from dpbart.models.model import Model
from dpbart.options.settings import DEFAULT_DELTA, Settings
from dpbart.privacy.facts import Facts
from dpbart.privacy.guarantee import Guarantee
from dpbart.privacy.sampling import Entropy, ReplaySeed, SystemEntropy
from dpbart.rewrite.chosen import ChosenModel, Described, entropy_of, refuse_idle_delta
from dpbart.version import DEFAULT_MODEL, __version__


@dataclass(frozen=True)
class Rewriting:
    """New texts, the facts of the channel that each text went through, and the recipe.

    done = Rewriter.load(epsilon=50).rewrite(["A text that must stay private."])
    print(done.texts, done.guarantee, done.recipe)
    """

    texts: tuple[str, ...]
    facts: Facts
    recipe: str

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee of each text."""
        return self.facts.guarantee


@dataclass(frozen=True, repr=False)
class Rewriter:
    """A model and its channel, ready to rewrite.

    Rewriter.load("mini-code", epsilon=50).rewrite(["A text that must stay private."])
    """

    model: Model[Any, Any]
    channel: Channel[Any, Any]
    batch_size: int = 32
    entropy: Entropy = field(default_factory=SystemEntropy)

    @classmethod
    def load(
        cls,
        model: str = DEFAULT_MODEL,
        *,
        epsilon: float | None = None,
        delta: float = DEFAULT_DELTA,
        mechanism: str | None = None,
        length: int | None = None,
        beams: int | None = None,
        device: str | None = None,
        batch_size: int = 32,
        replay_seed: int | None = None,
        areas: Sequence[str] = (),
        topics: Sequence[str] = (),
        book_only: bool = False,
    ) -> Rewriter:
        """Load a model by name, directory or hub id. `Settings` explains the arguments.

        Raises:
            BadParameter: A budget or setting is outside its range, or delta would have no effect.
            NotPrepared: There is no such model, or it is incomplete.
        """
        settings = Settings(
            model=model,
            epsilon=epsilon,
            delta=delta,
            mechanism=mechanism,
            areas=tuple(areas),
            topics=tuple(topics),
            book_only=book_only,
            length=length,
            beams=beams,
            device=device,
            batch_size=batch_size,
            replay_seed=replay_seed,
        )
        chosen = ChosenModel(settings)
        refuse_idle_delta(delta, chosen.channel.facts, used=False)
        return cls.of(chosen)

    @classmethod
    def of(cls, chosen: ChosenModel) -> Rewriter:
        """Load the model. Files that have changed since they were hashed are refused."""
        bundle, channel, settings = chosen.bundle, chosen.channel, chosen.settings
        entropy = entropy_of(settings.replay_seed)
        model = family_of(bundle).load(
            bundle,
            channel,
            length=chosen.tokens,
            beams=settings.beams,
            use=chosen.use,
            entropy=entropy,
            device=settings.device,
        )
        return cls(model, channel, settings.batch_size, entropy)

    def __repr__(self) -> str:
        return f"Rewriter({self.model.recipe}|{self.facts.recipe})"

    @property
    def facts(self) -> Facts:
        """The facts of the channel, as this rewriter uses it."""
        return self.channel.facts if self.entropy.private else self.channel.facts.replayed()

    @property
    def described(self) -> Described:
        """What a plan, a card or a ledger needs to know about it."""
        line, seed = self.model.line, self.entropy.number if isinstance(self.entropy, ReplaySeed) else None
        return Described(
            facts=self.facts,
            model=line,
            files=line.files or "",
            reads=line.length if line.reads is None else line.reads,
            batch_size=self.batch_size,
            delta=self.channel.facts.guarantee.delta or DEFAULT_DELTA,
            replay_seed=seed,
            compared={"batch size": self.batch_size},
        )

    def rewrite(self, texts: Sequence[str], *, row: int | None = None) -> Rewriting:
        """Rewrite texts, in order. Each is a separate release: rewriting a text twice spends its budget twice.

        Args:
            texts: the texts.
            row: the number of the first one in its table. A replay has the same randomness for the same row, whichever
                process rewrites it and whatever it has rewritten before.
        """
        if isinstance(texts, str):
            raise BadParameter("texts must be a list of strings, got one string. Pass [text].")
        for number, text in enumerate(texts, start=1):
            if not isinstance(text, str):
                kind = type(text).__name__
                raise BadParameter(f"texts must be strings, got {kind} as text {number}. Pass '' for a missing text.")
        if row is not None and isinstance(self.entropy, ReplaySeed):
            self.entropy.go_to(row)
        written: list[str] = []
        facts = self.facts
        for start in range(0, len(texts), self.batch_size):
            batch, facts = self._rewrite_batch(texts[start : start + self.batch_size])
            written += batch
        return Rewriting(tuple(written), facts, f"{facts.recipe}|{self.model.recipe}|v:{__version__}")

    def _rewrite_batch(self, texts: Sequence[str]) -> tuple[list[str], Facts]:
        encoded = self.model.encode(texts)
        private = self.channel.send(encoded, self.entropy)  # private from here on
        return self.model.decode(private), private.facts
