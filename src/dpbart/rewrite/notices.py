"""What a run says before anything is released. All of it follows from public facts, never from the texts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpbart.privacy.card.summary import free_text_warning
from dpbart.privacy.guarantee import Guarantee
from dpbart.privacy.scale import WEAK_ABOVE, level_of, odds
from dpbart.rewrite.describe import free_text

if TYPE_CHECKING:
    from dpbart.rewrite.job import Job


def notices(job: Job) -> list[str]:
    """One line each: what is read and written, a weak budget, free text that is not rewritten, a missing card."""
    lines = [_lengths(job)]
    lines += _budget(job.account.composed.guarantee)
    if job.shuffling is not None:
        local, central = float(job.account.release.epsilon), job.shuffling.guarantee
        lines.append(
            f"The rows are shuffled: epsilon {local:.10g} for each, and {central} to those who see only the output."
        )
    columns = free_text(job)
    if columns:
        lines.append(f"Warning: {free_text_warning(columns)}")
    if job.request.card_file is None:
        lines.append("No privacy card is written for standard output. To keep one, pass --card FILE.")
    return lines


def _lengths(job: Job) -> str:
    model, reads = job.described.model, job.described.reads
    writes = model.length if model.writes is None else model.writes
    language = f"It knows {model.language}." if model.language else "It does not say which language it knows."
    return (
        f"The model {model.name} reads the first {reads:,} tokens of each text (a token is a word or a part of one) "
        f"and writes at most {writes:,}. {language}"
    )


def _budget(guarantee: Guarantee) -> list[str]:
    level = level_of(guarantee)
    if guarantee.epsilon <= WEAK_ABOVE:
        return []
    if not guarantee.private:
        return [f"{level.meaning} {odds(guarantee)}"]
    return [f"Epsilon {guarantee.epsilon:.10g}: the promise is {level.name}. {odds(guarantee)}"]
