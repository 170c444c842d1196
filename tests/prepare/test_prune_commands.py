"""`dpbart prepare` prune, noisy and clip, as commands."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from dpbart.cli import cli
from dpbart.models.bundle import Bundle
from dpbart.models.families import clip_of
from dpbart.prepare.corpus import CorpusFile
from tests.command_line import succeed


def test_a_pruned_and_a_noisy_model_are_made_by_the_commands_alone(tiny: Bundle, tmp_path: Path) -> None:
    """prune, noisy, rewrite: the commands in docs/models.md. Every option has an effect."""
    texts = [f"{who} {did} {what} ." for who in "abcdefghij" for did in "klmnopqrst" for what in "uvwxyz"]
    (tmp_path / "public.txt").write_text("\n".join(texts))
    source, pr, plus = ("--corpus", tmp_path / "public.txt"), tmp_path / "pr", tmp_path / "pr-plus"

    asked: dict[str, object] = {"rounds": 3, "steps": 2, "batch_size": 4, "learning_rate": 1e-4, "quantile": 0.5}
    asked |= {"by": "v", "layer": 0, "clip": 0.4, "seed": 7}
    options = [part for name, value in asked.items() for part in (f"--{name.replace('_', '-')}", value)]
    command = ("prepare", "prune", "--model", tiny.folder, *source, "--out", pr, *options, "--texts", 2)
    lines = succeed(*command).splitlines()
    assert lines[0].endswith("at epsilon 10, 50, 100, 250, 500, 750, 1,000, 2,500")
    assert [line.split()[:2] for line in lines[1:4]] == [["1", "16"], ["2", "8"], ["3", "4"]]
    assert (pr / "rounds.png").stat().st_size > 5000
    facts = Bundle.at(pr).facts
    assert facts.recipe["prune"] == {**asked, "columns_of_round": 2}
    assert facts.kept is not None
    assert len(facts.kept) == 8
    assert [each["name"] for each in facts.corpora] == ["made_up.txt", "public.txt"]
    rounds = json.loads(succeed(*command, "--round", 3, "--json"))["rounds"]  # already trained: only the columns change
    assert [each["kept"] for each in rounds] == [16, 8, 4]
    # 2 sqrt(12 positions x 4 columns) times the analytic Gaussian's 0.03614 at epsilon 500, delta 1e-5
    assert rounds[2]["noise_in_bounds"]["500"] == pytest.approx(2 * 48**0.5 * 0.03614, rel=1e-3)
    assert len(Bundle.at(pr).columns.kept) == 4

    asked = {"delta": 1e-6, "steps": 2, "batch_size": 4, "learning_rate": 1e-4, "seed": 7}
    options = [part for name, value in asked.items() for part in (f"--{name.replace('_', '-')}", value)]
    closing = succeed("prepare", "noisy", "--model", pr, *source, "--out", plus, "--epsilon-range", 20, 300, *options)
    assert closing == f"Rewrite with it: dpbart rewrite IN OUT --epsilon 20 --model {plus}\n"  # the strongest promise
    made = Bundle.at(plus).facts
    assert {**asked, "epsilon_low": 20, "epsilon_high": 300}.items() <= made.recipe["noisy"].items()
    assert (made.variant, made.kept, made.corpora) == ("pr-plus", Bundle.at(pr).facts.kept, facts.corpora)
    (tmp_path / "in.txt").write_text("a k u .\n")
    succeed("rewrite", tmp_path / "in.txt", tmp_path / "out.txt", "--epsilon", 100, "--model", plus)


@pytest.mark.parametrize("command", ["prune", "noisy"])
def test_a_model_is_never_overwritten_by_a_model_made_from_it(
    tiny_copy: Path, corpus: tuple[CorpusFile, ...], command: str
) -> None:
    args = ["prepare", command, "--model", str(tiny_copy), "--corpus", str(corpus[0].path), "--steps", "1"]
    done = CliRunner().invoke(cli, [*args, "--out", str(tiny_copy)])
    assert done.exit_code == 1
    assert "--out must differ from the model's own directory" in done.stderr
    for nowhere in (".", str(corpus[0].path)):
        done = CliRunner().invoke(cli, [*args, "--out", nowhere])
        assert done.exit_code == 2
        assert "Invalid value for '--out'" in done.stderr


def test_the_clip_of_a_model_trained_under_noise_stays(
    tiny: Bundle, tiny_copy: Path, corpus: tuple[CorpusFile, ...]
) -> None:
    replace(tiny.facts, told=True).write(tiny_copy)
    done = CliRunner().invoke(
        cli, ["prepare", "clip", "--model", str(tiny_copy), "--corpus", str(corpus[0].path), "--texts", "1"]
    )
    assert done.exit_code == 1
    assert "was trained with noise, and its clip is part of that training" in done.stderr
    assert clip_of(Bundle.at(tiny_copy)) == clip_of(tiny)
