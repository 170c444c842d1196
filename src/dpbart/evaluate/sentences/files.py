"""The files of a sentence encoder: what they say about it, without loading any weights."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpbart import DEFAULT_MODEL
from dpbart.errors import BadParameter, NotPrepared
from dpbart.files import digest_of
from dpbart.models.bundle import BUNDLED, FACTS_FILE, Bundle, bundled_names
from dpbart.models.code import CODE
from dpbart.models.config import read_config

EXAMPLE = "sentence-transformers/all-MiniLM-L6-v2"
POOLINGS = ("mean", "cls")
_MODULES = ("Transformer", "Pooling", "Normalize")  # of sentence-transformers
# All that a BERT-like model may consist of. Without weights in other formats, which can run code when they are loaded.
_FROM_HUB = ("*.json", "model.safetensors", "*.txt", "*.model")


@dataclass(frozen=True)
class SentenceEncoderFiles:
    """A sentence encoder on this machine.

    Attributes:
        folder: its directory, which may be in the cache of the hub.
        weights: the first 12 digits of the SHA-256 of its weights.
        others: the same for its other files: config, tokenizer and modules.
        pooling: "mean" of the last hidden states, or "cls", the first of them.
        longest: tokens of a text that it reads, if it says so. The rest of a text is cut off.
        inside_code: whether it is the one inside a code model. It flatters the texts of that model.
    """

    folder: Path
    weights: str
    others: str
    pooling: str = "mean"
    longest: int | None = None
    inside_code: bool = False

    @classmethod
    def find(cls, name: str) -> SentenceEncoderFiles:
        """A bundled model, a directory, or a hub id.

        Raises:
            NotPrepared: If there is no such encoder, or one that cannot be used here.
        """
        folder = _folder_of(name)
        missing = [part for part in ("config.json", "model.safetensors") if not (folder / part).is_file()]
        if missing:
            raise NotPrepared(f"'{name}' is not a sentence encoder: {', '.join(missing)} missing. Try '{EXAMPLE}'.")
        inside_code = read_config(folder).get("model_type") == CODE.name
        weights, others = digest_of(folder / "model.safetensors")[:12], _digest_of_others(folder)
        if inside_code:
            return cls(folder, weights, others, inside_code=True)
        longest = _read(folder / "sentence_bert_config.json").get("max_seq_length")
        return cls(folder, weights, others, _pooling(folder), None if longest is None else int(longest))

    @classmethod
    def inside_default(cls) -> SentenceEncoderFiles:
        """The one inside the code model that ships with the package.

        Raises:
            BadParameter: If no code model ships with it.
        """
        names = sorted(bundled_names(), key=lambda name: name != DEFAULT_MODEL)  # the default first
        code = [name for name in names if Bundle.find(name).family is CODE]
        if not code:
            raise BadParameter(f"a sentence encoder must be named. Pass --encoder DIR or a hub id such as {EXAMPLE}.")
        return cls.find(code[0])

    @property
    def recipe(self) -> dict[str, object]:
        """Everything that its vectors depend on. Not its folder: a copy gives the same vectors."""
        return {"weights": self.weights, "files": self.others, "pooling": self.pooling, "longest": self.longest}


def _digest_of_others(folder: Path) -> str:
    """Of all files that may be loaded besides the weights, with their names; without our own facts about a model."""
    digest = hashlib.sha256()
    for file in sorted({each for pattern in _FROM_HUB for each in folder.glob(pattern)}):
        if file.name not in ("model.safetensors", FACTS_FILE) and file.is_file():
            digest.update(f"{file.name} {file.stat().st_size}\n".encode())
            digest_of(file, digest)
    return digest.hexdigest()[:12]


def _folder_of(name: str) -> Path:
    if name in bundled_names():
        return BUNDLED / name
    if Path(name).is_dir():
        return Path(name)
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(name, allow_patterns=list(_FROM_HUB)))
    except Exception as error:  # offline, unknown, not a hub id: each has its own type
        raise NotPrepared(
            f"the sentence encoder '{name}' is not a directory, and could not be fetched from the hub "
            f"({type(error).__name__}). Pass a directory or, with a network, a hub id such as {EXAMPLE}."
        ) from error


def _pooling(folder: Path) -> str:
    """As modules.json and the pooling module's own file say; the mean if there are none."""
    modules = _read(folder / "modules.json", default=[])
    try:
        kinds = {str(each["type"]).split(".")[-1]: str(each["path"]) for each in modules}
    except (TypeError, KeyError) as error:
        raise NotPrepared(f"'{folder / 'modules.json'}' cannot be read. Download the encoder again.") from error
    unknown = [kind for kind in kinds if kind not in _MODULES]
    if unknown:
        raise NotPrepared(f"'{folder}' has modules that are not known here: {', '.join(unknown)}. Try '{EXAMPLE}'.")
    held = _read(folder / kinds.get("Pooling", "1_Pooling") / "config.json")
    flags = {"cls": "pooling_mode_cls_token", "mean": "pooling_mode_mean_tokens"}
    chosen = [key for key, value in held.items() if key.startswith("pooling_mode_") and value is True]
    named = [name for name, flag in flags.items() if flag in chosen] or [str(held.get("pooling_mode", "mean"))]
    if len(chosen) > 1 or named[0] not in POOLINGS or (chosen and chosen[0] not in flags.values()):
        raise NotPrepared(
            f"the pooling of '{folder}' must be one of {', '.join(POOLINGS)}, "
            f"got {', '.join(chosen) or named[0]}. Try '{EXAMPLE}'."
        )
    return named[0]


def _read(file: Path, default: Any = None) -> Any:
    """What a JSON file holds; the default, or nothing, if there is no such file."""
    if not file.is_file():
        return {} if default is None else default
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise NotPrepared(f"'{file}' is not JSON. Download the encoder again.") from error
