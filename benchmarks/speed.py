"""Measure how fast texts are rewritten: by model and budget, in one process and in two, and with how much memory.

    python benchmarks/speed.py

It writes docs/speed.json, from which docs/make_docs.py makes the tables of docs/large.md. Run it on an idle machine
with at least two cores; it takes about four minutes. The texts are lines of the default model's book, which are public.

- Rates are texts for each second of the processor, on one core: the median of several rounds, with the least and most.
- Scaling is in wall time, as that is what a second process is for. The first result of each worker does not count, so
  that loading does not count.
- Memory is the sum over all processes of a run, where a shared page counts once (PSS), at its peak. Only Linux has it.
- The driver's rate is that of a job whose model returns its input, with a ledger and saved parts.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from memory import measure as measure_driver

from dpbart import Rewriter
from dpbart.models.bundle import Bundle
from dpbart.models.families import family_of
from dpbart.options.settings import Settings
from dpbart.rewrite.chosen import ChosenModel
from dpbart.rewrite.engines import choose_engine
from dpbart.rewrite.engines.engine import Engine, Processes
from dpbart.tables.batch import Batch, DictRows
from dpbart.version import DEFAULT_MODEL

OUT = Path(__file__).parent.parent / "docs" / "speed.json"
BATCH, ROUNDS, TURNS = 32, 3, 2
RATES: dict[tuple[str, float], int] = {  # texts in a round: about four seconds of work
    (DEFAULT_MODEL, 1.0): 1_024,
    (DEFAULT_MODEL, 10.0): 1_024,
    (DEFAULT_MODEL, 20.0): 96,
    (DEFAULT_MODEL, 50.0): 96,
    (DEFAULT_MODEL, 100.0): 64,
    ("mini-pr-plus", 500.0): 96,
}
SCALED = {10.0: 2_560, 50.0: 384}  # texts of a turn, by epsilon
WORKERS, REMEMBERED = (1, 4), {10.0: 4_096, 50.0: 384}
DRIVER_ROWS = 200_000
LEAST_SCALING, MOST_MEMORY = 1.8, 2.0


def public_texts(count: int) -> list[str]:
    """Lines of the book, spread over all of it."""
    bundle = Bundle.find(DEFAULT_MODEL)
    lines = [line.sentence for line in family_of(bundle).book(bundle)]
    return [lines[number] for number in np.random.default_rng(0).permutation(len(lines))[:count]]


def rate_of(model: str, epsilon: float, count: int) -> dict[str, Any]:
    """Texts a processor second in this process, and the share of the system in its time."""
    rewriter, texts = Rewriter.load(model, epsilon=epsilon), public_texts(ROUNDS * count)
    rewriter.rewrite(texts[:BATCH])  # a warm-up
    rates, before = [], os.times()
    for start in range(0, len(texts), count):
        began = time.process_time()
        rewriter.rewrite(texts[start : start + count])
        rates.append(count / (time.process_time() - began))
    after = os.times()
    user, system = after.user - before.user, after.system - before.system
    found = {"rate": statistics.median(rates), "least": min(rates), "most": max(rates)}
    return {"model": model, "epsilon": epsilon, "texts": len(texts), **found, "system": system / (user + system)}


def batches(texts: list[str]) -> Iterator[Batch]:
    for first in range(0, len(texts), BATCH):
        yield DictRows(first + 1, ("text",), [{"text": text} for text in texts[first : first + BATCH]])


def wall_rate(engine: Engine, texts: list[str], workers: int) -> float:
    """Texts a second of wall time, after one result of each worker."""
    done, began = 0, 0.0
    for number, (_, rewriting) in enumerate(engine.map(batches(texts)), start=1):
        done += len(rewriting.texts) if number > workers else 0
        if number == workers:
            began = time.perf_counter()
    return done / (time.perf_counter() - began)


def scaling_of(epsilon: float, count: int) -> dict[str, float]:
    """The rates of one and of two processes, in turns."""
    chosen, texts = ChosenModel(Settings(epsilon=epsilon)), public_texts(count)
    two = choose_engine("local", chosen, workers=2)
    assert isinstance(two, Processes)
    one = Processes(two.make, 1, two.preload, two.order)
    turns = [(wall_rate(one, texts, 1), wall_rate(two, texts, 2)) for _ in range(TURNS)]
    rates = {name: statistics.mean(each) for name, each in zip(("one", "two"), zip(*turns, strict=True), strict=True)}
    return {"epsilon": epsilon, **rates, "ratio": rates["two"] / rates["one"]}


def peak_memory(epsilon: float, count: int, workers: int) -> float:
    """MB of all processes of a run, at most."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "in.txt").write_text("".join(f"{text}\n" for text in public_texts(count)))
        command = [sys.executable, "-m", "dpbart", "rewrite", "in.txt", "out.txt", "-e", str(epsilon)]
        quiet = subprocess.DEVNULL
        run = subprocess.Popen([*command, "--workers", str(workers)], cwd=folder, stdout=quiet, stderr=quiet)
        most = 0.0
        while run.poll() is None:
            most = max(most, sum(map(_shared_out, _family(run.pid))) / 1024)
            time.sleep(0.1)
    assert run.returncode == 0
    return most


def _family(process: int) -> Iterator[int]:
    """A process and all that it has started."""
    yield process
    for file in Path(f"/proc/{process}/task").glob("*/children"):
        try:
            children = file.read_text().split()
        except OSError:  # it has ended
            continue
        for child in children:
            yield from _family(int(child))


def _shared_out(process: int) -> int:
    """The PSS of a process, in kB; 0 if it has ended."""
    try:
        rows = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(row.split()[1]) for row in rows if row.startswith("Pss:")), 0)


def memory_of(epsilon: float, count: int) -> dict[str, float]:
    one, four = (peak_memory(epsilon, count, workers) for workers in WORKERS)
    return {"epsilon": epsilon, "one": one, "four": four, "ratio": four / one}


def about() -> dict[str, Any]:
    """When, of which version and where: no name of the machine, and no path."""
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    info = Path("/proc/cpuinfo")
    names = [line.partition(":")[2].strip() for line in info.read_text().splitlines() if line.startswith("model name")]
    machine = {
        "processor": names[0] if names else platform.machine(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "load": round(os.getloadavg()[0], 1),  # processes that want a core, before we begin; 0 on an idle machine
    }
    now = datetime.now(timezone.utc)
    return {"date": now.date().isoformat(), "commit": commit.stdout.strip(), "machine": machine}


def main() -> None:
    parser = argparse.ArgumentParser(description="How fast texts are rewritten.")
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args()
    began = time.monotonic()
    found: dict[str, Any] = {**about(), "rates": [], "scaling": [], "memory": []}
    parts = (
        ("memory", [partial(memory_of, *each) for each in REMEMBERED.items()]),
        ("scaling", [partial(scaling_of, *each) for each in SCALED.items()]),
        ("rates", [partial(rate_of, *setting, count) for setting, count in RATES.items()]),
    )
    for name, works in parts:
        for work in works:
            found[name].append({key: _short(value) for key, value in work().items()})
            print(name, json.dumps(found[name][-1]), flush=True)
    found["driver"] = round(measure_driver(DRIVER_ROWS)[1])
    print(f"driver {found['driver']:,} rows/s; all in {time.monotonic() - began:.0f} s")
    given.out.write_text(json.dumps(found, indent=1) + "\n")
    held = [each["ratio"] >= LEAST_SCALING for each in found["scaling"]]
    held += [each["ratio"] <= MOST_MEMORY for each in found["memory"]]
    sys.exit(not all(held))


def _short(value: Any) -> Any:
    return float(f"{value:.4g}") if isinstance(value, float) else value


if __name__ == "__main__":
    main()
