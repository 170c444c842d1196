"""Train and valid of a data set, rewritten by the same job and engines as `dpbart rewrite`.

So a stopped run loses little, and no saved text is rewritten again. The original texts are copied to a file in the
experiment's folder first, which is why an experiment is for public data only.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from dpbart import __version__
from dpbart.errors import NotResumable
from dpbart.evaluate.data.splits import LabelledTexts, Splits
from dpbart.evaluate.experiment.cache import Figures, Recipe, ResultCache, key_of
from dpbart.evaluate.experiment.plan import ExperimentRequest, Setting
from dpbart.evaluate.scores.bleu import measure_kept
from dpbart.files import whole_or_nothing
from dpbart.models.text import Tokens
from dpbart.privacy.calibration import check_delta_for
from dpbart.rewrite.durable.folder import folder_of
from dpbart.rewrite.job import rewrite_file
from dpbart.rewrite.request import Request
from dpbart.rewrite.settings import Settings


@dataclass(frozen=True)
class RewrittenSplits:
    """Rewritten train and valid with their labels, the original test, and how much the rewriting kept."""

    data: Splits
    figures: Figures
    key: str
    delta: float


@dataclass(frozen=True)
class SplitRewriting:
    """The rewriting of one data set in one setting."""

    request: ExperimentRequest
    setting: Setting
    data: Splits

    @cached_property
    def settings(self) -> Settings:
        plan, setting = self.request.plan, self.setting
        return Settings(
            model=str(setting.model),
            epsilon=setting.epsilon,
            delta=setting.data.delta,
            mechanism=setting.mechanism,
            length=plan.length,
            beams=plan.beams_of(str(setting.model)),
            batch_size=plan.batch_size,
        )

    @property
    def recipe(self) -> Recipe:
        """Everything the texts depend on except the noise."""
        used = self.settings.described
        return {
            "kind": "rewriting",
            "data": self.data.checksum,
            "channel": used.facts.recipe,
            "model": used.model.identity,
            "model files": used.files,
            "length": used.model.length,
            "decoding": used.model.decoding,
            "version": ".".join(__version__.split(".")[:2]),
        }

    def run(self, cache: ResultCache) -> RewrittenSplits:
        """The rewritten splits, from the folder if they exist."""
        key, folder = key_of(self.recipe), self.request.out / "rewritten"
        source, target = folder / f"{self.data.checksum}.input.parquet", folder / f"{key}.parquet"
        if not target.is_file():
            cache.forget(key)  # the noise will be new, so nothing computed from the old texts is valid
        figures = cache.get(self.recipe, lambda: self._rewrite(source, target))
        texts, train = _read_texts(target), len(self.data.train)
        data = replace(
            self.data,
            train=LabelledTexts(texts[:train], self.data.train.labels),
            valid=LabelledTexts(texts[train:], self.data.valid.labels),
        )
        return RewrittenSplits(data, figures, key, self.settings.described.facts.guarantee.delta)

    def _rewrite(self, source: Path, target: Path) -> Figures:
        """Rewrite the texts that are not saved yet, and measure all of train."""
        began = time.monotonic()
        if not target.is_file() or folder_of(target).is_dir():
            self._rewrite_file(source, target)
        originals, settings = self.data.train.texts, self.settings
        tokens = Tokens.load(settings.bundle.folder / "tokenizer.json", length=settings.tokens)
        read, written = tokens.decode(tokens.encode(originals)), _read_texts(target)[: len(originals)]
        kept = measure_kept(read, written)  # against the part of each text that the model reads
        return {
            "bleu": kept.bleu,
            "bleu_signature": kept.signature,
            "content_words": kept.content_words,
            "verbatim": sum(a == b for a, b in zip(read, written, strict=True)) / len(originals),
            "seconds": time.monotonic() - began,
        }

    def _rewrite_file(self, source: Path, target: Path) -> None:
        texts, delta = self.data.train.texts + self.data.valid.texts, self.settings.described.facts.guarantee.delta
        whose = f"the {len(texts)} texts of '{self.setting.data.name}'"
        check_delta_for(delta, texts=len(texts), whose=whose, remedy="Set its delta in the experiment's file.")
        if not source.is_file():
            _write_texts(source, texts)
        asked, request = self.request, Request(source, target, resume=True, overwrite=True)
        rewrite = partial(rewrite_file, engine=asked.engine, workers=asked.workers, address=asked.address)
        try:
            rewrite(request, self.settings)
        except NotResumable:  # the saved texts are from another version or batch size
            rewrite(replace(request, resume=False), self.settings)


def _write_texts(file: Path, texts: tuple[str, ...]) -> None:
    # A lone surrogate (possible in JSON) has no UTF-8 form. The model's tokenizer replaces it in the same way.
    clean = [text.encode("utf-8", "replace").decode("utf-8") for text in texts]
    with whole_or_nothing(file) as partial:
        pq.write_table(pa.table({"index": range(len(clean)), "text": pa.array(clean, pa.string())}), partial)


def _read_texts(file: Path) -> tuple[str, ...]:
    return tuple(pq.read_table(file, columns=["text"]).column("text").to_pylist())
