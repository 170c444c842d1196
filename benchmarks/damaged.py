"""Damage files of every format at random and try to rewrite each: 10,000 by default.

    python benchmarks/damaged.py --files 10000

Each must be read as a table or refused in one line. The run fails at the first one that raises another error, warns,
quotes a private word, or leaves a file behind; it prints the seed that makes this file again.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.tables.mutated_files import ENDINGS, damaged, outcome, whole_files


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0, help="seed of the first file; the next has the next seed")
    asked = parser.parse_args()
    outcomes: dict[str, Counter[str]] = {ending: Counter() for ending in ENDINGS}
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as place:
        whole = whole_files(Path(place))
    for seed in range(asked.seed, asked.seed + asked.files):
        chance = random.Random(seed)
        ending, target = chance.choice(ENDINGS), chance.choice((".csv", ".jsonl", ".parquet", ".xlsx", ".txt"))
        with tempfile.TemporaryDirectory() as place:
            try:
                outcomes[ending][outcome(Path(place), ending, damaged(ending, whole[ending], chance), target)] += 1
            except BaseException:
                print(f"seed {seed}: {ending} to {target}")
                raise
    for ending, counts in outcomes.items():
        print(f"{ending:10} {counts['read']:6,} read {counts['refused']:6,} refused")
    print(f"{asked.files:,} files in {time.monotonic() - began:.0f} s: no other error, nothing private, nothing left")


if __name__ == "__main__":
    main()
