"""The card as an HTML page: self-contained, without scripts."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from string import Template

_PAGE = Template("""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>$title</title>
<style>
body { font: 16px/1.5 system-ui, sans-serif; max-width: 56rem; margin: 2rem auto; padding: 0 1rem; }
body { color: #1a1a1a; background: #fff; }
.promise { font-size: 1.3rem; padding: .8rem 1rem; border-left: .4rem solid #1b6e3c; background: #eef7f1; }
.open .promise { border-color: #b3261e; background: #fdecea; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .35rem .6rem; border-bottom: 1px solid #ddd; }
td { overflow-wrap: anywhere; }
th { width: 9rem; font-weight: 600; }
</style>
</head>
<body class="$kind">
<h1>$title</h1>
<p class="promise">$promise</p>
<table>
$rows
</table>
<h2>Not covered</h2>
<ul>
$covered
</ul>
</body>
</html>
""")


def html_page(
    *, title: str, promise: str, private: bool, lines: Sequence[tuple[str, str]], not_covered: Sequence[str]
) -> str:
    """The page, with all values escaped."""
    return _PAGE.substitute(
        kind="private" if private else "open",
        title=escape(title),
        promise=escape(promise),
        rows="\n".join(f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in lines),
        covered="\n".join(f"<li>{escape(each)}</li>" for each in not_covered),
    )
