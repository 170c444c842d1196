"""Audit every channel many times: how often is the audited epsilon above the claimed one, and are controls caught?

    python benchmarks/audits.py --runs 10 --seconds 3 --out audits.json

A run's number is the seed that chooses the public sentences among which the pair is searched. The randomness of the
releases comes from the operating system, as always. Prints a table in Markdown; each setting has `--runs` honest runs
and two controls.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from pathlib import Path
from typing import Any

from dpbart.evaluate.data.made_up import make_up
from dpbart.evidence.audit import Audit, audit
from dpbart.models.bundle import Bundle
from dpbart.models.families import family_of
from dpbart.options.evidence import AuditRequest
from dpbart.progress import hidden_progress

SETTINGS: list[dict[str, Any]] = [
    *({"epsilon": epsilon} for epsilon in (0.5, 1.0, 2.0, 4.0, 6.0, 8.0, 10.0, 20.0)),
    *({"epsilon": epsilon, "model": "mini-pr-plus"} for epsilon in (10.0, 100.0, 500.0)),
    {"epsilon": 50.0, "model": "mini-adept"},
    {"epsilon": 50.0, "model": "mini-adept", "mechanism": "laplace"},
    *({"epsilon": epsilon, "release": "shuffled", "people": 200} for epsilon in (2.0, 4.0, 6.0)),
    *({"epsilon": epsilon, "release": "collection"} for epsilon in (0.5, 1.0, 2.0, 4.0)),
]
CONTROLS = 2  # of each setting


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=10, help="of each setting")
    parser.add_argument("--seconds", type=float, default=3.0, help="of each run")
    parser.add_argument("--out", type=Path, default=Path("audits.json"))
    asked = parser.parse_args()
    bundle, done, began = Bundle.find("mini-code"), [], time.monotonic()
    sentences = [line.sentence for line in family_of(bundle).book(bundle)] + [each.text for each in make_up(100)]
    print("| release | model | claimed epsilon | honest runs | above the claim | largest bound | controls caught |")
    print("|---|---|---|---|---|---|---|")
    for setting in SETTINGS:
        honest = [run(setting, seed, sentences, asked.seconds) for seed in range(asked.runs)]
        controls = [run({**setting, "control": True}, seed, sentences, asked.seconds) for seed in range(CONTROLS)]
        done += [found.as_dict() for found in (*honest, *controls)]
        asked.out.write_text(json.dumps(done))
        first = honest[0]
        name = f"{setting.get('model', 'mini-code')} {setting.get('mechanism', '')}".strip()
        above = sum(found.audited > found.claimed.epsilon or found.caught for found in honest)
        print(
            f"| {first.release} | {name} | {first.claimed.epsilon:.4g} | {len(honest)} | {above} | "
            f"{max(found.audited for found in honest):.3f} | {sum(found.caught for found in controls)} of {CONTROLS} |",
            flush=True,
        )
    print(f"\n{asked.runs * len(SETTINGS)} honest runs in {(time.monotonic() - began) / 60:.1f} minutes.")


def run(setting: dict[str, Any], seed: int, sentences: list[str], seconds: float) -> Audit:
    """One audit, with a pair from 12 public sentences that the seed chooses."""
    with tempfile.TemporaryDirectory() as folder, hidden_progress():
        texts = Path(folder) / "texts.txt"
        texts.write_text("\n".join(random.Random(seed).sample(sentences, 12)))
        return audit(AuditRequest(**setting, seconds=seconds, texts=texts))


if __name__ == "__main__":
    main()
