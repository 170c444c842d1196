"""Write docs/commands.md: the help of every command, as `dpbart COMMAND --help` prints it."""

from __future__ import annotations

from collections.abc import Iterator

import click
from click.testing import CliRunner

from dpbart.cli import cli


def paths(group: click.Group, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, command in sorted(group.commands.items()):
        yield (*above, name)
        if isinstance(command, click.Group):
            yield from paths(command, (*above, name))


def page() -> str:
    intro = "The `--help` of every command. `make docs` generates this page; a test checks that it is current."
    parts = [f"# Commands\n\n{intro}\n"]
    for path in [(), *paths(cli)]:
        shown = CliRunner().invoke(cli, [*path, "--help"], prog_name="dpbart", terminal_width=100)
        title = " ".join(("dpbart", *path))
        parts.append(f"## {title}\n\n```text\n{shown.output.rstrip()}\n```\n")
    return "\n".join(parts)


if __name__ == "__main__":
    print(page(), end="")
