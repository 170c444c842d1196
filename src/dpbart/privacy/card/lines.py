"""The facts of a card, grouped, each with one line of what it means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpbart.errors import one_line
from dpbart.privacy.card import shuffled

if TYPE_CHECKING:
    from dpbart.privacy.card.card import Card


@dataclass(frozen=True)
class Fact:
    """A heading, what the card states, and what that means."""

    name: str
    value: str
    meaning: str


_MEANINGS = {
    "Guarantee": "For any two texts, no output is more than exp(epsilon) times as likely from one as from the other; "
    "delta is a small slack on top.",
    "Unit": "What the guarantee protects as a whole.",
    "Local": "The guarantee of each row by itself. It does not depend on the order of the rows.",
    "Central": "The guarantee of the output as a whole. The random rows of the others hide each person.",
    "Known rows": "What is left of the central guarantee if a tenth of the rows hides nobody any more.",
    "Person": "The guarantee for all texts of one person in this run together.",
    "People": "How many people were counted, and how they were told apart.",
    "Counted": "What was counted, where it is not known which texts belong to one person.",
    "Same id": "The guarantee for all texts with one id in this run together.",
    "No id": "Rows without an id. Nobody knows whose they are.",
    "Composition": "The rule by which the texts of a person were added up.",
    "Budget": "The most that a person was allowed to spend, in this run and in earlier ones that the ledger knows.",
    "Ledger": "Where the spending of this run is recorded, so that later runs count it too.",
    "Trust model": "Who has to be trusted, and who does not.",
    "Public data": "The text that the model was trained on. It is public and has nothing to do with the private texts.",
    "Labels": "What happened to the column of labels.",
    "Other columns": "Columns that are in the output as they were in the input, without any protection.",
    "Free text": "Columns released unchanged whose names sound like free text. Check them before you share the output.",
    "Metrics": "Figures computed from private texts would be a release too.",
    "Mechanism": "How texts are randomised, and the proof that this gives the guarantee.",
    "Clip": "The bound on what a text can put into its latent, the numbers that stand for it.",
    "Sensitivity": "How far apart the latents of two texts can lie at most.",
    "Noise scale": "How much random noise is added to every number of the latent.",
    "Code": "A text becomes one code. More bits say more about the text, and come through less often.",
    "Kept": "How often the code of a text comes out as it went in.",
    "Sampler": "How random numbers are drawn. An inexact sampler can leak through its rounding.",
    "Slack": "What the sampler adds to epsilon and delta.",
    "Entropy": "Where random bits come from. Nobody can draw them again.",
    "Channel": "The most that any observer can learn about a text, in bits. A yes or no is one bit.",
    "Side channels": "Other ways in which a text might leak, open or closed.",
    "Model": "The model that rewrote the texts: its name, the beginning of its hash, and its kind.",
    "Model files": "A hash of everything else that was loaded: settings, tokenizer and tables.",
    "Length": "How much of a text the model sees, and how much it writes.",
    "Language": "Texts in other languages come out as noise, with the same guarantee.",
    "Columns": "How much of the latent is used.",
    "Decoding": "How the model chooses its words. This needs no private text.",
    "Recipe": "Everything that decides the guarantee, in one line.",
    "Run": "How many texts were rewritten, and how fast.",
    "Refused": "Texts that had to wait until a budget was raised.",
    "Engine": "Where the texts were rewritten.",
    "Versions": "The software of this run.",
    "Settings": "A hash of the settings. Equal hashes mean equal settings.",
    "Output": "A hash of the output file. It shows whether a file is the one that this card describes.",
    "Made": "When this card was made, in UTC, and by which version.",
}


def groups(card: Card) -> list[tuple[str, list[Fact]]]:
    """The facts, as promise, data, mechanism and run."""
    parts = {"The promise": _promise(card), "The data": _data(card), "The mechanism": _mechanism(card)}
    parts["The run"] = _run(card)
    return [
        (title, [Fact(name, one_line(value), _MEANINGS[name]) for name, value in part]) for title, part in parts.items()
    ]


def _promise(card: Card) -> list[tuple[str, str]]:
    person = card.person
    return [
        ("Guarantee", f"{card.guarantee} for each of {card.rows:,} texts"),
        ("Unit", card.unit),
        *([] if card.shuffled is None else shuffled.lines(card.shuffled, card.guarantee, person, rows=card.rows)),
        *person.lines(),
        ("Composition", person.composition),
        ("Budget", "none set" if person.budget is None else f"at most epsilon {person.budget:.10g} per person"),
        ("Ledger", person.ledger),
        ("Trust model", card.trust_model),
    ]


def _data(card: Card) -> list[tuple[str, str]]:
    corpora = ", ".join(str(each["name"]) for each in card.model.public_data) or "see the model's own documentation"
    return [
        ("Labels", card.labels),
        ("Other columns", ", ".join(card.other_columns) + ": unchanged" if card.other_columns else "none"),
        ("Free text", ", ".join(card.free_text_columns) + ": unchanged" if card.free_text_columns else "none"),
        ("Metrics", card.metrics),
        ("Public data", corpora),
    ]


def _mechanism(card: Card) -> list[tuple[str, str]]:
    facts, model = card.facts, card.model
    reads = "not stated" if model.reads is None else f"{model.reads:,} tokens"
    writes = model.length if model.writes is None else model.writes
    return [
        ("Mechanism", f"{facts.mechanism}; {facts.proof}"),
        *facts.lines,
        ("Sampler", facts.sampler),
        ("Slack", "epsilon 0, delta 0: the sampler is exact"),
        ("Entropy", facts.entropy),
        ("Channel", f"at most {facts.bits:.4g} bits of a text get through"),
        ("Model", f"{model.identity} ({model.variant}), length {model.length}"),
        *([] if model.files is None else [("Model files", f"SHA-256 {model.files}, without the weights")]),
        ("Length", f"reads: {reads}; writes: at most {writes:,} tokens"),
        ("Language", model.language or "not stated"),
        *([] if model.kept is None else [("Columns", f"{model.kept} of {model.width} kept")]),
        ("Decoding", model.decoding),
        ("Side channels", "; ".join(card.side_channels)),
    ]


def _run(card: Card) -> list[tuple[str, str]]:
    run = card.run
    return [
        ("Recipe", card.recipe),
        ("Run", f"{card.rows:,} rows, " + _rate(run.rows_per_second)),
        ("Refused", f"{run.refused:,} texts during the run, by a budget"),
        ("Engine", run.engine),
        ("Versions", ", ".join(f"{name} {version}" for name, version in run.versions.items())),
        ("Settings", f"SHA-256 {run.settings_sha256}"),
        ("Output", f"SHA-256 {run.output_sha256 or 'unknown: it went to standard output'}"),
        ("Made", f"{card.made} by dpbart {card.version}"),
    ]


def _rate(rows_per_second: float | None) -> str:
    return "in a time that is not stated" if rows_per_second is None else f"{rows_per_second:,.1f} per second"
