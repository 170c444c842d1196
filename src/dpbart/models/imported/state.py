"""Read the files of the paper's authors: `torch.save` dictionaries of plain tensors. No code in them is executed."""

from __future__ import annotations

from pathlib import Path

import torch
from transformers import PreTrainedModel

from dpbart.errors import NotPrepared

State = dict[str, torch.Tensor]

PREFIX = "model."
NAMED = 5  # a message names at most this many differing keys


def read_state(source: Path) -> State:
    held = read_plain(source)
    state = held.get("model_state_dict") if isinstance(held, dict) else None
    if state is None:
        raise NotPrepared(f"'{source}' must hold 'model_state_dict', as the authors' checkpoints do; it does not.")
    if not isinstance(state, dict) or not all(isinstance(tensor, torch.Tensor) for tensor in state.values()):
        raise NotPrepared(f"'model_state_dict' in '{source}' must map names to tensors; it does not.")
    return {name.removeprefix(PREFIX): tensor for name, tensor in state.items()}


def read_plain(file: Path) -> object:
    """The tensors and plain values in a `torch.save` file, loaded to the CPU. No code in it is executed."""
    try:
        held: object = torch.load(file, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise NotPrepared(f"'{file}' does not exist. Check the path.") from None
    except Exception as error:  # torch.load raises many types for a file that it did not write
        raise NotPrepared(f"'{file}' is not a file of plain tensors: torch cannot read it safely.") from error
    return held


def load_state(model: PreTrainedModel, state: State, *, source: Path, fit: str) -> None:
    """Load the weights. No key may be missing or unknown, and every shape must fit."""
    wanted = model.state_dict()
    problems = [f"{name} is missing" for name in wanted.keys() - state.keys()]
    problems += [f"{name} is unknown" for name in state.keys() - wanted.keys()]
    problems += [
        f"{name} has shape {tuple(state[name].shape)}, not {tuple(wanted[name].shape)}"
        for name in wanted.keys() & state.keys()
        if state[name].shape != wanted[name].shape
    ]
    if problems:
        more = f" and {len(problems) - NAMED} more" if len(problems) > NAMED else ""
        raise NotPrepared(f"'{source}' does not fit {fit}: {'; '.join(sorted(problems)[:NAMED])}{more}.")
    model.load_state_dict(state)
