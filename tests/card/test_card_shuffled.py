"""The card of a shuffled output: the verifier computes the central guarantee again, and refuses a changed one."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from dpbart.card.card import read_card
from dpbart.card.verify import verify
from dpbart.cli import cli
from dpbart.options.rewriting import Request
from dpbart.privacy.mechanisms import Response
from dpbart.privacy.shuffling.release import shuffled_release
from dpbart.testing import fake_rewriter
from tests import command_line
from tests.card.cards import code_rewriter
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
    assert found["guarantee"] is None  # nobody has signed it
    words = verify(tmp_path / "a.card.json")[-1].words
    assert f"in random order, the same have epsilon {made['shuffled']['guarantee']['epsilon']:.4g}" in words


def test_words_have_at_most_four_digits_rounded_up_and_json_has_all(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("text\n" + "a text\n" * ROWS)
    card = run(shuffle_request(tmp_path), code_rewriter(Response(1.23456789, 1 << 11)))
    held, page = json.loads((tmp_path / "out.csv.card.json").read_text()), (tmp_path / "out.csv.card.txt").read_text()
    assert held["guarantee"]["epsilon"] == 1.23456789
    central = held["shuffled"]["guarantee"]["epsilon"]
    assert len(f"{central:.15g}") > 6
    words = re.findall(r"[Ee]psilon ([0-9.e+-]+)", page)
    assert len(words) > 5
    assert all(len(digits.replace(".", "").lstrip("0")) <= 4 for digits in words if digits[0].isdigit())
    assert str(card.guarantee) == "(epsilon 1.235, delta 0)"
    stated = next(float(digits) for digits in words if digits[:3] == f"{central:.10f}"[:3])
    assert central <= stated < 1.001 * central


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
        run(shuffle_request(tmp_path, **people).changed(overwrite=True), rewriter)
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


def three_rows(folder: Path, *columns: str) -> Path:
    """The card of an output with three rows, each text under epsilon 4."""
    rows = "".join(",".join([f"p{n}"] + ["a text"] * len(columns)) + "\n" for n in range(3))
    (folder / "in.csv").write_text(f"who,{','.join(columns)}\n{rows}")
    request = Request(folder / "in.csv", folder / "out.csv", text_column=columns, keep_columns=())
    run(request, code_rewriter(Response(4.0, 1 << 11)))
    return folder / "out.csv.card.json"


def forge(file: Path, *, rows: int, delta: float) -> None:
    """Change the number of rows on a card, and everything that follows from it."""
    card = read_card(file)
    most = card.person.most_texts
    central = shuffled_release(card.guarantee, rows=rows, most_rows=most, delta=delta, options=1 << 11)
    assert central.guarantee.epsilon < 0.21
    replace(card, rows=rows, person=replace(card.person, people=rows), shuffled=central).write(file)


def test_more_rows_than_the_output_has_are_found_out_by_counting_them(tmp_path: Path) -> None:
    """A card is easily made consistent: with a thousand million rows, three rows had a central epsilon of 0.001."""
    file = three_rows(tmp_path, "text")
    forge(file, rows=10**9, delta=1e-10)
    alone = command_line.run("card", "verify", file)
    assert alone.exit_code == 0
    assert "rows       -      not counted: pass --output FILE" in alone.stdout
    assert "if the output has 1,000,000,000 rows, which were not counted" in alone.stdout
    assert " holds  each of" not in alone.stdout
    counted = command_line.run("card", "verify", file, "--output", tmp_path / "out.csv")
    assert counted.exit_code == 1
    assert "rows       FAILS  the output has 3 rows, but the card says 1,000,000,000" in counted.stdout
    assert "guarantee  FAILS  do NOT rely on the guarantee" in counted.stdout


def test_a_row_of_a_shuffled_output_has_one_text(tmp_path: Path) -> None:
    """Two texts at 4 of 100,000 people: (0.198, 1e-6) was accepted, where delta is at least 1.5e-3."""
    file = three_rows(tmp_path, "good", "bad")
    forge(file, rows=100_000, delta=1e-6)
    found = {each.name: each for each in verify(file)}
    assert found["shuffled"].held is False
    assert "a row of a shuffled output has one text, but the card says 2" in found["shuffled"].words
    assert found["guarantee"].held is False


def test_a_shuffled_output_has_no_other_columns(made: dict[str, Any], tmp_path: Path) -> None:
    assert checked({**made, "other_columns": ["when"]}, tmp_path)["shuffled"] is False
    assert checked({**made, "label_policy": "public"}, tmp_path)["shuffled"] is False


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


OWN_CODE = "from its own latent alone, whatever texts share its batch"


@pytest.mark.parametrize(
    ("epsilon", "people", "model", "said"),
    [
        (10, 1000, "mini-code", False),  # codes of the book: a text of it is looked up
        (16, 10**6, "mini-code", False),
        (20, 10**6, "mini-code", False),  # wording: read with whole numbers
        (4, 10**4, "mini-adept", True),  # latents: decoded in batches
        (20, 10, "mini-adept", False),  # shuffling gains nothing, so there is no central guarantee
    ],
)
def test_noise_says_where_a_central_epsilon_needs_that_batches_do_not_matter(
    epsilon: int, people: int, model: str, said: bool
) -> None:
    given = ["noise", "--epsilon", str(epsilon), "--people", str(people), "--delta", "1e-8", "--model", model]
    given += ["--mechanism", "laplace"] if model == "mini-adept" else []
    done = CliRunner().invoke(cli, given)
    assert (OWN_CODE in " ".join(done.stdout.split())) is said
    figures = json.loads(CliRunner().invoke(cli, [*given, "--json"]).stdout)
    assert any(OWN_CODE in line["words"] for line in figures["shuffled"]["words"]) is said


@pytest.mark.parametrize("kind", ["book", "wording", "latent"])
def test_a_card_says_where_a_central_epsilon_needs_that_batches_do_not_matter(kind: str, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("text\n" + "a text\n" * ROWS)
    codes = code_rewriter(Response(1.0, 1 << 11), worded=kind == "wording")
    run(shuffle_request(tmp_path), fake_rewriter(epsilon=1.0, mechanism="laplace") if kind == "latent" else codes)
    card = read_card(tmp_path / "out.csv.card.json")
    assert card.shuffled is not None
    assert card.shuffled.rule == ("clones" if kind == "latent" else "blanket")
    assert (OWN_CODE in card.trust_model) is (kind == "latent")
    for page in (card.as_text(), card.as_html()):
        top = page.partition("Local" if page.startswith("PRIVACY") else "<h2>The promise")[0]
        assert (OWN_CODE in top) is (kind == "latent")


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
