"""Turn a checkpoint of the paper's authors into a model directory.

A checkpoint is a `torch.save` dictionary. Its `model_state_dict` holds a BART under the prefix `model.`, with an
output layer that is not tied to the embeddings, or an ADePT (see adept_checkpoint.py). For a pruned BART, the indices
of the pruned columns are in a separate file.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch
from transformers import BartForConditionalGeneration

from dpbart.channels.columns import Columns
from dpbart.errors import BadParameter, NotPrepared
from dpbart.models.bundle import Bundle, plain_facts, save_bundle
from dpbart.models.halves import SplitBart
from dpbart.models.imported.adept_checkpoint import import_adept, is_adept
from dpbart.models.imported.state import State, load_state, read_plain, read_state
from dpbart.models.text import SHORTEST

BART_CLIP = 0.1  # the paper's, by value
ADEPT_CLIP = 5.0  # the paper's, by norm


def import_checkpoint(
    source: Path, *, base: str | None, pruned_file: Path | None, clip: float | None, length: int, out: Path
) -> Bundle:
    """Import the weights in `source` to the model directory `out`.

    A BART takes its config and tokenizer from `base` and its kept columns from `pruned_file`. An ADePT takes its words
    from the folder of `source`. The default `clip` is the paper's for that kind of model.
    """
    if out.exists():
        raise NotPrepared(f"'{out}' exists. Choose another --out, or remove it.")
    state = read_state(source)
    if is_adept(state):
        if base is not None or pruned_file is not None:
            raise BadParameter(f"'{source}' holds an ADePT, which has no base and no pruned columns. Omit them.")
        return import_adept(state, source, clip=ADEPT_CLIP if clip is None else clip, length=length, out=out)
    if base is None:
        raise BadParameter(f"'{source}' holds a BART, which needs its base. Pass --base facebook/bart-base.")
    return _import_bart(
        state, source, Bundle.find(base), pruned_file, clip=BART_CLIP if clip is None else clip, length=length, out=out
    )


def read_pruned_columns(file: Path) -> list[int]:
    """Read the authors' index file: one sorted int64 tensor of the pruned columns."""
    pruned = read_plain(file)
    if not isinstance(pruned, torch.Tensor) or pruned.dim() != 1 or pruned.dtype != torch.int64:
        raise NotPrepared(f"'{file}' must hold one list of int64 column indices, as k_prune_neurons_0.pt does.")
    return [int(column) for column in pruned]


def _import_bart(
    state: State, source: Path, base: Bundle, pruned_file: Path | None, *, clip: float, length: int, out: Path
) -> Bundle:
    base.require_bart("the base of a BART must be a BART. Pass --base facebook/bart-base.")
    config = SplitBart.config(base.folder)
    config.tie_word_embeddings = False
    if not SHORTEST <= length <= config.max_position_embeddings:
        raise BadParameter(f"length must be from {SHORTEST} to {config.max_position_embeddings}, got {length}.")
    facts = plain_facts(base.folder, clip=clip, source=source.name, length=length)
    if pruned_file is not None:
        columns = Columns.without(read_pruned_columns(pruned_file), width=facts.width)
        facts = replace(facts, variant="pr", kept=columns.kept)
    model = BartForConditionalGeneration(config)
    load_state(model, state, source=source, fit="its --base")
    return save_bundle(model, base.folder / "tokenizer.json", facts, out)
