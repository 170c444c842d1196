"""Measure how long the server takes to show people of a large ledger: pages of 100, and one person.

The ledger is real. Two thirds of the people have one text, the others up to three, each in a run at epsilon 10, and
half of them again in a second run.

    python benchmarks/people.py [PEOPLE]     # 1,000,000 by default
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Awaitable
from decimal import Decimal
from pathlib import Path

from dpbart.ledger.ledger import Ledger, Run
from dpbart.privacy.composition import Release
from dpbart.privacy.guarantee import Event
from dpbart.web.figures import Spenders

MANY, PAGE = 1_000_000, 100
MOST_SECONDS = 0.6  # of processor time, for any page but the first one
BATCH = 100_000  # people in one transaction


def make_ledger(file: Path, people: int) -> None:
    ledger = Ledger(file, create=True, people=people)
    ledger.set_limit(Decimal(100))
    release = Release((Event("response", Decimal(10), Decimal(0), 11.0),))
    for name, step in (("first", 1), ("second", 2)):
        ledger.begin(Run(name, "2026-01-02T03:04:05+00:00", "response", "mini-code@abc", release, "people"))
        upto = 0
        for start in range(0, people, BATCH):
            rows = {
                f"p{number:09d}": max(1, number % 9 - 5) for number in range(start, min(start + BATCH, people), step)
            }
            ledger.record(name, rows, before=upto, upto=upto + sum(rows.values()))
            upto += sum(rows.values())
    ledger.close()


async def timed(name: str, answer: Awaitable[object]) -> float:
    began = time.process_time()  # of this process alone: the machine may be busy with others
    await answer
    taken = time.process_time() - began
    print(f"{name:<40}{taken:.3f} s", flush=True)
    return taken


async def measure(file: Path, people: int) -> float:
    """The slowest page after the first one, in seconds."""
    spenders = Spenders(file)
    await timed("first page after a start", spenders.page(start=0, count=PAGE))
    taken = []
    for name, start in (("next", PAGE), ("middle", people // 2), ("last", max(0, people - PAGE)), ("first", 0)):
        taken.append(await timed(f"{name} page", spenders.page(start=start, count=PAGE)))
    body = json.dumps({"person": f"p{people // 2:09d}"}).encode()
    taken.append(await timed("one person", spenders.person(body)))
    ledger = Ledger(file)
    ledger.record("second", {"p000000000": 1}, before=ledger.progress("second").recorded, upto=10**9)
    ledger.close()
    for name, start in (("first", 0), ("last", max(0, people - PAGE))):
        taken.append(await timed(f"{name} page after a change", spenders.page(start=start, count=PAGE)))
    return max(taken)


def main() -> None:
    people = int(sys.argv[1]) if len(sys.argv) > 1 else MANY
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "budgets.db"
        make_ledger(file, people)
        print(f"{people:,} people, {file.stat().st_size / 2**20:,.0f} MB")
        slowest = asyncio.run(measure(file, people))
    if slowest > MOST_SECONDS:
        sys.exit(f"a page took {slowest:.2f} s, more than {MOST_SECONDS} s")


if __name__ == "__main__":
    main()
