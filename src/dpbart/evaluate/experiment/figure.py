"""The paper's figure: F1 against epsilon on a log axis with infinity at the right, one panel per data set."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dpbart.errors import BadParameter, require_extra
from dpbart.evaluate.experiment.results import Result, best_on_validation, system_of, with_short_names
from dpbart.files import whole_or_nothing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's colours, which colour-blind people can tell apart.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
INFINITY_AFTER = 4.0  # infinity is drawn at this multiple of the largest budget


@dataclass(frozen=True)
class Line:
    """One system in a panel: its points, from the smallest budget to infinity."""

    name: str
    x: tuple[float, ...]
    mean: tuple[float, ...]
    deviation: tuple[float, ...]


@dataclass(frozen=True)
class Panel:
    """Everything drawn for one data set."""

    data: str
    ticks: tuple[tuple[float, str], ...]  # place on the axis, and label
    lines: tuple[Line, ...]
    alone: Line  # control: only the label, by randomised response
    original: float | None
    majority: float | None


def panels(results: Sequence[Result], classifier: str | None = None) -> list[Panel]:
    """The panels for one classifier: the named one, or the first."""
    results = [*results, *best_on_validation(results)]
    names = list(dict.fromkeys(each.classifier for each in results))
    chosen = names[0] if classifier is None and names else classifier
    if chosen not in names:
        raise BadParameter(f"the classifier must be one of {', '.join(names) or 'none'}, got {chosen!r}.")
    shown = with_short_names([each for each in results if each.classifier == chosen])
    found = [_panel([each for each in shown if each.data == data]) for data in dict.fromkeys(r.data for r in shown)]
    if not any(panel.lines for panel in found):
        raise BadParameter(f"a figure needs results of '{chosen}' on rewritten texts, got none.")
    return found


def _panel(results: list[Result]) -> Panel:
    finite = sorted({each.epsilon for each in results if each.epsilon is not None and math.isfinite(each.epsilon)})
    end = INFINITY_AFTER * max(finite, default=1.0)
    shown = [each for each in results if each.epsilon is not None]
    ticks = [(epsilon, f"{epsilon:,g}") for epsilon in finite]
    if any(each.epsilon == math.inf for each in shown):
        ticks.append((end, "∞"))
    done = [each for each in shown if each.f1_mean is not None]
    names = dict.fromkeys(system_of(each) for each in done)
    # The rewriting without noise ends every line of its model, whatever the mechanism.
    lines = []
    for name in names:
        ended = (r for r in done if system_of(r) == name or (r.epsilon == math.inf and system_of(r) == _model_of(name)))
        points = [(min(r.epsilon or 0.0, end), r.f1_mean or 0.0, r.f1_deviation or 0.0) for r in ended]
        lines.append(_line(name, points))
    original = next((each.f1_mean for each in results if each.setting == "original"), None)
    alone = {each.epsilon: each.label_only_f1 or 0.0 for each in shown if each.epsilon is not None}
    control = _line("label alone, no text", [(min(epsilon, end), f1, 0.0) for epsilon, f1 in alone.items()])
    return Panel(results[0].data, tuple(ticks), tuple(lines), control, original, results[0].majority_f1)


def _model_of(system: str) -> str:
    return system.split(", ")[0]


def _line(name: str, points: list[tuple[float, float, float]]) -> Line:
    x, mean, deviation = zip(*sorted(points), strict=True) if points else ((), (), ())
    return Line(name, x, mean, deviation)


def draw(found: Sequence[Panel], file: Path) -> None:
    """Draw the figure, in the format of the file's extension."""
    require_extra("evaluate", "figures need", "matplotlib")
    import matplotlib

    matplotlib.use("Agg")  # a file, not a window
    from matplotlib import pyplot
    from matplotlib.backend_bases import FigureCanvasBase

    format = file.suffix.removeprefix(".").lower()
    if format not in FigureCanvasBase.filetypes:
        raise BadParameter(f"the extension of a figure must be .png, .pdf or .svg, got '{file}'.")

    wide = min(len(found), 2)
    high = math.ceil(len(found) / wide)
    figure, axes = pyplot.subplots(
        high, wide, figsize=(5.2 * wide, 3.5 * high + 0.5), sharey=True, squeeze=False, layout="constrained"
    )
    # A model has one colour, whatever the mechanism.
    order = list(dict.fromkeys(_model_of(line.name) for panel in found for line in panel.lines))
    legend: dict[str, object] = {}
    for axis, panel in zip(axes.flat, found, strict=False):
        _draw_panel(axis, panel, order)
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            legend.setdefault(label, handle)
    for axis in axes.flat[len(found) :]:
        axis.set_visible(False)
    for axis in axes[:, 0]:
        axis.set_ylabel("macro F1 on original test texts")
    columns = 4 if wide > 1 else 2
    figure.legend(list(legend.values()), list(legend), loc="outside lower center", ncols=columns, frameon=False)
    with whole_or_nothing(file) as partial:
        figure.savefig(partial, format=format, dpi=130)
    pyplot.close(figure)


def _draw_panel(axis: Axes, panel: Panel, order: list[str]) -> None:
    """The line of each system, with a band of one standard deviation, and the scores to compare them with."""
    for line in panel.lines:
        model = _model_of(line.name)
        place, dashes = order.index(model), "-" if line.name == model else "--"
        colour, marker = COLOURS[place % len(COLOURS)], MARKERS[place % len(MARKERS)]
        low = [mean - spread for mean, spread in zip(line.mean, line.deviation, strict=True)]
        top = [mean + spread for mean, spread in zip(line.mean, line.deviation, strict=True)]
        axis.fill_between(line.x, low, top, color=colour, alpha=0.18, linewidth=0)
        axis.plot(line.x, line.mean, marker + dashes, color=colour, label=line.name, markersize=4.5, linewidth=1.5)
    axis.plot(panel.alone.x, panel.alone.mean, ":", color="#777777", linewidth=1.5, label=panel.alone.name)
    if panel.original is not None:
        axis.axhline(panel.original, color="#222222", linewidth=0.9, linestyle="-.", label="original texts")
    if panel.majority is not None:
        axis.axhline(panel.majority, color="#999999", linewidth=0.9, linestyle="-", label="most frequent label")
    axis.set(xscale="log", ylim=(0, 1.04), title=panel.data, xlabel="epsilon of one text")
    axis.set_xticks([x for x, _ in panel.ticks], [text for _, text in panel.ticks], rotation=45)
    axis.minorticks_off()
    axis.grid(axis="y", color="#e4e4e4", linewidth=0.6)
    axis.set_axisbelow(True)
    axis.spines[["top", "right"]].set_visible(False)
