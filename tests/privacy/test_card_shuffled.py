"""The card of a shuffled output: the verifier computes the central guarantee again, and refuses a changed one."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from dpbart.cli import cli
from dpbart.privacy.card.verify import verify
from dpbart.privacy.mechanisms import Response
from tests.privacy.cards import code_rewriter
from tests.rewrite.jobs import run, shuffle_request

ROWS = 400


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("shuffled")
    (folder / "in.csv").write_text("who,text\n" + "".join(f"p{n // 2},text {n}\n" for n in range(ROWS)))
    run(shuffle_request(folder, person_column="who"), code_rewriter(Response(1.0, 1 << 11)))
    held: dict[str, Any] = json.loads((folder / "out.csv.card.json").read_text())
    return held


def checked(card: dict[str, Any], folder: Path) -> dict[str, bool | None]:
    (folder / "a.card.json").write_text(json.dumps(card))
    return {each.name: each.held for each in verify(folder / "a.card.json")}


def test_a_real_card_holds_and_says_the_central_guarantee(made: dict[str, Any], tmp_path: Path) -> None:
    found = checked(made, tmp_path)
    assert found["shuffled"] is True
    assert found["guarantee"] is True
    words = verify(tmp_path / "a.card.json")[-1].words
    assert f"in random order, the same have epsilon {made['shuffled']['guarantee']['epsilon']:.4g}" in words


@pytest.mark.parametrize(
    ("people", "row", "rows"),
    [
        ({"person_column": "who"}, "one person", "all rows of one person, at most 2 (group privacy)"),
        ({"person_column": "who", "missing_person": "own"}, "one row", "all rows of one id, at most 2 (group privacy)"),
    ],
)
def test_the_pages_say_for_whom_the_central_guarantee_holds(
    people: dict[str, str], row: str, rows: str, tmp_path: Path
) -> None:
    for times, whose in ((1, row), (2, rows)):
        gap = ",text\n" if "missing_person" in people else ""
        lines = "".join(f"p{n // times},text {n}\n" for n in range(40))
        (tmp_path / "in.csv").write_text("who,text\n" + lines + gap)
        rewriter = code_rewriter(Response(1.0, 1 << 11))
        run(replace(shuffle_request(tmp_path, **people), overwrite=True), rewriter)
        assert f"for {whose}, to those who see only the output" in (tmp_path / "out.csv.card.txt").read_text()


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("guarantee", {"epsilon": 0.01, "delta": 1e-5}),
        ("guarantee", {"epsilon": 0.5, "delta": 1e-9}),
        ("row_guarantee", {"epsilon": 0.01, "delta": 1e-5}),
        ("known_guarantee", {"epsilon": 0.01, "delta": 1e-5}),
        ("known", 0),
        ("most_rows", 1),
        ("rule", "clones"),
        ("delta", 1e-4),
        ("delta", 0.01),
    ],
)
def test_a_changed_figure_fails(made: dict[str, Any], tmp_path: Path, name: str, changed: object) -> None:
    found = checked({**made, "shuffled": {**made["shuffled"], name: changed}}, tmp_path)
    assert found["shuffled"] is False
    assert found["guarantee"] is False


def test_a_guarantee_that_is_a_thousandth_too_small_fails(made: dict[str, Any], tmp_path: Path) -> None:
    stated = made["shuffled"]["guarantee"]
    smaller = {**stated, "epsilon": 0.999 * stated["epsilon"]}
    assert checked({**made, "shuffled": {**made["shuffled"], "guarantee": smaller}}, tmp_path)["shuffled"] is False


def test_more_rows_than_the_output_has_do_not_help(made: dict[str, Any], tmp_path: Path) -> None:
    more = {**made, "rows": 2 * ROWS, "person": {**made["person"], "people": ROWS}}
    assert checked(more, tmp_path)["shuffled"] is False


def test_a_shuffled_output_has_no_other_columns(made: dict[str, Any], tmp_path: Path) -> None:
    assert checked({**made, "other_columns": ["when"]}, tmp_path)["shuffled"] is False
    public = "public: column 'ill' is released unchanged, without protection"
    assert checked({**made, "labels": public}, tmp_path)["shuffled"] is False


def test_a_card_that_is_not_shuffled_has_no_such_check(made: dict[str, Any], tmp_path: Path) -> None:
    assert "shuffled" not in checked({**made, "shuffled": None}, tmp_path)


def test_noise_shows_the_local_and_the_central_guarantee_side_by_side() -> None:
    done = CliRunner().invoke(cli, ["noise", "--epsilon", "2", "--people", "1000"])
    assert done.exit_code == 0
    lines = {line.split()[0]: line for line in done.stdout.splitlines() if not line.startswith(" ")}
    assert "(epsilon 2, delta 0)" in lines["Guarantee"]
    figures = json.loads(CliRunner().invoke(cli, ["noise", "--epsilon", "2", "--people", "1000", "--json"]).stdout)
    central, known = (figures["shuffled"][name]["epsilon"] for name in ("guarantee", "known_guarantee"))
    assert 0 < central < known < 2
    assert figures["shuffled"]["known"] == 100
    shown = float(lines["Shuffled"].split()[2].rstrip(","))
    assert central <= shown <= 1.01 * central
    assert "honest" in done.stdout


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        (["--people", "0"], "people must be at least 1, got 0."),
        (["--people", "100000"], "delta must be below 1 / 100000"),
        (["--people", "10", "--model", "mini"], "--shuffle needs a mechanism of pure epsilon"),
    ],
)
def test_noise_refuses_people_that_it_cannot_hide(asked: list[str], why: str) -> None:
    done = CliRunner().invoke(cli, ["noise", "--epsilon", "2", *asked])
    assert done.exit_code == 1
    assert why in done.stderr
