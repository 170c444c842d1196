"""A model directory: BART or ADePT in the Hugging Face format, plus `dpbart.json`, which says how to make it private.

One door for all: a name that ships with the package, a directory, or a Hugging Face hub id.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpbart import __version__
from dpbart.channels.columns import Columns
from dpbart.errors import BadParameter, NotPrepared
from dpbart.files import digest_of
from dpbart.models.bart import BART
from dpbart.models.families import FAMILIES
from dpbart.models.model import Family
from dpbart.privacy.clipping import ByValue

if TYPE_CHECKING:
    from transformers import PreTrainedModel

BUNDLED = Path(__file__).parent / "bundled"
FACTS_FILE = "dpbart.json"
PARTS = ("config.json", "model.safetensors", "tokenizer.json")
FORMAT = 1

# Published BARTs whose clip is known: Igamberdiev and Habernal 2023, section 5 (C = sigma / 2 = 0.1).
KNOWN_CLIPS = {"facebook/bart-base": 0.1}


@dataclass(frozen=True)
class ModelFacts:
    """What `dpbart.json` holds: all of it public, all of it frozen before any private text is seen."""

    variant: str  # clv, pr, pr-plus or adept
    length: int  # ids of a text
    width: int  # columns of a latent before pruning
    clip: float | None = None  # bound on each entry (ADePT: on the L2 norm), in the latent's units; None until chosen
    kept: tuple[int, ...] | None = None  # columns that survived pruning; None means all
    told: bool = False  # whether it is given public side information (channels/side_information.py)
    corpora: tuple[dict[str, Any], ...] = ()  # public text it was made from: name, sha256, texts
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
            ByValue(self.clip)  # refuses a bound that is not above 0
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
    """A model directory that is complete, and its facts."""

    name: str
    folder: Path
    facts: ModelFacts

    @classmethod
    def find(cls, name: str) -> Bundle:
        """A bundled name, a directory, or a hub id (`owner/model`)."""
        if name in bundled_names():
            return cls.at(BUNDLED / name, name=name)
        if Path(name).is_dir():
            return cls.at(Path(name))
        if name.count("/") == 1 and not name.startswith((".", "/")):
            return cls.at(_from_hub(name), name=name)
        raise NotPrepared(
            f"no model named '{name}'. Models that ship with dpbart: {', '.join(bundled_names())}. "
            "Or give a model directory, or a hub id such as facebook/bart-base."
        )

    @classmethod
    def at(cls, folder: Path, *, name: str | None = None) -> Bundle:
        """The model in a directory, known by the directory's own name unless told."""
        name = folder.resolve().name if name is None else name  # not the path: a card is published
        missing = [part for part in PARTS if not (folder / part).is_file()]
        if missing:
            raise NotPrepared(
                f"'{folder}' is not a complete model: {', '.join(missing)} missing. "
                "Make one with 'dpbart prepare pretrain', or bring one in with 'dpbart models import'."
            )
        if not (folder / FACTS_FILE).is_file():
            return cls(name, folder, plain_facts(folder, clip=KNOWN_CLIPS.get(name), source=name))
        facts, config = ModelFacts.read(folder / FACTS_FILE), _Config.read(folder)
        if facts.variant not in config.family.variants:  # its latent would be clipped the wrong way
            raise NotPrepared(
                f"'{folder}' does not fit together: its variant is {facts.variant!r} (dpbart.json), "
                f"but its model_type {config.family.name!r} (config.json)."
            )
        if facts.width != config.width:
            raise NotPrepared(
                f"'{folder}' does not fit together: its columns are those of a model {facts.width} wide "
                f"(dpbart.json), but its weights are {config.width} wide (config.json)."
            )
        return cls(name, folder, facts)

    @cached_property
    def family(self) -> Family:
        """Which kind of model it is."""
        return _Config.read(self.folder).family

    @cached_property
    def longest(self) -> int:
        """Ids of a text that the model can read."""
        return _Config.read(self.folder).longest

    def require_bart(self, why: str) -> None:
        """Refuse a model of another family where only a BART will do."""
        if self.family is not BART:
            raise NotPrepared(f"'{self.name}' is not a BART (model_type {self.family.name!r}), but {why}")

    def require_before_noise(self, why: str) -> None:
        """Refuse a model trained under noise: it reads its latent only together with its side information."""
        if self.facts.told:
            raise NotPrepared(f"'{self.name}' was trained under noise, and {why}")

    @property
    def columns(self) -> Columns:
        """The columns that survived pruning, or all."""
        facts = self.facts
        return Columns.all(facts.width) if facts.kept is None else Columns(facts.width, facts.kept)

    def record(self, *, figures: dict[str, Any], clip: float | None = None) -> Bundle:
        """The same bundle with figures added and, if given, its clip, written to its folder."""
        facts = replace(self.facts, figures={**self.facts.figures, **figures}, clip=clip or self.facts.clip)
        facts.write(self.folder)
        return replace(self, facts=facts)

    @cached_property
    def fingerprint(self) -> str:
        """The beginning of the weights' SHA-256: which model exactly."""
        return digest_of(self.folder / "model.safetensors")[:12]

    @property
    def identity(self) -> str:
        """Which model exactly, such as "mini@0123456789ab"."""
        return f"{self.name}@{self.fingerprint}"

    @cached_property
    def files(self) -> str:
        """The beginning of a SHA-256 over all that a model is besides its weights: its facts, tokenizer and config."""
        facts = self.facts
        used = (facts.variant, facts.length, facts.width, facts.clip, facts.kept, facts.told)
        digest = hashlib.sha256(repr(used).encode())
        for name in ("config.json", "tokenizer.json"):
            digest.update((self.folder / name).read_bytes())
        return digest.hexdigest()[:12]


def save_bundle(model: PreTrainedModel, tokenizer: Path, facts: ModelFacts, out: Path) -> Bundle:
    """Write a model directory, its weights in the precision they have; stopped on the way, it leaves no model."""
    from transformers.utils import logging as transformers_logging

    transformers_logging.disable_progress_bar()  # ours is enough
    out.mkdir(parents=True, exist_ok=True)
    (out / "tokenizer.json").unlink(missing_ok=True)  # no model without it, until the rest is whole and fits
    model.save_pretrained(out)
    (out / "generation_config.json").unlink(missing_ok=True)  # decoding settings are the rewriter's own
    facts.write(out)
    partial = shutil.copyfile(tokenizer, out / "tokenizer.partial")
    partial.replace(out / "tokenizer.json")
    return Bundle.at(out)


def plain_facts(folder: Path, *, clip: float | None, source: str, length: int = 20) -> ModelFacts:
    """Facts of a BART directory that was not made here: all columns, the paper's length."""
    config = _Config.read(folder)
    if config.family is not BART:
        raise NotPrepared(
            f"'{folder}' is not a BART, and its {FACTS_FILE}, with the facts of its training, is missing."
        )
    return ModelFacts(variant="clv", length=length, width=config.width, clip=clip, recipe={"imported": source})


@dataclass(frozen=True)
class _Config:
    """What config.json says that matters before weights are loaded."""

    family: Family
    width: int  # columns of the latent
    longest: int  # ids of a text

    @classmethod
    def read(cls, folder: Path) -> _Config:
        try:
            held = json.loads((folder / "config.json").read_text(encoding="utf-8"))
            kind, width, longest = held["model_type"], held.get("d_model"), held.get("max_position_embeddings")
        except (ValueError, KeyError, TypeError, OSError) as error:
            raise NotPrepared(f"'{folder}' is not a model: config.json cannot be read.") from error
        if kind not in FAMILIES or type(width) is not int or type(longest) is not int:
            raise NotPrepared(
                f"'{folder}' must be a model of the kind {' or '.join(FAMILIES)}; config.json says "
                f"model_type {kind!r}, d_model {width!r}, max_position_embeddings {longest!r}."
            )
        return cls(FAMILIES[kind], width, longest)


def bundled_names() -> list[str]:
    return sorted(file.parent.name for file in BUNDLED.glob(f"*/{FACTS_FILE}"))


def _from_hub(name: str) -> Path:
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(name, allow_patterns=[*PARTS, FACTS_FILE]))
    except Exception as error:  # offline, unknown, gated: the hub's own kinds change between versions
        raise NotPrepared(
            f"'{name}' is no directory here and could not be fetched from the hub ({type(error).__name__}). "
            f"Models that ship with dpbart: {', '.join(bundled_names())}."
        ) from error
