"""A card for people, as text and as an HTML page: the promise in plain words first, then all facts by group.

The pages follow from what the card states. The HTML page is self-contained and has no scripts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from string import Template

from dpbart.card import collection
from dpbart.card.figures import facts_of
from dpbart.card.record import CardFacts, CollectionFacts, ModelLine, PersonFacts, RowFacts
from dpbart.errors import one_line
from dpbart.privacy.guarantee import Guarantee, few_digits
from dpbart.privacy.scale import LEVELS, SEVERAL, level_of, odds
from dpbart.privacy.shuffling.amplification import LOCAL
from dpbart.privacy.shuffling.release import OWN_CODE, ShuffledRelease, needs_own_code

Lines = list[tuple[str, str]]  # headings, and what the card states


def text_page(card: CardFacts) -> str:
    """The page for a terminal."""
    title = _title(card)
    top = "".join(f"{name + ':':<20}{value}\n" for name, value in _summary(card))
    top += "".join(f"WARNING: {warning}\n" for warning in _warnings(card))
    covered = "".join(f"  - {line}\n" for line in card.not_covered)
    body = "".join(
        f"\n{name}\n{'-' * len(name)}\n" + "".join(f"{fact + ':':<15}{value}\n" for fact, value in facts)
        for name, facts in _groups(card)
    )
    return f"{title}\n{'=' * len(title)}\n{top}\nNot covered:\n{covered}{body}"


def html_page(card: CardFacts) -> str:
    """The page for a browser, with all values escaped."""
    level = level_of(card.person.counted_guarantee)
    return _PAGE.substitute(
        title=escape(_title(card)),
        colour=level.colour,
        background=level.background,
        scale="\n".join(f"<li{_HERE if step is level else ''}>{step.name}</li>" for step in LEVELS),
        summary="\n".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in _summary(card)),
        warnings="".join(f'<p class="warning">{escape(warning)}</p>\n' for warning in _warnings(card)),
        covered="\n".join(f"<li>{escape(line)}</li>" for line in card.not_covered),
        groups="\n".join(_table(name, facts) for name, facts in _groups(card)),
    )


def promise_lines(card: CardFacts) -> tuple[str, str]:
    """To whom the promise is made, and the promise, as a run says it before anything is released."""
    if card.collection is not None:
        said = dict(collection.summary(card, card.collection))
        return f"To whom: {one_line(said['To whom'])}", f"Promise: {one_line(said['Promise'])}"
    name = level_of(card.person.counted_guarantee).name.upper()
    promise = f"{name}. {_guarantee(card)} {_in_words(card)}" if card.guarantee.private else f"NONE. {_in_words(card)}"
    return f"To whom: {one_line(_to_whom(card))}", f"Promise: {one_line(promise)}"


def free_text_warning(columns: Sequence[str]) -> str:
    """The warning about columns that look like free text and are not rewritten."""
    named = ", ".join(f"'{name}'" for name in columns)
    looks, them = ("column looks", "it") if len(columns) == 1 else ("columns look", "them")
    warning = f"{named}: the {looks} like free text, and the output holds {them} UNCHANGED, without any protection."
    return one_line(warning)


def whose_rows(shuffling: ShuffledRelease, *, people: bool) -> str:
    """Whom the central guarantee is for, if people are known or only rows and their ids are."""
    if shuffling.most_rows == 1:
        return "one person" if people else "one row"
    return f"all rows of {'one person' if people else 'one id'}, at most {shuffling.most_rows:,}"


def texts_in_words(row: RowFacts) -> str:
    """Where the texts of a row come from."""
    named = ", ".join(f"'{name}'" for name in row.columns)
    if row.joined:
        return f"one in each row: the columns {named}, joined, in '{row.columns[0]}'; the others are not released"
    if len(row.columns) > 1:
        return f"{len(row.columns)} in each row, in the columns {named}; each is a release of its own"
    return f"one in each row, in the column {named}"


def book_in_words(model: ModelLine, *, own_words: bool) -> str:
    """What can come out of a model with a book, and who chose it."""
    count, words = f"{model.sentences:,} sentences", []
    kinds = [("area", model.areas), ("topic", model.topics)]
    these = [f"this {kind}" if len(names) == 1 else f"these {kind}s" for kind, names in kinds if names]
    if these:
        only, named = "Of its book, only" if own_words else "Only", ", ".join((*model.areas, *model.topics))
        words.append(f"{only} sentences of {' and '.join(these)} can come out: {named} ({count}).")
        words.append("Chosen by the operator, not computed from the texts.")
    if not own_words:
        when = "ever come out" if model.book_only else "come out at this budget"
        words.append(f"Everything that can {when} is on a public list. No name, number or address of yours can.")
        words += [] if these else [f"The list has {count}."]
    elif these:
        words.append("A text's own words can come out too at this budget.")
    else:
        words.append(f"A text's own words can come out at this budget, or sentences of a public list ({count}).")
    return " ".join(words)


def or_sentences(model: ModelLine) -> str:
    """What a model writes whole, however many tokens that are."""
    return "" if model.sentences is None else ", or whole sentences of its book"


def chosen_in_words(areas: Sequence[str], topics: Sequence[str]) -> str:
    """The part of a book that was chosen.

    >>> chosen_in_words(("health", "service"), ("being happy",)), chosen_in_words((), ())
    ('the areas health, service and the topic being happy', 'the whole book')
    """
    kinds = [("area", areas), ("topic", topics)]
    named = [f"the {kind}{'s' if len(names) > 1 else ''} {', '.join(names)}" for kind, names in kinds if names]
    return " and ".join(named) or "the whole book"


def _title(card: CardFacts) -> str:
    return "PRIVACY CARD" if card.guarantee.private else "PRIVACY CARD: THIS OUTPUT IS NOT PRIVATE"


def _warnings(card: CardFacts) -> list[str]:
    """What somebody should look at before the output is shared."""
    return [free_text_warning(card.free_text_columns)] if card.free_text_columns else []


def _summary(card: CardFacts) -> Lines:
    """The top of a card, for somebody who has never heard of epsilon: a heading and some sentences each."""
    first = _first(card) if card.collection is None else collection.summary(card, card.collection)
    lines = [
        *first,
        *([] if card.model.sentences is None else [("New texts", book_in_words(card.model, own_words=card.own_words))]),
        ("Released unchanged", _unchanged(card)),
    ]
    return [(name, one_line(words)) for name, words in lines]


def _first(card: CardFacts) -> Lines:
    """The first lines about texts that were rewritten one by one."""
    return [
        ("Promise", f"{level_of(card.person.counted_guarantee).name.upper()}. {_guarantee(card)}"),
        *([] if card.shuffled is None else [("Shuffled", _central(card.shuffled, card.recipe))]),
        ("To whom", _to_whom(card)),
        ("In words", _in_words(card)),
        ("Read and written", _read_and_written(card)),
    ]


def _guarantee(card: CardFacts) -> str:
    if not card.guarantee.private:
        return "This output is NOT PRIVATE: epsilon is infinite."
    text, together = _plain(card.guarantee), _plain(card.person.counted_guarantee)
    if text == together:
        return f"Epsilon {text} for each text."
    whose = "all texts with one id" if card.person.guarantee is None else "a person"
    row = _plain(card.row.guarantee)
    if row == together:
        return f"Epsilon {row} for all texts of a row; epsilon {text} for each text."
    of_a_row = "" if row == text else f" epsilon {row} for all texts of a row;"
    return f"Epsilon {together} for {whose};{of_a_row} epsilon {text} for each text."


def _central(shuffling: ShuffledRelease, recipe: str) -> str:
    if shuffling.rule == LOCAL:
        return "The rows are in random order, but they are too few for a smaller epsilon."
    central, whose = shuffling.guarantee, "a person" if shuffling.most_rows > 1 else "a row"
    needs = f" Besides, {OWN_CODE}." if needs_own_code(shuffling.rule, recipe) else ""
    return (
        f"Epsilon {_plain(central)} for {whose}, to those who see only this output. Its "
        f"rows are in random order, so the others hide each one.{needs}"
    )


def _in_words(card: CardFacts) -> str:
    promised = card.person.counted_guarantee
    level = level_of(promised)
    if not promised.private:
        return level.meaning
    if card.person.most_texts == 1:
        facts = facts_of(card)
        alone = facts if facts.guarantee == promised else None  # without a label
        return f"{level.meaning} {odds(promised, facts=alone)}"
    whose = "of one row" if card.person.most_texts * card.rows == card.texts else "with one id"
    whose = whose if card.person.guarantee is None else "of one person"
    counted = f"This counts all texts {whose}, at most {card.person.most_texts:,}."
    return f"{counted} {level.meaning} {odds(promised, what=SEVERAL)}"


def _plain(guarantee: Guarantee) -> str:
    return f"{few_digits(guarantee.epsilon)}, delta {few_digits(guarantee.delta)}"


def _to_whom(card: CardFacts) -> str:
    person = card.person
    if not card.guarantee.private:
        return "Nobody."
    if person.guarantee is None:
        what = "text" if card.texts == card.rows else "row"
        return (
            f"The person behind each {what}, for that {what} alone. It is not known which {what}s belong to one "
            f"person, and somebody with several {what}s is promised less."
        )
    several = f"all of their texts in this run, up to {person.most_texts:,}"
    texts = "their one text" if person.most_texts == 1 else several
    return f"Each person in the column '{person.named_by}' ({person.people:,} in all), for {texts}."


def _read_and_written(card: CardFacts) -> str:
    model = card.model
    read = "" if model.reads is None else f"read the first {model.reads:,} tokens of each and "
    wrote = model.length if model.writes is None else model.writes
    cut = "" if model.reads is None else " What comes later in a text was not read."
    language = f"knows {model.language}" if model.language else "does not say which language it knows"
    several = "" if card.texts == card.rows else f", {card.texts // card.rows:,} for each of {card.rows:,} rows"
    return (
        f"{card.texts:,} texts{several}. The model {read}wrote at most {wrote:,} tokens for each{or_sentences(model)}; "
        f"a token is a word or a part of a word.{cut} The model {language}."
    )


def _unchanged(card: CardFacts) -> str:
    if not card.other_columns:
        return "No other column is in the output."
    named = ", ".join(f"'{name}'" for name in card.other_columns)
    return f"These columns are in the output as they were in the input, without any protection: {named}."


_MEANINGS = {
    "Guarantee": "For any two texts, or any two records of a person, no output is more than exp(epsilon) times as "
    "likely from one as from the other; delta is a small slack on top.",
    "Unit": "What the guarantee protects as a whole.",
    "Local": "The guarantee of each row by itself. It does not depend on the order of the rows.",
    "Central": "The guarantee of the output as a whole. The random rows of the others hide each person.",
    "Known rows": "What is left of the central guarantee if a tenth of the rows hides nobody any more.",
    "Row": "The guarantee for all texts of one row together.",
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
    "Texts": "Where the texts come from. How many a row has is public and does not depend on what they say.",
    "Labels": "What happened to the column of labels.",
    "Other columns": "Columns that are in the output as they were in the input, without any protection.",
    "Free text": "Columns released unchanged whose names sound like free text. Check them before you share the output.",
    "Metrics": "Figures computed from private texts would be a release too.",
    "Mechanism": "How texts are randomised, and the proof that this gives the guarantee.",
    "Clip": "The bound on what a text can put into its latent, the numbers that stand for it.",
    "Sensitivity": "How far apart the numbers of two texts, or of two people, can lie at most.",
    "Noise scale": "How much random noise is added to every number.",
    "Code": "A text becomes one code. More bits say more about the text, and come through less often.",
    "Kept": "How often the code of a text comes out as it went in. The promise does not rest on hiding which ones did.",
    "Sampler": "How random numbers are drawn. An inexact sampler can leak through its rounding.",
    "Slack": "What the sampler adds to epsilon and delta.",
    "Entropy": "Where random bits come from. Nobody can draw them again.",
    "Channel": "The most that any observer can learn about a text, in bits. A yes or no is one bit.",
    "Side channels": "Other ways in which a text might leak, open or closed.",
    "Votes": "How a person's texts are counted. One person has one vote, so nobody can move the counts by more.",
    "Counts": "Everything that was released about the people. The rows were drawn from these counts alone.",
    "Model": "The model whose words these are: its name, the beginning of its hash, and its kind.",
    "Model files": "A hash of everything else that was loaded: settings, tokenizer and tables.",
    "Length": "How much of a text the model sees, and how much it writes.",
    "Language": "Texts in other languages come out as noise, with the same guarantee.",
    "Book": "The public sentences that can come out. The operator chooses their areas and topics, a public setting; "
    "nothing about the choice is computed from the texts.",
    "Columns": "How much of the latent is used.",
    "Decoding": "How the model chooses its words. This needs no private text.",
    "Recipe": "Everything that decides the guarantee, in one line.",
    "Run": "How many rows were written. The card does not say how long it took, which depends on the texts.",
    "Refused": "Texts that had to wait until a budget was raised.",
    "Engine": "Where the texts were read.",
    "Versions": "The software of this run.",
    "Settings": "A hash of the settings. Equal hashes mean equal settings.",
    "Output": "A hash of the output file. It shows whether a file is the one that this card describes.",
    "Made": "When this card was made, in UTC, and by which version.",
}


def _groups(card: CardFacts) -> list[tuple[str, Lines]]:
    """The facts, as promise, data, mechanism and run."""
    parts = {"promise": _promise(card), "data": _data(card), "mechanism": _mechanism(card), "run": _run(card)}
    return [(f"The {title}", [(name, one_line(value)) for name, value in part]) for title, part in parts.items()]


def _promise(card: CardFacts) -> Lines:
    person, row, together = card.person, card.row, card.collection
    whose = f"each of {card.texts:,} texts" if together is None else f"each of {together.people:,} people"
    return [
        ("Guarantee", f"{card.guarantee} for {whose}"),
        ("Unit", card.unit),
        *_shuffled(card),
        *([] if row.texts == 1 else [("Row", f"{row.guarantee} for all {row.texts:,} texts of one row")]),
        *(_person(person) if together is None else [("People", _voters(card))]),
        ("Composition", person.composition),
        ("Budget", "none set" if person.budget is None else f"at most epsilon {person.budget:.10g} per person"),
        ("Ledger", person.ledger),
        ("Trust model", card.trust_model),
    ]


def _shuffled(card: CardFacts) -> Lines:
    """Both guarantees of a shuffled output, and who is trusted for what."""
    if card.shuffled is None:
        return []
    shuffling = card.shuffled
    whose = whose_rows(shuffling, people=card.person.guarantee is not None)
    whose += " (group privacy)" if shuffling.most_rows > 1 else ""
    bound = "shuffling gains nothing here" if shuffling.rule == LOCAL else f"by the {shuffling.rule} bound"
    alone = f"to those who see only the output, {card.rows:,} rows in random order; {bound}"
    return [
        ("Local", f"{card.guarantee} for each row, whoever sees it and whatever they know; the ledger counts this one"),
        ("Central", f"{shuffling.guarantee} for {whose}, {alone}"),
        ("Known rows", f"{shuffling.known_guarantee} to those who also know {shuffling.known:,} of these rows"),
    ]


def _person(person: PersonFacts) -> Lines:
    if person.guarantee is not None:
        return [
            ("Person", f"{person.guarantee} for all texts of one person, at most {person.most_texts:,} in this run"),
            ("People", f"{person.people:,}, identified by {person.named_by}"),
        ]
    column = "" if person.counted == "rows" else f", identified by {person.named_by}"
    most = f"at most {person.most_texts:,} in this run"
    return [
        ("Person", "no guarantee is stated: it is not known which texts belong to one person"),
        ("Counted", f"{person.people:,} {person.counted}{column}"),
        ("Same id", f"{person.counted_guarantee} for all texts with one id, {most}"),
        ("No id", f"{person.without_id:,} rows, each counted alone"),
    ]


def _voters(card: CardFacts) -> str:
    person = card.person
    by = "each row of the input counted as one" if person.guarantee is None else f"identified by {person.named_by}"
    return f"{person.people:,}, {by}; each has one vote, whatever they wrote and however much"


def _data(card: CardFacts) -> Lines:
    corpora = ", ".join(str(each["name"]) for each in card.model.public_data) or "see the model's own documentation"
    return [
        ("Texts", texts_in_words(card.row)),
        *([] if card.collection is None else [("Counts", _counts(card.collection))]),
        ("Labels", card.labels),
        ("Other columns", ", ".join(card.other_columns) + ": unchanged" if card.other_columns else "none"),
        ("Free text", ", ".join(card.free_text_columns) + ": unchanged" if card.free_text_columns else "none"),
        ("Metrics", card.metrics),
        ("Public data", corpora),
    ]


def _counts(stated: CollectionFacts) -> str:
    labels = f" for each of {len(stated.label_values):,} labels" if stated.label_values else ""
    return (
        f"{stated.cells:,}{labels}, with their noise, in {stated.unit:,}ths of a vote; the JSON has them (digest "
        f"{collection.counts_digest(stated.counts)})"
    )


def _mechanism(card: CardFacts) -> Lines:
    noise, model = card.noise, card.model
    of_what = "of a text get through" if card.collection is None else "about a person get through"
    reads = "not stated" if model.reads is None else f"{model.reads:,} tokens"
    writes = model.length if model.writes is None else model.writes
    return [
        ("Mechanism", f"{noise.mechanism}; {noise.proof}"),
        *facts_of(card).lines,
        ("Sampler", noise.sampler),
        ("Slack", "epsilon 0, delta 0: the sampler is exact"),
        ("Entropy", noise.entropy),
        ("Channel", f"at most {math.inf if noise.bits is None else noise.bits:.4g} bits {of_what}"),
        ("Model", f"{model.identity} ({model.variant}), length {model.length}"),
        *([] if model.files is None else [("Model files", f"SHA-256 {model.files}, without the weights")]),
        ("Length", f"reads: {reads}; writes: at most {writes:,} tokens{or_sentences(model)}"),
        ("Language", model.language or "not stated"),
        *([] if model.sentences is None else [("Book", _book(model))]),
        *([] if model.kept is None else [("Columns", f"{model.kept} of {model.width} kept")]),
        ("Decoding", model.decoding),
        ("Side channels", "; ".join(card.side_channels)),
    ]


def _book(model: ModelLine) -> str:
    only = "; nothing else can come out, at any budget" if model.book_only else ""
    return f"{chosen_in_words(model.areas, model.topics)}: {model.sentences:,} sentences{only}"


def _run(card: CardFacts) -> Lines:
    run = card.run
    return [
        ("Recipe", card.recipe),
        ("Run", f"{card.rows:,} rows"),
        ("Refused", f"{run.refused:,} texts during the run, by a budget"),
        ("Engine", run.engine),
        ("Versions", ", ".join(f"{name} {version}" for name, version in run.versions.items())),
        ("Settings", f"SHA-256 {run.settings_sha256}"),
        ("Output", f"SHA-256 {run.output_sha256 or 'unknown: the output was not a file'}"),
        ("Made", f"{card.made} by dpbart {card.version}"),
    ]


_HERE = ' class="here" aria-current="true"'
_PAGE = Template("""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>$title</title>
<style>
body { font: 16px/1.5 system-ui, sans-serif; max-width: 56rem; margin: 2rem auto; padding: 0 1rem; }
body { color: #1a1a1a; background: #fff; }
h1 { margin-bottom: .6rem; }
h2 { margin-top: 2.2rem; }
.scale { display: flex; gap: .2rem; margin: 0; padding: 0; list-style: none; }
.scale li { flex: 1; padding: .3rem .4rem; text-align: center; font-size: .85rem; background: #eee; color: #555; }
.scale .here { background: $colour; color: #fff; font-weight: 700; }
.promise { padding: .4rem 1rem; border-left: .4rem solid $colour; background: $background; margin-top: .6rem; }
.promise dt { font-weight: 600; margin-top: .6rem; }
.promise dd { margin: 0 0 .6rem; }
.warning { padding: .8rem 1rem; border: .15rem solid #b3261e; background: #fdecea; color: #8c1d18; font-weight: 600; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .45rem .6rem; border-bottom: 1px solid #ddd; }
td { overflow-wrap: anywhere; }
th { width: 9rem; font-weight: 600; }
.meaning { display: block; color: #555; font-size: .85rem; }
@media print { body { margin: 0; } .scale .here { print-color-adjust: exact; } }
</style>
</head>
<body>
<h1>$title</h1>
<ol class="scale" aria-label="How strong the promise is">
$scale
</ol>
<dl class="promise">
$summary
</dl>
$warnings<h2>What is not covered</h2>
<ul>
$covered
</ul>
$groups
</body>
</html>
""")


def _table(title: str, facts: Lines) -> str:
    rows = "\n".join(
        f'<tr><th>{name}</th><td>{escape(value)}<span class="meaning">{escape(_MEANINGS[name])}</span></td></tr>'
        for name, value in facts
    )
    return f"<h2>{title}</h2>\n<table>\n{rows}\n</table>"
