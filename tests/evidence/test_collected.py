"""Attacks on synthesised collections: they get what the noise allows, and nothing from people who did not take part."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dpbart.evaluate.data.made_up import make_up
from dpbart.evidence import collected
from dpbart.evidence.attack import Sample, attackers_tools
from dpbart.evidence.collected import INFORMED, Remembered, Synthesizer, attack_collection, averaged
from dpbart.evidence.controls import AttackScore, most_area, most_right
from dpbart.models.bundle import Bundle
from dpbart.options.collecting import CollectionBudget
from tests.command_line import run, succeed
from tests.models.tiny_code import book_lines

MADE = make_up(40)
TEXTS = [f"{line.sentence} {line.topic} {n}" for n, line in enumerate(book_lines()[:260])]
POOL = [*TEXTS, *(each.text for each in MADE)]
KINDS = {"membership", "singling out"}
DETAILS = {"names", "numbers", "rare words"}


@pytest.fixture(scope="module")
def reader(tiny_code: Bundle) -> Remembered:
    vectors, _ = attackers_tools(str(tiny_code.folder))
    return Remembered(vectors.encoder.reader, vectors)  # type: ignore[attr-defined]


def maker(bundle: Bundle, reader: Remembered, epsilon: float) -> Synthesizer:
    budget = CollectionBudget(model=str(bundle.folder), epsilon=epsilon)
    return Synthesizer.of(budget, reader, people=len(Sample.of(POOL).file))


def attacked(synthesizer: Synthesizer, collections: int = 8) -> dict[str, AttackScore]:
    draws = [attack_collection(POOL, MADE, synthesizer, candidates=20, seed=seed) for seed in range(collections)]
    return {each.attack: each for each in averaged(draws)}


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_who_knows_everybody_else_gets_exactly_what_the_noise_allows(
    tiny_code: Bundle, reader: Remembered, epsilon: float
) -> None:
    """One vote more or less, in noise of scale 2 / epsilon: the area of two Laplace laws, one of them shifted."""
    found = attacked(maker(tiny_code, reader, epsilon), 16)[f"membership, {INFORMED}"]
    shift, alike = epsilon / 2, 2 * (1 - found.originals)  # how often somebody else votes for the same cell
    due = (1 - alike) * (1 - math.exp(-shift) * (1 + shift / 2) / 2) + alike / 2
    assert found.score == pytest.approx(due, abs=max(0.02, 4 * found.spread))
    assert found.bound == most_area(epsilon, 0)
    assert due < found.bound
    assert found.originals > 0.9
    assert found.unrelated == pytest.approx(0.5, abs=0.12)
    assert found.phantom is not None
    assert found.unrelated < found.phantom + 0.1 < found.score + 0.1 + 4 * found.spread  # it is often of the same cell


def test_a_collection_that_spends_more_than_it_says_is_seen_above_the_bound(
    tiny_code: Bundle, reader: Remembered
) -> None:
    honest, broken = maker(tiny_code, reader, 1), maker(tiny_code, reader, 50)
    said = attacked(honest, 40)  # a mean of 8 is above the bound by chance once in 50 times
    spent = attacked(replace(honest, terms=broken.terms, cells=broken.cells))
    for kind in KINDS:
        name, bound = f"{kind}, {INFORMED}", said[f"{kind}, {INFORMED}"].bound
        assert bound is not None
        assert said[name].score < bound
        assert spent[name].score > bound + 4 * spent[name].spread
    assert said[f"singling out, {INFORMED}"].bound == most_right(1, 0, prior=1 / 20)


def test_who_sees_only_the_collection_learns_next_to_nothing_about_one_person(
    tiny_code: Bundle, reader: Remembered
) -> None:
    found = attacked(maker(tiny_code, reader, 1))
    assert found["membership"].score == pytest.approx(0.5, abs=0.1)
    assert found["membership"].originals > 0.95
    assert found["singling out"].originals > 0.9
    assert found["singling out"].score < 0.25
    assert found["singling out"].chance == pytest.approx(1 / 20)
    for name in DETAILS:
        each = found[name]
        assert each.originals == 1.0
        assert each.score <= each.chance + 0.1  # the rows are sentences of the book, whoever took part
        assert each.bound is None


def test_details_are_found_if_they_stand_in_the_rows(tiny_code: Bundle, reader: Remembered) -> None:
    synthesizer = maker(tiny_code, reader, 1)
    seen = synthesizer.unhidden(["Ada saw 555-0142, and a wombat."])
    assert collected._found(["ada", "555 0142"], seen).score == 1.0
    assert collected._found(["Ad", "0142 555", "bat", "wombat"], seen).score == 0.25


def test_a_collection_is_made_by_the_code_that_releases(tiny_code: Bundle, reader: Remembered) -> None:
    synthesizer = maker(tiny_code, reader, 100)  # hardly any noise
    seen = synthesizer.release(POOL[:150])
    assert len(seen.rows) == synthesizer.terms.people == 150
    assert set(seen.rows) <= {line.sentence for line in reader.book.lines}
    assert seen.votes.sum() == pytest.approx(150)
    assert np.abs(seen.counts - seen.votes).mean() < 0.1
    again = [synthesizer.release(POOL[:150]).counts for _ in range(2)]
    assert (again[0] != again[1]).any()


def test_the_mean_of_several_collections_has_the_error_of_their_spread() -> None:
    one = AttackScore("membership", "area", 0.5, 0.1, 0.5, 0.7, 1.0, 0.4, 0.6, "a")
    draws = [[replace(one, score=score, by=by)] for score, by in zip((0.4, 0.5, 0.9), "bba", strict=True)]
    (found,) = averaged(draws)
    assert found.score == pytest.approx(0.6)
    assert found.spread == pytest.approx(np.std([0.4, 0.5, 0.9], ddof=1) / 3**0.5)
    assert (found.by, found.bound) == ("b", 0.7)
    assert found.unrelated == pytest.approx(0.4)


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("public") / "texts.csv"
    rows = [f"{text},{n % 2}" for n, text in enumerate(TEXTS[:120])]
    file.write_text("\n".join(["note,who", *rows]) + "\n")
    return file


def test_the_command_attacks_collections_at_each_budget(
    tiny_code: Bundle, texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collected, "COLLECTIONS", 2)
    common = ("attack", texts, "--public", "--text-column", "note", "--model", tiny_code.folder)
    asked = (*common, "--release", "collection", "--candidates", "9", "-e", "1,.5")
    found = json.loads(succeed(*asked, "--plot", tmp_path / "attack.svg", "--json"))
    assert found["release"] == "collection"
    assert [budget["epsilon"] for budget in found["budgets"]] == [0.5, 1.0]
    assert found["in_file"] + found["outside"] == 120 + 160
    for budget in found["budgets"]:
        scores = {score["attack"]: score for score in budget["scores"]}
        informed = {f"{kind}, {INFORMED}" for kind in KINDS}
        assert KINDS | informed <= set(scores) <= KINDS | informed | DETAILS
        figures = itertools.product(scores.values(), ("score", "chance", "originals", "unrelated", "phantom"))
        assert all(0 <= score[part] <= 1 for score, part in figures)
        assert scores["singling out"]["measure"] == "right of 9 candidates"
    assert "140 people in each collection, 140 outside it." in succeed(*asked)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("--author-column", "who"), "a row of a collection has no author and no label to guess."),
        (("--model", "mini"), "'mini' has no book, and a collection is written with one."),
    ],
)
def test_what_cannot_be_attacked_is_refused_before_any_work(texts: Path, given: tuple[str, ...], said: str) -> None:
    done = run("attack", texts, "--public", "--text-column", "note", "--release", "collection", *given)
    assert done.exit_code == 1
    assert said in done.stderr
    assert "Attacking" not in done.stderr
