"""Measure memory and rate of a job with 10,000 and with 1,000,000 rows, three texts per person.

The readers, saved parts, ledger, engine, writers and card are real. The model step returns its input.

    python benchmarks/memory.py
"""

from __future__ import annotations

import csv
import multiprocessing
import resource
import sys
import tempfile
import time
from pathlib import Path

from dpbart.options.rewriting import Request
from dpbart.rewrite.engines.engine import Inline
from dpbart.rewrite.job import plan
from dpbart.testing import described, fake_rewriter

SMALL, LARGE = 10_000, 1_000_000
MOST_GROWTH = 1.1  # factor on peak memory; people are counted in memory, about 100 bytes each
MOST_MEMORY = 1024.0  # MB
LEAST_RATE = 20_000.0  # rows per second


def write_rows(file: Path, rows: int) -> None:
    with file.open("w", newline="") as out:
        table = csv.writer(out)
        table.writerow(["id", "text", "label"])
        table.writerows(
            (number // 3, f"a made-up text of some twelve words, number {number}", "x") for number in range(rows)
        )


def measure(rows: int) -> tuple[float, float]:
    """Peak memory in MB, and rows per second, of one job in this process."""
    rewriter = fake_rewriter(list, epsilon=500, delta=1e-8)  # returns its input, to measure everything but the model
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "in.csv", Path(folder) / "out.csv"
        write_rows(source, rows)
        began = time.perf_counter()
        request = Request(source, target, person_column="id", ledger=Path(folder) / "ledger.db", person_budget=2000)
        plan(request, described(rewriter)).run(Inline(lambda: rewriter))
        taken = time.perf_counter() - began
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, rows / taken


def main() -> None:
    peaks, rate = [], 0.0
    for rows in (SMALL, LARGE):
        with multiprocessing.get_context("spawn").Pool(1) as pool:  # a fresh process, because a peak never falls
            peak, rate = pool.apply(measure, (rows,))
        peaks.append(peak)
        print(f"{rows:>9,} rows: peak {peak:,.0f} MB, {rate:,.0f} rows/s", flush=True)
    growth = peaks[1] / peaks[0]
    held = [growth <= MOST_GROWTH, peaks[1] <= MOST_MEMORY, rate >= LEAST_RATE]
    print(f"growth {growth:.3f}   target <= {MOST_GROWTH}   {'met' if held[0] else 'MISSED'}")
    print(f"peak {peaks[1]:,.0f} MB   target <= {MOST_MEMORY:,.0f}   {'met' if held[1] else 'MISSED'}")
    print(f"rate {rate:,.0f} rows/s   target >= {LEAST_RATE:,.0f}   {'met' if held[2] else 'MISSED'}")
    sys.exit(not all(held))


if __name__ == "__main__":
    main()
