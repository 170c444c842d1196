"""The training loop of every `prepare` command, and what its learners share.

The loop shows its progress and may be stopped at any time: the next run resumes from the last saved state. The texts
and the random choices of a step follow from the seed, the step and the number of the process, so an interruption
neither skips nor repeats a text. (This seed is public. It has nothing to do with the noise that protects a text.)

Under `accelerate launch` several processes train together. Only the main process writes files.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from accelerate import Accelerator
from torch import Tensor

from dpbart.errors import BadParameter
from dpbart.files import put_in_place, write_whole
from dpbart.models.bundle import Bundle, ModelFacts
from dpbart.options.recipes import Schedule
from dpbart.prepare.corpus import CorpusFile
from dpbart.progress import progress
from dpbart.version import __version__

STEPS_BETWEEN_SAVES = 200

Ids = npt.NDArray[np.int64]
# From the texts of a step (batch, length), its random numbers and its number to the arguments of the objective.
MakeBatch = Callable[[Ids, np.random.Generator, int], tuple[Tensor, ...]]


class Learner(Protocol):
    """What the loop trains."""

    def take_step(self, step: int, steps: int) -> str:
        """Learn from one batch. Return a short note for the progress bar, such as the loss."""
        ...

    def state(self) -> dict[str, Any]:
        """All tensors and numbers that the next step depends on. Each step seeds its own random numbers."""
        ...

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a saved state."""
        ...


def train(learner: Learner, *, steps: int, file: Path, title: str) -> None:
    """Train to the last step, from the state saved in `file` if there is one."""
    first = 0
    if file.is_file():
        state = torch.load(file, map_location="cpu", weights_only=True)
        first = state.pop("step")
        learner.restore(state)
    if first > steps:
        raise BadParameter(f"steps must be at least the {first} already trained in '{file.parent}', got {steps}.")
    writes = Accelerator().is_main_process
    with progress(title, total=steps, unit="steps", start=first) as bar:
        for step in range(first, steps):
            bar.advance(1, note=learner.take_step(step, steps))
            if writes and (step + 1 == steps or (step + 1) % STEPS_BETWEEN_SAVES == 0):
                _save({"step": step + 1, **learner.state()}, file)


def _save(state: dict[str, Any], file: Path) -> None:
    """Replace the saved state, all of it or none."""
    partial = file.with_suffix(".partial")  # a fixed name: the next save overwrites what a killed process left
    torch.save(state, partial)
    put_in_place(partial, file)


class TextLearner:
    """An objective, a module that returns a loss, that learns from an encoded corpus.

    Each process takes its share of every batch.
    """

    def __init__(
        self,
        objective: torch.nn.Module,
        corpus: npt.NDArray[np.uint32],
        schedule: Schedule,
        make_batch: MakeBatch,
        accelerator: Accelerator,
    ) -> None:
        self.objective, self.corpus, self.schedule, self.make_batch = objective, corpus, schedule, make_batch
        self.accelerator, self.order = accelerator, TextOrder(len(corpus), schedule)
        self.loss = math.nan  # smoothed
        processes = accelerator.num_processes
        if self.order.batch_size < processes:  # a process without texts would have no loss
            raise BadParameter(
                f"a batch must hold a text for each of the {processes} processes, got {self.order.batch_size}."
            )
        optimizer = torch.optim.AdamW(objective.parameters(), weight_decay=0.01, betas=(0.9, 0.98), fused=True)
        self.prepared, self.optimizer = accelerator.prepare(objective, optimizer)

    def take_step(self, step: int, steps: int) -> str:
        accelerator, optimizer = self.accelerator, self.optimizer
        process, processes = accelerator.process_index, accelerator.num_processes
        whole = self.corpus[self.order.rows(step)].astype(np.int64)[process::processes]  # (batch, length)
        batch = self.make_batch(whole, random_at(step, seed=self.schedule.seed, process=process), step)
        for group in optimizer.param_groups:
            group["lr"] = self.schedule.learning_rate_at(step)
        loss = self.prepared(*(part.to(accelerator.device) for part in batch))
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(self.prepared.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        self.loss = smoothed(self.loss, loss.item())
        return f"loss {self.loss:.3f}"

    def state(self) -> dict[str, Any]:
        return {"loss": self.loss, "objective": self.objective.state_dict(), "optimizer": self.optimizer.state_dict()}

    def restore(self, state: dict[str, Any]) -> None:
        self.objective.load_state_dict(state["objective"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.loss = state["loss"]


def train_on_corpus(
    objective: torch.nn.Module,
    corpus: npt.NDArray[np.uint32],
    schedule: Schedule,
    make_batch: MakeBatch,
    *,
    accelerator: Accelerator,
    folder: Path,
    title: str,
) -> float:
    """Train an objective to the last step and return its smoothed loss. The state is saved in `folder`."""
    learner = TextLearner(objective, corpus, schedule, make_batch, accelerator)
    train(learner, steps=schedule.steps, file=folder / "state.pt", title=title)
    accelerator.free_memory()  # pruning trains once a round: do not hold the optimizer of every round
    return learner.loss


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


def random_at(step: int, *, seed: int, process: int) -> np.random.Generator:
    """Random numbers for the texts of one process in one step."""
    return np.random.default_rng([seed, 1, step, process])


def smoothed(before: float, value: float) -> float:
    """A running mean for the progress bar. It begins with the first value."""
    return value if math.isnan(before) else 0.98 * before + 0.02 * value


class Muon(torch.optim.Optimizer):
    """Momentum, made orthogonal, for the matrices of a small transformer (Jordan et al. 2024).

    For two-dimensional weights only. A tall matrix, which stacks several, is cut into square pieces first.
    """

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
    """Nearly the orthogonal factor of a matrix that is not tall: five Newton-Schulz iterations."""
    found: Tensor = matrix / (matrix.norm() + 1e-7)
    for _ in range(5):
        square = found @ found.T
        found = 3.4445 * found + (-4.7750 * square + 2.0315 * (square @ square)) @ found
    return found


def round_to_half(network: torch.nn.Module) -> None:
    """Round the weights as a model file stores them. Parts trained later then fit the stored weights."""
    with torch.no_grad():
        for weight in network.parameters():
            weight.copy_(weight.half())


class Minutes:
    """Minutes spent on each part of a model, over all runs of a command. Kept in the training folder."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "minutes.json"
        self.spent: dict[str, float] = json.loads(self._file.read_text()) if self._file.is_file() else {}

    def facts(self) -> dict[str, object]:
        return {"minutes_spent": self.spent}

    @contextmanager
    def of(self, part: str) -> Iterator[None]:
        """Count the time inside the block, also if it is interrupted."""
        began, before = time.monotonic(), self.spent.get(part, 0.0)
        try:
            yield
        finally:
            self.spent[part] = round(before + (time.monotonic() - began) / 60, 2)
            write_whole(self._file, json.dumps(self.spent))


def hold_to_recipe(folder: Path, recipe: dict[str, object], files: Sequence[CorpusFile]) -> None:
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
    if Accelerator().is_main_process:
        write_whole(file, json.dumps(recipe, indent=2))


def known_by(bundle: Bundle) -> list[object]:
    """What identifies a model to train further: its weights, its length and its columns."""
    return [bundle.fingerprint, bundle.facts.length, *bundle.columns.kept]


def trained_further(facts: ModelFacts, files: Sequence[CorpusFile], recipe: dict[str, object]) -> ModelFacts:
    """The facts of a model after more training: corpora and recipe are added, old figures are dropped."""
    added = (new for file in files if (new := file.provenance()) not in facts.corpora)
    recipe = {**facts.recipe, **recipe}
    return replace(facts, corpora=(*facts.corpora, *added), recipe=recipe, figures={}, version=__version__)
