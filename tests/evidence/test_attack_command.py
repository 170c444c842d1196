"""`dpbart attack` from the command line, on made-up texts."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from dpbart.models.bundle import Bundle
from dpbart.options.evidence import AttackRequest
from tests.command_line import run, succeed
from tests.models.tiny_code import book_lines

ATTACKS = {"singling out", "membership", "names", "numbers", "rare words", "length"}
LABELLED = {"static", "adaptive", "topic alone"}


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """200 texts by two authors, in chapters."""
    file = tmp_path_factory.mktemp("public") / "texts.csv"
    rows = [f"{line.sentence} {line.topic} {n},{'ab'[n % 2]},{n // 8}" for n, line in enumerate(book_lines()[:200])]
    file.write_text("\n".join(["note,who,chapter", *rows]) + "\n")
    return file


def test_an_attack_prints_every_score_with_its_controls(tiny_code: Bundle, texts: Path, tmp_path: Path) -> None:
    columns = ("--text-column", "note", "--author-column", "who", "--group-column", "chapter")
    common = ("attack", texts, "--public", *columns, "--model", tiny_code.folder, "--epsilon", "10,4")
    found = json.loads(succeed(*common, "--candidates", "9", "--plot", tmp_path / "attack.svg", "--json"))
    assert [budget["epsilon"] for budget in found["budgets"]] == [4.0, 10.0]
    assert found["in_file"] + found["outside"] + found["own"] == 200
    for budget in found["budgets"]:
        scores = {score["attack"]: score for score in budget["scores"]}
        assert (
            {*ATTACKS, *(f"author, {kind}" for kind in LABELLED)}
            <= set(scores)
            <= {*ATTACKS, "which rows"} | {f"author, {kind}" for kind in LABELLED}
        )
        for score in scores.values():
            shown = [score[part] for part in ("score", "chance", "originals", "unrelated", "phantom")]
            assert all(0 <= each <= 1 for each in shown)
            assert score["spread"] >= 0
        assert scores["singling out"]["measure"] == "right of 9 candidates"
        assert scores["singling out"]["originals"] == scores["names"]["originals"] == scores["length"]["originals"] == 1
    picture = (tmp_path / "attack.svg").read_text()
    assert picture.startswith("<?xml")


def test_the_table_has_a_line_for_each_attack(tiny_code: Bundle, texts: Path) -> None:
    shown = succeed(
        *("attack", texts, "--public", "--text-column", "note", "--model", tiny_code.folder, "-e", "4", "--texts", "80")
    )
    lines = [line.strip() for line in shown.splitlines()]
    assert lines[0].endswith("40 texts in the file, 40 outside it.")
    assert lines[1] == "epsilon 4"
    assert lines[2].split()[:6] == ["attack", "score", "±", "chance", "bound", "phantom"]
    assert all(any(line.startswith(name) for line in lines) for name in ATTACKS)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ((), "an attack is for public or made-up texts only. If these are, pass --public."),
        (("--public", "-e", "ten"), "epsilon must be one or more numbers with commas, such as 1,4,10."),
        (("--public", "-e", "0"), "epsilon must be greater than 0, got 0.0."),
        (("--public", "--plot", "a.txt"), "the extension of a figure must be .png, .pdf or .svg, got 'a.txt'."),
        (("--public", "-e", "9", "--author-column", "by"), "no column 'by'"),
        (("--public", "-e", "9", "--texts", "30"), "an attack needs at least 20 texts in the file and 20 outside it"),
    ],
)
def test_a_mistake_is_one_line_with_a_remedy(tiny_code: Bundle, texts: Path, given: tuple[str, ...], said: str) -> None:
    done = run("attack", texts, "--text-column", "note", "--model", tiny_code.folder, *given)
    assert done.exit_code == 1
    assert said in done.stderr
    assert done.stderr.startswith("Error: ")
    assert done.stderr.count("\n") == 1


def test_a_budget_that_the_model_cannot_use_is_refused_before_any_work(tiny_code: Bundle, texts: Path) -> None:
    done = run("attack", texts, "--public", "--text-column", "note", "-m", tiny_code.folder, "-e", "4,9000")
    assert done.exit_code == 1
    assert "epsilon must be at most 200" in done.stderr
    assert "Rewriting" not in done.stderr


def test_the_help_says_that_texts_are_public_and_loads_nothing_heavy() -> None:
    code = (
        "import sys; from click.testing import CliRunner; from dpbart.cli import cli\n"
        "print(CliRunner().invoke(cli, ['attack', '-h']).stdout)\n"
        "print([m for m in ('torch', 'numpy', 'matplotlib', 'sklearn') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "TEXTS are public or made up, never private." in done
    assert done.strip().endswith("[]")


def test_budgets_are_ascending_and_each_once() -> None:
    assert AttackRequest("texts.csv", public=True, epsilon=("10", "4", "10.0")).epsilons == (4.0, 10.0)
