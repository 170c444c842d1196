"""The teacher: a public sentence encoder. Our own small one learns to predict its vectors."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer
from transformers import BertModel
from transformers.utils import logging as transformers_logging

from dpbart.errors import NotPrepared
from dpbart.files import digest_of
from dpbart.models.code.tree import Floats
from dpbart.models.config import read_config

_LONGEST = 64  # tokens of a text that are read
_BATCH = 64
_WEIGHTS = ("model.safetensors", "pytorch_model.bin")
_POOLING = "1_Pooling/config.json"
_REMEDY = "Give a directory or hub id such as sentence-transformers/all-MiniLM-L6-v2."


class Teacher:
    """A BERT with mean pooling: texts to unit vectors."""

    def __init__(self, identity: str, model: BertModel, tokenizer: Tokenizer) -> None:
        self.identity = identity  # which teacher exactly, such as "all-MiniLM-L6-v2@0123456789ab"
        self.width = int(model.config.hidden_size)
        self._model, self._tokenizer = model.eval(), tokenizer
        tokenizer.no_padding()
        tokenizer.enable_truncation(min(_LONGEST, int(model.config.max_position_embeddings)))

    @classmethod
    def load(cls, name: str) -> Teacher:
        """A sentence-transformers directory or hub id.

        Raises:
            NotPrepared: It does not exist, is not a BERT with mean pooling, or cannot be read.
        """
        folder = Path(name) if Path(name).is_dir() else _from_hub(name)
        weights = next((folder / each for each in _WEIGHTS if (folder / each).is_file()), None)
        missing = [each for each in ("config.json", "tokenizer.json") if not (folder / each).is_file()]
        if missing or weights is None:
            lacking = ", ".join([*missing, *([] if weights else [" or ".join(_WEIGHTS)])])
            raise NotPrepared(
                f"the teacher must be a complete sentence encoder, but '{name}' lacks {lacking}. {_REMEDY}"
            )
        _check_kind(folder, name)
        read_config(folder)  # refuses one that leads to other weights than those that are hashed
        transformers_logging.disable_progress_bar()
        transformers_logging.set_verbosity_error()  # it would report the unused weights of a pooling layer
        try:
            model = BertModel.from_pretrained(folder, dtype=torch.float32, add_pooling_layer=False)
            tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        except Exception as error:  # both libraries raise whatever the file format's reader raises
            raise NotPrepared(f"the teacher '{name}' cannot be loaded ({type(error).__name__}). {_REMEDY}") from error
        return cls(f"{Path(name).name}@{digest_of(weights)[:12]}", model, tokenizer)

    def require_width(self, least: int) -> None:
        """Refuse a teacher with vectors that are narrower than those of a gist."""
        if self.width < least:
            raise NotPrepared(
                f"the teacher's vectors must have at least {least} entries, got {self.width} from '{self.identity}'. "
                "Choose a wider teacher."
            )

    @torch.inference_mode()
    def vectors(self, texts: Sequence[str]) -> Floats:
        """Unit vectors, (texts, width)."""
        rows = [encoding.ids for encoding in self._tokenizer.encode_batch(list(texts))]
        found = np.zeros((len(rows), self.width), np.float32)
        by_length: dict[int, list[int]] = {}
        for number, row in enumerate(rows):
            by_length.setdefault(len(row), []).append(number)
        for numbers in by_length.values():  # equal lengths need no padding, so no mask
            for first in range(0, len(numbers), _BATCH):
                part = numbers[first : first + _BATCH]
                states = self._model(input_ids=torch.tensor([rows[n] for n in part])).last_hidden_state
                found[part] = torch.nn.functional.normalize(states.mean(1), dim=-1).numpy()
        return found


def _check_kind(folder: Path, name: str) -> None:
    """Refuse another kind of model, or another pooling."""
    try:
        kind = json.loads((folder / "config.json").read_text(encoding="utf-8")).get("model_type")
        pooling_file = folder / _POOLING
        pooling = json.loads(pooling_file.read_text(encoding="utf-8")) if pooling_file.is_file() else {}
    except (ValueError, AttributeError, OSError) as error:
        raise NotPrepared(f"the teacher '{name}' has settings that cannot be read. {_REMEDY}") from error
    if kind != "bert":
        raise NotPrepared(f"the teacher must be a BERT, got model_type {kind!r} in '{name}'. {_REMEDY}")
    if not pooling.get("pooling_mode_mean_tokens", True):
        raise NotPrepared(f"the teacher must use mean pooling, but '{name}' uses another ({_POOLING}). {_REMEDY}")


def _from_hub(name: str) -> Path:
    if name.count("/") != 1 or name.startswith((".", "/")):
        raise NotPrepared(f"no teacher at '{name}'. {_REMEDY}")
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(name, allow_patterns=["config.json", "tokenizer.json", *_WEIGHTS, _POOLING]))
    except Exception as error:  # offline, unknown, gated: the hub's own kinds change between versions
        raise NotPrepared(
            f"the teacher '{name}' is no directory here and could not be fetched from the hub "
            f"({type(error).__name__}). {_REMEDY}"
        ) from error
