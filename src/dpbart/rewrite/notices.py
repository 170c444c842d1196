"""What a run says before anything is released. All of it follows from public facts, never from the texts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpbart.privacy.card.shuffled import whose_rows
from dpbart.privacy.card.summary import free_text_warning
from dpbart.privacy.guarantee import Guarantee
from dpbart.privacy.scale import SEVERAL, WEAK_ABOVE, level_of, odds
from dpbart.rewrite.describe import free_text
from dpbart.rewrite.pieces import READS_ENOUGH, Pieces

if TYPE_CHECKING:
    from dpbart.rewrite.job import Job


def notices(job: Job) -> list[str]:
    """One line each: what is read and written, the releases of a row, a weak budget, free text, a missing card."""
    lines = [_lengths(job), *_releases(job)]
    lines += _budget(job)
    if job.shuffling is not None:
        local, central = float(job.account.release.epsilon), job.shuffling.guarantee
        whose = whose_rows(job.shuffling, people=job.account.units == "people")
        lines.append(
            f"The rows are shuffled: epsilon {local:.10g} for each row, and {central} for {whose}, to those who see "
            "only the output."
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


def _releases(job: Job) -> list[str]:
    """How many releases a row is, and what that adds up to."""
    pieces, reads = job.pieces, job.described.reads
    lines = []
    if pieces.per_row > 1:
        each = job.account.release.one_text
        lines.append(
            f"Each row is {pieces.per_row:,} releases ({_counted(pieces)}), each under "
            f"{Guarantee(float(each.epsilon), float(each.delta))}. All texts of a row together are under "
            f"{job.account.row.guarantee}."
        )
    if pieces.split is not None:
        lines.append(
            f"Of each text, the first {pieces.split:,} sentences are read. A text with fewer is padded with empty "
            "ones, which are rewritten too, so that nobody learns how many it has."
        )
    if pieces.split is not None and reads >= READS_ENOUGH:
        lines.append(
            f"This model reads {reads:,} tokens at once. Without --split, it reads a whole document under one epsilon, "
            "which keeps more of it."
        )
    return lines


def _counted(pieces: Pieces) -> str:
    texts = f"{pieces.cells} text columns" if pieces.cells > 1 else "1 text"
    split = "" if pieces.split is None else f", {pieces.split:,} {'piece' if pieces.split == 1 else 'pieces'} each"
    return texts + split


def _budget(job: Job) -> list[str]:
    """What a weak budget means, and whose it is."""
    guarantee = job.account.composed.guarantee
    level = level_of(guarantee)
    if guarantee.epsilon <= WEAK_ABOVE:
        return []
    if not guarantee.private:
        return [f"{level.meaning} {odds(guarantee)}"]
    guessed = odds(guarantee) if job.account.most_texts == 1 else odds(guarantee, what=SEVERAL)
    return [f"Epsilon {guarantee.epsilon:.10g} for {_whose(job)}: the promise is {level.name}. {guessed}"]


def _whose(job: Job) -> str:
    account = job.account
    if account.most_texts == 1:
        return "each person, whose texts are joined" if job.request.join_documents else "each text"
    if account.most_texts == account.release.texts:
        return f"all {account.most_texts:,} texts of a row"
    return f"all texts of one {'person' if account.units == 'people' else 'id'}, at most {account.most_texts:,}"
