"""A model directory in the Hugging Face format, plus `dpbart.json` with its privacy settings.

A model is given by the name of a bundled model, a directory, or a Hugging Face hub id.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpbart.channels.columns import Columns
from dpbart.errors import BadParameter, NotPrepared
from dpbart.files import digest_of
from dpbart.models.hub import fetch, read_config
from dpbart.privacy.clipping import ByValue
from dpbart.version import __version__

if TYPE_CHECKING:
    from transformers import PreTrainedModel

BUNDLED = Path(__file__).parent / "bundled"
FACTS_FILE = "dpbart.json"
PARTS = ("config.json", "model.safetensors", "tokenizer.json")
# Of a code model: its book, its writer's words and tokens, and the files of a copied sentence encoder.
_CODE_PARTS = ("book.tsv", "common.txt", "known.txt", "writer_tokenizer.json")
_ENCODER = "encoder"
# Everything that a sentence encoder may consist of. No pickled weights (*.bin): loading them can run code.
ENCODER_FILES = ("*.json", "model.safetensors", "*.txt", "*.model")
FORMAT = 1

# The variants that dpbart.json may name, by the model_type in config.json, each with what it is for.
VARIANTS: Mapping[str, Mapping[str, str]] = {
    "bart": {
        "clv": "the paper's DP-BART-CLV: large budgets and comparisons, and a start for other models",
        "pr": "the paper's DP-BART-PR: like CLV, with columns pruned so that the rest gets less noise",
        "pr-plus": "the paper's DP-BART-PR+: pruned, then trained under noise",
    },
    "adept": {"adept": "the older LSTM baseline ADePT, with corrected noise: comparisons"},
    "dpbart-code": {"code": "small budgets: a text becomes one short code, which is then written out"},
}

# Published BARTs with a known clip: Igamberdiev and Habernal 2023, section 5 (C = sigma / 2 = 0.1).
KNOWN_CLIPS = {"facebook/bart-base": 0.1}


@dataclass(frozen=True)
class ModelFacts:
    """The content of `dpbart.json`. All of it is public, and fixed before any private text is seen."""

    variant: str  # clv, pr, pr-plus or adept
    length: int  # ids per text
    width: int  # columns of a latent before pruning
    clip: float | None = None  # bound on each entry (ADePT: on the L2 norm), in the latent's units; None until chosen
    kept: tuple[int, ...] | None = None  # columns that survived pruning; None means all
    language: str | None = None  # of the text that it was trained on, as an English word; None if not stated
    told: bool = False  # whether it is given public side information (channels/columns.py)
    code: dict[str, Any] | None = None  # of a code model: its table of sizes, and its settings
    corpora: tuple[dict[str, Any], ...] = ()  # the public text it was trained on: name, sha256, texts
    recipe: dict[str, Any] = field(default_factory=dict)  # settings of each preparation step
    figures: dict[str, Any] = field(default_factory=dict)  # measured on held-out public text
    version: str = __version__
    format: int = FORMAT

    def __post_init__(self) -> None:
        if self.format != FORMAT:
            raise BadParameter(f"format must be {FORMAT}, got {self.format}. Update dpbart.")
        for name, value in (
            ("length", self.length),
            ("width", self.width),
            *(("kept", each) for each in self.kept or ()),
        ):
            if type(value) is not int:
                raise BadParameter(f"{name} must be a whole number, got {value!r}.")
        if self.clip is not None:
            ByValue(self.clip)  # refuses a bound out of range
        if not all("name" in each for each in self.corpora):
            raise BadParameter("corpora must each have a name.")

    @classmethod
    def read(cls, file: Path) -> ModelFacts:
        try:
            held = json.loads(file.read_text(encoding="utf-8"))
            unknown = sorted(set(held) - {each.name for each in fields(cls)})
            if unknown:
                raise NotPrepared(f"'{file}' has fields this version does not know: {', '.join(unknown)}.")
            kept, corpora = held.pop("kept", None), held.pop("corpora", ())
            return cls(**held, kept=None if kept is None else tuple(kept), corpora=tuple(corpora))
        except (ValueError, TypeError, AttributeError) as error:
            raise NotPrepared(f"'{file}' cannot be read: {error}") from error

    def write(self, folder: Path) -> None:
        (folder / FACTS_FILE).write_text(json.dumps(asdict(self), indent=2) + "\n", encoding="utf-8")


@dataclass(frozen=True)
class Bundle:
    """A complete model directory, and its facts."""

    name: str
    folder: Path
    facts: ModelFacts

    @classmethod
    def find(cls, name: str) -> Bundle:
        """Find a model by bundled name, directory, or hub id (`owner/model`)."""
        if name in bundled_names():
            return cls.at(BUNDLED / name, name=name)
        if Path(name).is_dir():
            return cls.at(Path(name))
        if name.count("/") == 1 and not name.startswith((".", "/")):
            remedy = f"Models that ship with dpbart: {', '.join(bundled_names())}."
            files = [*PARTS, FACTS_FILE, *_CODE_PARTS, *(f"{_ENCODER}/{each}" for each in ENCODER_FILES)]
            return cls.at(fetch(name, files=files, what="model", remedy=remedy), name=name)
        raise NotPrepared(
            f"no model named '{name}'. Models that ship with dpbart: {', '.join(bundled_names())}. "
            "You can also give a model directory, or a hub id such as facebook/bart-base."
        )

    @classmethod
    def at(cls, folder: Path, *, name: str | None = None) -> Bundle:
        """The model in a directory. Its name is the directory's, unless another is given."""
        name = folder.resolve().name if name is None else name  # not the path: a card is published
        missing = [part for part in PARTS if not (folder / part).is_file()]
        if missing:
            raise NotPrepared(
                f"'{folder}' is not a complete model: {', '.join(missing)} missing. "
                "Make one with 'dpbart prepare pretrain', or import one with 'dpbart models import'."
            )
        if not (folder / FACTS_FILE).is_file():
            return cls(name, folder, plain_facts(folder, clip=KNOWN_CLIPS.get(name), source=name))
        facts, config = ModelFacts.read(folder / FACTS_FILE), _Config.read(folder)
        if facts.variant not in VARIANTS[config.kind]:  # otherwise its latent would be clipped in the wrong way
            raise NotPrepared(
                f"'{folder}' is inconsistent: its variant is {facts.variant!r} (dpbart.json), "
                f"but its model_type {config.kind!r} (config.json)."
            )
        if facts.width != config.width:
            raise NotPrepared(
                f"'{folder}' is inconsistent: dpbart.json is for a model of width {facts.width}, "
                f"but config.json has width {config.width}."
            )
        return cls(name, folder, facts)

    @cached_property
    def kind(self) -> str:
        """The model_type in config.json: a key of VARIANTS, and the name of the model's family."""
        return _Config.read(self.folder).kind

    @cached_property
    def longest(self) -> int:
        """The most ids of a text that the model can read."""
        return _Config.read(self.folder).longest

    def require_bart(self, why: str) -> None:
        """Refuse a model of another family where a BART is required."""
        if self.kind != "bart":
            raise NotPrepared(f"'{self.name}' is not a BART (model_type {self.kind!r}), but {why}")

    def require_before_noise(self, why: str) -> None:
        """Refuse a model trained with noise, because its decoder needs side information."""
        if self.facts.told:
            raise NotPrepared(f"'{self.name}' was trained with noise, and {why}")

    @property
    def columns(self) -> Columns:
        """The columns that survived pruning, or all."""
        facts = self.facts
        return Columns.all(facts.width) if facts.kept is None else Columns(facts.width, facts.kept)

    def record(self, *, figures: dict[str, Any], clip: float | None = None) -> Bundle:
        """Add figures and, if given, a clip to the facts, and write them to the folder."""
        facts = replace(self.facts, figures={**self.facts.figures, **figures}, clip=clip or self.facts.clip)
        facts.write(self.folder)
        return replace(self, facts=facts)

    @cached_property
    def fingerprint(self) -> str:
        """The first digits of the weights' SHA-256. They identify the model."""
        _ = self.stamps  # of the files that are hashed now
        return digest_of(self.folder / "model.safetensors")[:12]

    def check_unchanged(self) -> None:
        """Refuse a model whose files have changed since they were hashed.

        Raises:
            NotPrepared: A file was replaced or written to.
        """
        if self.stamps != _stamps(self.folder):
            raise NotPrepared(f"the files of '{self.name}' have changed since they were hashed. Start again.")

    @cached_property
    def stamps(self) -> list[tuple[int, int, int]]:
        """Inode, size and time of the last change of each file, as they were when the model was first looked at."""
        return _stamps(self.folder)

    @cached_property
    def files(self) -> str:
        """The first digits of a SHA-256 over the model's facts and all its files but its own weights."""
        facts = self.facts
        used = (facts.variant, facts.length, facts.width, facts.clip, facts.kept, facts.told, facts.code)
        digest = hashlib.sha256(repr(used).encode())
        for file in _other_files(self.folder):
            if file.parent != self.folder:  # which files a copied encoder has is not known beforehand
                digest.update(f"{file.relative_to(self.folder).as_posix()} {file.stat().st_size}\n".encode())
            digest_of(file, digest)
        return digest.hexdigest()[:12]


def save_bundle(model: PreTrainedModel, tokenizer: Path, facts: ModelFacts, out: Path) -> Bundle:
    """Write a model directory, with the weights in their own precision. If interrupted, it leaves no complete model."""
    from transformers.utils import logging as transformers_logging

    transformers_logging.disable_progress_bar()  # dpbart shows its own
    out.mkdir(parents=True, exist_ok=True)
    (out / "tokenizer.json").unlink(missing_ok=True)  # the directory is incomplete until this file is back
    model.save_pretrained(out)
    (out / "generation_config.json").unlink(missing_ok=True)  # the rewriter has its own decoding settings
    facts.write(out)
    partial = shutil.copyfile(tokenizer, out / "tokenizer.partial")
    partial.replace(out / "tokenizer.json")
    return Bundle.at(out)


def plain_facts(folder: Path, *, clip: float | None, source: str, length: int = 20) -> ModelFacts:
    """Facts of a BART directory that dpbart did not make: all columns, the paper's length."""
    config = _Config.read(folder)
    if config.kind != "bart":
        raise NotPrepared(
            f"'{folder}' is not a BART, and its {FACTS_FILE}, with the facts of its training, is missing."
        )
    return ModelFacts(variant="clv", length=length, width=config.width, clip=clip, recipe={"imported": source})


@dataclass(frozen=True)
class _Config:
    """The parts of config.json that are needed before weights are loaded."""

    kind: str
    width: int  # columns of the latent
    longest: int  # most ids of a text

    @classmethod
    def read(cls, folder: Path) -> _Config:
        held = read_config(folder)
        kind, width, longest = held.get("model_type"), held.get("d_model"), held.get("max_position_embeddings")
        if not isinstance(kind, str) or kind not in VARIANTS or type(width) is not int or type(longest) is not int:
            *most, last = VARIANTS
            kinds = f"{', '.join(most)} or {last}"
            raise NotPrepared(
                f"'{folder}' must be a model of type {kinds}; its config.json has "
                f"model_type {kind!r}, d_model {width!r}, max_position_embeddings {longest!r}."
            )
        return cls(kind, width, longest)


def _other_files(folder: Path) -> list[Path]:
    """All files of a model but its weights and its facts: those that it has."""
    own = [folder / name for name in sorted({*PARTS, *_CODE_PARTS} - {"model.safetensors"})]
    return [file for file in (*own, *sorted((folder / _ENCODER).rglob("*"))) if file.is_file()]


def _stamps(folder: Path) -> list[tuple[int, int, int]]:
    """Inode, size and time of the last change, for each file of a model."""
    found = [file.stat() for file in (folder / "model.safetensors", *_other_files(folder))]
    return [(each.st_ino, each.st_size, each.st_mtime_ns) for each in found]


def bundled_names() -> list[str]:
    return sorted(file.parent.name for file in BUNDLED.glob(f"*/{FACTS_FILE}"))
