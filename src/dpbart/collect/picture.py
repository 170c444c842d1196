"""The picture of `dpbart topics`: what can be told from noise, each share with its interval."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dpbart.collect.topics import Share, Topics
from dpbart.errors import BadParameter, require_extra
from dpbart.files import whole_or_nothing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST = 25  # rows of a panel
_NAME = 44  # characters
_ROW, _AROUND = 0.26, 1.4  # inches
# Of Okabe and Ito's colours, which colour-blind people can tell apart, those that can be seen on light and dark.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_LIGHT = {"ground": "#ffffff", "ink": "#222222", "faint": "#d9d9d9"}
_DARK = {"ground": "#16181d", "ink": "#e8e8e8", "faint": "#3d4149"}
_DARK_COLOURS = ("#56B4E9", "#E69F00", "#2fc79b", "#e59cc4", "#f0e442", "#7aa6ff")


def check_picture(file: Path) -> None:
    """Refuse a picture that cannot be drawn, before anything is read."""
    require_extra("evaluate", "figures need", "matplotlib")
    from matplotlib.backend_bases import FigureCanvasBase

    if file.suffix.removeprefix(".").lower() not in FigureCanvasBase.filetypes:
        raise BadParameter(f"the extension of a figure must be .png, .pdf or .svg, got '{file}'.")


def draw(topics: Topics, file: Path, *, dark: bool = False) -> None:
    """Draw shares, or the differences of groups if there are any, in the format of the file's extension."""
    check_picture(file)
    import matplotlib

    matplotlib.use("Agg")  # a file, not a window
    from matplotlib import pyplot

    look, colours = (_DARK, _DARK_COLOURS) if dark else (_LIGHT, _COLOURS)
    panels = _panels(topics)
    high = [_ROW * max(1, len(shares)) + _AROUND for _, shares in panels]
    figure, axes = pyplot.subplots(
        len(panels),
        1,
        figsize=(8.0, sum(high)),
        squeeze=False,
        layout="constrained",
        gridspec_kw={"height_ratios": high},
    )
    figure.set_facecolor(look["ground"])
    areas = list(dict.fromkeys(share.area for _, shares in panels for share in shares))
    colour = {area: colours[number % len(colours)] for number, area in enumerate(areas)}
    for axis, (title, shares) in zip(axes[:, 0], panels, strict=True):
        _draw_panel(axis, title, shares, colour, look)
    with whole_or_nothing(file) as partial:
        figure.savefig(partial, format=file.suffix.removeprefix(".").lower(), dpi=130, facecolor=look["ground"])
    pyplot.close(figure)


def _panels(topics: Topics) -> list[tuple[str, list[Share]]]:
    """The title and the shares of each panel: those that can be told from noise."""
    made = f"{topics.counted}, {topics.release}, epsilon {topics.epsilon:g}"
    if topics.differences:
        titled = [(f"{each.first} − {each.second}", each.shares) for each in topics.differences]
    else:
        titled = [(f"{each.name or 'all'}: {each.counted:,.0f} {made}", each.shares) for each in topics.groups]
    panels = []
    for title, shares in titled:
        told = [share for share in shares if share.told_from_noise]
        notes = []
        if len(told) > _MOST:
            notes.append(f"{len(told) - _MOST:,} more are not shown")
        if len(told) < len(shares):
            notes.append(f"{len(shares) - len(told):,} of {len(shares):,} {topics.parts} cannot be told from noise")
        panels.append(("\n".join([title, *notes]), told[:_MOST]))
    return panels


def _draw_panel(axis: Axes, title: str, shares: Sequence[Share], colour: dict[str, str], look: dict[str, str]) -> None:
    """One line for each share: its interval, and a point at its estimate."""
    for place, share in enumerate(shares):
        paint = colour[share.area]
        axis.plot(
            [100 * share.low, 100 * share.high],
            [place, place],
            color=paint,
            linewidth=5,
            alpha=0.45,
            solid_capstyle="butt",
        )
        axis.plot(100 * share.estimate, place, "o", color=paint, markersize=5)
    axis.set_yticks(range(len(shares)), [_named(share) for share in shares])
    axis.set_ylim(max(len(shares), 1) - 0.4, -0.6)
    axis.set_xlabel("percent", color=look["ink"], fontsize=9)
    axis.set_title(title, color=look["ink"], fontsize=10, loc="left")
    axis.axvline(0, color=look["ink"], linewidth=0.8)
    axis.set_facecolor(look["ground"])
    axis.grid(axis="x", color=look["faint"], linewidth=0.6)
    axis.set_axisbelow(True)
    axis.tick_params(colors=look["ink"], labelsize=9)
    axis.spines[["top", "right", "left"]].set_visible(False)
    axis.spines["bottom"].set_color(look["faint"])


def _named(share: Share) -> str:
    own = share.area in ("", share.name) or share.name.startswith(f"{share.area}:")
    name = textwrap.shorten(share.name, _NAME, placeholder=" …")
    return name if own else f"{name} ({share.area})"
