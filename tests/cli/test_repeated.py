"""An option that is not meant to be repeated is refused when it is, in every command."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from dpbart.cli import cli


def commands(group: click.Group, *path: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield path, group
    for name in group.commands:
        _, command, _ = group.resolve_command(click.Context(group), [name])
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, *path, name)
        else:
            yield (*path, name), command


SINGLE = [
    (path, option)
    for path, command in commands(cli)
    for option in command.params
    if isinstance(option, click.Option) and not option.multiple and not option.is_eager
]


def test_every_line_of_the_help_begins_the_help_of_its_command() -> None:
    for path, command in commands(cli):
        if len(path) == 1:
            assert str(command.help).replace("\n", " ").split("  ")[0].startswith(str(cli.commands[path[0]].help))


def test_there_are_options_to_test() -> None:
    assert len(SINGLE) > 100


@pytest.mark.parametrize(("path", "option"), SINGLE, ids=lambda each: " ".join(each) if isinstance(each, tuple) else "")
def test_every_single_option_is_refused_when_it_is_repeated(path: tuple[str, ...], option: click.Option) -> None:
    values = [] if option.is_flag else ["1"] * option.nargs
    first, second = (option.opts[0], *values), (option.opts[-1], *values)  # by both of its names
    done = CliRunner().invoke(cli, [*path, *first, *second])
    assert done.exit_code == 2
    assert f"Error: {' / '.join(option.opts)} was given 2 times. Give it once.\n" in done.stderr


def test_the_last_column_does_not_win(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("text,text2\nmy secret,my other secret\n")
    files = [str(tmp_path / "in.csv"), str(tmp_path / "out.csv")]
    done = CliRunner().invoke(cli, ["rewrite", *files, "-e", "10", "--person-column", "text", "--person-column=text2"])
    assert (done.exit_code, "--person-column was given 2 times" in done.stderr) == (2, True)
    assert [file.name for file in tmp_path.iterdir()] == ["in.csv"]


def test_an_option_that_may_be_repeated_is_not_refused() -> None:
    done = CliRunner().invoke(cli, ["prepare", "pretrain", "--corpus", "none", "--corpus", "neither", "--out", "model"])
    assert "was given" not in done.stderr
