"""The paper's authors' own checkpoints, made into a model directory.

A `torch.save` dictionary whose `model_state_dict` holds a BART under the prefix `model.`, its output layer untied
from the embeddings; beside it files of pruned columns. Nothing in it is executed: `weights_only=True`.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch
from transformers import BartConfig, BartForConditionalGeneration

from dpbart.errors import BadParameter, NotPrepared
from dpbart.models.bundle import Bundle, plain_facts, save_bundle
from dpbart.models.pruning import Columns
from dpbart.models.text import SHORTEST

PREFIX = "model."
NAMED = 5  # differing keys that a message names


def import_checkpoint(
    source: Path, *, base: str, pruned_file: Path | None, clip: float, length: int, out: Path
) -> Bundle:
    """Weights from `source`, config and tokenizer from `base`, kept columns from `pruned_file`, into `out`."""
    if out.exists():
        raise NotPrepared(f"'{out}' exists. Choose another --out, or remove it.")
    folder = Bundle.find(base).folder
    config = BartConfig.from_pretrained(folder, tie_word_embeddings=False)
    if not SHORTEST <= length <= config.max_position_embeddings:
        raise BadParameter(f"length must be from {SHORTEST} to {config.max_position_embeddings}, got {length}.")
    facts = plain_facts(folder, clip=clip, source=source.name, length=length)
    if pruned_file is not None:
        columns = Columns.without(read_pruned_columns(pruned_file), width=facts.width)
        facts = replace(facts, variant="pr", kept=columns.kept)
    model = BartForConditionalGeneration(config)
    _load(model, _read_state(source), source)
    return save_bundle(model, folder / "tokenizer.json", facts, out)


def read_pruned_columns(file: Path) -> list[int]:
    """The authors' index file: one sorted int64 tensor of the columns that were pruned."""
    pruned = _read_plain(file)
    if not isinstance(pruned, torch.Tensor) or pruned.dim() != 1 or pruned.dtype != torch.int64:
        raise NotPrepared(f"'{file}' must hold one list of int64 column indices, as k_prune_neurons_0.pt does.")
    return [int(column) for column in pruned]


def _read_state(source: Path) -> dict[str, torch.Tensor]:
    held = _read_plain(source)
    state = held.get("model_state_dict") if isinstance(held, dict) else None
    if state is None:
        raise NotPrepared(f"'{source}' must hold 'model_state_dict', as the authors' checkpoints do; it does not.")
    if not isinstance(state, dict) or not all(isinstance(tensor, torch.Tensor) for tensor in state.values()):
        raise NotPrepared(f"'model_state_dict' in '{source}' must map names to tensors; it does not.")
    return {name.removeprefix(PREFIX): tensor for name, tensor in state.items()}


def _read_plain(file: Path) -> object:
    """Tensors and plain values of a `torch.save` file, from whichever device; nothing in it is executed."""
    try:
        held: object = torch.load(file, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise NotPrepared(f"'{file}' does not exist. Check the path.") from None
    except Exception as error:  # torch.load raises many kinds for a file that is not one of its own
        raise NotPrepared(f"'{file}' is not a file of plain tensors: torch cannot read it safely.") from error
    return held


def _load(model: BartForConditionalGeneration, state: dict[str, torch.Tensor], source: Path) -> None:
    """Every key must be there, none may be left over, and every shape must fit."""
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
        raise NotPrepared(f"'{source}' does not fit its --base: {'; '.join(sorted(problems)[:NAMED])}{more}.")
    model.load_state_dict(state)
