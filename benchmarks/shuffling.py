"""Measure a shuffled job against the same job unshuffled: rate and memory, with 10,000 and with many rows.

The readers, saved parts, engine, shuffle, writers and card are real. The model step returns its input.

    python benchmarks/shuffling.py [ROWS]     # 1,000,000 by default
"""

from __future__ import annotations

import csv
import multiprocessing
import resource
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from dpbart.options.rewriting import Request
from dpbart.rewrite.engines.engine import Inline
from dpbart.rewrite.job import plan
from dpbart.testing import described, fake_rewriter

SMALL, LARGE = 10_000, 1_000_000
LEAST_RATIO = 0.8  # rows per second, shuffled / unshuffled
MOST_GROWTH = 1.5  # factor on peak memory: a bucket of about 65,536 rows is in memory, and a small file has fewer


def write_rows(file: Path, rows: int) -> None:
    with file.open("w", newline="") as out:
        table = csv.writer(out)
        table.writerow(["id", "text"])
        table.writerows((number, f"a made-up text of some twelve words, number {number}") for number in range(rows))


def measure(rows: int, shuffle: bool) -> tuple[float, float]:
    """Peak memory in MB, and rows per second of processor time, of one job in this process."""
    rewriter = fake_rewriter(list, epsilon=2, mechanism="laplace")  # returns its input
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "in.csv"
        write_rows(source, rows)
        began = time.process_time()  # of this process alone: the machine may be busy with others
        request = Request(source, Path(folder) / "out.csv", shuffle=shuffle)
        facts = described(rewriter)
        facts = replace(facts, delta=1e-8 if shuffle else 0.0)  # below 1 / rows
        plan(request, facts).run(Inline(lambda: rewriter))
        taken = time.process_time() - began
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, rows / taken


def measured(rows: int, *, shuffle: bool) -> tuple[float, float]:
    """The same in a fresh process, because a peak never falls."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        peak, rate = pool.apply(measure, (rows, shuffle))
    print(
        f"{rows:>9,} rows {'shuffled' if shuffle else 'in order':<9}: peak {peak:,.0f} MB, {rate:,.0f} rows/s",
        flush=True,
    )
    return peak, rate


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else LARGE
    small, _ = measured(SMALL, shuffle=True)
    _, plain = measured(rows, shuffle=False)
    large, rate = measured(rows, shuffle=True)
    held = [rate / plain >= LEAST_RATIO, large / small <= MOST_GROWTH]
    print(f"rate {rate / plain:.3f} of that in order   target >= {LEAST_RATIO}   {'met' if held[0] else 'MISSED'}")
    print(f"growth of memory {large / small:.3f}   target <= {MOST_GROWTH}   {'met' if held[1] else 'MISSED'}")
    sys.exit(not all(held))


if __name__ == "__main__":
    main()
