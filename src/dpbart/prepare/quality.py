"""How well a model copies public text: corpus BLEU of free-running generation, with the code that rewrites."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import sacrebleu

from dpbart.channels.columns import Columns, ColumnsChannel, Floats
from dpbart.models.bundle import Bundle
from dpbart.models.halves import Halves
from dpbart.models.latent import latent_family
from dpbart.models.search import BeamSearch
from dpbart.models.text import Tokens
from dpbart.privacy.clipping import ByValue, Clip
from dpbart.privacy.mechanisms import NonPrivate
from dpbart.privacy.sampling import SystemEntropy
from dpbart.progress import progress

UNCLIPPED = ByValue(1e6)  # a bound that no entry of a latent reaches
BATCH_SIZE = 64


@dataclass(frozen=True)
class Copies:
    """Public texts and the copies that a model wrote."""

    texts: Sequence[str]
    fitting: Sequence[str]  # the texts as the model reads them: cut to its length and vocabulary
    written: Sequence[str]

    @property
    def bleu(self) -> float:
        """BLEU (0 to 100) against the texts as the model reads them."""
        return float(sacrebleu.corpus_bleu(self.written, [self.fitting]).score)

    @property
    def bleu_of_whole(self) -> float:
        """BLEU (0 to 100) against the full texts, ignoring case."""
        return float(sacrebleu.corpus_bleu(self.written, [self.texts], lowercase=True).score)

    def up_to(self, words: int) -> Copies:
        """Only the texts of at most `words` words."""
        short = [row for row, text in enumerate(self.texts) if len(text.split()) <= words]
        return Copies(*([column[row] for row in short] for column in (self.texts, self.fitting, self.written)))


@dataclass(frozen=True)
class Copier:
    """A model that copies public texts with a clip and without noise."""

    halves: Halves
    tokens: Tokens
    search: BeamSearch
    columns: Columns

    @classmethod
    def load(cls, bundle: Bundle) -> Copier:
        tokens = Tokens.load(bundle.folder / "tokenizer.json", length=bundle.facts.length)
        return cls(latent_family(bundle).halves(bundle), tokens, BeamSearch(), bundle.columns)

    def encode(self, texts: Sequence[str]) -> Floats:
        """The columns that are sent, (batch, positions, kept)."""
        return self.columns.keep(self.halves.encode(self.tokens.encode(texts)))

    def copy(self, texts: Sequence[str], clip: Clip) -> Copies:
        fitting: list[str] = []
        written: list[str] = []
        with progress(f"BLEU at clip {clip.bound:.3g}", total=len(texts), unit="texts") as bar:
            for start in range(0, len(texts), BATCH_SIZE):
                ids = self.tokens.encode(texts[start : start + BATCH_SIZE])
                latent = self.halves.encode(ids)  # (batch, positions, width)
                channel = ColumnsChannel(self.columns, clip, NonPrivate(), latent.shape[1])
                private = channel.send(latent, SystemEntropy())
                written += self.tokens.decode(self.halves.decode(private, self.search, length=self.tokens.length))
                fitting += self.tokens.decode(ids)
                bar.advance(len(ids))
        return Copies(texts, fitting, written)
