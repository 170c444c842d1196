"""The authors' ADePT checkpoints: a file of weights, with the names we use too, and a file of words next to it.

The words come from `word2idx.json` or, if it is missing, from `vocab.npy`, which is never unpickled. `embeds.npy`, the
vectors before training, is not needed: the weights include the trained vectors. Ids 0 to 3 are PAD, UNK, SOS and EOS,
under any name. They become our special tokens and keep their ids. Texts are split into words as in models/words.py,
and lowercased unless the vocabulary has capitals.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import numpy as np

from dpbart.errors import BadParameter, NotPrepared
from dpbart.models.adept import ADEPT
from dpbart.models.adept_network import AdeptConfig, AdeptForGeneration
from dpbart.models.bundle import Bundle, ModelFacts, save_bundle
from dpbart.models.imported.state import State, load_state
from dpbart.models.text import SHORTEST
from dpbart.models.words import word_tokenizer

SPECIAL_IDS = {"<pad>": 0, "<unk>": 1, "<s>": 2, "</s>": 3}
EMBEDDINGS = "encoder.embeds.weight"  # (vocabulary, embedding)
RECURRENT = "encoder.rnn.weight_hh_l0"  # (4 hidden, hidden)


def is_adept(state: State) -> bool:
    return any(name.startswith("encoder.rnn.") for name in state)


def import_adept(state: State, source: Path, *, clip: float, length: int, out: Path) -> Bundle:
    """Make a model directory from the weights and the words next to them."""
    if length < SHORTEST:
        raise BadParameter(f"length must be at least {SHORTEST}, got {length}.")
    for name in (EMBEDDINGS, RECURRENT):
        if name not in state or state[name].dim() != 2:
            raise NotPrepared(f"'{source}' is not one of the authors' ADePTs: it must have {name} with two dimensions.")
    (size, embedding), hidden = state[EMBEDDINGS].shape, state[RECURRENT].shape[1]
    words = {**SPECIAL_IDS, **_read_words(source.parent, size)}
    config = AdeptConfig(
        vocab_size=size,
        embedding=embedding,
        hidden=hidden,
        max_position_embeddings=length,
        reversed=False,
        bos_token_id=SPECIAL_IDS["<s>"],
        pad_token_id=SPECIAL_IDS["<pad>"],
        eos_token_id=SPECIAL_IDS["</s>"],
    )
    model = AdeptForGeneration(config)
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
