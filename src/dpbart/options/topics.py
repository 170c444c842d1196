"""The question what a private file says."""

from __future__ import annotations

from typing import Any

from dpbart.options.declare import AnyPath, Record, option


class TopicsQuestion(Record):
    """Which private file to read, and how to divide it.

    TopicsQuestion("private.csv", by="ward")
    """

    private: AnyPath = option(argument=True, metavar="PRIVATE", help="The private file.", http=False)
    card: AnyPath | None = option(None, help="Its privacy card (JSON); PRIVATE.card.json by default.", http=False)
    by: str | None = option(
        None,
        metavar="COLUMN",
        help="Compare the groups of a released column; for a synthesised file, of its label column.",
        example="ward",
    )
    areas: bool = option(False, help="Count by the areas of the book instead of its topics.")
    model: str | None = option(
        None,
        flags="-m --model",
        metavar="DIR|HUB-ID",
        help="Where the model on the card is, if it does not ship with dpbart.",
        http=False,
    )
    plot: AnyPath | None = option(None, help="Also draw a picture: .png, .pdf or .svg.", http=False)
    dark: bool = option(False, help="Draw it light on dark.", http=False)

    def __init__(self, *values: Any, **named: Any) -> None:
        super().__init__(*values, **named)
