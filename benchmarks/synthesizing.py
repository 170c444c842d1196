"""Release collections of 10,000 and of 100,000 short texts with the default model: rate, and peak memory.

Everything is real. The texts are sentences of the model's own book, which is public, and every third one has the same
person as the one before.

    python benchmarks/synthesizing.py

The target is for a machine that does nothing else. Where others compute too, look at the processor time.
"""

from __future__ import annotations

import csv
import multiprocessing
import resource
import sys
import tempfile
import time
from itertools import cycle, islice
from pathlib import Path

from dpbart.collect.synthesize import synthesize_file
from dpbart.models.bundle import Bundle
from dpbart.models.code.book import read_book
from dpbart.options.collecting import CollectionBudget, CollectionRequest
from dpbart.version import DEFAULT_MODEL

SMALL, LARGE = 10_000, 100_000
MOST_GROWTH = 1.1  # factor on peak memory; people are counted in memory, about 100 bytes each
MOST_SECONDS = 15 * 60.0


def write_rows(file: Path, rows: int) -> None:
    sentences = cycle(line.sentence for line in read_book(Bundle.find(DEFAULT_MODEL).folder))
    with file.open("w", newline="") as out:
        table = csv.writer(out)
        table.writerow(["who", "text"])
        table.writerows((number - (number % 3 == 2), text) for number, text in enumerate(islice(sentences, rows)))


def measure(rows: int) -> tuple[float, float, float]:
    """Peak memory in MB, seconds, and seconds of processor time, of one release in this process."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "in.csv", Path(folder) / "out.csv"
        write_rows(source, rows)
        began, worked = time.perf_counter(), time.process_time()
        request = CollectionRequest(source, target, person_column="who", ledger=Path(folder) / "ledger.db")
        synthesize_file(request, CollectionBudget(epsilon=1.0))
        taken, work = time.perf_counter() - began, time.process_time() - worked
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, taken, work


def main() -> None:
    peaks, taken = [], 0.0
    for rows in (SMALL, LARGE):
        with multiprocessing.get_context("spawn").Pool(1) as pool:  # a fresh process, because a peak never falls
            peak, taken, work = pool.apply(measure, (rows,))
        peaks.append(peak)
        print(f"{rows:>9,} texts: peak {peak:,.0f} MB, {taken:,.0f} s, {rows / taken:,.0f} texts/s", flush=True)
        print(f"{'':>9}        {work:,.0f} s of processor time, {rows / work:,.0f} texts/s", flush=True)
    growth = peaks[1] / peaks[0]
    held = [growth <= MOST_GROWTH, taken <= MOST_SECONDS]
    print(f"growth {growth:.3f}   target <= {MOST_GROWTH}   {'met' if held[0] else 'MISSED'}")
    print(f"time {taken / 60:,.1f} min   target <= {MOST_SECONDS / 60:,.0f}   {'met' if held[1] else 'MISSED'}")
    sys.exit(not all(held))


if __name__ == "__main__":
    main()
