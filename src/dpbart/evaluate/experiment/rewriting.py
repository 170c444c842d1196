"""The train and validation parts of a data set, rewritten: in pieces, so that a stopped run loses little.

The noise comes from the operating system, as always. A piece that is done is never drawn again.
"""

from __future__ import annotations

import math
import shutil
import time
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from dpbart import __version__
from dpbart.errors import BadParameter
from dpbart.evaluate.data.parts import DataParts, Part
from dpbart.evaluate.experiment.cells import Cells, Found, Recipe, key_of
from dpbart.evaluate.experiment.plan import Plan, Setting
from dpbart.evaluate.scores.bleu import measure_kept
from dpbart.files import whole_or_nothing
from dpbart.models.bundle import Bundle
from dpbart.rewrite.rewriter import Rewriter

PIECE = 1000  # texts


@dataclass(frozen=True)
class Rewritten:
    """New train and validation texts with the labels they had, and what they have in common with the old ones."""

    train: Part
    valid: Part
    figures: Found
    key: str


@dataclass(frozen=True)
class RewritingCell:
    """One setting of one data set."""

    plan: Plan
    setting: Setting
    data: DataParts
    folder: Path

    @cached_property
    def recipe(self) -> Recipe:
        """All that the texts depend on, but for the noise."""
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
            "length": self.plan.length,
            "beams": self.plan.beams,
            "version": ".".join(__version__.split(".")[:2]),
        }

    def run(self, cells: Cells) -> Rewritten:
        """The rewritten parts, from the folder if they are there."""
        key = key_of(self.recipe)
        file = self.folder / f"{key}.parquet"
        if not file.is_file():
            cells.forget(self.recipe)
        if cells.result(self.recipe) is None:
            cells.forget_learned_from(key)  # the noise is new, and so are the texts
        figures = cells.get(self.recipe, lambda: self._rewrite(file))
        shutil.rmtree(_pieces_of(file), ignore_errors=True)  # only now: both the texts and the figures are written
        texts = pq.read_table(file).column("text").to_pylist()
        train = len(self.data.train)
        return Rewritten(
            Part(tuple(texts[:train]), self.data.train.labels),
            Part(tuple(texts[train:]), self.data.valid.labels),
            figures,
            key,
        )

    def _rewrite(self, file: Path) -> Found:
        """Rewrite what is missing, join the pieces into one file, and measure it."""
        setting, began = self.setting, time.monotonic()
        rewriter = Rewriter.load(
            str(setting.model),
            epsilon=None if setting.epsilon == math.inf else setting.epsilon,
            delta=setting.data.delta,
            mechanism=str(setting.mechanism),
            length=self.plan.length,
            beams=self.plan.beams,
            batch_size=self.plan.batch_size,
        )
        originals = self.data.train.texts + self.data.valid.texts
        if rewriter.facts.guarantee.delta * len(originals) >= 1:
            raise BadParameter(
                f"delta must be below 1 / {len(originals)} for the {len(originals)} texts of {setting.data.name!r}, "
                f"got {setting.data.delta:g}. Set its delta in the experiment's file."
            )
        texts: list[str] = []
        for start in range(0, len(originals), PIECE):
            piece = _pieces_of(file) / f"{start:09d}.parquet"
            texts += _rewrite_piece(piece, rewriter, originals[start : start + PIECE])
        _write_texts(file, texts)
        train = len(self.data.train)
        fitting = rewriter.model.read(originals)  # as far as the model reads them
        kept = measure_kept(fitting[:train], texts[:train])
        same = sum(a == b for a, b in zip(fitting[:train], texts[:train], strict=True))
        return {
            "bleu": kept.bleu,
            "bleu_signature": kept.signature,
            "content_words": kept.content_words,
            "verbatim": same / train,
            "seconds": time.monotonic() - began,
        }


def _pieces_of(file: Path) -> Path:
    return file.with_suffix("")


def _rewrite_piece(file: Path, rewriter: Rewriter, originals: tuple[str, ...]) -> list[str]:
    if not file.is_file():
        _write_texts(file, list(rewriter.rewrite(originals).texts))
    texts: list[str] = pq.read_table(file).column("text").to_pylist()
    return texts


def _write_texts(file: Path, texts: list[str]) -> None:
    with whole_or_nothing(file) as partial:
        pq.write_table(pa.table({"text": pa.array(texts, pa.string())}), partial)
