"""Ray with 2 workers against local with 2 workers on a 3,000-row file, start-up aside; and local with 1 worker.

The time runs from the first answer to the last, so that loading models and starting Ray do not count.

    python benchmarks/engines.py
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from functools import partial

from dpbart import Rewriter
from dpbart.rewrite.batches import Batch, Rows
from dpbart.rewrite.engines import Engine, Inline, Processes
from dpbart.rewrite.on_ray import OnRay

ROWS, SIZE, WORKERS = 3000, 32, 2
LEAST = 0.9  # of local's rate
TEXT = "I would like to book a table for two people at the harbour on Friday night"


def batches() -> Iterator[Batch]:
    for first in range(1, ROWS + 1, SIZE):
        yield Rows(first, "text", [{"text": TEXT}] * min(SIZE, ROWS + 1 - first))


def rate(engine: Engine) -> float:
    done, began, order = 0, 0.0, 1
    for batch, rewriting in engine.map(batches()):
        assert batch.first == order
        order += len(batch)
        if began:
            done += len(rewriting.texts)
        else:
            began = time.perf_counter()
    assert order == ROWS + 1
    return done / (time.perf_counter() - began)


def main() -> None:
    make = partial(Rewriter.load, epsilon=500, beams=1)
    one = rate(Inline(make()))
    print(f"local, 1 worker   {one:8.1f} texts/s", flush=True)
    local = rate(Processes(make, WORKERS))
    print(f"local, {WORKERS} workers  {local:8.1f} texts/s", flush=True)
    ray = rate(OnRay(make, WORKERS))
    print(f"ray, {WORKERS} workers    {ray:8.1f} texts/s", flush=True)
    print(f"ray / local {ray / local:.3f}   bar >= {LEAST}   {'held' if ray >= LEAST * local else 'MISSED'}")
    sys.exit(ray < LEAST * local)


if __name__ == "__main__":
    main()
