"""Kill a 5,000-row job twenty times at random moments: nothing is lost, nothing is sampled twice, the ledger is exact.

The model step returns every text with a unique mark; everything else is real.

    python benchmarks/kills.py
"""

from __future__ import annotations

import csv
import multiprocessing
import secrets
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from dpbart.ledger.ledger import Ledger
from dpbart.options.rewriting import Request
from dpbart.rewrite.durable import commit
from dpbart.rewrite.durable.folder import SavedTexts, folder_of
from dpbart.rewrite.engines.engine import Inline
from dpbart.rewrite.job import plan
from dpbart.testing import described, fake_rewriter

ROWS, PEOPLE, KILLS = 5000, 300, 20


def marked(texts: Sequence[str]) -> list[str]:
    time.sleep(0.02 if texts else 0)
    return [f"{text} {secrets.token_hex(8)}" for text in texts]


def live(folder: Path) -> None:
    commit.PART_ROWS = 100
    rewriter = fake_rewriter(marked, epsilon=500, delta=1e-9, batch_size=10)
    request = Request(folder / "in.csv", folder / "out.csv", person_column="who", ledger=folder / "l.db", resume=True)
    plan(request, described(rewriter)).run(Inline(lambda: rewriter))


def saved(folder: Path) -> list[str]:
    work = folder_of(folder / "out.csv")
    return [cells[0] for cells, _ in SavedTexts(work).read()] if work.exists() else []


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder, seen, kills = Path(name), [], 0
        people = [f"p{number * 7 % PEOPLE}" for number in range(ROWS)]
        with (folder / "in.csv").open("w", newline="") as out:
            table = csv.writer(out)
            table.writerow(["who", "text"])
            table.writerows((person, f"text {number}") for number, person in enumerate(people))
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["dpbart.rewrite.job"])
        while True:
            process = context.Process(target=live, args=(folder,))
            process.start()
            # Every second kill waits for the next part, which spreads the kills over the whole job. The others come at
            # any moment: while a run starts, and while it rewrites rows that were paid for but lost.
            while kills < KILLS and kills % 2 and process.is_alive() and len(saved(folder)) <= len(seen):
                time.sleep(0.02)
            wait = secrets.randbelow(300 if kills % 2 else 1500) / 1000  # seconds
            process.join(wait if kills < KILLS else None)
            if not process.is_alive():
                break
            process.kill()
            process.join()
            kills += 1
            now = saved(folder)
            assert now[: len(seen)] == seen, "a text that may have been seen was sampled again"
            seen = now
            print(f"kill {kills:2}: {len(seen):,} texts are saved", flush=True)
        with (folder / "out.csv").open(newline="") as out:
            texts = [row["text"] for row in csv.DictReader(out)]
        ledger = Ledger(folder / "l.db")
        spent = {person: sum(each.texts for each in ledger.entries(person)) for person in set(people)}
        held = {
            "nothing lost": [text.rpartition(" ")[0] for text in texts] == [f"text {each}" for each in range(ROWS)],
            "nothing sampled twice": texts[: len(seen)] == seen,
            "ledger exact": spent == Counter(people),
            f"{KILLS} kills": kills == KILLS,
        }
        for what, holds in held.items():
            print(f"{what:<22} {'met' if holds else 'MISSED'}")
        sys.exit(not all(held.values()))


if __name__ == "__main__":
    main()
