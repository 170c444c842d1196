"""The public text that a code model learns from: sampled lines and documents, without the offensive ones."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

from dpbart.errors import BadTable
from dpbart.files import whole_or_nothing, write_whole
from dpbart.models.code.encoder import FEWEST, split_sentences
from dpbart.models.code.offensive import is_offensive
from dpbart.models.code.settings import CodeSettings
from dpbart.prepare.code.recipe import WriterPlan
from dpbart.prepare.code.rows import Ids, Rows, to_rows
from dpbart.prepare.corpus import CorpusFile, read_texts
from dpbart.progress import progress

_RUN = 6  # neighbouring lines that count as one document
_LONG = CodeSettings().whole  # tokens: a longer line is a document, and its sentences are what is written


@dataclass(frozen=True)
class Source:
    """Files of public text. In those that are running text, neighbouring lines belong together."""

    files: tuple[CorpusFile, ...]
    running: tuple[CorpusFile, ...] = ()

    @property
    def all(self) -> tuple[CorpusFile, ...]:
        """Every file once: one that is in both counts as running text."""
        return (*(file for file in self.files if file not in self.running), *self.running)

    def provenance(self) -> dict[str, object]:
        return {"running_text": [file.sha256 for file in self.running]}


@dataclass(frozen=True)
class PublicText:
    """Lines, and documents as rows of sentences."""

    lines: Rows
    sentences: Rows  # of all documents, one document after the other
    sizes: Ids  # (documents,): sentences of each
    counts: dict[str, dict[str, int]]  # by file: lines looked at, and those dropped as offensive

    @cached_property
    def _firsts(self) -> Ids:
        return np.cumsum(self.sizes) - self.sizes

    def sentence_numbers(self, document: int) -> range:
        """Which sentences are those of a document."""
        first = int(self._firsts[document])
        return range(first, first + int(self.sizes[document]))

    def document(self, number: int) -> Ids:
        """All tokens of a document."""
        return np.concatenate(self.sentences.picked(self.sentence_numbers(number)))


def gather(source: Source, tokenizer: Tokenizer, plan: WriterPlan, folder: Path) -> PublicText:
    """Sample public text, or read the sample that the folder has already."""
    file, counts_file = folder / "text.npz", folder / "counts.json"
    if not (file.is_file() and counts_file.is_file()):
        text = _gather(source, tokenizer, plan)
        write_whole(counts_file, json.dumps(text.counts, indent=2))
        parts = {"lines": text.lines, "sentences": text.sentences}
        arrays = {f"{name}_{each}": getattr(rows, each) for name, rows in parts.items() for each in ("flat", "lengths")}
        with whole_or_nothing(file) as partial, partial.open("wb") as out:
            np.savez(out, **arrays, sizes=text.sizes)
    held = np.load(file)
    lines, sentences = (Rows(held[f"{name}_flat"], held[f"{name}_lengths"]) for name in ("lines", "sentences"))
    return PublicText(lines, sentences, held["sizes"], json.loads(counts_file.read_text()))


def _gather(source: Source, tokenizer: Tokenizer, plan: WriterPlan) -> PublicText:
    draw = np.random.default_rng([plan.seed, 0])
    lines: list[Rows] = []
    documents: list[list[str]] = []
    counts: dict[str, dict[str, int]] = {}
    with progress("Reading public text", total=len(source.all), unit="files") as bar:
        for file in source.all:
            chosen, runs, dropped = _sample(file, plan, draw, running=file in source.running)
            counts[file.path.name] = {"looked_at": len(chosen) + dropped, "dropped": dropped}
            rows = to_rows(chosen, tokenizer)
            long = [split_sentences(chosen[n]) for n in np.flatnonzero(rows.lengths > _LONG).tolist()]
            documents += runs + long
            lines.append(rows)
            bar.advance(1)
    some = Rows.joined(lines)
    if len(some) < 2:
        raise BadTable(f"at least 2 lines of public text are needed, got {len(some)}. Give more public text.")
    return PublicText(some, *_sentences(documents, tokenizer, plan, draw), counts)


def _sample(
    file: CorpusFile, plan: WriterPlan, draw: np.random.Generator, *, running: bool
) -> tuple[list[str], list[list[str]], int]:
    """Lines, runs of lines, and the number of lines that were dropped."""
    total = file.training_texts
    wanted = set(draw.permutation(total)[: plan.lines].tolist())
    most = min(plan.documents, plan.lines // _RUN) if running else 0
    runs = {n: list[str]() for n in draw.permutation(total // _RUN)[:most].tolist()}
    lines, dropped = [], 0
    for number, text in enumerate(islice(read_texts(file.path), total)):
        in_run = number // _RUN in runs
        if number not in wanted and not in_run:
            continue
        offensive = is_offensive(text)
        if number in wanted:
            dropped += offensive
            lines += [] if offensive else [text]
        if in_run and offensive:
            del runs[number // _RUN]
        elif in_run:
            runs[number // _RUN].append(text)
    return lines, [run for run in runs.values() if len(run) > 1], dropped


def _sentences(
    documents: Sequence[list[str]], tokenizer: Tokenizer, plan: WriterPlan, draw: np.random.Generator
) -> tuple[Rows, Ids]:
    """Sentences of a sample of the documents, without very short ones, and how many each document has."""
    chosen = [documents[n] for n in sorted(draw.permutation(len(documents))[: plan.documents].tolist())]
    owners = np.repeat(np.arange(len(chosen)), [len(each) for each in chosen])
    rows = to_rows([text for each in chosen for text in each], tokenizer)
    kept = np.flatnonzero(rows.lengths >= FEWEST)
    sizes = np.bincount(owners[kept], minlength=len(chosen))
    return Rows.of([rows.row(n).tolist() for n in kept.tolist()]), sizes[sizes > 0]
