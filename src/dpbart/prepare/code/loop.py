"""The loop that trains each part: visible, saved along the way, and resumed by the same command.

All random choices of a step follow from the seed and the step, so an interruption changes nothing.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

import torch

from dpbart.errors import BadParameter
from dpbart.files import put_in_place
from dpbart.progress import progress

STEPS_BETWEEN_SAVES = 100


class Learner(Protocol):
    """Something that learns step by step."""

    def take_step(self, step: int, steps: int) -> str:
        """Learn from one batch; a short note says how well."""
        ...

    def state(self) -> dict[str, Any]:
        """All that the next step depends on."""
        ...

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a saved state."""
        ...


def run(learner: Learner, *, steps: int, file: Path, title: str) -> None:
    """Train to the last step, from the state in the file if it exists."""
    first = 0
    if file.is_file():
        state = torch.load(file, map_location="cpu", weights_only=True)
        first = state["step"]
        learner.restore(state["learner"])
    if first > steps:
        raise BadParameter(f"steps must be at least the {first} already trained in '{file.parent}', got {steps}.")
    with progress(title, total=steps, unit="steps", start=first) as bar:
        for step in range(first, steps):
            bar.advance(1, note=learner.take_step(step, steps))
            if (step + 1) % STEPS_BETWEEN_SAVES == 0 or step + 1 == steps:
                keep({"step": step + 1, "learner": learner.state()}, file)


def keep(content: dict[str, Any], file: Path) -> None:
    """Write tensors and numbers, all of them or none."""
    partial = file.with_suffix(".partial")  # a fixed name: the next save overwrites what a killed process left
    torch.save(content, partial)
    put_in_place(partial, file)


def round_to_half(network: torch.nn.Module) -> None:
    """What a model file keeps of the weights: what is made next is made for them."""
    with torch.no_grad():
        for weight in network.parameters():
            weight.copy_(weight.half())
