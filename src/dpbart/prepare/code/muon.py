"""Muon (Jordan et al. 2024): momentum, made orthogonal, for the matrices of a small transformer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

_STEPS = 5


class Muon(torch.optim.Optimizer):
    """For two-dimensional weights only; a tall matrix (several in one) is cut into square pieces first."""

    def __init__(self, weights: Iterable[Tensor], *, rate: float, momentum: float = 0.95, shrink: float = 0.01) -> None:
        super().__init__(weights, {"lr": rate, "momentum": momentum, "shrink": shrink})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is None:
                    continue
                kept = self.state[weight]
                if "momentum" not in kept:
                    kept["momentum"] = torch.zeros_like(weight)
                kept["momentum"].lerp_(weight.grad, 1 - group["momentum"])
                ahead = weight.grad.lerp(kept["momentum"], group["momentum"])
                pieces = ahead.split(ahead.shape[1]) if ahead.shape[0] > ahead.shape[1] else (ahead,)
                weight.mul_(1 - group["lr"] * group["shrink"])
                weight.add_(torch.cat([_orthogonal(piece) for piece in pieces]), alpha=-group["lr"])


def _orthogonal(matrix: Tensor) -> Tensor:
    """Nearly the orthogonal factor of a matrix that is not tall, by Newton and Schulz's iteration."""
    found: Tensor = matrix / (matrix.norm() + 1e-7)
    for _ in range(_STEPS):
        square = found @ found.T
        found = 3.4445 * found + (-4.7750 * square + 2.0315 * (square @ square)) @ found
    return found
