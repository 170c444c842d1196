"""Measure our search of a BART against `generate` of transformers: rates, and whether the ids are equal.

Both sides get the same private latents in turns, and the time is that of the processor, on one core. The texts are
the lines of the default model's book, which are public, or those of a public file. The shape of bart-base has random
weights and no encoder here: its last attention is set to copy the latent, so that it writes texts of natural length and
ends them. Where ids differ, both texts get the score by which the search chose them, computed again in double
precision: if these are equal up to rounding, either text is right.

    OMP_NUM_THREADS=1 taskset -c 0 python benchmarks/decoding.py [--texts 2000] [--base-texts 64] [--lines FILE] \\
        [--json FILE]
"""

from __future__ import annotations

import argparse
import copy
import json
import platform
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from transformers import BartConfig, BartForConditionalGeneration
from transformers.modeling_outputs import BaseModelOutput

from dpbart import Rewriter
from dpbart.models.bart import Halves, Ids, SplitBart
from dpbart.models.bundle import BUNDLED, Bundle
from dpbart.models.families import LatentModel, family_of
from dpbart.models.search import BeamSearch
from dpbart.models.text import Tokens
from dpbart.privacy.clipping import ByValue
from dpbart.privacy.mechanisms import Noised, NonPrivate
from dpbart.privacy.sampling import SystemEntropy
from dpbart.version import DEFAULT_MODEL

BATCH, LENGTH, BEAMS = 32, 20, (1, 4, 10)
PAD = 1
ROUNDING = 1e-5  # of a score: single precision has 7 digits, and a score is a mean of about 20 logarithms
EPSILON = 500  # the paper's budgets begin at about this size
SHAPE = "bart-base shape"
LEAST_RATIO = {("mini-pr-plus", 10): 2.5, (SHAPE, 10): 2.0}


@dataclass(frozen=True)
class Measured:
    """One row of the table. `other` counts the texts whose ids differ, `worse` those with a worse score than theirs."""

    model: str
    beams: int
    texts: int
    mean_length: float  # ids that a text gets, without the start id
    generate: float  # texts a processor second
    ours: float
    other: int
    worse: int
    gaps: tuple[float, ...]  # our score minus theirs, for each text whose ids differ

    @property
    def ratio(self) -> float:
        return self.ours / self.generate


def public_texts(count: int, file: Path | None) -> list[str]:
    """Lines of a public file or of the book, spread over all of it; shorter and longer ones as they come."""
    bundle = Bundle.find(DEFAULT_MODEL)
    lines = (
        [line.sentence for line in family_of(bundle).book(bundle)] if file is None else file.read_text().splitlines()
    )
    chosen = np.random.default_rng(0).permutation(len(lines))[:count]
    return [lines[number] for number in chosen]


def copying_base() -> SplitBart:
    """Random weights in the shape of bart-base. Its last cross-attention reads the latent's row of each position.

    The first 64 numbers of a latent and of the decoder's places say the position; the rest of a latent is the
    embedding of an id. The scales make a copy likely but not certain.
    """
    torch.manual_seed(0)
    shape = {"d_model": 768, "decoder_layers": 6, "decoder_attention_heads": 12, "decoder_ffn_dim": 3072}
    model = BartForConditionalGeneration(BartConfig(**shape, encoder_layers=0, encoder_attention_heads=12))
    across, eye = model.model.decoder.layers[-1].encoder_attn, torch.eye(768)
    with torch.no_grad():
        places = model.model.decoder.embed_positions.weight[2 : 2 + LENGTH]
        places[:, :64] = 0.4 * torch.eye(64)[1 : 1 + LENGTH]
        model.model.shared.weight[:, :64] = 0
        for part, scale in ((across.q_proj, 2.0), (across.k_proj, 1.0)):
            part.weight.copy_(scale * eye[:64].repeat(12, 1))
        across.v_proj.weight.copy_(200 * eye)
        across.v_proj.weight[:64] = 0
        across.out_proj.weight.copy_(eye)
    return SplitBart(model, torch.device("cpu"))


def base_latents(base: SplitBart, texts: list[str]) -> Iterator[Noised]:
    ids = torch.from_numpy(Tokens.load(BUNDLED / "mini-pr-plus" / "tokenizer.json", length=LENGTH).encode(texts))
    latent = base.model.model.shared.weight.detach()[ids].clone()
    latent += 0.005 * torch.randn(latent.shape, generator=torch.Generator().manual_seed(1))
    latent[:, :, :64] = 20 * torch.eye(64)[:LENGTH]
    for part in latent.split(BATCH):
        yield NonPrivate().privatize(ByValue(1e6).clip(part.numpy()), SystemEntropy())


def latents(rewriter: Rewriter, texts: list[str]) -> Iterator[Noised]:
    for start in range(0, len(texts), BATCH):
        yield rewriter.channel.send(rewriter.model.encode(texts[start : start + BATCH]), SystemEntropy())


def measure(name: str, halves: Halves, search: BeamSearch, batches: list[Noised]) -> Measured:
    taken, texts, length, gaps = [0.0, 0.0], 0, 0, list[float]()
    for decode in (Halves.decode, SplitBart.decode):  # a warm-up
        decode(halves, batches[0], search, length=LENGTH)
    for private in batches:
        found: list[Ids] = []
        for side, decode in enumerate((Halves.decode, SplitBart.decode)):
            began = time.process_time()
            found.append(decode(halves, private, search, length=LENGTH))
            taken[side] += time.process_time() - began
        theirs, ours = (np.pad(ids, ((0, 0), (0, LENGTH + 1 - ids.shape[1])), constant_values=PAD) for ids in found)
        for place in np.flatnonzero((theirs != ours).any(axis=1)).tolist():
            scores = [score(halves, private.values[place], ids[place], search) for ids in (theirs, ours)]
            gaps.append(scores[1] - scores[0])
        texts += len(ours)
        length += int((ours[:, 1:] != PAD).sum())
    rates = (texts / taken[0], texts / taken[1])
    worse = sum(gap < -ROUNDING for gap in gaps)
    return Measured(name, search.beams, texts, length / texts, *rates, len(gaps), worse, tuple(gaps))


@torch.inference_mode()
def score(halves: Halves, latent: npt.NDArray[np.float32], ids: Ids, search: BeamSearch) -> float:
    """What a search compares: the log probability of a text (ids,), divided by its length to some power."""
    model = copy.deepcopy(halves.model).double()
    row, states = torch.from_numpy(ids)[None], torch.from_numpy(latent)[None].double()
    logits = model(encoder_outputs=BaseModelOutput(last_hidden_state=states), decoder_input_ids=row[:, :-1]).logits
    there = row[:, 1:] != PAD
    taken = torch.log_softmax(logits, -1).gather(2, row[:, 1:, None])[:, :, 0][there].sum()
    return float(taken) / int(there.sum()) ** search.length_penalty


def rows(count: int, base_count: int, lines: Path | None) -> Iterator[Measured]:
    texts = public_texts(max(count, base_count), lines)
    for name in ("mini", "mini-pr", "mini-pr-plus") if count else ():
        for beams in BEAMS:
            rewriter = Rewriter.load(name, epsilon=EPSILON, beams=beams)
            assert isinstance(rewriter.model, LatentModel)
            yield measure(name, rewriter.model.halves, rewriter.model.search, list(latents(rewriter, texts[:count])))
    if base_count:
        base = copying_base()
        for beams in BEAMS:
            yield measure(SHAPE, base, BeamSearch(beams), list(base_latents(base, texts[:base_count])))


def main() -> None:
    parser = argparse.ArgumentParser(description="Our search of a BART against generate.")
    parser.add_argument("--texts", type=int, default=2000, help="Texts for each shipped model; 0 leaves them out.")
    parser.add_argument("--base-texts", type=int, default=64, help="Texts for the shape of bart-base; 0 leaves it out.")
    parser.add_argument("--lines", type=Path, help="Public lines to rewrite instead of those of the book.")
    parser.add_argument("--json", type=Path, help="Also write the figures to this file.")
    given = parser.parse_args()
    torch.set_num_threads(1)
    print("| model | beams | texts | mean ids | generate, texts/s | ours, texts/s | ratio | other ids | worse ones |")
    print("|---|---|---|---|---|---|---|---|---|")
    table = []
    for row in rows(given.texts, given.base_texts, given.lines):
        table.append(row)
        print(
            f"| {row.model} | {row.beams} | {row.texts:,} | {row.mean_length:.1f} | {row.generate:.2f} "
            f"| {row.ours:.2f} | {row.ratio:.2f} | {row.other} | {row.worse} |",
            flush=True,
        )
    if given.json:
        commit = subprocess.run(
            ["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False
        ).stdout.strip()
        about = {
            "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
            "commit": commit,
            "machine": platform.processor() or platform.machine(),
            "torch": torch.__version__,
        }
        figures = [{**asdict(row), "ratio": row.ratio} for row in table]
        given.json.write_text(json.dumps({**about, "rows": figures}, indent=1) + "\n")
    slow = [row for row in table if row.ratio < LEAST_RATIO.get((row.model, row.beams), 0)]
    sys.exit(bool(slow))


if __name__ == "__main__":
    main()
