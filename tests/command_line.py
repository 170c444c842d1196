"""`dpbart` as a user runs it, but in this process."""

from __future__ import annotations

from click.testing import CliRunner, Result

from dpbart.cli import cli


def run(*args: object, stdin: str | None = None) -> Result:
    """The result of one command, whether it succeeds or fails."""
    return CliRunner().invoke(cli, [str(arg) for arg in args], input=stdin)


def succeed(*args: object) -> str:
    """The standard output of a command that must succeed."""
    done = CliRunner().invoke(cli, [str(arg) for arg in args], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout
