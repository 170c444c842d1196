"""The picture of `dpbart attack`: a panel for each attack, its score over epsilon among bound, chance and controls."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dpbart.collect.picture import check_picture
from dpbart.evidence.attack import AttackReport
from dpbart.files import whole_or_nothing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from dpbart.evidence.controls import AttackScore

_PANELS = 3  # in a row
_HIGH, _WIDE = 2.5, 3.4  # inches of a panel
# Of Okabe and Ito's colours, which colour-blind people can tell apart. With each its marker, for a print in grey.
_LINES = (
    ("originals", "on the originals", "#009E73", "^:"),
    ("bound", "bound", "#000000", "--"),
    ("phantom", "phantoms", "#E69F00", "s-"),
    ("unrelated", "unrelated texts", "#56B4E9", "v:"),
    ("chance", "chance", "#888888", "-."),
)
_SCORE = "#D55E00"


def draw_attacks(found: AttackReport, file: Path) -> None:
    """Draw all attacks, in the format of the file's extension."""
    check_picture(file)
    import matplotlib

    matplotlib.use("Agg")  # a file, not a window
    from matplotlib import pyplot

    names = list(dict.fromkeys(score.attack for budget in found.budgets for score in budget.scores))
    rows = -(-len(names) // _PANELS)
    figure, axes = pyplot.subplots(
        rows, _PANELS, figsize=(_PANELS * _WIDE, rows * _HIGH + 0.6), squeeze=False, layout="constrained"
    )
    for axis, name in zip(axes.flat, names, strict=False):
        points = [
            (budget.epsilon, score) for budget in found.budgets for score in budget.scores if score.attack == name
        ]
        _draw_panel(axis, name, points)
    for axis in axes.flat[len(names) :]:
        axis.set_visible(False)
    handles, labels = axes.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False, fontsize=8)
    with whole_or_nothing(file) as partial:
        figure.savefig(partial, format=file.suffix.removeprefix(".").lower(), dpi=130)
    pyplot.close(figure)


def _draw_panel(axis: Axes, name: str, points: list[tuple[float, AttackScore]]) -> None:
    budgets = [epsilon for epsilon, _ in points]
    axis.errorbar(
        budgets,
        [score.score for _, score in points],
        yerr=[2 * score.spread for _, score in points],
        fmt="o-",
        color=_SCORE,
        capsize=2,
        label="score ± 2 standard errors",
    )
    for part, label, colour, style in _LINES:
        values = [getattr(score, part) for _, score in points]
        if None not in values:
            axis.plot(budgets, values, style, color=colour, markersize=3, linewidth=1, label=label)
    axis.set_title(name, fontsize=10, loc="left")
    axis.set_xscale("log")
    axis.set_xticks(budgets, [f"{budget:g}" for budget in budgets])
    axis.minorticks_off()
    axis.set_ylim(-0.03, 1.03)
    axis.set_xlabel("epsilon", fontsize=8)
    axis.set_ylabel(points[0][1].measure.split(",")[0], fontsize=8)
    axis.tick_params(labelsize=8)
    axis.spines[["top", "right"]].set_visible(False)
