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
from dpbart.models.pruning import Columns, read_pruned_columns
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


def _read_state(source: Path) -> dict[str, torch.Tensor]:
    try:
        held = torch.load(source, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise NotPrepared(f"'{source}' does not exist. Check the path.") from None
    except Exception as error:  # torch.load raises many kinds for a file that is not one of its own
        raise NotPrepared(f"'{source}' is not a checkpoint of plain tensors: torch cannot read it safely.") from error
    if not isinstance(held, dict) or "model_state_dict" not in held:
        raise NotPrepared(f"'{source}' must hold 'model_state_dict', as the authors' checkpoints do; it does not.")
    state = held["model_state_dict"]
    if not isinstance(state, dict) or not all(isinstance(tensor, torch.Tensor) for tensor in state.values()):
        raise NotPrepared(f"'model_state_dict' in '{source}' must map names to tensors; it does not.")
    return {name.removeprefix(PREFIX): tensor for name, tensor in state.items()}


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
