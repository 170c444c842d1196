"""The card of a run, made from the request and the result, and where it goes."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from dpbart import __version__
from dpbart.privacy.budget.ledger import utc_now
from dpbart.privacy.card import shuffled
from dpbart.privacy.card.card import UNIT, Card, RunFacts
from dpbart.privacy.card.row import RowFacts
from dpbart.privacy.guarantee import Guarantee
from dpbart.rewrite.free_text import free_text_columns

if TYPE_CHECKING:
    from dpbart.rewrite.account import Account
    from dpbart.rewrite.durable.unfinished import RunSettings
    from dpbart.rewrite.job import Job
    from dpbart.rewrite.settings import Described

JOINED_UNIT = "all texts of one person, joined into one document: " + UNIT.partition(": ")[2]
_PACKAGES = ("torch", "transformers", "tokenizers", "numpy", "scipy")


def describe_texts(account: Account, described: Described, *, recipe: str, texts: int, run: RunFacts) -> Card:
    """The card of texts that come from no table, one release each."""
    text = account.release.one_text
    return Card(
        guarantee=Guarantee(float(text.epsilon), float(text.delta)),
        person=account.facts(rows=texts),
        facts=described.facts,
        model=described.model,
        run=run,
        rows=texts,
        labels="no label column named",
        label_epsilon=0.0,
        label_options=None,
        other_columns=(),
        metrics="none was computed against the private texts",
        recipe=recipe,
        version=__version__,
        made=utc_now(),
        row=RowFacts(("text",), joined=False, pieces=None, texts=1, guarantee=account.row.guarantee),
    )


def describe(job: Job, *, recipe: str, rows: int, run: RunFacts) -> Card:
    """The card of a finished run: what holds for its texts, and what its table adds."""
    labels, shuffling = job.request.policy, job.shuffling
    card = replace(
        describe_texts(job.account, job.described, recipe=recipe, texts=rows, run=run),
        other_columns=_other_columns(job),
        unit=JOINED_UNIT if job.request.join_documents else UNIT,
        free_text_columns=free_text(job),
        row=_row(job),
    )
    if labels is not None:
        options = None if labels.response is None else labels.response.options
        card = replace(card, labels=labels.words, label_epsilon=labels.epsilon, label_options=options)
    if shuffling is None:
        return card
    return replace(
        card,
        shuffled=shuffling,
        trust_model=shuffled.TRUST_MODEL,
        not_covered=shuffled.NOT_COVERED,
        # How long a run takes depends on its texts, and no guarantee covers that.
        run=replace(run, seconds=None, rows_per_second=None),
    )


def check_card(job: Job) -> None:
    """Make the card once before anything is spent: if it cannot be made, the run must not begin."""
    run = run_facts(rewritten=0, seconds=0.0, settings=run_settings(job), output=None, engine="none yet", refused=0)
    card = describe(job, recipe=job.described.facts.recipe, rows=job.rows or 1, run=run)
    for page in (card.as_json, card.as_text, card.as_html):
        page()


def run_facts(
    *, rewritten: int, seconds: float | None, settings: RunSettings, output: str | None, engine: str, refused: int
) -> RunFacts:
    """The card's facts about the run itself; `output` is the SHA-256 of the output file."""
    return RunFacts(
        engine=engine,
        refused=refused,
        seconds=None if seconds is None else round(seconds, 3),
        rows_per_second=None if seconds is None else round(rewritten / max(seconds, 1e-9), 3),
        versions=_versions(),
        settings_sha256=hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest(),
        output_sha256=output,
    )


@cache
def _versions() -> Mapping[str, str]:
    from importlib.metadata import version  # not needed to refuse a run, and slow to import

    return {"python": platform.python_version(), **{name: version(name) for name in _PACKAGES}}


def run_settings(job: Job) -> RunSettings:
    """Everything that must be the same when a run is resumed. The engine and the person budget may change."""
    request = job.request
    return {
        **model_settings(job.described),
        "text columns": list(request.text_columns),
        "join columns": request.join_columns,
        "pieces": job.pieces.split,
        "label column": request.label_column,
        "labels": request.labels,
        "label set": list(request.label_set),
        "person column": request.person_column,
        "id column": request.id_column,
        "missing person": request.missing_person,
        "join documents": request.join_documents,
        "delimiter": request.dialect.delimiter,
        "encoding": request.dialect.encoding,
        "document": request.dialect.document,
        "ledger": None if request.ledger is None else str(request.ledger.resolve()),
        **({"shuffle": True} if request.shuffle else {}),
        **({} if request.keep_columns is None else {"keep columns": list(request.keep_columns)}),
    }


def model_settings(described: Described) -> RunSettings:
    """Everything about the model and its channel that changes what comes out."""
    return {
        "channel": described.facts.recipe,
        "model": described.model.identity,
        "model files": described.files,
        "length": described.model.length,
        "decoding": described.model.decoding,
        "batch size": described.batch_size,
        "version": __version__,
    }


def _row(job: Job) -> RowFacts:
    pieces = job.pieces
    return RowFacts(pieces.columns, pieces.joined, pieces.split, pieces.per_row, job.account.row.guarantee)


def free_text(job: Job) -> list[str]:
    """The columns that are released as they are, although they look like free text. Labels and ids are not meant."""
    request = job.request
    known = (*request.text_columns, request.label_column, request.person_column, request.id_column)
    released = [] if request.texts_alone else [name for name in job.columns if name not in known]
    return free_text_columns(job.table, released)


def _other_columns(job: Job) -> list[str]:
    request = job.request
    if request.texts_alone:
        return []
    named = [name for name in job.columns if name not in (*request.text_columns, request.label_column)]
    further = job.table.format.further_keys and request.keeps_all
    return [*named, "any further keys of single rows"] if further else named
