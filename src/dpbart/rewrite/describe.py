"""The card of a run, made from the request and the result, and where it goes."""

from __future__ import annotations

import hashlib
import json
import platform
from dataclasses import replace
from typing import TYPE_CHECKING

from dpbart import __version__
from dpbart.privacy.budget.ledger import utc_now
from dpbart.privacy.card import shuffled
from dpbart.privacy.card.card import NOT_COVERED, TRUST_MODEL, UNIT, Card, RunFacts
from dpbart.privacy.guarantee import Guarantee
from dpbart.rewrite.free_text import free_text_columns

if TYPE_CHECKING:
    from dpbart.rewrite.durable.unfinished import RunSettings
    from dpbart.rewrite.job import Job

JOINED_UNIT = "all texts of one person, joined into one document: " + UNIT.partition(": ")[2]
_PACKAGES = ("torch", "transformers", "tokenizers", "numpy", "scipy")


def describe(job: Job, *, recipe: str, rows: int, run: RunFacts) -> Card:
    """The card of a finished run."""
    labels, release = job.request.policy, job.account.release
    return Card(
        guarantee=Guarantee(float(release.epsilon), float(release.delta)),
        person=job.account.facts(rows=rows),
        facts=job.described.facts,
        model=job.described.model,
        # How long a run takes depends on its texts, and no guarantee covers that.
        run=run if job.shuffling is None else replace(run, seconds=None, rows_per_second=None),
        rows=rows,
        labels="no label column named" if labels is None else labels.words,
        label_epsilon=0.0 if labels is None else labels.epsilon,
        label_options=None if labels is None or labels.response is None else labels.response.options,
        other_columns=_other_columns(job),
        metrics="none was computed against the private texts",
        recipe=recipe,
        version=__version__,
        made=utc_now(),
        unit=JOINED_UNIT if job.request.join_documents else UNIT,
        free_text_columns=free_text(job),
        shuffled=job.shuffling,
        trust_model=TRUST_MODEL if job.shuffling is None else shuffled.TRUST_MODEL,
        not_covered=NOT_COVERED if job.shuffling is None else shuffled.NOT_COVERED,
    )


def check_card(job: Job) -> None:
    """Make the card once before anything is spent: if it cannot be made, the run must not begin."""
    run = run_facts(rewritten=0, seconds=0.0, settings=run_settings(job), output=None, engine="none yet", refused=0)
    card = describe(job, recipe=job.described.facts.recipe, rows=job.rows or 1, run=run)
    for page in (card.as_json, card.as_text, card.as_html):
        page()


def run_facts(
    *, rewritten: int, seconds: float, settings: RunSettings, output: str | None, engine: str, refused: int
) -> RunFacts:
    """The card's facts about the run itself; `output` is the SHA-256 of the output file."""
    from importlib.metadata import version  # not needed to refuse a run, and slow to import

    return RunFacts(
        engine=engine,
        refused=refused,
        seconds=round(seconds, 3),
        rows_per_second=round(rewritten / max(seconds, 1e-9), 3),
        versions={"python": platform.python_version(), **{name: version(name) for name in _PACKAGES}},
        settings_sha256=hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest(),
        output_sha256=output,
    )


def run_settings(job: Job) -> RunSettings:
    """Everything that must be the same when a run is resumed. The engine and the person budget may change."""
    request, described = job.request, job.described
    return {
        "text column": request.text_column,
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
        "channel": described.facts.recipe,
        "model": described.model.identity,
        "model files": described.files,
        "length": described.model.length,
        "decoding": described.model.decoding,
        "batch size": described.batch_size,
        "version": __version__,
        **({"shuffle": True} if request.shuffle else {}),
    }


def free_text(job: Job) -> list[str]:
    """The columns that are released as they are, although they look like free text. Labels and ids are not meant."""
    request = job.request
    known = (request.text_column, request.label_column, request.person_column, request.id_column)
    released = [] if request.texts_alone else [name for name in job.columns if name not in known]
    return free_text_columns(job.table, released)


def _other_columns(job: Job) -> list[str]:
    request = job.request
    if request.texts_alone:
        return []
    named = [name for name in job.columns if name not in (request.text_column, request.label_column)]
    if not job.table.format.further_keys or request.join_documents:
        return named
    return [*named, "any further keys of single rows"]
