"""Sentence encoders: texts to unit vectors, where similar meanings have a large cosine.

They judge rewritten texts, teach new models, and read for models whose book was made with them. Any
sentence-transformers directory or hub id with mean or cls pooling will do. See also models/vectors.py.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from dpbart.errors import BadParameter, NotPrepared, require_extra
from dpbart.files import digest_of
from dpbart.models.bundle import BUNDLED, ENCODER_FILES, FACTS_FILE, Bundle, bundled_names
from dpbart.models.code.settings import MODEL_TYPE
from dpbart.models.hub import find_folder, foreign_errors, read_config, read_json
from dpbart.version import DEFAULT_MODEL

if TYPE_CHECKING:
    import torch
    from tokenizers import Tokenizer
    from transformers import PreTrainedConfig, PreTrainedTokenizerFast

Floats = npt.NDArray[np.float32]
Ids = list[list[int]]

EXAMPLE = "sentence-transformers/all-MiniLM-L6-v2"
POOLINGS = ("mean", "cls")
STATIC = "static"  # the pooling of an encoder that has no layers: the mean of token vectors (models/static.py)
BATCH_SIZE = 64
_REMEDY = f"Give a directory or, with a network, a hub id such as {EXAMPLE}."
_MODULES = ("Transformer", "Pooling", "Normalize")  # of sentence-transformers
_LONGEST = 512  # tokens, where neither the encoder nor its tokenizer has a limit


@dataclass(frozen=True)
class SentenceEncoderFiles:
    """The files of a sentence encoder on this machine. No weights are loaded.

    Attributes:
        folder: its directory, which may be in the cache of the hub.
        weights: the first 12 digits of the SHA-256 of its weights.
        others: the same for its other files: config, tokenizer and modules.
        pooling: "mean" of the last hidden states, "cls", the first of them, or "static", the mean of token vectors.
        longest: the most tokens it reads, if it says so. The rest of a text is cut off.
        inside_code: whether it is the one inside a code model. It flatters the texts of that model.
        name: the last part of the name it was found by.
    """

    folder: Path
    weights: str
    others: str
    pooling: str = "mean"
    longest: int | None = None
    inside_code: bool = False
    name: str = field(default="", compare=False)

    @classmethod
    def find(cls, name: str) -> SentenceEncoderFiles:
        """A bundled model, a directory, or a hub id.

        Raises:
            NotPrepared: There is no such encoder, or it cannot be used here.
        """
        folder = find_encoder(name, what="sentence encoder", remedy=_REMEDY)
        kind = read_config(folder).get("model_type")
        inside_code = kind == MODEL_TYPE
        weights, others = digest_of(folder / "model.safetensors")[:12], _digest_of_others(folder)
        short = Path(name).name
        if inside_code:
            return cls(folder, weights, others, inside_code=True, name=short)
        if kind == "model2vec":
            return cls(folder, weights, others, STATIC, name=short)
        longest = _read(folder / "sentence_bert_config.json", {}).get("max_seq_length")
        return cls(folder, weights, others, _pooling(folder), None if longest is None else int(longest), name=short)

    @classmethod
    def inside_default(cls) -> SentenceEncoderFiles:
        """The one inside the code model that ships with the package.

        Raises:
            BadParameter: No code model ships with it.
        """
        names = sorted(bundled_names(), key=lambda name: name != DEFAULT_MODEL)  # the default first
        code = [name for name in names if Bundle.find(name).kind == MODEL_TYPE]
        if not code:
            raise BadParameter(f"a sentence encoder must be named. Pass --encoder DIR or a hub id such as {EXAMPLE}.")
        return cls.find(code[0])

    @property
    def identity(self) -> str:
        """Which encoder exactly, such as "all-MiniLM-L6-v2@0123456789ab"."""
        return f"{self.name}@{self.weights}"

    @property
    def parts(self) -> list[Path]:
        """The files that it needs, below its folder: only kinds that cannot run code when they are loaded."""
        found = {each for pattern in ENCODER_FILES for each in self.folder.glob(pattern) if each.name != FACTS_FILE}
        found |= set(self.folder.glob("*_Pooling/config.json"))
        return sorted(each.relative_to(self.folder) for each in found if each.is_file())

    @property
    def recipe(self) -> dict[str, object]:
        """Everything that its vectors depend on. Not its folder: a copy gives the same vectors."""
        return {"weights": self.weights, "files": self.others, "pooling": self.pooling, "longest": self.longest}


def find_encoder(name: str, *, what: str, remedy: str) -> Path:
    """The directory of an encoder: a bundled model, a directory, or a hub id.

    Raises:
        NotPrepared: There is none, or it lacks its config or its weights as safetensors.
    """
    folder = (
        BUNDLED / name if name in bundled_names() else find_folder(name, files=ENCODER_FILES, what=what, remedy=remedy)
    )
    missing = [part for part in ("config.json", "model.safetensors") if not (folder / part).is_file()]
    if missing:
        raise NotPrepared(f"'{name}' is not a complete {what}: {', '.join(missing)} missing. {remedy}")
    return folder


def weights_of(name: str) -> str:
    """Identifies an encoder's weights: 12 digits of their SHA-256 if they are on this machine, otherwise the name."""
    file = (BUNDLED / name if name in bundled_names() else Path(name)) / "model.safetensors"
    return digest_of(file)[:12] if file.is_file() else name


def _digest_of_others(folder: Path) -> str:
    """The names, sizes and contents of all files but the weights and our own facts about a model."""
    digest = hashlib.sha256()
    for file in sorted({each for pattern in ENCODER_FILES for each in folder.glob(pattern)}):
        if file.name not in ("model.safetensors", FACTS_FILE) and file.is_file():
            digest.update(f"{file.name} {file.stat().st_size}\n".encode())
            digest_of(file, digest)
    return digest.hexdigest()[:12]


def _pooling(folder: Path) -> str:
    """As modules.json and the pooling module's own file say; the mean if there are none."""
    modules = _read(folder / "modules.json", [])
    try:
        kinds = {str(each["type"]).split(".")[-1]: str(each["path"]) for each in modules}
    except (TypeError, KeyError) as error:
        raise NotPrepared(f"'{folder / 'modules.json'}' cannot be read. Download the encoder again.") from error
    unknown = [kind for kind in kinds if kind not in _MODULES]
    if unknown:
        raise NotPrepared(f"'{folder}' has modules that are not known here: {', '.join(unknown)}. Try '{EXAMPLE}'.")
    settings = _read(folder / kinds.get("Pooling", "1_Pooling") / "config.json", {})
    flags = {key: value is True for key, value in settings.items() if key.startswith("pooling_mode_")}
    if flags:  # the older form: one flag for each mode
        names = {"pooling_mode_cls_token": "cls", "pooling_mode_mean_tokens": "mean"}
        chosen = [str(names.get(key, key)) for key, value in flags.items() if value]
    else:
        chosen = [str(settings.get("pooling_mode", "mean"))]
    if len(chosen) != 1 or chosen[0] not in POOLINGS:
        raise NotPrepared(
            f"the pooling of '{folder}' must be one of {', '.join(POOLINGS)}, "
            f"got {', '.join(chosen) or 'none'}. Try '{EXAMPLE}'."
        )
    return chosen[0]


def _read(file: Path, default: Any) -> Any:
    """The content of a JSON file; the default if there is no such file."""
    return read_json(file) if file.is_file() else default


class BatchTokenizer:
    """Texts to ids of at most `length` tokens, and ids to padded batches."""

    def __init__(self, tokenizer: PreTrainedTokenizerFast, length: int) -> None:
        self.tokenizer, self.length = tokenizer, length

    def read(self, texts: Sequence[str]) -> Ids:
        clean = [text.encode("utf-8", "replace").decode("utf-8") for text in texts]
        ids: Ids = self.tokenizer(clean, truncation=True, max_length=self.length)["input_ids"] if clean else []
        return ids

    def pad(self, rows: Ids, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
        """Ids and mask, both (batch, longest row)."""
        import torch

        longest = max(len(row) for row in rows)
        fill = self.tokenizer.pad_token_id
        ids = torch.tensor([row + [fill] * (longest - len(row)) for row in rows], device=device)
        mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows], device=device)
        return ids, mask


@dataclass(frozen=True)
class PretrainedEncoder:
    """An encoder of the transformers library; of an encoder-decoder, the encoder alone."""

    model: torch.nn.Module
    tokenizer: PreTrainedTokenizerFast
    width: int  # of its hidden states
    window: int  # most tokens that it reads at once


def load_pretrained(folder: Path, *, what: str, remedy: str) -> PretrainedEncoder:
    """Load an encoder from its directory, in single precision. Nothing is fetched, and no code is run.

    Raises:
        MissingExtra: The transformers library is not installed.
        NotPrepared: It cannot be loaded.
    """
    require_extra("bart", f"the {what} in '{folder}' needs", "torch", "transformers")
    import torch
    from transformers import AutoConfig, AutoModel
    from transformers.utils import logging as transformers_logging

    read_config(folder)  # refuses one that leads to other weights than those that are hashed
    transformers_logging.disable_progress_bar()
    transformers_logging.set_verbosity_error()  # it would report weights that an encoder does not use
    with foreign_errors(f"the {what} in '{folder}' could not be loaded", remedy=remedy):
        config = AutoConfig.from_pretrained(folder, local_files_only=True)
        model = AutoModel.from_pretrained(folder, dtype=torch.float32, local_files_only=True, use_safetensors=True)
        tokenizer = _tokenizer(folder, config)
    window = min(int(getattr(config, "max_position_embeddings", _LONGEST)), int(tokenizer.model_max_length))
    encoder = model.get_encoder() if config.is_encoder_decoder else model
    return PretrainedEncoder(encoder.eval(), tokenizer, int(config.hidden_size), window)


def _tokenizer(folder: Path, config: PreTrainedConfig) -> PreTrainedTokenizerFast:
    """The tokenizer of a model directory. Our own directories have no tokenizer_config.json."""
    from tokenizers import Tokenizer
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    file = folder / "tokenizer.json"
    if not file.is_file() or (folder / "tokenizer_config.json").is_file():
        return AutoTokenizer.from_pretrained(folder, local_files_only=True)
    tokenizer = Tokenizer.from_file(str(file))
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token=tokenizer.id_to_token(config.pad_token_id or 0)
    )


class SentenceVectors(Protocol):
    """A sentence encoder that is loaded."""

    @property
    def identity(self) -> str:
        """Which encoder exactly, such as "all-MiniLM-L6-v2@0123456789ab"."""

    @property
    def width(self) -> int:
        """Entries of a vector."""

    def vectors(self, texts: Sequence[str]) -> Floats:
        """Unit vectors, (texts, width)."""


@dataclass(frozen=True)
class TransformerVectors:
    """A BERT-like model: the mean of its last hidden states, or the first of them."""

    identity: str
    model: torch.nn.Module
    reader: BatchTokenizer
    pooling: str
    width: int

    @property
    def tokenizer(self) -> Tokenizer:
        """Its tokenizer, without the library around it."""
        tokenizer: Tokenizer = self.reader.tokenizer.backend_tokenizer
        return tokenizer

    def vectors(self, texts: Sequence[str]) -> Floats:
        import torch

        rows = self.reader.read(texts)
        order = sorted(range(len(rows)), key=lambda row: len(rows[row]))  # similar lengths together: less padding
        device = next(self.model.parameters()).device
        vectors = np.zeros((len(rows), self.width), np.float32)
        for start in range(0, len(rows), BATCH_SIZE):
            part = order[start : start + BATCH_SIZE]
            with torch.inference_mode():
                ids, mask = self.reader.pad([rows[row] for row in part], device)  # both (batch, longest row)
                hidden = self.model(input_ids=ids, attention_mask=mask).last_hidden_state  # (batch, longest row, width)
                vectors[part] = torch.nn.functional.normalize(self._pool(hidden, mask), dim=-1).cpu().numpy()
        return vectors

    def fixed(self, texts: Sequence[str], *, length: int) -> Floats:
        """The same in one batch whose shape does not depend on the texts: (texts, width)."""
        import torch

        length = min(length, self.reader.length)
        rows = [row[:length] for row in self.reader.read(texts)]
        device, fill = next(self.model.parameters()).device, self.reader.tokenizer.pad_token_id
        ids = torch.tensor([row + [fill] * (length - len(row)) for row in rows], device=device)
        mask = torch.tensor([[1] * len(row) + [0] * (length - len(row)) for row in rows], device=device)
        with torch.inference_mode():
            hidden = self.model(input_ids=ids, attention_mask=mask).last_hidden_state
            pooled = torch.nn.functional.normalize(self._pool(hidden, mask), dim=-1)
        vectors: Floats = pooled.cpu().numpy()
        return vectors

    def _pool(self, hidden: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """(batch, width)"""
        if self.pooling == "cls":
            return hidden[:, 0]
        weight = mask.unsqueeze(-1).to(hidden.dtype)  # (batch, longest row, 1)
        return (hidden * weight).sum(1) / weight.sum(1).clamp(min=1)


def load_transformer(files: SentenceEncoderFiles, *, longest: int | None = None) -> TransformerVectors:
    """Load an encoder of the transformers library from its directory; nothing is fetched.

    Args:
        files: from `SentenceEncoderFiles.find`.
        longest: the most tokens of a text to read, if fewer than the encoder can.

    Raises:
        NotPrepared: It cannot be loaded.
    """
    loaded = load_pretrained(files.folder, what="sentence encoder", remedy=_REMEDY)
    import torch

    length = min(each for each in (loaded.window, files.longest, longest) if each is not None)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    reader = BatchTokenizer(loaded.tokenizer, length)
    return TransformerVectors(files.identity, loaded.model.to(device), reader, files.pooling, loaded.width)
