"""The engine that rewrites batches in this process, one after the other."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dpbart.rewrite.engines.engine import Answers, Make, Some


@dataclass(frozen=True)
class Inline:
    """Rewrites batches in this process."""

    make: Make

    @property
    def name(self) -> str:
        return "local, in one process"

    def map(self, batches: Iterable[Some]) -> Answers[Some]:
        rewriter = self.make()
        for batch in batches:
            yield batch, rewriter.rewrite(batch.texts(), row=batch.first)
