from __future__ import annotations

import io
import time

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


def test_a_log_says_early_how_long_the_rest_will_take(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two seconds after the first batch, without the time to start; then every 30 seconds, and at the end."""
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    with progress("Rewriting", total=3_200, unit="texts") as bar:
        now = 4.0  # of which 3 to load a model
        for _ in range(100):
            bar.advance(32)
            now += 1.0
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "Rewriting: 96 of 3,200 texts, 32.0/s, 1.6 min left"
    assert lines[1] == "Rewriting: 1,056 of 3,200 texts, 32.0/s, 1.1 min left"
    assert lines[-1] == "Rewriting: 3,200 of 3,200 texts, 32.0/s, 0 s left"
    assert len(lines) == 5


def test_a_short_job_has_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    with progress("Rewriting", total=64, unit="texts") as bar:
        bar.began, now = 0.0, 2.0
        for _ in range(2):
            bar.advance(32)
    assert capsys.readouterr().err.splitlines() == ["Rewriting: 64 of 64 texts, 32.0/s, 0 s left"]
