"""The pipeline: text ─► ids ─► latent ─► kept ─► clipped ─► PRIVATE ─► restored ─► ids ─► text.

Left of the mechanism everything bounds; right of it everything is post-processing. There is no other way through.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from dpbart import DEFAULT_MODEL, __version__
from dpbart.errors import BadParameter, NotPrepared
from dpbart.models.bundle import Bundle
from dpbart.models.halves import Halves
from dpbart.models.loading import load_halves
from dpbart.models.pruning import Columns
from dpbart.models.search import BeamSearch
from dpbart.models.text import Tokens
from dpbart.models.told import Told
from dpbart.privacy.clipping import Clip, Sensitivity
from dpbart.privacy.guarantee import Guarantee
from dpbart.privacy.mechanisms import Mechanism, NonPrivate, make_mechanism
from dpbart.privacy.sampling import Entropy, SystemEntropy


@dataclass(frozen=True)
class Rewriting:
    """New texts, the guarantee that holds for each of them, and how they were made."""

    texts: tuple[str, ...]
    guarantee: Guarantee
    recipe: str


@dataclass(frozen=True)
class Rewriter:
    """A model, a clip and a mechanism, ready to rewrite.

    Rewriter.load("mini-pr-plus", epsilon=2500, delta=1e-5).rewrite(["A text that must stay private."])
    """

    bundle: Bundle
    tokens: Tokens
    halves: Halves
    columns: Columns
    clip: Clip
    mechanism: Mechanism
    told: Told | None = None  # only a model trained under noise is told anything
    search: BeamSearch = field(default_factory=BeamSearch)
    batch_size: int = 32
    entropy: Entropy = field(default_factory=SystemEntropy)

    def __post_init__(self) -> None:
        if self.batch_size < 1:
            raise BadParameter(f"batch size must be at least 1, got {self.batch_size}.")
        if self.tokens.length > self.halves.longest:
            raise BadParameter(
                f"length must be at most {self.halves.longest} for the model '{self.bundle.name}', "
                f"got {self.tokens.length}."
            )
        if self.tokens.size > self.halves.vocabulary:  # else a rare word of a private text would stop the run
            raise NotPrepared(
                f"the tokenizer of '{self.bundle.name}' must fit its weights, got {self.tokens.size} tokens "
                f"for {self.halves.vocabulary} embeddings. They belong to different models."
            )

    @classmethod
    def load(
        cls,
        model: str = DEFAULT_MODEL,
        *,
        epsilon: float | None = None,
        delta: float = 1e-5,
        mechanism: str = "gaussian",
        length: int | None = None,
        beams: int = 10,
        batch_size: int = 32,
        entropy: Entropy | None = None,
    ) -> Rewriter:
        """A rewriter of a model given by name, directory or hub id.

        Args:
            model: a bundled name such as "mini-pr-plus", a directory, or a hub id such as "facebook/bart-base".
            epsilon: the privacy budget of one text; left out only with the mechanism "none".
            delta: the slack of the guarantee; choose it below 1 / (number of texts).
            mechanism: "gaussian", "laplace", or "none" (NOT PRIVATE).
            length: tokens of a text that are read and written; the model's own by default.
            beams: width of the decoder's search.
            batch_size: texts in a step.
            entropy: where the noise comes from: the operating system, unless a replay is wanted.

        Raises:
            BadParameter: a budget or setting outside its range.
            NotPrepared: no such model, or not a complete one.
        """
        noise = make_mechanism(mechanism, epsilon=epsilon, delta=delta)  # refuse a bad budget before loading
        bundle = Bundle.find(model)
        length = bundle.facts.length if length is None else length
        tokens = Tokens.load(bundle.folder / "tokenizer.json", length=length)
        search, told = BeamSearch(beams), None
        if bundle.facts.told:
            told = Told.of(noise, bundle.clip, bundle.columns, length=length)
            tokens = replace(tokens, begin=told.token)
            search = replace(search, start_id=tokens.id_of(told.token))
        return cls(
            bundle=bundle,
            tokens=tokens,
            halves=load_halves(bundle),
            columns=bundle.columns,
            clip=bundle.clip,
            mechanism=noise,
            told=told,
            search=search,
            batch_size=batch_size,
            entropy=SystemEntropy() if entropy is None else entropy,
        )

    @property
    def entries(self) -> int:
        """Noised entries of one text: positions times kept columns."""
        return self.bundle.positions(self.tokens.length) * len(self.columns.kept)

    @property
    def sensitivity(self) -> Sensitivity:
        return self.clip.sensitivity(self.entries)

    def rewrite(self, texts: Sequence[str]) -> Rewriting:
        """New texts for old, in order. Each is a release of its own: rewriting a text twice spends twice."""
        if isinstance(texts, str):
            raise BadParameter("texts must be a list of strings, got one string. Pass [text].")
        written: list[str] = []
        guarantee = self.mechanism.guarantee if self.entropy.private else NonPrivate().guarantee
        recipe = ""
        for start in range(0, len(texts), self.batch_size):
            batch = self._rewrite_batch(texts[start : start + self.batch_size])
            written += batch.texts
            guarantee, recipe = batch.guarantee, batch.recipe
        return Rewriting(tuple(written), guarantee, recipe)

    def _rewrite_batch(self, texts: Sequence[str]) -> Rewriting:
        ids = self.tokens.encode(texts)  # (batch, length)
        latent = self.halves.encode(ids)  # (batch, positions, width)
        kept = self.columns.keep(latent)  # (batch, positions, kept)
        clipped = self.clip.clip(kept)  # bounded; carries its sensitivity
        private = self.mechanism.privatize(clipped, self.entropy)  # private from here on
        restored = self.columns.restore(private, self.told)  # (batch, positions, width)
        new_ids = self.halves.decode(restored, self.search, length=self.tokens.length)  # (batch, at most length + 1)
        return Rewriting(tuple(self.tokens.decode(new_ids)), private.guarantee, self._recipe(private.recipe))

    def _recipe(self, noise: str) -> str:
        model = f"{self.bundle.name}@{self.bundle.fingerprint}"
        kept = f"{len(self.columns.kept)}/{self.columns.width}"
        return f"{noise}|kept:{kept}|len:{self.tokens.length}|beams:{self.search.beams}|model:{model}|v:{__version__}"
