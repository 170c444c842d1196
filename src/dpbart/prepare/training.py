"""The training loop that every `prepare` command shares.

It shows its progress and can be stopped at any time: the next run resumes from the last saved state. The order of the
texts and every random choice follow from the seed, the step and the number of the process. An interruption therefore
neither skips nor repeats a text. (This seed is public. It has nothing to do with the noise that protects a text.)

Under `accelerate launch` several processes train together. Only the main process writes files.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from accelerate import Accelerator

from dpbart import __version__
from dpbart.errors import BadParameter
from dpbart.files import put_in_place, write_whole
from dpbart.models.bundle import Bundle, ModelFacts
from dpbart.prepare.corpus import CorpusFile
from dpbart.progress import progress

STEPS_BETWEEN_SAVES = 300

Ids = npt.NDArray[np.int64]
# From the texts of a step (batch, length), its random numbers and its number to the arguments of the objective.
MakeBatch = Callable[[Ids, np.random.Generator, int], tuple[torch.Tensor, ...]]


@dataclass(frozen=True)
class Schedule:
    """How many steps, how many texts in each, and how large the steps are."""

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
        """Warm-up, a plateau, and a linear decay to 0. On the plateau, `steps` may still be raised."""
        falling = max(1.0, self.decay * self.steps)
        return self.learning_rate * min(1.0, (step + 1) / self.warmup, (self.steps - step) / falling)

    def random_at(self, step: int, *, process: int) -> np.random.Generator:
        """Random numbers for the texts of one process, which get noise of their own."""
        return np.random.default_rng([self.seed, 1, step, process])


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
    """Train the objective, a module that returns a loss, to the last step. Return the smoothed loss.

    The state is saved in `folder` along the way. Each process takes its share of every batch.
    """
    optimizer = torch.optim.AdamW(objective.parameters(), weight_decay=0.01, betas=(0.9, 0.98), fused=True)
    prepared, optimizer = accelerator.prepare(objective, optimizer)
    order = TextOrder(len(corpus), schedule)
    first, smooth = _load_state(objective, optimizer, folder)
    if first > schedule.steps:
        raise BadParameter(f"steps must be at least the {first} already trained in '{folder}', got {schedule.steps}.")
    process, processes = accelerator.process_index, accelerator.num_processes
    if order.batch_size < processes:  # a process without texts would have no loss
        raise BadParameter(f"a batch must hold a text for each of the {processes} processes, got {order.batch_size}.")
    with progress(title, total=schedule.steps, unit="steps", start=first) as bar:
        for step in range(first, schedule.steps):
            whole = corpus[order.rows(step)].astype(np.int64)[process::processes]  # (batch, length)
            batch = make_batch(whole, schedule.random_at(step, process=process), step)
            for group in optimizer.param_groups:
                group["lr"] = schedule.learning_rate_at(step)
            loss = prepared(*(each.to(accelerator.device) for each in batch))
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(prepared.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            smooth = loss.item() if np.isnan(smooth) else 0.98 * smooth + 0.02 * loss.item()
            bar.advance(1, note=f"loss {smooth:.3f}")
            if accelerator.is_main_process and (step + 1 == schedule.steps or (step + 1) % STEPS_BETWEEN_SAVES == 0):
                _save_state(objective, optimizer, folder, step=step + 1, loss=smooth)
    accelerator.free_memory()  # pruning trains once a round: do not hold the optimizer of every round
    return smooth


def known_by(bundle: Bundle) -> list[object]:
    """What identifies a model to train further: its weights, its length and its columns."""
    return [bundle.fingerprint, bundle.facts.length, *bundle.columns.kept]


def trained_further(facts: ModelFacts, files: Sequence[CorpusFile], recipe: dict[str, object]) -> ModelFacts:
    """The facts of a model after more training: corpora and recipe are added, old figures are dropped."""
    added = (new for file in files if (new := file.provenance()) not in facts.corpora)
    recipe = {**facts.recipe, **recipe}
    return replace(facts, corpora=(*facts.corpora, *added), recipe=recipe, figures={}, version=__version__)


def hold_to_recipe(
    accelerator: Accelerator, folder: Path, recipe: dict[str, object], files: Sequence[CorpusFile]
) -> None:
    """Create the training folder, or refuse to resume in it with another recipe, model or corpus.

    Only the number of steps may change.
    """
    recipe = {**recipe, "corpus": [file.sha256 for file in files]}
    file = folder / "recipe.json"
    before = json.loads(file.read_text()) if file.is_file() else recipe
    changed = [name for name in recipe if name != "steps" and before.get(name) != recipe[name]]
    if changed:
        differences = [
            f"another {name}"
            if name in ("corpus", "model", "glove")
            else f"{name} {before.get(name)}, not {recipe[name]}"
            for name in changed
        ]
        raise BadParameter(
            f"'{folder}' was started with {', '.join(differences)}. Use the same again, or choose another --out."
        )
    if accelerator.is_main_process:
        write_whole(file, json.dumps(recipe, indent=2))


class TextOrder:
    """Which texts make up each step: a new shuffle every epoch, from the seed and the step alone."""

    def __init__(self, texts: int, schedule: Schedule) -> None:
        self.texts, self.batch_size, self.seed = texts, min(schedule.batch_size, texts), schedule.seed
        self.steps_in_epoch = texts // self.batch_size
        self.epoch, self.shuffle = -1, np.empty(0, dtype=np.int64)

    def rows(self, step: int) -> Ids:
        epoch, place = divmod(step, self.steps_in_epoch)
        if epoch != self.epoch:
            self.epoch, self.shuffle = epoch, np.random.default_rng([self.seed, epoch]).permutation(self.texts)
        return np.sort(self.shuffle[place * self.batch_size :][: self.batch_size])


def _save_state(
    objective: torch.nn.Module, optimizer: torch.optim.Optimizer, folder: Path, *, step: int, loss: float
) -> None:
    """Replace the saved state, all of it or none. No random state is needed: each step seeds its own."""
    partial = folder / "state.partial"  # a fixed name: the next save overwrites what a killed process left
    weights, moments = objective.state_dict(), optimizer.state_dict()
    torch.save({"step": step, "loss": loss, "objective": weights, "optimizer": moments}, partial)
    put_in_place(partial, folder / "state.pt")


def _load_state(objective: torch.nn.Module, optimizer: torch.optim.Optimizer, folder: Path) -> tuple[int, float]:
    """The step to resume from and the loss so far. Without a saved state: 0 and NaN."""
    file = folder / "state.pt"
    if not file.is_file():
        return 0, math.nan
    state = torch.load(file, map_location="cpu", weights_only=True)
    objective.load_state_dict(state["objective"])
    optimizer.load_state_dict(state["optimizer"])
    return state["step"], state["loss"]
