"""Runs tests on a broken copy of the repository, in a process that has the heavy libraries loaded already."""

from __future__ import annotations

import importlib
import os
import resource
import shutil
import signal
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.mutants.breaks import Mutant
from benchmarks.mutants.rooms import SLOW

_HEAVY = (
    *("pytest", "hypothesis", "scipy.stats", "mpmath", "pyarrow.parquet", "pandas", "opendp.prelude", "dp_accounting"),
    *("torch", "tokenizers", "uvicorn", "starlette.applications", "openpyxl"),
    *("jsonschema", "cryptography.hazmat.primitives.serialization", "click.testing", "tests.conftest"),
)
_MEMORY = 16 << 30  # bytes of address space: a break may allocate without end
_POLL = 0.05  # seconds
PASSED, FAILED, TIMED_OUT = "survived", "killed", "timed out"


def load_heavy_libraries() -> None:
    """Load what the tests import, once. The package and the tests themselves are loaded again by each child."""
    for name in _HEAVY:
        importlib.import_module(name)
    for name in [name for name in sys.modules if name.split(".")[0] in ("dpbart", "tests")]:
        del sys.modules[name]


@dataclass
class Bench:
    """A copy of the repository where one mutant at a time is tested."""

    folder: Path
    _child: int | None = None
    _mutant: Mutant | None = None
    _deadline: float = 0.0
    _times: dict[str, tuple[int, int]] = field(default_factory=dict)

    @classmethod
    def make(cls, repository: Path, folder: Path) -> Bench:
        ignored = shutil.ignore_patterns("__pycache__", ".hypothesis")
        for name in ("src", "tests", "docs", "benchmarks", "examples"):
            if (repository / name).is_dir():
                shutil.copytree(repository / name, folder / name, ignore=ignored)
        for file in [*repository.glob("*.md"), *repository.glob("*.toml"), *repository.glob("*.cff")]:
            shutil.copy2(file, folder)
        return cls(folder)

    def measure(self, tests: list[str], *, timeout: float) -> tuple[str, float]:
        """Run tests on unbroken code: the result, and the seconds it took."""
        began = time.monotonic()
        self.start(None, tests, timeout=timeout)
        while (result := self.result()) is None:
            time.sleep(_POLL)
        return result, time.monotonic() - began

    def start(self, mutant: Mutant | None, tests: list[str], *, timeout: float) -> None:
        """Break the copy, and begin to run the tests in a child."""
        self._mutant, self._deadline = mutant, time.monotonic() + timeout
        if mutant is not None:
            file = self._file(mutant)
            held = file.stat()
            self._times[mutant.file] = (held.st_atime_ns, held.st_mtime_ns)
            shutil.copy2(file, file.with_suffix(".whole"))
            file.write_text(mutant.source, encoding="utf-8")
        self._child = os.fork()
        if self._child == 0:
            _run_tests(self.folder, tests)

    def result(self) -> str | None:
        """How the tests ended, and mend the copy; None while they run."""
        if self._child is None:
            return None
        ended, status = os.waitpid(self._child, os.WNOHANG)
        late = not ended and time.monotonic() > self._deadline
        if not ended and not late:
            return None
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._child, signal.SIGKILL)
        if late:
            os.waitpid(self._child, 0)
        self._mend()
        return TIMED_OUT if late else PASSED if os.waitstatus_to_exitcode(status) == 0 else FAILED

    def _mend(self) -> None:
        self._child = None
        if self._mutant is not None:
            # With its old time, so that the compiled file is valid again.
            file = self._file(self._mutant)
            os.replace(file.with_suffix(".whole"), file)
            os.utime(file, ns=self._times[self._mutant.file])

    def _file(self, mutant: Mutant) -> Path:
        return self.folder / "src" / "dpbart" / mutant.file


def _run_tests(folder: Path, tests: list[str]) -> None:
    """Run pytest in this child, and end it."""
    code = 70
    try:
        os.setsid()  # a group of its own, which can be killed with all that the tests started
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
        log = os.open(folder / "log.txt", os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.chdir(folder)
        sys.path[:0] = [str(folder / "src"), str(folder)]
        os.environ["PYTHONPATH"] = str(folder / "src")
        import pytest

        arguments = [
            "-x",
            "-q",
            "--no-header",
            "-p",
            "no:cacheprovider",
            "-W",
            "ignore::pytest.PytestAssertRewriteWarning",
            *(f"--deselect={each}" for each in SLOW),
        ]
        code = int(pytest.main([*arguments, *tests]))
    finally:
        sys.stdout.flush()
        os._exit(code)
