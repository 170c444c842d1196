"""The privacy card of a run: what is promised, by what, for what, and what is not covered.

One value, written twice: as JSON for programs, and as a page that a person reads.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from dpbart.errors import BadTable
from dpbart.privacy.accounting import Guarantee
from dpbart.privacy.clipping import Clip
from dpbart.privacy.mechanisms import Mechanism
from dpbart.privacy.sampling import Entropy

UNIT = "one text, whole: any text could have been any other (local differential privacy, no trusted curator)"
PROOFS = {
    "gaussian": "analytic Gaussian mechanism, Balle and Wang 2018, Algorithm 1 (arXiv:1805.06530)",
    "laplace": "Laplace mechanism, Dwork et al. 2006; pure epsilon",
    "none": "none: no noise is added",
}
EXACT_SAMPLER = "continuous noise rounded to a grid of powers of two, drawn exactly by inversion with lazily drawn bits"
ENTROPIES = {True: "operating system, drawn in this process", False: "replay seed: NOT PRIVATE"}
NOT_COVERED = (
    "columns other than the text, which are released as they are (see 'other columns')",
    "the number of rows, their order, and the fact that a row is there",
    "several texts by one person beyond those counted under 'person': their epsilons and deltas add up",
    "the time that rewriting takes, and anything a person learns on the machine where it runs",
)


@dataclass(frozen=True)
class NoiseFacts:
    """How the latent of one text is bounded and noised."""

    mechanism: str
    proof: str
    clip: str  # such as "value:0.1"
    entries: int  # n: positions times kept columns
    sensitivity_l1: float
    sensitivity_l2: float
    scale: float  # of the noise on every entry, in units of the latent
    sampler: str
    entropy: str
    slack_epsilon: float  # what the sampler's own error adds
    slack_delta: float
    bits: float  # that the channel can carry about one text, at most

    @classmethod
    def of(cls, mechanism: Mechanism, clip: Clip, entropy: Entropy, *, entries: int) -> NoiseFacts:
        sensitivity = clip.sensitivity(entries)
        return cls(
            mechanism=mechanism.name,
            proof=PROOFS[mechanism.name] if entropy.private else "none: the noise can be had from the seed",
            clip=clip.name,
            entries=entries,
            sensitivity_l1=sensitivity.l1,
            sensitivity_l2=sensitivity.l2,
            scale=mechanism.noise_scale(sensitivity),
            sampler="no noise" if mechanism.name == "none" else EXACT_SAMPLER,
            entropy=ENTROPIES[entropy.private] if mechanism.noise_scale(sensitivity) else "no noise",
            slack_epsilon=0.0,  # exact inversion: see sampling.py
            slack_delta=0.0,
            bits=mechanism.bits(sensitivity) if entropy.private else math.inf,
        )


@dataclass(frozen=True)
class ModelLine:
    """Which model, and the public text it knows; nothing of it comes from private data."""

    name: str
    fingerprint: str
    variant: str
    length: int
    kept: int
    width: int
    decoding: str
    public_data: Sequence[Mapping[str, object]]


@dataclass(frozen=True)
class PersonFacts:
    """What holds for a person, who may have given several texts."""

    named_by: str  # the column of their ids
    people: int
    most_texts: int  # of one person in this run
    guarantee: Guarantee  # of all texts of that person in this run
    composition: str  # the rule that gives it
    budget: float | None  # the most epsilon that was allowed to a person
    ledger: str


@dataclass(frozen=True)
class Card:
    """All of it. `guarantee` is what holds, after everything that could have weakened it."""

    guarantee: Guarantee
    person: PersonFacts
    noise: NoiseFacts
    model: ModelLine
    rows: int
    labels: str
    other_columns: Sequence[str]
    metrics: str
    recipe: str
    version: str
    made: str  # date and time, UTC
    unit: str = UNIT
    not_covered: Sequence[str] = NOT_COVERED

    def as_json(self) -> str:
        """One JSON object; an infinite epsilon or number of bits is null, and `private` is false."""
        held = {"private": self.guarantee.private, **asdict(self)}
        return json.dumps(_finite(held), indent=2, ensure_ascii=False, allow_nan=False) + "\n"

    def as_text(self) -> str:
        """The page that a person reads."""
        noise, model, person = self.noise, self.model, self.person
        corpora = ", ".join(str(each["name"]) for each in model.public_data) or "see its own documentation"
        lines = [
            ("Guarantee", f"{self.guarantee} for each of {self.rows:,} texts"),
            ("Unit", self.unit),
            ("Person", f"{person.guarantee} for all texts of one person, at most {person.most_texts:,} in this run"),
            ("People", f"{person.people:,}, told apart by {person.named_by}"),
            ("Composition", person.composition),
            ("Budget", "none set" if person.budget is None else f"at most epsilon {person.budget:.10g} a person"),
            ("Ledger", person.ledger),
            ("Mechanism", f"{noise.mechanism}; {noise.proof}"),
            ("Clip", f"{noise.clip}, {noise.entries:,} entries a text"),
            ("Sensitivity", f"L2 {noise.sensitivity_l2:.6g}, L1 {noise.sensitivity_l1:.6g}"),
            ("Noise scale", f"{noise.scale:.6g} on every entry"),
            ("Sampler", noise.sampler),
            ("Slack", f"epsilon {noise.slack_epsilon:g}, delta {noise.slack_delta:g} (included in the guarantee)"),
            ("Entropy", noise.entropy),
            ("Channel", f"at most {noise.bits:.4g} bits of a text pass"),
            ("Model", f"{model.name}@{model.fingerprint} ({model.variant}), length {model.length}"),
            ("Columns", f"{model.kept} of {model.width} kept"),
            ("Decoding", model.decoding),
            ("Public data", corpora),
            ("Labels", self.labels),
            ("Other columns", ", ".join(self.other_columns) + ": as they were" if self.other_columns else "none"),
            ("Metrics", self.metrics),
            ("Recipe", self.recipe),
            ("Made", f"{self.made} by dpbart {self.version}"),
        ]
        title = "PRIVACY CARD" if self.guarantee.private else "PRIVACY CARD: THIS OUTPUT IS NOT PRIVATE"
        body = "\n".join(f"{name + ':':<15}{value}" for name, value in lines)
        covered = "\n".join(f"  - {each}" for each in self.not_covered)
        return f"{title}\n{'=' * len(title)}\n{body}\n\nNot covered:\n{covered}\n"

    def write(self, file: Path) -> None:
        """The JSON into the file, and the page beside it, ending in .txt; each whole or not at all.

        Raises:
            BadTable: A file cannot be written.
        """
        for target, content in ((page_beside(file), self.as_text()), (file, self.as_json())):
            partial = target.with_name(f".{target.name}.partial")
            try:
                partial.write_text(content, encoding="utf-8")
                partial.replace(target)
            except OSError as error:
                with suppress(OSError):
                    partial.unlink()
                raise BadTable(f"the card {str(target)!r} cannot be written: {error.strerror}.") from error


def page_beside(file: Path) -> Path:
    """Where the page to read stands: beside the card's JSON.

    >>> page_beside(Path("out.csv.card.json")).name
    'out.csv.card.txt'
    """
    return file.with_suffix(".txt")


def _finite(value: object) -> object:
    if isinstance(value, Mapping):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
