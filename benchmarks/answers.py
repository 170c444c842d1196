"""Time how fast the command line answers: a mistake within 0.6 s, and the first text within 1 s, on an idle machine.

Each command runs several times in a new process; the fastest run counts. The CPU time is printed too, because on a
busy machine the clock also counts the time that a process waits.

    python benchmarks/answers.py
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RUNS = 3
MISTAKE, FIRST_TEXT = 0.6, 1.0  # seconds, at most
MISTAKES = {
    "missing file": "rewrite missing.csv out.csv -e 10",
    "missing column": "rewrite in.csv out.csv -e 10 --text-column txt",
    "missing epsilon": "rewrite in.csv out.csv",
    "repeated option": "rewrite in.csv out.csv -e 10 -e 20",
    "unknown model": "rewrite in.csv out.csv -e 10 --model maxi",
    "output exists": "rewrite in.csv there.csv -e 10",
    "budget refused": "rewrite in.csv out.csv -e 10 --person-column id --person-budget 5",
}


def measure(command: str, folder: Path, *, stdin: str = "") -> tuple[float, float]:
    """The least wall-clock and the least CPU seconds of a command."""
    times = []
    for _ in range(RUNS):
        began, before = time.perf_counter(), os.times()
        words = [sys.executable, "-m", "dpbart", *command.split()]
        subprocess.run(words, cwd=folder, input=stdin, capture_output=True, text=True, check=False)
        after = os.times()
        used = after.children_user - before.children_user + after.children_system - before.children_system
        times.append((time.perf_counter() - began, used))
    return min(wall for wall, _ in times), min(used for _, used in times)


def report(name: str, figures: tuple[float, float], most: float) -> bool:
    wall, used = figures
    print(f"{name:<16} {wall:5.2f} s  ({used:4.2f} s CPU)  {'within' if wall <= most else 'ABOVE'} {most:g} s")
    return wall <= most


def main() -> int:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "in.csv").write_text("id,text\n1,a child\n2,a boat\n")
        (folder / "there.csv").write_text("mine")
        print(f"load average {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores")
        held = [report(each, measure(command, folder), MISTAKE) for each, command in MISTAKES.items()]
        first = measure("rewrite - - -e 10", folder, stdin="I saw my doctor in Leeds today.\n")
        held.append(report("first text", first, FIRST_TEXT))
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())
