"""The settings of a code model: everything that decides it, next to the corpus and the teacher."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

from dpbart.errors import BadParameter


@dataclass(frozen=True)
class WriterPlan:
    """How a writer is trained, and on how much text."""

    steps: int = 2_400  # 50 a minute on one core
    minutes: float | None = None  # in place of steps: as many as fit, by the speed of the first ones
    decay: float = 0.4  # share of the steps, at the end, over which the rate falls
    warmup: int = 100  # steps
    rows: int = 48  # of one step
    row_tokens: int = 64  # in a row, of several texts
    matrix_rate: float = 0.01  # of Muon
    other_rate: float = 0.0012  # of Adam
    documents_share: float = 0.08  # of the texts: a sentence, written from the gist of its document
    lines: int = 200_000  # of each file, at most
    documents: int = 16_000  # at most
    tree_texts: int = 300_000  # that the tree is grown over, at most
    seed: int = 0

    def __post_init__(self) -> None:
        least = {"steps": 0, "lines": 1, "documents": 0, "rows": 1, "row_tokens": 1, "warmup": 1, "seed": 0}
        for name, bound in least.items():
            if getattr(self, name) < bound:
                raise BadParameter(f"{name} must be at least {bound}, got {getattr(self, name)}.")
        if self.minutes is not None and not 0 < self.minutes < math.inf:
            raise BadParameter(f"minutes must be greater than 0 and finite, got {self.minutes}.")

    def held(self) -> dict[str, object]:
        """The settings that a resumed run must share. A time only decides the number of steps, which may change."""
        return {name: value for name, value in asdict(self).items() if name != "minutes"}

    def rate_at(self, step: int, steps: int) -> float:
        """Of the full rate: rises, stays, and falls to 2%."""
        falling = max(1.0, self.decay * steps)
        return max(0.02, min(1.0, (steps - step) / falling)) * min(1.0, (step + 1) / self.warmup)


@dataclass(frozen=True)
class CodeRecipe(WriterPlan):
    """A code model made from scratch."""

    taught: int = 200_000  # lines that the teacher reads, at most
    stretch: float = 2.0  # of the direction from blame to praise
    sentence_steps: int = 6_400  # of the sentence encoder
    pair_steps: int = 250  # of the first guess of the writer's token tables
    vocabulary: int = 12_000  # of a new tokenizer
    length: int = 38  # tokens of a text that can be written
    vector: int = 128  # entries of a gist
    sentence_width: int = 128
    writer_width: int = 256
    writer_layers: int = 3
    depth: int = 14  # bits of the tree that the book is written from, at most; fewer where there is less text
    gist_bits: int = 11  # of the tree that ships, at most

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("steps", "sentence_steps", "pair_steps", "taught", "writer_layers", "depth", "gist_bits"):
            if getattr(self, name) < 1:
                raise BadParameter(f"{name} must be at least 1, got {getattr(self, name)}.")
        if self.sentence_width < self.vector:
            raise BadParameter(f"sentence_width must be at least vector ({self.vector}), got {self.sentence_width}.")
        if not 6 <= self.length <= self.row_tokens - 1:
            raise BadParameter(f"length must be from 6 to {self.row_tokens - 1}, got {self.length}.")
