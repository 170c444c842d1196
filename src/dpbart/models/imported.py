"""Turn a checkpoint of the paper's authors into a model directory. No code in it is executed.

A checkpoint is a `torch.save` dictionary of plain tensors. Its `model_state_dict` holds a BART under the prefix
`model.`, with an output layer that is not tied to the embeddings, or an ADePT. The pruned columns of a BART are in a
file of their own, the words of an ADePT in `word2idx.json` or, if that is missing, `vocab.npy`. Ids 0 to 3 are PAD,
UNK, SOS and EOS, under any name; they become our special tokens. Texts are lowercased unless a word has capitals.
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from transformers import BartForConditionalGeneration, PreTrainedModel

from dpbart.channels.columns import Columns
from dpbart.errors import BadParameter, NotPrepared
from dpbart.models.adept import AdeptConfig, AdeptForGeneration
from dpbart.models.bart import SplitBart
from dpbart.models.bundle import Bundle, ModelFacts, plain_facts, save_bundle
from dpbart.models.families import ADEPT
from dpbart.models.text import SHORTEST, word_tokenizer

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


SPECIAL_IDS = {"<pad>": 0, "<unk>": 1, "<s>": 2, "</s>": 3}
EMBEDDINGS = "encoder.embeds.weight"  # (vocabulary, embedding)
RECURRENT = "encoder.rnn.weight_hh_l0"  # (4 hidden, hidden)


def import_adept(state: State, source: Path, *, clip: float, length: int, out: Path) -> Bundle:
    """Make a model directory from the weights and the words next to them."""
    if length < SHORTEST:
        raise BadParameter(f"length must be at least {SHORTEST}, got {length}.")
    for name in (EMBEDDINGS, RECURRENT):
        if name not in state or state[name].dim() != 2:
            raise NotPrepared(f"'{source}' is not one of the authors' ADePTs: it must have {name} with two dimensions.")
    (size, embedding), hidden = state[EMBEDDINGS].shape, state[RECURRENT].shape[1]
    words = {**SPECIAL_IDS, **_read_words(source.parent, size)}
    special = {"bos_token_id": words["<s>"], "pad_token_id": words["<pad>"], "eos_token_id": words["</s>"]}
    model = AdeptForGeneration(AdeptConfig(size, embedding, hidden, length, reversed=False, **special))
    load_state(model, state, source=source, fit=f"an ADePT of {size} words, embedding {embedding}, hidden {hidden}")
    facts = ModelFacts(variant=ADEPT.name, length=length, width=2 * hidden, clip=clip, recipe={"imported": source.name})
    with tempfile.TemporaryDirectory() as folder:
        tokenizer = Path(folder) / "tokenizer.json"
        word_tokenizer(words, lowercase=all(word == word.lower() for word in words)).save(str(tokenizer))
        return save_bundle(model, tokenizer, facts, out)


def _read_words(folder: Path, size: int) -> dict[str, int]:
    """All words except the special ones, and their ids."""
    file = next((each for each in (folder / "word2idx.json", folder / "vocab.npy") if each.is_file()), None)
    if file is None:
        raise NotPrepared(f"'{folder}' must hold word2idx.json or vocab.npy next to the checkpoint; it has neither.")
    held = _read_json(file) if file.suffix == ".json" else _read_array(file)
    words = {word: number for word, number in held.items() if number not in SPECIAL_IDS.values()}
    if sorted(words.values()) != list(range(len(SPECIAL_IDS), size)) or SPECIAL_IDS.keys() & words.keys():
        raise NotPrepared(
            f"'{file}' must give each id from {len(SPECIAL_IDS)} to {size - 1} one word, because the weights are for "
            f"{size} words; it gives {len(words)} words. The two files belong to different models."
        )
    return words


def _read_json(file: Path) -> dict[str, int]:
    try:
        held = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise NotPrepared(f"'{file}' is not JSON.") from error
    if not isinstance(held, dict) or not all(type(number) is int for number in held.values()):
        raise NotPrepared(f"'{file}' must map words to ids; it does not.")
    return held


def _read_array(file: Path) -> dict[str, int]:
    try:
        words = np.load(file, allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:  # an array of objects is a pickle, which could run code
        raise NotPrepared(f"'{file}' cannot be read without unpickling. Put word2idx.json next to it.") from error
    if words.ndim != 1 or words.dtype.kind != "U":
        raise NotPrepared(f"'{file}' must be a list of words, got shape {words.shape} of {words.dtype}.")
    return {str(word): number for number, word in enumerate(words)}


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
    if any(name.startswith("encoder.rnn.") for name in state):
        if base is not None or pruned_file is not None:
            raise BadParameter(f"'{source}' holds an ADePT, which has no base and no pruned columns. Omit them.")
        return import_adept(state, source, clip=ADEPT_CLIP if clip is None else clip, length=length, out=out)
    if base is None:
        raise BadParameter(f"'{source}' holds a BART, which needs its base. Pass --base facebook/bart-base.")
    clip = BART_CLIP if clip is None else clip
    return _import_bart(state, source, Bundle.find(base), pruned_file, clip=clip, length=length, out=out)


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
