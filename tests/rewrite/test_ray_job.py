"""A whole job on a real local Ray, from the command line: its driver is killed, and the job resumes."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from dpbart.ledger.ledger import Ledger
from dpbart.models.bundle import Bundle
from dpbart.rewrite.durable.folder import SavedTexts, folder_of

ROWS, PEOPLE = 240, 30

# Small parts. Unless it resumes, it waits after the first of them: never too fast to be killed.
COMMAND = """
import sys, time
from dpbart.cli import cli
from dpbart.rewrite.durable import commit
from dpbart.rewrite.durable.folder import SavedTexts

commit.PART_ROWS, real, deadline = 40, SavedTexts.add, time.monotonic() + 600

def add(*args, **kwargs):
    real(*args, **kwargs)
    while "--resume" not in sys.argv and time.monotonic() < deadline:
        time.sleep(0.02)

SavedTexts.add = add
cli(sys.argv[1:])
"""


def start(folder: Path, model: Path, *more: str) -> subprocess.Popen[bytes]:
    args = ["rewrite", folder / "in.csv", folder / "out.csv", "-e", "500", "--delta", "1e-9", "--model", model]
    args += ["--beams", "1", "--batch-size", "4", "--person-column", "who", "--keep-all", "--ledger", folder / "l.db"]
    args += ["--engine", "ray", "--workers", "2", *more]
    # A local Ray, whatever cluster the environment names.
    around = {**os.environ, "OMP_NUM_THREADS": "1", "RAY_ADDRESS": "127.0.0.1:1"}
    command = [sys.executable, "-c", COMMAND, *map(str, args)]
    with (folder / "errors").open("wb") as errors:  # not a pipe: Ray's own processes would keep it open
        return subprocess.Popen(command, stderr=errors, env=around)


def safe_texts(folder: Path) -> list[str]:
    return [text for (text,), _ in SavedTexts(folder_of(folder / "out.csv")).read()]


def test_a_job_on_ray_resumes_after_its_driver_was_killed(tiny: Bundle, tmp_path: Path) -> None:
    people = [f"p{number * 7 % PEOPLE}" for number in range(ROWS)]
    with (tmp_path / "in.csv").open("w", newline="") as out:
        rows = csv.writer(out)
        rows.writerow(["n", "who", "text"])
        rows.writerows((number, person, f"the nurse sold {number}") for number, person in enumerate(people))
    driver = start(tmp_path, tiny.folder)
    while driver.poll() is None and not safe_texts(tmp_path):
        time.sleep(0.1)
    driver.kill()
    driver.wait()
    seen = safe_texts(tmp_path)
    assert 0 < len(seen) < ROWS, (tmp_path / "errors").read_text()

    assert start(tmp_path, tiny.folder, "--resume").wait() == 0, (tmp_path / "errors").read_text()
    said = ("Reads: ", "Writes: ", "Released: ", "To whom: ", "Promise: ", "All texts of one person")
    ours = (*said, "Rewriting: ", f"{ROWS} texts rewritten", "Privacy card: ")
    lines = (tmp_path / "errors").read_text().splitlines()
    assert [line for line in lines if not line.startswith(ours)] == []  # nothing of Ray's own
    with (tmp_path / "out.csv").open(newline="") as out:
        written = list(csv.DictReader(out))
    assert [(row["n"], row["who"]) for row in written] == [(str(n), person) for n, person in enumerate(people)]
    assert [row["text"] for row in written][: len(seen)] == seen  # texts that may have been seen were not rewritten
    ledger = Ledger(tmp_path / "l.db")
    assert {person: ledger.entries(person)[0].texts for person in people} == Counter(people)
    assert (ledger.summary().texts, len(ledger.summary().runs)) == (ROWS, 1)
    card = json.loads((tmp_path / "out.csv.card.json").read_text())
    assert (card["rows"], card["run"]["engine"]) == (ROWS, "ray, on this machine")
    assert (card["person"]["people"], card["person"]["most_texts"]) == (PEOPLE, ROWS // PEOPLE)
