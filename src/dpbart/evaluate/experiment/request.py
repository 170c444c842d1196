"""What a user asks for: a plan, its data, a folder for the results, and where to rewrite."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dpbart.evaluate.experiment.plan import Plan


@dataclass(frozen=True)
class ExperimentRequest:
    """`engine`, `workers` and `address` mean the same as in `dpbart rewrite`."""

    plan: Plan
    data_folder: Path
    out: Path
    allow_different: bool = False
    engine: str = "local"
    workers: int | None = None
    address: str | None = None
