"""Train and valid of a data set, rewritten by the same job and engines as `dpbart rewrite`.

So a stopped run loses little, and no saved text is drawn again. The texts of the data set are written to a file first,
which is why an experiment is for public data only.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from dpbart import __version__
from dpbart.errors import BadParameter, NotResumable
from dpbart.evaluate.data.splits import LabelledTexts, Splits
from dpbart.evaluate.experiment.cache import Figures, Recipe, ResultCache, key_of
from dpbart.evaluate.experiment.plan import Setting
from dpbart.evaluate.experiment.request import ExperimentRequest
from dpbart.evaluate.scores.bleu import measure_kept
from dpbart.files import whole_or_nothing
from dpbart.models.bundle import Bundle
from dpbart.models.text import Tokens
from dpbart.rewrite.durable.unfinished import folder_of
from dpbart.rewrite.engines.processes import choose_local
from dpbart.rewrite.job import plan as plan_job
from dpbart.rewrite.request import Task
from dpbart.rewrite.rewriter import Rewriter


@dataclass(frozen=True)
class RewrittenSplits:
    """Rewritten train and valid with their original labels, the original test, and how much the rewriting kept."""

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
    def recipe(self) -> Recipe:
        """Everything the texts depend on except the noise."""
        bundle = Bundle.find(str(self.setting.model))
        facts = bundle.facts
        return {
            "kind": "rewriting",
            "data": self.data.checksum,
            "model": bundle.fingerprint,
            "clip": facts.clip,
            "kept": None if facts.kept is None else list(facts.kept),
            "told": facts.told,
            "mechanism": self.setting.mechanism,
            "epsilon": str(self.setting.epsilon),
            "delta": self.setting.data.delta,
            "length": self.request.plan.length,
            "beams": self.request.plan.beams,
            "version": ".".join(__version__.split(".")[:2]),
        }

    def run(self, cache: ResultCache) -> RewrittenSplits:
        """The rewritten splits, from the folder if they exist."""
        key, folder = key_of(self.recipe), self.request.out / "rewritten"
        target = folder / f"{key}.parquet"
        if not target.is_file():
            cache.forget(key)  # the noise will be new, so nothing computed from the old texts is valid
        figures = cache.get(self.recipe, lambda: self._rewrite(folder / f"{self.data.checksum}.input.parquet", target))
        texts, train = _read_texts(target), len(self.data.train)
        data = replace(
            self.data,
            train=LabelledTexts(texts[:train], self.data.train.labels),
            valid=LabelledTexts(texts[train:], self.data.valid.labels),
        )
        return RewrittenSplits(
            data, figures, key, self.setting.data.delta if self.setting.mechanism == "gaussian" else 0.0
        )

    def _rewrite(self, source: Path, target: Path) -> Figures:
        """Rewrite the texts that are not saved yet, and measure all of them."""
        began, originals = time.monotonic(), self.data.train.texts + self.data.valid.texts
        if not target.is_file() or folder_of(target).is_dir():
            if not source.is_file():
                _write_texts(source, originals)
            try:
                self._run_job(source, target, resume=True)
            except NotResumable:  # another version or batch size: these texts are public, so nothing is lost but time
                self._run_job(source, target, resume=False)
        bundle, train = Bundle.find(str(self.setting.model)), self.data.train.texts
        tokens = Tokens.load(bundle.folder / "tokenizer.json", length=self.request.plan.length)
        read, written = tokens.decode(tokens.encode(train)), _read_texts(target)[: len(train)]
        kept = measure_kept(read, written)  # compared with what the model reads of each text
        return {
            "bleu": kept.bleu,
            "bleu_signature": kept.signature,
            "content_words": kept.content_words,
            "verbatim": sum(a == b for a, b in zip(read, written, strict=True)) / len(train),
            "seconds": time.monotonic() - began,
        }

    def _run_job(self, source: Path, target: Path, *, resume: bool) -> None:
        plan, setting = self.request.plan, self.setting
        make = partial(
            Rewriter.load,
            str(setting.model),
            epsilon=None if setting.epsilon == math.inf else setting.epsilon,
            delta=setting.data.delta,
            mechanism=str(setting.mechanism),
            length=plan.length,
            beams=plan.beams,
            batch_size=plan.batch_size,
        )
        rewriter = make()
        rows = len(self.data.train) + len(self.data.valid)
        delta = rewriter.mechanism.guarantee.delta
        if delta * rows >= 1:
            raise BadParameter(
                f"delta must be below 1 / {rows} for the {rows} texts of '{self.setting.data.name}', got {delta:g}. "
                "Set its delta in the experiment's file."
            )
        job = plan_job(Task(source, target, resume=resume, overwrite=True), rewriter.mechanism)
        job.run(rewriter, choose_local(rewriter, make, workers=self.request.workers, rows=rows))


def _write_texts(file: Path, texts: tuple[str, ...]) -> None:
    # A lone surrogate (possible in JSON) has no UTF-8 form. The model's tokenizer replaces it in the same way.
    clean = [text.encode("utf-8", "replace").decode("utf-8") for text in texts]
    with whole_or_nothing(file) as partial:
        pq.write_table(pa.table({"index": range(len(clean)), "text": pa.array(clean, pa.string())}), partial)


def _read_texts(file: Path) -> tuple[str, ...]:
    return tuple(pq.read_table(file, columns=["text"]).column("text").to_pylist())
