"""Advice about epsilon from a few public texts: fewer texts and budgets than `dpbart advise` has, so it is quicker."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

from dpbart.errors import BadTable, require_extra
from dpbart.options.declare import from_flat
from dpbart.options.evidence import AdviceRequest
from dpbart.progress import hidden_progress
from dpbart.web.bodies import AdviceOptions, Fields
from dpbart.web.guard import Limits
from dpbart.web.job import JobFolder

MOST_TEXTS = 300
BUDGETS = (1.0, 2.0, 4.0, 6.0, 8.0, 10.0)  # larger ones write word by word, and take minutes


def advice_request(folder: JobFolder, options: Fields) -> AdviceRequest:
    """The question of a form. Raises BadParameter if nobody says that the texts are public."""
    given = AdviceOptions(**options).given()
    return from_flat(AdviceRequest, {**given, "file": folder.source, "out": folder.path / "advice.html"})


def advice_json(asked: AdviceRequest, folder: JobFolder, name: str, limits: Limits) -> dict[str, Any]:
    """The advice in words, as a page, and in figures. Nothing of it is kept."""
    require_extra("evaluate", "advice needs", "sklearn")
    from dpbart.evidence.advice_page import advice_page  # imports torch, and the server starts without it
    from dpbart.evidence.advise import read_sample
    from dpbart.evidence.recommend import advise

    until = time.monotonic() + limits.wait_seconds

    def going() -> None:
        if time.monotonic() > until:
            raise BadTable(f"'{name}' takes too long to read. Send a smaller file, or run 'dpbart advise'.")

    with hidden_progress():
        try:
            read = partial(read_sample, bounds=limits.bounds(going))
            advice = advise(asked, budgets=BUDGETS, most=MOST_TEXTS, read=read)
        except BadTable as error:
            raise BadTable(folder.in_words(str(error), name)) from None
    told = advice.as_dict()
    words = {name: told.pop(name) for name in ("headline", "reasons", "changes")}
    return {**words, "page": advice_page(advice), "figures": told}
