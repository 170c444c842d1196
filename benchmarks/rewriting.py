"""Measure speed: noise against decoding, the pipeline against bare `generate`, the default model against the paper's
best one, and start-up of the command line.

Timings are noisy. Each ratio compares two sides measured in turns in one run. Each figure has a target.

    python benchmarks/rewriting.py
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np
import torch

from dpbart import Rewriter
from dpbart.models.families import LatentModel
from dpbart.privacy.clipping import ByValue
from dpbart.privacy.mechanisms import Gaussian
from dpbart.privacy.sampling import SystemEntropy

TEXT = "I would like to book a table for two people at the harbour on Friday night"
BATCH = 32
PAPER_ENTRIES = 3640  # 20 positions of 182 columns
ROUNDS = 5


def seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def in_turns(first: Callable[[], object], second: Callable[[], object]) -> tuple[float, float]:
    """Median seconds of each side, measured in turns after one warm-up each."""
    first(), second()
    pairs = [(seconds(first), seconds(second)) for _ in range(ROUNDS)]
    return statistics.median(one for one, _ in pairs), statistics.median(two for _, two in pairs)


def report(name: str, value: float, bar: float, *, at_most: bool) -> bool:
    held = value <= bar if at_most else value >= bar
    print(f"{name:<58}{value:8.3f}   target {'<=' if at_most else '>='} {bar:g}   {'met' if held else 'MISSED'}")
    return held


def noise_against_decoding(rewriter: Rewriter) -> bool:
    latent = np.zeros((BATCH, 20, PAPER_ENTRIES // 20), dtype=np.float32)
    clipped = ByValue(0.1).clip(latent)
    texts = [TEXT] * BATCH
    private = rewriter.channel.send(rewriter.model.encode(texts), SystemEntropy())
    noise, decoding = in_turns(
        lambda: Gaussian(500, 1e-5).privatize(clipped, SystemEntropy()), lambda: rewriter.model.decode(private)
    )
    print(f"noise for {BATCH} x {PAPER_ENTRIES} entries {1000 * noise:.1f} ms, decoding them {1000 * decoding:.0f} ms")
    return report("noise / decoding, beam 10", noise / decoding, 0.05, at_most=True)


def pipeline_against_generate(rewriter: Rewriter) -> bool:
    texts = [TEXT] * BATCH * 2
    model = rewriter.model
    assert isinstance(model, LatentModel)
    ids = torch.from_numpy(model.tokens.encode(texts))
    config = model.search.config(model.halves.model, new_tokens=ids.shape[1])

    @torch.inference_mode()
    def generate() -> None:
        for batch in ids.split(BATCH):
            everywhere = torch.ones_like(batch)
            model.halves.model.generate(input_ids=batch, attention_mask=everywhere, generation_config=config)

    bare, whole = in_turns(generate, lambda: rewriter.rewrite(texts))
    print(f"generate {len(texts) / bare:.1f} texts/s, rewrite {len(texts) / whole:.1f} texts/s")
    return report("rate of rewrite / rate of generate", bare / whole, 0.95, at_most=False)


def default_against_the_papers(epsilon: float) -> bool:
    texts = [TEXT] * BATCH * 2
    papers, default = Rewriter.load("mini-pr-plus", epsilon=500), Rewriter.load(epsilon=epsilon)
    old, new = in_turns(lambda: papers.rewrite(texts), lambda: default.rewrite(texts))
    print(f"mini-pr-plus {len(texts) / old:.1f} texts/s, mini-code at {epsilon:g} {len(texts) / new:.1f} texts/s")
    return report(f"rate of mini-code at {epsilon:g} / of mini-pr-plus", old / new, 1.0, at_most=False)


def start_of_the_command_line() -> bool:
    command = [sys.executable, "-m", "dpbart", "--help"]
    taken = [seconds(lambda: subprocess.run(command, check=True, capture_output=True)) for _ in range(ROUNDS)]
    return report("start-up time of dpbart --help, seconds", statistics.median(taken), 0.5, at_most=True)


def main() -> None:
    held = [
        start_of_the_command_line(),
        noise_against_decoding(Rewriter.load("mini", epsilon=500)),
        # Without noise, both sides write texts of the same length and so do the same work.
        pipeline_against_generate(Rewriter.load("mini", mechanism="none")),
        *(default_against_the_papers(epsilon) for epsilon in (10, 20, 50, 100)),
    ]
    sys.exit(not all(held))


if __name__ == "__main__":
    main()
