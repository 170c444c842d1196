"""A model directory: BART or ADePT in the Hugging Face format, plus `dpbart.json`, which says how to make it private.

One door for all: a name that ships with the package, a directory, or a Hugging Face hub id.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpbart import __version__
from dpbart.errors import BadParameter, NotPrepared
from dpbart.files import digest_of
from dpbart.models.pruning import Columns
from dpbart.privacy.clipping import ByNorm, ByValue, Clip

if TYPE_CHECKING:
    from transformers import PreTrainedModel

BUNDLED = Path(__file__).parent / "bundled"
FACTS_FILE = "dpbart.json"
PARTS = ("config.json", "model.safetensors", "tokenizer.json")
FORMAT = 1
ADEPT = "adept"  # the variant, and the model_type of its config.json

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
    told: bool = False  # whether it is told its budget and the place of each row (models/told.py)
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
        facts, (kind, width) = ModelFacts.read(folder / FACTS_FILE), _kind_and_width(folder)
        if (facts.variant == ADEPT) != (kind == ADEPT):  # its latent would be clipped the wrong way
            raise NotPrepared(
                f"'{folder}' does not fit together: its variant is {facts.variant!r} (dpbart.json), "
                f"but its model_type {kind!r} (config.json)."
            )
        if facts.width != width:
            raise NotPrepared(
                f"'{folder}' does not fit together: its columns are those of a model {facts.width} wide "
                f"(dpbart.json), but its weights are {width} wide (config.json)."
            )
        return cls(name, folder, facts)

    @property
    def clip(self) -> Clip:
        """The bound that the model's latent is clipped to."""
        if self.facts.clip is None:
            raise NotPrepared(
                f"'{self.name}' has no clip yet: every model's latent has its own scale. "
                f"Measure it on public text and choose with: dpbart prepare clip --model {self.folder} --corpus FILES"
            )
        return ByNorm(self.facts.clip) if self.facts.variant == ADEPT else ByValue(self.facts.clip)

    def positions(self, length: int) -> int:
        """Rows of the latent of a text of so many ids: ADePT's whole text is one."""
        return 1 if self.facts.variant == ADEPT else length

    def require_bart(self, why: str) -> None:
        """Refuse an ADePT where only a BART will do."""
        if self.facts.variant == ADEPT:
            raise NotPrepared(f"'{self.name}' is an ADePT, but {why}")

    def require_before_noise(self, why: str) -> None:
        """Refuse a model trained under noise: it reads its latent only with all that it is told."""
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
    kind, width = _kind_and_width(folder)
    if kind == ADEPT:
        raise NotPrepared(f"'{folder}' is an ADePT, and its {FACTS_FILE} with the clip of its training is missing.")
    return ModelFacts(variant="clv", length=length, width=width, clip=clip, recipe={"imported": source})


def _kind_and_width(folder: Path) -> tuple[str, int]:
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        kind, width = config["model_type"], config.get("d_model")
    except (ValueError, KeyError, TypeError) as error:
        raise NotPrepared(f"'{folder}' is not a model: config.json cannot be read.") from error
    if kind not in ("bart", ADEPT) or type(width) is not int:
        raise NotPrepared(
            f"'{folder}' is not a BART or an ADePT: config.json says model_type {kind!r}, d_model {width!r}."
        )
    return kind, width


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
