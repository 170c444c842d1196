"""Memory and rate of a job of 10,000 and of 1,000,000 rows, three texts a person.

The readers, parts, ledger, engine, writers and card are the real ones; only the model step is an identity.

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

from dpbart.rewrite.engines.inline import Inline
from dpbart.rewrite.job import plan
from dpbart.rewrite.request import Request
from dpbart.testing import described, fake_rewriter

SMALL, LARGE = 10_000, 1_000_000
MOST_GROWTH = 1.1  # of the peak memory: people are counted in memory, some 100 bytes each
MOST_MEMORY = 1024.0  # MB
LEAST_RATE = 20_000.0  # rows a second


def write_rows(file: Path, rows: int) -> None:
    with file.open("w", newline="") as out:
        table = csv.writer(out)
        table.writerow(["id", "text", "label"])
        table.writerows(
            (number // 3, f"a made-up text of some twelve words, number {number}", "x") for number in range(rows)
        )


def measure(rows: int) -> tuple[float, float]:
    """Peak memory in MB, and rows a second, of one job in this process."""
    rewriter = fake_rewriter(list, epsilon=500, delta=1e-8)  # gives the text back: to measure all the rest
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
        with multiprocessing.get_context("spawn").Pool(1) as pool:  # a fresh process: a peak never falls again
            peak, rate = pool.apply(measure, (rows,))
        peaks.append(peak)
        print(f"{rows:>9,} rows: peak {peak:,.0f} MB, {rate:,.0f} rows/s", flush=True)
    growth = peaks[1] / peaks[0]
    held = [growth <= MOST_GROWTH, peaks[1] <= MOST_MEMORY, rate >= LEAST_RATE]
    print(f"growth {growth:.3f}   bar <= {MOST_GROWTH}   {'held' if held[0] else 'MISSED'}")
    print(f"peak {peaks[1]:,.0f} MB   bar <= {MOST_MEMORY:,.0f}   {'held' if held[1] else 'MISSED'}")
    print(f"rate {rate:,.0f} rows/s   bar >= {LEAST_RATE:,.0f}   {'held' if held[2] else 'MISSED'}")
    sys.exit(not all(held))


if __name__ == "__main__":
    main()
