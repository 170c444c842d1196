"""Memory of a job of 10,000 and of 1,000,000 rows: the real readers, writers and card, the model step an identity.

python benchmarks/memory.py
"""

from __future__ import annotations

import csv
import multiprocessing
import resource
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from dpbart import Rewriter, Rewriting
from dpbart.rewrite.job import plan
from dpbart.rewrite.task import Task

SMALL, LARGE = 10_000, 1_000_000
MOST_GROWTH = 1.1  # of the peak memory


class Identity(Rewriter):
    """A rewriter whose model step gives the text back: to measure all the rest."""

    def rewrite(self, texts: Sequence[str]) -> Rewriting:
        return Rewriting(tuple(texts), self.mechanism.guarantee, "identity")


def write_rows(file: Path, rows: int) -> None:
    with file.open("w", newline="") as out:
        table = csv.writer(out)
        table.writerow(["id", "text", "label"])
        table.writerows(
            (number, f"a made-up text of some twelve words, number {number}", "x") for number in range(rows)
        )


def measure(rows: int) -> tuple[float, float]:
    """Peak memory in MB, and rows a second, of one job in this process."""
    loaded = Rewriter.load("mini", epsilon=500, delta=1e-7)
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "in.csv", Path(folder) / "out.csv"
        write_rows(source, rows)
        began = time.perf_counter()
        plan(Task(source, target), loaded.mechanism).run(Identity(**vars(loaded)))
        taken = time.perf_counter() - began
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, rows / taken


def main() -> None:
    peaks = []
    for rows in (SMALL, LARGE):
        with multiprocessing.get_context("spawn").Pool(1) as pool:  # a fresh process: a peak never falls again
            peak, rate = pool.apply(measure, (rows,))
        peaks.append(peak)
        print(f"{rows:>9,} rows: peak {peak:,.0f} MB, {rate:,.0f} rows/s")
    growth = peaks[1] / peaks[0]
    print(f"growth {growth:.3f}   bar <= {MOST_GROWTH}   {'held' if growth <= MOST_GROWTH else 'MISSED'}")
    sys.exit(growth > MOST_GROWTH)


if __name__ == "__main__":
    main()
