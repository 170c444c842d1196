"""The training loop that every preparation shares: visible, resumable, with a progress bar.

It can be stopped at any moment and goes on where its last saved state was. The order of the texts, and all else
that is drawn, follow from the seed and the step alone, so no text is lost or seen twice by a stop. (That seed is a
training seed: public, and unrelated to the noise that makes a rewriting private.)
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from accelerate import Accelerator

from dpbart.errors import BadParameter
from dpbart.models.bundle import Bundle
from dpbart.progress import progress

STEPS_BETWEEN_SAVES = 300

Ids = npt.NDArray[np.int64]
# From the whole texts of a step (batch, length), its own random numbers and its number, what the objective is given.
MakeBatch = Callable[[Ids, np.random.Generator, int], tuple[torch.Tensor, ...]]


@dataclass(frozen=True)
class Schedule:
    """How long, how much at a time, and how fast."""

    steps: int
    batch_size: int
    learning_rate: float
    warmup: int  # steps
    decay: float  # share of the steps, at the end, over which the learning rate falls to 0
    seed: int

    def __post_init__(self) -> None:
        for name in ("steps", "batch_size", "warmup"):
            if getattr(self, name) < 1:
                raise BadParameter(f"{name} must be at least 1, got {getattr(self, name)}.")
        if not 0 < self.learning_rate < math.inf:
            raise BadParameter(f"learning_rate must be greater than 0 and finite, got {self.learning_rate}.")
        if self.seed < 0:
            raise BadParameter(f"seed must be at least 0, got {self.seed}.")

    def learning_rate_at(self, step: int) -> float:
        """Warm-up, a plateau, and a straight line to 0: `steps` may grow while still on the plateau."""
        falling = max(1.0, self.decay * self.steps)
        return self.learning_rate * min(1.0, (step + 1) / self.warmup, (self.steps - step) / falling)


def train(
    objective: torch.nn.Module,
    corpus: npt.NDArray[np.uint32],
    schedule: Schedule,
    make_batch: MakeBatch,
    *,
    accelerator: Accelerator,
    folder: Path,
    title: str,
) -> float:
    """Train the objective, a module that gives a loss, to the schedule's last step; the smoothed loss comes back.

    State goes into `folder` on the way. With several processes each takes its part of every batch.
    """
    optimizer = torch.optim.AdamW(objective.parameters(), weight_decay=0.01, betas=(0.9, 0.98), fused=True)
    prepared, optimizer = accelerator.prepare(objective, optimizer)
    order = TextOrder(len(corpus), schedule)
    first, smooth = _load_state(accelerator, folder)
    if first > schedule.steps:
        raise BadParameter(f"steps must be at least the {first} already trained in '{folder}', got {schedule.steps}.")
    mine = slice(accelerator.process_index, None, accelerator.num_processes)
    with progress(title, total=schedule.steps, unit="steps", start=first) as bar:
        for step in range(first, schedule.steps):
            whole = corpus[order.rows(step)].astype(np.int64)[mine]  # (batch, length)
            batch = make_batch(whole, np.random.default_rng([schedule.seed, 1, step]), step)
            for group in optimizer.param_groups:
                group["lr"] = schedule.learning_rate_at(step)
            loss = prepared(*(each.to(accelerator.device) for each in batch))
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(prepared.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            smooth = loss.item() if np.isnan(smooth) else 0.98 * smooth + 0.02 * loss.item()
            bar.advance(1, note=f"loss {smooth:.3f}")
            if (step + 1) % STEPS_BETWEEN_SAVES == 0 or step + 1 == schedule.steps:
                _save_state(accelerator, folder, step + 1, smooth)
    accelerator.free_memory()  # or the next training's states would hold this model and optimizer too
    return smooth


def known_by(bundle: Bundle) -> list[object]:
    """What makes a model another one to train further: its weights, its length, its columns."""
    return [bundle.fingerprint, bundle.facts.length, *bundle.columns.kept]


def hold_to_recipe(folder: Path, recipe: dict[str, object]) -> None:
    """Make the folder of a training, or refuse to go on in it with another recipe, model or corpus.

    Only the number of steps may change.
    """
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "recipe.json"
    before = json.loads(file.read_text()) if file.is_file() else recipe
    changed = [name for name in recipe if name != "steps" and before.get(name) != recipe[name]]
    if changed:
        told = [
            f"another {name}"
            if name in ("corpus", "model", "glove")
            else f"{name} {before.get(name)}, not {recipe[name]}"
            for name in changed
        ]
        raise BadParameter(f"'{folder}' was begun with {', '.join(told)}. Use that again, or a new --out.")
    file.write_text(json.dumps(recipe, indent=2))


class TextOrder:
    """Which texts make up step k: a new shuffle each epoch, from the seed and the step alone."""

    def __init__(self, texts: int, schedule: Schedule) -> None:
        self.texts, self.batch_size, self.seed = texts, min(schedule.batch_size, texts), schedule.seed
        self.steps_in_epoch = texts // self.batch_size
        self.epoch, self.shuffle = -1, np.empty(0, dtype=np.int64)

    def rows(self, step: int) -> Ids:
        epoch, place = divmod(step, self.steps_in_epoch)
        if epoch != self.epoch:
            self.epoch, self.shuffle = epoch, np.random.default_rng([self.seed, epoch]).permutation(self.texts)
        return np.sort(self.shuffle[place * self.batch_size :][: self.batch_size])


def _save_state(accelerator: Accelerator, folder: Path, step: int, loss: float) -> None:
    """A state counts once its marker stands, which is written last and holds the loss; older ones go after that."""
    state = folder / f"state-{step}"
    accelerator.save_state(str(state), safe_serialization=False)  # safetensors drops and re-makes tied weights
    if accelerator.is_main_process:
        (state / "complete").write_text(repr(loss))
        for old in folder.glob("state-*"):
            if old != state:
                shutil.rmtree(old)


def _load_state(accelerator: Accelerator, folder: Path) -> tuple[int, float]:
    """The step to go on from and the loss so far: 0 and none without a saved state."""
    steps = [int(marker.parent.name.removeprefix("state-")) for marker in folder.glob("state-*/complete")]
    if not steps:
        return 0, math.nan
    state = folder / f"state-{max(steps)}"
    accelerator.load_state(str(state))
    return max(steps), float((state / "complete").read_text() or "nan")
