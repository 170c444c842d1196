"""Where a server keeps things."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Place:
    """Where the server keeps things.

    Attributes:
        state: a folder for jobs and answers, for its owner alone. One server uses it at a time.
        ledger: what each person has spent; None if nobody is counted.
        models: model directories that are offered besides the bundled models.
        sign_key: an ed25519 private key that signs each card; None if cards are not signed.
    """

    state: Path
    ledger: Path | None = None
    models: Sequence[str] = ()
    sign_key: Path | None = None
