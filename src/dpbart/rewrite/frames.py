"""Rewriting of data in memory: a pandas frame, or batches from Hugging Face `datasets`.

Each call releases the texts it is given: rewriting the same frame twice spends the budget twice. There is no ledger
and no card here. For those, use a file and `dpbart rewrite`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from dpbart.errors import BadParameter
from dpbart.privacy.calibration import check_delta_for
from dpbart.rewrite.rewriter import Rewriter

if TYPE_CHECKING:
    import pandas

Columns = Mapping[str, Sequence[object]]


def rewrite_frame(
    frame: pandas.DataFrame, rewriter: Rewriter, *, text_column: str | Sequence[str] = "text"
) -> pandas.DataFrame:
    """A new frame with the texts rewritten; the index and the other columns stay the same.

    rewrite_frame(frame, Rewriter.load(epsilon=50), text_column="review")

    Args:
        frame: is not changed; a missing text counts as an empty one and is rewritten like any other.
        rewriter: its guarantee holds for each text.
        text_column: the column with the texts, or several. Then each cell is a release of its own.

    Raises:
        BadParameter: There is no such column, it holds something other than texts, or delta is not below 1 / texts.
    """
    columns = _columns(text_column)
    old = [_texts(frame[name].tolist() if name in frame.columns else None, name) for name in columns]
    _check_delta(rewriter, texts=len(columns) * len(frame))
    return frame.assign(**{name: list(rewriter.rewrite(texts).texts) for name, texts in zip(columns, old, strict=True)})


def batch_function(
    rewriter: Rewriter, *, text_column: str | Sequence[str] = "text"
) -> Callable[[Columns], dict[str, list[str]]]:
    """A function for `map(batched=True)` of Hugging Face `datasets`: it returns new texts for a batch of columns.

    dataset.map(batch_function(Rewriter.load(epsilon=50)), batched=True, load_from_cache_file=False)

    `datasets` stores the result on disk. Choose delta below 1 / texts: a batch does not know the number of rows.
    """
    names = _columns(text_column)

    def rewrite(columns: Columns) -> dict[str, list[str]]:
        old = {name: _texts(columns.get(name), name) for name in names}
        return {name: list(rewriter.rewrite(texts).texts) for name, texts in old.items()}

    return rewrite


def _columns(text_column: str | Sequence[str]) -> tuple[str, ...]:
    columns = (text_column,) if isinstance(text_column, str) else tuple(text_column)
    if not columns or len(set(columns)) < len(columns):
        raise BadParameter("each text column must be named once. Pass text_column with different names.")
    return columns


def _texts(values: Sequence[object] | None, column: str) -> list[str]:
    if values is None:
        raise BadParameter(f"there is no column {column!r}. Pass text_column.")
    # A missing text is None or, in pandas, a NaN, which is not equal to itself.
    texts = ["" if value is None or value != value else value for value in values]
    if not all(isinstance(text, str) for text in texts):
        raise BadParameter(f"column {column!r} must hold texts, got other values. Convert them to strings first.")
    return [str(text) for text in texts]


def _check_delta(rewriter: Rewriter, *, texts: int) -> None:
    delta = rewriter.facts.guarantee.delta
    check_delta_for(delta, texts=texts, whose=f"{texts} texts", remedy="Load with delta={delta}.")
