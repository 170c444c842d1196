"""The card of a run, from what was asked for and what was done."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Mapping
from importlib.metadata import version
from typing import TYPE_CHECKING

from dpbart import __version__
from dpbart.privacy.budget.composition import exactly, plus
from dpbart.privacy.budget.ledger import utc_now
from dpbart.privacy.card.card import UNIT, Card, ModelLine, NoiseFacts, RunFacts
from dpbart.privacy.guarantee import Guarantee
from dpbart.rewrite.rewriter import Rewriter

if TYPE_CHECKING:
    from dpbart.rewrite.job import Job

JOINED_UNIT = "all texts of one person, joined into one document: " + UNIT.partition(": ")[2]


def describe(rewriter: Rewriter, *, recipe: str, rows: int, job: Job, run: RunFacts) -> Card:
    """The card of a run whose texts were made by a recipe."""
    facts = rewriter.bundle.facts
    text = rewriter.rewrite([]).guarantee
    return Card(
        guarantee=_with_label(text, job),
        person=job.account.facts(rows=rows),
        noise=NoiseFacts.of(rewriter.mechanism, rewriter.clip, rewriter.entropy, entries=rewriter.entries),
        model=ModelLine(
            name=rewriter.bundle.name,
            fingerprint=rewriter.bundle.fingerprint,
            variant=facts.variant,
            length=rewriter.tokens.length,
            kept=len(rewriter.columns.kept),
            width=rewriter.columns.width,
            decoding=rewriter.search.recipe,
            public_data=facts.corpora,
        ),
        run=run,
        rows=rows,
        labels=_labels(job),
        label_epsilon=0.0 if job.task.policy is None else job.task.policy.epsilon,
        other_columns=_other_columns(job),
        metrics="none was computed against the private texts",
        recipe=recipe,
        version=__version__,
        made=utc_now(),
        unit=JOINED_UNIT if job.task.join_documents else UNIT,
    )


def run_facts(
    *, drawn: int, seconds: float, settings: Mapping[str, object], output: str | None, engine: str, refused: int
) -> RunFacts:
    """The facts of a run that drew so many texts in so many seconds; `output` is the hash of its file."""
    packages = ("torch", "transformers", "tokenizers", "numpy", "scipy")
    return RunFacts(
        engine=engine,
        refused=refused,
        seconds=round(seconds, 3),
        rows_per_second=round(drawn / max(seconds, 1e-9), 3),
        versions={"python": platform.python_version(), **{name: version(name) for name in packages}},
        settings_sha256=hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest(),
        output_sha256=output,
    )


def _with_label(text: Guarantee, job: Job) -> Guarantee:
    labels = job.task.policy
    if labels is None or labels.response is None or not text.private:
        return text
    return Guarantee(float(plus(exactly(text.epsilon), exactly(labels.epsilon))), text.delta)


def _labels(job: Job) -> str:
    labels = job.task.policy
    if labels is None:
        return "no label column named"
    if labels.policy == "drop":
        return f"dropped: column '{labels.column}' is not in the output"
    if labels.response is None:
        return f"public: column '{labels.column}' is released as it is, without protection"
    among = ", ".join(labels.response.labels[:20]) + (", ..." if len(labels.response.labels) > 20 else "")
    return (
        f"randomised: column '{labels.column}' by {len(labels.response.labels)}-ary randomised response, epsilon "
        f"{labels.epsilon:.10g} of the guarantee; the set of labels was given: {among}"
    )


def _other_columns(job: Job) -> list[str]:
    if job.task.texts_alone:
        return []
    named = [name for name in job.columns if name not in (job.task.text_column, job.task.label_column)]
    if not job.table.format.further_keys or job.task.join_documents:
        return named
    return [*named, "any further keys of single rows"]
