"""The best judge: in every setting, the classifier with the highest F1 on valid. The test texts have no say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dpbart.evaluate.experiment.results import Result

BEST = "best on validation"


def best_on_validation(results: Sequence[Result]) -> list[Result]:
    """One more result per setting, of the chosen classifier, on data sets with more than one.

    A setting without a classifier that has an F1 on valid has none: it failed, or is of an older version.
    """
    by_setting: dict[tuple[object, ...], list[Result]] = {}
    for each in results:
        by_setting.setdefault((each.data, each.model, each.mechanism, each.epsilon), []).append(each)
    compared = {rows[0].data for rows in by_setting.values() if len(_judged(rows)) > 1}
    return [
        replace(max(judged, key=lambda each: each.valid_f1 or 0.0), classifier=BEST)
        for rows in by_setting.values()
        if rows[0].data in compared and (judged := _judged(rows))
    ]


def _judged(rows: Sequence[Result]) -> list[Result]:
    return [each for each in rows if each.valid_f1 is not None]
