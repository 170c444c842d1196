"""The digest of a private input is keyed with a fresh secret, so that nobody can confirm a guess of the input by it."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Sequence
from pathlib import Path

from dpbart.options.rewriting import Request
from dpbart.rewrite.durable.unfinished import INPUT
from dpbart.testing import fake_rewriter
from tests.rewrite.jobs import run


def digest_and_secret(folder: Path) -> tuple[str, bytes]:
    """Of a run of one small file, as they are on disk while the run goes on."""
    seen: list[tuple[str, bytes]] = []

    def look(texts: Sequence[str]) -> list[str]:
        work = folder / ".out.csv.dpbart"
        held = json.loads((work / "run.json").read_text())
        seen.append((held["settings"][INPUT], (work / "secret").read_bytes()))
        return list(texts)

    run(Request(folder / "in.csv", folder / "out.csv", overwrite=True), fake_rewriter(look))
    return seen[0]


def test_every_run_has_its_own_secret_and_the_digest_depends_on_it(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("text\na secret\n")
    content = (tmp_path / "in.csv").read_bytes()
    (first, key), (second, other) = digest_and_secret(tmp_path), digest_and_secret(tmp_path)
    assert len(key) == len(other) == 32
    assert key != other
    assert len({*key}) > 8  # no constant: 32 random bytes have at most 8 different values once in 10^25
    assert first == hmac.new(key, content, hashlib.sha256).hexdigest()
    assert first != second
    assert hashlib.sha256(content).hexdigest() not in (first, second)
