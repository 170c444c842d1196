from __future__ import annotations

import io

import pytest
from rich.console import Console

from dpbart.progress import progress


def test_a_bar_inside_a_bar_is_a_second_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two displays on one terminal would write over each other."""
    console = Console(file=io.StringIO(), force_terminal=True)
    monkeypatch.setattr("rich.console.Console", lambda stderr: console)
    with progress("Experiment", total=2, unit="cells") as outer:
        assert outer.shown is not None
        with progress("Rewriting", total=10, unit="texts") as inner:
            inner.advance(3)
            assert inner.shown is outer.shown
            assert [line.description for line in outer.shown.tasks] == ["Experiment", "Rewriting"]
        outer.advance(1)
        assert [(line.description, line.completed) for line in outer.shown.tasks] == [("Experiment", 1)]
