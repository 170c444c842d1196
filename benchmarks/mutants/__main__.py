"""Break the code on purpose, one small change at a time, and see whether a test notices.

    make mutants                                        every mutant of the rooms in rooms.py
    make mutants ARGS='--sample 150 --seed 1'           some of them, chosen at random
    make mutants ARGS='--under privacy/sampling.py'     those of one file or folder

Each mutant is tested in a copy of the repository, with the tests that guard its file. Results are kept in --results, so
that a run can be stopped and continued. A mutant is tested again when its file changes, and a survivor also when its
tests change. What survives is printed, unless docs/mutants.md explains it.
"""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import click

from benchmarks.mutants.bench import FAILED, PASSED, Bench, load_heavy_libraries
from benchmarks.mutants.breaks import Mutant, breaks
from benchmarks.mutants.rooms import guards, sources

REPOSITORY = Path(__file__).parent.parent.parent
PACKAGE = REPOSITORY / "src" / "dpbart"
EXPLAINED = REPOSITORY / "docs" / "mutants.md"
UNEXPLAINED = 0.03  # the largest share
_SLOWER = 4  # a mutant may take so many times as long as unbroken code, and 20 seconds more


@dataclass
class Results:
    """The results of earlier mutants, in a file of one JSON object per line."""

    file: Path
    lines: dict[str, dict[str, str]]  # by key

    @classmethod
    def read(cls, file: Path) -> Results:
        lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
        return cls(file, {each["key"]: each for each in map(json.loads, lines)})

    def of(self, mutant: Mutant) -> str | None:
        """The result of a mutant; None if it must be tested, or tested again with tests that have changed."""
        line = self.lines.get(_key(mutant), {})
        return None if line.get("result") == PASSED and line["tests"] != _tests(mutant.file) else line.get("result")

    def add(self, mutant: Mutant, result: str) -> None:
        key = _key(mutant)
        self.lines[key] = {"key": key, "result": result, "tests": _tests(mutant.file), "change": mutant.change}
        with self.file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(self.lines[key], ensure_ascii=False) + "\n")


def _key(mutant: Mutant) -> str:
    return hashlib.sha256(f"{mutant.file}\n{mutant.source}".encode()).hexdigest()[:24]


@cache
def _tests(file: str) -> str:
    """A digest of the tests that guard a file."""
    tests = [(REPOSITORY / test).read_bytes() for test in guards(REPOSITORY, file)[1:]]
    return hashlib.sha256(b"".join(tests)).hexdigest()[:12]


def explained() -> set[str]:
    """The changes that docs/mutants.md explains: the lines that begin with a hyphen and a change in code quotes."""
    page = EXPLAINED.read_text(encoding="utf-8") if EXPLAINED.is_file() else ""
    return set(re.findall(r"^- ``? ?(.+? · .+? · .+? → .+?) ?``?$", page, re.MULTILINE))


@click.command(help=__doc__)
@click.option("--sample", type=int, help="Test so many mutants, chosen at random")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the choice")
@click.option("--under", multiple=True, help="Only files whose path begins like this, such as privacy/mechanisms")
@click.option("--workers", type=click.IntRange(min=1), default=1, show_default=True, help="Mutants tested at once")
@click.option("--results", type=click.Path(path_type=Path), default=Path(".mutants.jsonl"), show_default=True)
def main(sample: int | None, seed: int, under: tuple[str, ...], workers: int, results: Path) -> None:
    mutants = [mutant for file in sources(PACKAGE, under=under) for mutant in breaks(PACKAGE, file)]
    # A smaller sample of the same seed is part of a larger one, and code that changes elsewhere moves no mutant.
    chosen = sorted(mutants, key=lambda mutant: hashlib.sha256(f"{seed} {_key(mutant)}".encode()).digest())[:sample]
    kept = Results.read(results)
    todo = [mutant for mutant in chosen if kept.of(mutant) is None]
    click.echo(f"{len(mutants):,} mutants, {len(chosen):,} chosen, {len(todo):,} still to test")
    if todo:
        load_heavy_libraries()
        with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
            benches = [Bench.make(REPOSITORY, Path(folder) / str(number)) for number in range(workers)]
            _test(todo, benches, kept)
    _report(chosen, kept)


def _test(todo: list[Mutant], benches: list[Bench], kept: Results) -> None:
    seconds: dict[str, float] = {}  # of each file of tests, where nothing is broken
    waiting, running, began, done = list(reversed(todo)), dict[int, Mutant](), time.monotonic(), 0
    while waiting or running:
        for number, bench in enumerate(benches):
            if number in running and (result := bench.result()) is not None:
                mutant, done = running.pop(number), done + 1
                kept.add(mutant, result)
                each = (time.monotonic() - began) / done
                left = f"{done}/{len(todo)}, {each:.1f} s each, {each * (len(todo) - done) / 60:.0f} min left"
                click.echo(f"{result:9} {left}  {mutant.change}" if result != FAILED else f"{result:9} {left}")
            if number not in running and waiting:
                mutant = waiting.pop()
                doctests, *tests = guards(REPOSITORY, mutant.file)
                seconds |= {test: _measured(bench, test) for test in tests if test not in seconds}
                limit = _SLOWER * sum(seconds[test] for test in tests) + 20
                bench.start(mutant, [doctests, *tests], timeout=limit)
                running[number] = mutant
        time.sleep(0.05)


def _measured(bench: Bench, test: str) -> float:
    """How long a file of tests takes. It must pass where nothing is broken."""
    result, seconds = bench.measure([test], timeout=900)
    if result != PASSED:
        raise click.ClickException(f"{test} must pass before anything is broken: {result}. See with: pytest {test}")
    return seconds


def _report(chosen: list[Mutant], kept: Results) -> None:
    counted = Counter(kept.of(mutant) for mutant in chosen)
    survivors = [mutant for mutant in chosen if kept.of(mutant) == PASSED]
    reasons = explained()
    left = [mutant for mutant in survivors if mutant.change not in reasons]
    for mutant in left:
        click.echo(f"UNEXPLAINED line {mutant.line}: {mutant.change}")
    click.echo(", ".join(f"{count:,} {result}" for result, count in counted.most_common()))
    click.echo(f"{len(survivors) - len(left)} survivors explained, {len(left)} not: {len(left) / len(chosen):.1%}")
    if len(left) > UNEXPLAINED * len(chosen):
        raise click.ClickException(f"at most {UNEXPLAINED:.0%} may be unexplained. Write tests, or explain them.")


if __name__ == "__main__":
    main()
