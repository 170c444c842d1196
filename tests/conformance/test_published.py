"""What leaves the machine, and what stays on its disk: nothing but the private texts. See docs/conformance.md."""

from __future__ import annotations

import json
import math
import os
import re
import sqlite3
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from itertools import zip_longest
from pathlib import Path

import pytest

from dpbart import Rewriter
from dpbart.errors import BadParameter
from dpbart.files import digest_of
from dpbart.models.bundle import Bundle
from dpbart.options.rewriting import Request
from dpbart.rewrite.durable import commit
from tests.conformance.watched import BOTH, watched_rewriter
from tests.rewrite.jobs import run

MARK = "Wuppertal-4711"
ONE = [f"{MARK} has three cats.", "Rain.", "", "My number is 0202 4711."]
OTHER = ["!", "An entirely different text, and much longer. " * 30, "日本語", "\t"]
NEW_WORDS = ["xylophone quizzically"]  # in no vocabulary of the tests
_CLOCK = r"\d{4}-\d\d-\d\dT[\d:+]+"  # differs between any two runs


def write_notes(file: Path, texts: Sequence[str]) -> None:
    rows = [f'{number},p{number % 2},yes,"{text}"' for number, text in enumerate(texts)]
    file.write_text("\n".join(["id,who,ill,text", *rows]) + "\n")


def published(folder: Path, kind: str, texts: Sequence[str]) -> dict[str, list[str]]:
    """Everything that a run leaves behind, in words. The model writes the same texts whatever it reads."""
    write_notes(folder / "in.csv", texts)
    request = Request(folder / "in.csv", folder / "out.csv", person_column="who", ledger=folder / "l.db")
    run(request, watched_rewriter(kind))
    with closing(sqlite3.connect(folder / "l.db")) as ledger:
        found = {"l.db": "\n".join(ledger.iterdump())}
    for file in folder.iterdir():
        if file.name.startswith("out."):
            found[file.name] = file.read_text()
        file.unlink()
    return {name: re.split(r"[^\w.:+-]+", re.sub(_CLOCK, "", content)) for name, content in found.items()}


@pytest.mark.parametrize("kind", BOTH)
def test_all_that_is_published_is_the_same_for_two_private_files(kind: str, tmp_path: Path) -> None:
    """The output, its card in three forms and the ledger. Random names differ in two runs over one file, too."""
    first, again, other = (published(tmp_path, kind, texts) for texts in (ONE, ONE, OTHER))
    assert sorted(first) == ["l.db", "out.csv", "out.csv.card.html", "out.csv.card.json", "out.csv.card.txt"]
    for name, words in first.items():
        for word, repeated, differing in zip_longest(words, again[name], other[name]):
            assert differing == word or word != repeated, f"{name}: {word} became {differing}"


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize("more", [{}, {"person_column": "who"}])
def test_no_card_says_how_long_a_run_took(kind: str, more: dict[str, str], tmp_path: Path) -> None:
    """It depends on the texts: 30 ms for one word, seconds for a megabyte. No guarantee covers that."""
    write_notes(tmp_path / "in.csv", ONE)
    card = run(Request(tmp_path / "in.csv", tmp_path / "out.csv", **more), watched_rewriter(kind))
    assert (card.run.seconds, card.run.rows_per_second) == (None, None)
    assert not {"seconds", "rows_per_second"} & json.loads((tmp_path / "out.csv.card.json").read_text())["run"].keys()
    for page in ("txt", "html"):
        assert not re.search(r"second|how fast", (tmp_path / f"out.csv.card.{page}").read_text())


@pytest.mark.parametrize("kind", BOTH)
def test_no_metric_is_computed_against_private_texts(kind: str, tmp_path: Path) -> None:
    write_notes(tmp_path / "in.csv", ONE)
    card = run(Request(tmp_path / "in.csv", tmp_path / "out.csv"), watched_rewriter(kind))
    assert card.metrics == "none was computed against the private texts"
    assert not {"bleu", "similarity", "accuracy", "f1", "loss"} & set(
        re.findall(r"[a-z0-9]+", (tmp_path / "out.csv.card.json").read_text().lower())
    )


@pytest.mark.parametrize("bundle", ["tiny", "tiny_adept", "tiny_code"])
def test_rewriting_learns_nothing_from_private_texts(bundle: str, request: pytest.FixtureRequest) -> None:
    """Vocabulary, clip, columns, code sizes and weights are those of the model, before and after."""
    folder = request.getfixturevalue(bundle).folder
    rewriter = Rewriter.load(str(folder), epsilon=100)
    before = {file.name: digest_of(file) for file in folder.iterdir()}
    facts, recipe, known = rewriter.facts, rewriter.model.recipe, rewriter.model.read(NEW_WORDS)
    done = [rewriter.rewrite(texts) for texts in (ONE, OTHER, NEW_WORDS * 3)]
    assert all(each.facts == facts for each in done)
    assert len({each.recipe for each in done}) == 1
    assert (rewriter.facts, rewriter.model.recipe, rewriter.model.read(NEW_WORDS)) == (facts, recipe, known)
    assert {file.name: digest_of(file) for file in folder.iterdir()} == before


def test_the_set_of_labels_never_comes_from_the_private_column(tmp_path: Path) -> None:
    with pytest.raises(BadParameter, match="a set of labels that does not come from the private column"):
        Request(tmp_path / "in.csv", tmp_path / "out.csv", label_column="ill", labels="randomize:1")


def ill(folder: Path, labels: str, *label_set: str, texts: int = 4) -> tuple[list[str], str]:
    """The released labels where every true label is "yes", and the card's words about them."""
    write_notes(folder / "in.csv", ["A text."] * texts)
    request = Request(
        folder / "in.csv",
        folder / "out.csv",
        label_column="ill",
        labels=labels,
        label_set=label_set,
        overwrite=True,
    )
    card = run(request, watched_rewriter("code"))
    rows = [line.split(",") for line in (folder / "out.csv").read_text().splitlines()]
    return [row[0] for row in rows[1:]] if "ill" in rows[0] else [], card.labels


def test_labels_are_released_in_clear_only_if_the_user_says_public(tmp_path: Path) -> None:
    with pytest.raises(BadParameter, match="a label column needs a policy"):
        Request(tmp_path / "in.csv", tmp_path / "out.csv", label_column="ill")
    assert ill(tmp_path, "drop") == ([], "dropped: column 'ill' is not in the output")
    labels, words = ill(tmp_path, "public")
    assert (labels, words) == (["yes"] * 4, "public: column 'ill' is released unchanged, without protection")
    labels, words = ill(tmp_path, "randomize:1", "yes", "no", texts=900)
    share, stated = Counter(labels)["yes"] / 900, math.e / (math.e + 1)
    assert share == pytest.approx(stated, abs=6 * math.sqrt(stated * (1 - stated) / 900))
    assert words.startswith("randomised: column 'ill' by 2-ary randomised response, epsilon 1 of the guarantee")


def test_the_card_lists_every_other_column_that_is_released(tmp_path: Path) -> None:
    write_notes(tmp_path / "in.csv", ONE)
    card = run(Request(tmp_path / "in.csv", tmp_path / "out.csv", keep_all=True), watched_rewriter("columns"))
    assert card.other_columns == ["id", "who", "ill"]


def holding(folder: Path) -> list[str]:
    """The files that hold the mark, apart from the input."""
    files = [file for file in folder.rglob("*") if file.is_file() and file.name != "in.csv"]
    return [file.name for file in files if MARK.encode() in file.read_bytes()]


@pytest.mark.parametrize("kind", BOTH)
def test_no_file_holds_private_text_while_a_run_is_under_way(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit, "PART_ROWS", 32)  # one part per batch
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    write_notes(tmp_path / "in.csv", [f"{MARK} {number}" for number in range(100)])
    seen: list[tuple[int, list[str]]] = []

    def look(texts: Sequence[str]) -> list[str]:
        seen.append((sum(file.is_file() for file in tmp_path.rglob("*")), holding(tmp_path)))
        return ["rewritten" for _ in texts]

    run(Request(tmp_path / "in.csv", tmp_path / "out.csv"), watched_rewriter(kind, look))
    assert [found for _, found in seen] == [[]] * 4
    assert seen[-1][0] > seen[0][0] > 1  # there were files to look into, and more of them as parts were saved
    assert holding(tmp_path) == []


RUNS = """
import sys
from dpbart.cli import cli
for number, model in enumerate(sys.argv[1:]):
    for source in ("in.csv", "broken/in.csv"):
        try:
            cli(["rewrite", source, f"out-{number}.csv", "-e", "20", "--model", model, "--overwrite"])
        except SystemExit as end:
            print("ended with", end.code)
"""


def test_a_run_leaves_its_output_and_nothing_else_on_the_machine(
    tiny: Bundle, tiny_code: Bundle, tmp_path: Path
) -> None:
    """No cache, log or temporary file, and nothing of a text on the screen, whether the run succeeds or fails."""
    for name in ("HOME", "TMPDIR", "XDG_CACHE_HOME", "HF_HOME", "broken"):
        (tmp_path / name).mkdir()
    environment = os.environ | {name: str(tmp_path / name) for name in ("HOME", "TMPDIR", "XDG_CACHE_HOME", "HF_HOME")}
    write_notes(tmp_path / "in.csv", [f"{MARK} {number}" for number in range(5)])
    (tmp_path / "broken" / "in.csv").write_text(f"id,text\n1,{MARK}\n2,{MARK},{MARK},{MARK}\n")
    done = subprocess.run(
        [sys.executable, "-c", RUNS, str(tiny.folder), str(tiny_code.folder)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        check=True,
    )
    assert done.stdout.decode().splitlines() == ["ended with 0", "ended with 1"] * 2, done.stderr
    assert MARK.encode() not in done.stdout + done.stderr
    assert holding(tmp_path) == []
    left = {file.relative_to(tmp_path).as_posix() for file in tmp_path.rglob("*") if file.is_file()}
    ends = ("", ".card.html", ".card.json", ".card.txt")
    assert left == {"in.csv", "broken/in.csv", *(f"out-{number}.csv{end}" for number in (0, 1) for end in ends)}


@pytest.mark.parametrize("bundle", ["tiny", "tiny_code"])
def test_nothing_is_remembered_between_two_rewritings(bundle: str, request: pytest.FixtureRequest) -> None:
    """A text is drawn afresh each time: at epsilon 1, two series of 100 equal draws have a chance below 1e-20."""
    rewriter = Rewriter.load(str(request.getfixturevalue(bundle).folder), epsilon=1)
    encoded = rewriter.model.encode([ONE[0]])
    series = [[str(rewriter.channel.send(encoded, rewriter.entropy).values) for _ in range(100)] for _ in range(2)]
    assert series[0] != series[1]
