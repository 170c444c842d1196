"""The files that a run leaves: the output and its card, which always belong together.

All new files are complete on disk before one of them gets its name. Then the old output is deleted, the card is
replaced, and the new output gets its name last. If the process is killed in between, there is no output, the run is
unfinished, and `--resume` writes it.
"""

from __future__ import annotations

import os
from pathlib import Path

from dpbart.errors import BadTable
from dpbart.files import delete, partials_of, remove
from dpbart.privacy.card.card import pages_next_to
from dpbart.rewrite.request import Request
from dpbart.tables.table import STANDARD


def remove_old_output(request: Request) -> None:
    """Delete the output that is going to be replaced, if there is one."""
    if request.target != STANDARD:
        remove(request.target)


def clear_half_written(request: Request) -> None:
    """Delete partial results of a killed run. This run holds the lock, so nobody is writing one."""
    card = request.card_file
    cards = () if card is None else (card, *pages_next_to(card))
    for file in (Path(os.path.realpath(request.target)), *cards):
        for partial in partials_of(file):
            delete(partial)


def check_card_place(request: Request, *, overwrite: bool) -> None:
    """Refuse a card that cannot be written, or that would replace something else."""
    file = request.card_file
    if file is None:
        return
    if file.suffix != ".json":
        raise BadTable(
            f"the card must be a .json file, got {str(file)!r}. "
            "The pages for people are written next to it as .txt and .html."
        )
    if not file.parent.is_dir():
        raise BadTable(f"the folder of the card {str(file)!r} does not exist. Create it first.")
    for part in (file, *pages_next_to(file)):
        if part.resolve() in (request.source.resolve(), request.target.resolve()):
            raise BadTable(f"the card would replace {str(part)!r}, which is the input or output. Name another --card.")
        if part.is_dir() or (os.path.lexists(part) and not overwrite):
            raise BadTable(f"{str(part)!r} exists already. Pass --overwrite to replace it, or name another --card.")
