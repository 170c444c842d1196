"""How well a model writes public text again: corpus BLEU, free-running, by the very halves that rewrite."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import sacrebleu

from dpbart.models.bart import BeamSearch, SplitBart
from dpbart.models.bundle import Bundle
from dpbart.models.pruning import Columns
from dpbart.models.text import Tokens
from dpbart.privacy.clipping import ByValue
from dpbart.privacy.mechanisms import NonPrivate
from dpbart.privacy.sampling import SystemEntropy
from dpbart.progress import progress

UNCLIPPED = 1e6  # a bound that no entry of a latent reaches
BATCH_SIZE = 64


@dataclass(frozen=True)
class Copier:
    """A model that copies public texts through a clip, without noise."""

    bart: SplitBart
    tokens: Tokens
    search: BeamSearch
    columns: Columns

    @classmethod
    def load(cls, bundle: Bundle) -> Copier:
        tokens = Tokens.load(bundle.folder / "tokenizer.json", length=bundle.facts.length)
        return cls(SplitBart.load(bundle.folder), tokens, BeamSearch(), bundle.columns)

    def bleu(self, texts: Sequence[str], *, bound: float = UNCLIPPED) -> float:
        """BLEU (0 to 100) of the copies against the texts as far as they fit the model's length."""
        fitting, copies = [], []
        with progress(f"BLEU at clip {bound:.3g}", total=len(texts), unit="texts") as bar:
            for start in range(0, len(texts), BATCH_SIZE):
                ids = self.tokens.encode(texts[start : start + BATCH_SIZE])
                clipped = ByValue(bound).clip(self.columns.keep(self.bart.encode(ids)))
                private = self.columns.restore(NonPrivate().privatize(clipped, SystemEntropy()))
                copies += self.tokens.decode(self.bart.decode(private, self.search))
                fitting += self.tokens.decode(ids)
                bar.advance(len(ids))
        return float(sacrebleu.corpus_bleu(copies, [fitting]).score)
