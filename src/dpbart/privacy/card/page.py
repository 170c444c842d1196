"""The card as an HTML page: self-contained, without scripts."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from string import Template

from dpbart.privacy.card.lines import Fact
from dpbart.privacy.scale import LEVELS, Level

_PAGE = Template("""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>$title</title>
<style>
body { font: 16px/1.5 system-ui, sans-serif; max-width: 56rem; margin: 2rem auto; padding: 0 1rem; }
body { color: #1a1a1a; background: #fff; }
h1 { margin-bottom: .6rem; }
h2 { margin-top: 2.2rem; }
.scale { display: flex; gap: .2rem; margin: 0; padding: 0; list-style: none; }
.scale li { flex: 1; padding: .3rem .4rem; text-align: center; font-size: .85rem; background: #eee; color: #555; }
.scale .here { background: $colour; color: #fff; font-weight: 700; }
.promise { padding: .4rem 1rem; border-left: .4rem solid $colour; background: $background; margin-top: .6rem; }
.promise dt { font-weight: 600; margin-top: .6rem; }
.promise dd { margin: 0 0 .6rem; }
.warning { padding: .8rem 1rem; border: .15rem solid #b3261e; background: #fdecea; color: #8c1d18; font-weight: 600; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .45rem .6rem; border-bottom: 1px solid #ddd; }
td { overflow-wrap: anywhere; }
th { width: 9rem; font-weight: 600; }
.meaning { display: block; color: #555; font-size: .85rem; }
@media print { body { margin: 0; } .scale .here { print-color-adjust: exact; } }
</style>
</head>
<body>
<h1>$title</h1>
<ol class="scale" aria-label="How strong the promise is">
$scale
</ol>
<dl class="promise">
$summary
</dl>
$warnings<h2>What is not covered</h2>
<ul>
$covered
</ul>
$groups
</body>
</html>
""")
_GROUP = Template("""<h2>$title</h2>
<table>
$rows
</table>""")


def html_page(
    *,
    title: str,
    level: Level,
    summary: Sequence[tuple[str, str]],
    warnings: Sequence[str],
    not_covered: Sequence[str],
    groups: Sequence[tuple[str, Sequence[Fact]]],
) -> str:
    """The page, with all values escaped."""
    return _PAGE.substitute(
        title=escape(title),
        colour=level.colour,
        background=level.background,
        scale="\n".join(_step(each, here=each is level) for each in LEVELS),
        summary="\n".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in summary),
        warnings="".join(f'<p class="warning">{escape(each)}</p>\n' for each in warnings),
        covered="\n".join(f"<li>{escape(each)}</li>" for each in not_covered),
        groups="\n".join(_GROUP.substitute(title=escape(name), rows=_rows(facts)) for name, facts in groups),
    )


def _step(level: Level, *, here: bool) -> str:
    return f'<li class="here" aria-current="true">{level.name}</li>' if here else f"<li>{level.name}</li>"


def _rows(facts: Sequence[Fact]) -> str:
    return "\n".join(
        f"<tr><th>{escape(each.name)}</th><td>{escape(each.value)}"
        f'<span class="meaning">{escape(each.meaning)}</span></td></tr>'
        for each in facts
    )
