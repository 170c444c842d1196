"""Real cards of every mechanism, made by real runs with a fake model."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from dpbart.channels.code import CodeChannel, CodeSize
from dpbart.options.rewriting import Request
from dpbart.privacy.mechanisms import NonPrivate, Response
from dpbart.privacy.sampling import SystemEntropy
from dpbart.rewrite.rewriter import Rewriter
from dpbart.testing import FakeModel, fake_rewriter
from tests.rewrite.jobs import run

ROWS = "who,text,stars\nanna,a child,1\nben,a song,2\nanna,a boat,2\ncleo,a key,1\n"
LABELS = {"label_column": "stars", "labels": "randomize:1.5", "label_set": ("1", "2")}


class FakeCodes(FakeModel):
    """The fake model with a code in place of a latent."""

    def encode(self, texts: Sequence[str]) -> Any:
        return [(0,)] * len(super().encode(texts))


def code_rewriter(mechanism: Response | NonPrivate, *, worded: bool = False) -> Rewriter:
    size = CodeSize(11, 1, 10, worded=True) if worded else CodeSize(11, 1, 11)
    return Rewriter(FakeCodes(), CodeChannel(size, mechanism), 32, SystemEntropy())


MADE: dict[str, tuple[Callable[[], Rewriter], dict[str, Any]]] = {
    "gaussian": (lambda: fake_rewriter(epsilon=5.0), {"person_column": "who"}),
    "gaussian with labels": (lambda: fake_rewriter(epsilon=5.0), {"person_column": "who", **LABELS}),
    "laplace": (lambda: fake_rewriter(epsilon=7.0, mechanism="laplace"), {"person_column": "who", **LABELS}),
    "response": (lambda: code_rewriter(Response(10.0, 1 << 11)), {"person_column": "who"}),
    "response with labels": (lambda: code_rewriter(Response(10.0, 1 << 11)), LABELS),
    "none": (lambda: fake_rewriter(mechanism="none", epsilon=None), {}),
    "codes as they are": (lambda: code_rewriter(NonPrivate()), {}),
    "replay": (lambda: fake_rewriter(epsilon=5.0, replay_seed=1), {"person_column": "who"}),
}
PRIVATE = [name for name in MADE if name not in ("none", "codes as they are", "replay")]


def write_card(name: str, folder: Path, **more: Any) -> Path:
    """A card and its pages, as a run writes them."""
    make, request = MADE[name]
    folder.mkdir(exist_ok=True)
    (folder / "in.csv").write_text(ROWS)
    task = Request(folder / "in.csv", folder / "out.csv", overwrite=True, **request)
    run(task.changed(**more), make())
    return folder / "out.csv.card.json"


def read(file: Path) -> dict[str, Any]:
    held: dict[str, Any] = json.loads(file.read_text())
    return held
