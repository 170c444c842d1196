"""The card of a run.

It follows from public facts, never from the texts: names and types tell which columns look like free text.
"""

from __future__ import annotations

import hashlib
import json
import platform
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cache

from dpbart.card.card import Card
from dpbart.card.record import (
    FORMAT,
    NOT_COVERED,
    SHUFFLED_NOT_COVERED,
    SHUFFLED_TRUST_MODEL,
    TRUST_MODEL,
    UNIT,
    Noise,
    RowFacts,
    RunFacts,
    side_channels,
)
from dpbart.ledger.ledger import utc_now
from dpbart.options.declare import compared
from dpbart.privacy.guarantee import Guarantee
from dpbart.privacy.shuffling.release import OWN_CODE, needs_own_code
from dpbart.rewrite.account import Account
from dpbart.rewrite.chosen import Described
from dpbart.rewrite.durable.unfinished import RunSettings
from dpbart.rewrite.plan import Plan
from dpbart.tables.schema import holds_texts
from dpbart.version import __version__

# Singular; a plural -s is removed before.
_FREE = re.compile(
    "text|txt|note|comment|description|message|body|content|review|summary|title|abstract|remark|feedback|answer|"
    "question|reply|response|narrative|transcript|post|tweet|complaint|reason|finding|impression|history|"
    "report|letter|memo|story|bio|statement|observation|diary|essay"
)
# A last word that makes it the name of a number, a code or a place: note_id, comment_count, review_date.
_NOT_FREE = re.compile(
    "id|key|code|count|number|num|nr|no|length|len|size|date|time|day|month|year|type|kind|lang|language|flag|url|"
    "link|hash|score|rating|star|statu|category|label"
)
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


def sounds_like_free_text(name: str) -> bool:
    """Whether a column of this name usually holds free text.

    >>> [sounds_like_free_text(name) for name in ("text2", "Nurse notes", "reviewBody", "note_id", "age", "context")]
    [True, True, True, False, False, False]
    """
    words = [word.lower().removesuffix("s") for word in _WORDS.findall(name)]
    return any(map(_FREE.fullmatch, words)) and not _NOT_FREE.fullmatch(words[-1])


JOINED_UNIT = "all texts of one person, joined into one document: " + UNIT.partition(": ")[2]
_PACKAGES = ("torch", "transformers", "tokenizers", "numpy", "scipy")


def describe_texts(account: Account, described: Described, *, recipe: str, texts: int, run: RunFacts) -> Card:
    """The card of texts that come from no table, one release each."""
    text = account.release.one_text
    guarantee = Guarantee(float(text.epsilon), float(text.delta))
    return Card(
        format=FORMAT,
        private=guarantee.private,
        guarantee=guarantee,
        person=account.facts(rows=texts),
        noise=Noise.of(described.facts),
        model=described.model,
        run=run,
        rows=texts,
        row=RowFacts(("text",), joined=False, texts=1, guarantee=account.row.guarantee),
        labels="no label column named",
        label_policy="none",
        label_epsilon=0.0,
        label_options=None,
        other_columns=(),
        free_text_columns=(),
        shuffled=None,
        metrics="none was computed against the private texts",
        recipe=recipe,
        version=__version__,
        made=utc_now(),
        unit=UNIT,
        trust_model=TRUST_MODEL,
        side_channels=side_channels(private=guarantee.private),
        not_covered=NOT_COVERED,
    )


def describe(plan: Plan, *, recipe: str, rows: int, run: RunFacts) -> Card:
    """The card of a finished run: what holds for its texts, and what its table adds."""
    texts, labels, shuffling = plan.outline.texts, plan.outline.labels, plan.shuffling
    card = replace(
        describe_texts(plan.account, plan.described, recipe=recipe, texts=rows, run=run),
        other_columns=_other_columns(plan),
        unit=JOINED_UNIT if plan.request.people.join_documents else UNIT,
        free_text_columns=free_text(plan),
        row=RowFacts(texts.columns, texts.joined, texts.per_row, plan.account.row.guarantee),
    )
    if labels is not None:
        options = None if labels.response is None else labels.response.options
        policy = "randomize" if options else labels.policy
        card = replace(
            card, labels=labels.words, label_policy=policy, label_epsilon=labels.epsilon, label_options=options
        )
    if shuffling is None:
        return card
    trusted = SHUFFLED_TRUST_MODEL
    trusted += f". Besides, {OWN_CODE}" if needs_own_code(shuffling.rule, recipe) else ""
    return replace(card, shuffled=shuffling, trust_model=trusted, not_covered=SHUFFLED_NOT_COVERED)


def planned_card(plan: Plan) -> Card:
    """The card as far as it is known before anything is spent."""
    run = run_facts(settings=run_settings(plan), output=None, engine="none yet", refused=0)
    return describe(plan, recipe=plan.described.facts.recipe, rows=plan.rows or 1, run=run)


def run_facts(*, settings: RunSettings, output: str | None, engine: str, refused: int) -> RunFacts:
    """The card's facts about the run itself; `output` is the SHA-256 of the output file.

    How long a run takes is not among them: it depends on the texts, and no guarantee covers that.
    """
    return RunFacts(
        engine=engine,
        refused=refused,
        versions=_versions(),
        settings_sha256=hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest(),
        output_sha256=output,
    )


@cache
def _versions() -> Mapping[str, str]:
    from importlib.metadata import PackageNotFoundError, version  # not needed to refuse a run, and slow to import

    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        with suppress(PackageNotFoundError):  # the package of an extra
            found[name] = version(name)
    return found


def run_settings(plan: Plan) -> RunSettings:
    """Everything that must be the same when a run is resumed. The engine and the person budget may change."""
    return {**model_settings(plan.described), **compared(plan.request)}


def model_settings(described: Described) -> RunSettings:
    """Everything about the model and its channel that changes what comes out."""
    return {
        "channel": described.facts.recipe,
        "model": described.model.identity,
        "model files": described.files,
        "length": described.model.length,
        "decoding": described.model.decoding,
        "areas": list(described.model.areas),
        "topics": list(described.model.topics),
        "book only": described.model.book_only,
        "version": __version__,
        **described.compared,
    }


def free_text(plan: Plan) -> list[str]:
    """The columns that are released as they are, although they look like free text. Labels and ids are not meant.

    Where a format has no types, the name decides.
    """
    known, schema = plan.request.named_columns, plan.table.header.schema

    def may_hold_texts(name: str) -> bool:
        return schema is None or name not in schema.names or holds_texts(schema.field(name).type)

    released = [] if plan.outline.texts_alone else [name for name in plan.columns if name not in known]
    return [name for name in released if sounds_like_free_text(name) and may_hold_texts(name)]


def _other_columns(plan: Plan) -> list[str]:
    if plan.outline.texts_alone:
        return []
    known = (*plan.outline.texts.columns, plan.request.label.label_column)
    named = [name for name in plan.columns if name not in known]
    further = plan.table.format.further_keys and plan.request.output.keep_all
    return [*named, "any further keys of single rows"] if further else named
