"""Compare Ray and local engines, 2 workers each, on 3,000 rows; also local with 1 worker, and 2 threads.

The time runs from the first result to the last, so loading models and starting Ray do not count. Threads are not an
engine of the package; they are here for comparison.

    python benchmarks/engines.py
"""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import torch

from dpbart import Rewriter, Rewriting
from dpbart.rewrite.engines.engine import IN_FLIGHT, Answers, Engine, Inline, Processes, ended
from dpbart.rewrite.engines.on_ray import OnRay
from dpbart.tables.batch import Batch, DictRows

ROWS, SIZE, WORKERS = 3000, 32, 2
LEAST = 0.9  # share of local's rate
TEXT = "I would like to book a table for two people at the harbour on Friday night"


@dataclass(frozen=True)
class Threads:
    """Threads in this process that share one model."""

    rewriter: Rewriter
    workers: int
    name: str = "threads"

    def map(self, batches: Iterable[Batch]) -> Answers:
        waiting = deque[tuple[Batch, Future[Rewriting]]]()
        with ThreadPoolExecutor(self.workers) as pool:
            for batch in ended(batches):
                if batch is not None:
                    waiting.append((batch, pool.submit(self.rewriter.rewrite, batch.texts())))
                while waiting and (batch is None or len(waiting) >= IN_FLIGHT * self.workers):
                    first, future = waiting.popleft()
                    yield first, future.result()


def batches() -> Iterator[Batch]:
    for first in range(1, ROWS + 1, SIZE):
        yield DictRows(first, "text", [{"text": TEXT}] * min(SIZE, ROWS + 1 - first))


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
    make = partial(Rewriter.load, "mini-pr-plus", epsilon=500, beams=1)
    one = rate(Inline(make))
    print(f"local, 1 worker   {one:8.1f} texts/s", flush=True)
    local = rate(Processes(make, WORKERS))
    print(f"local, {WORKERS} workers  {local:8.1f} texts/s", flush=True)
    torch.set_num_threads(1)  # one core per thread, as with processes
    print(f"{WORKERS} threads         {rate(Threads(make(), WORKERS)):8.1f} texts/s", flush=True)
    ray = rate(OnRay(make, WORKERS))
    print(f"ray, {WORKERS} workers    {ray:8.1f} texts/s", flush=True)
    print(f"ray / local {ray / local:.3f}   target >= {LEAST}   {'met' if ray >= LEAST * local else 'MISSED'}")
    sys.exit(ray < LEAST * local)


if __name__ == "__main__":
    main()
