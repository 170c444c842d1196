"""dpbart evaluate similarity, names and fluency, as a user meets them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import Result

from dpbart.models.bundle import Bundle
from dpbart.rewrite.rewriter import Rewriter, Rewriting
from tests import command_line
from tests.conftest import made_up_texts
from tests.evaluate.tiny_bert import make_tiny_bert


def run(*args: object) -> Result:
    return command_line.run("evaluate", *args)


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    (tmp_path / "texts.txt").write_text("\n".join(made_up_texts()[:40]) + "\n")
    (tmp_path / "moved.csv").write_text("said\n" + "\n".join(made_up_texts()[100:140]) + "\n")
    return tmp_path


def test_similarity_is_printed_with_its_control(tiny: Bundle, texts: Path) -> None:
    bert = make_tiny_bert(tiny.folder / "tokenizer.json", texts / "bert")
    done = run("similarity", texts / "texts.txt", texts / "texts.txt", "--encoder", bert)
    assert done.exit_code == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first == "Similarity  1.000 ± 0.000 (standard deviation of the mean) over 40 texts"
    assert second.startswith("Unrelated   0.")
    assert "Warning" not in done.stderr
    held = json.loads(run("similarity", texts / "texts.txt", texts / "texts.txt", "--encoder", bert, "--json").stdout)
    assert set(held) == {"similarity", "spread", "unrelated", "texts", "encoder"}
    assert held["unrelated"] < held["similarity"] == pytest.approx(1)
    assert (len(held["encoder"]["weights"]), held["encoder"]["pooling"]) == (12, "mean")


def test_the_encoder_inside_a_code_model_comes_with_a_warning(tiny_code: Bundle, texts: Path) -> None:
    done = run("similarity", texts / "texts.txt", texts / "texts.txt", "--encoder", tiny_code.folder, "--json")
    assert "the one inside the code model, so it flatters" in done.stderr
    assert json.loads(done.stdout)["similarity"] == pytest.approx(1)
    table = texts / "table.csv"
    table.write_text("label,text\n" + "".join(f"{'ab'[i % 2]},{['boat', 'gate'][i % 2]}\n" for i in range(8)))
    parts = [arg for part in ("train", "valid", "test") for arg in (f"--{part}", table)]
    done = run("downstream", *parts, "--classifier", "vectors", "--encoder", tiny_code.folder)
    assert "flatters" in done.stderr
    assert done.stdout.startswith("Macro F1        1.0000 over 1 trainings\n")


def test_similarity_of_files_that_do_not_pair_is_refused(tiny_code: Bundle, texts: Path) -> None:
    done = run("similarity", texts / "moved.csv", texts / "texts.txt", "--encoder", tiny_code.folder)
    assert (done.exit_code, "has no column 'text'" in done.stderr) == (1, True)
    (texts / "short.txt").write_text("one\n")
    done = run("similarity", texts / "texts.txt", texts / "short.txt", "--encoder", tiny_code.folder)
    assert (done.exit_code, "must have the same number of rows, got 40 in" in done.stderr) == (1, True)


def test_names_of_a_model_that_tells_nothing(tiny_code: Bundle) -> None:
    done = run("names", "--model", tiny_code.folder, "--epsilon", 1, "--texts", 40)
    assert done.exit_code == 0, done.stderr
    names, numbers = done.stdout.splitlines()
    assert names.startswith("Names    0.00% of ")
    assert names.endswith(" came through; 0.00% in rewritings of other texts")
    assert numbers.startswith("Numbers  ")


def test_names_of_a_model_that_copies(tiny: Bundle, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command must be able to show a failure: everything given away."""
    real = Rewriter.rewrite

    def copy(self: Rewriter, texts: Sequence[str]) -> Rewriting:
        return replace(real(self, texts[:1]), texts=tuple(texts))

    monkeypatch.setattr(Rewriter, "rewrite", copy)
    held = json.loads(run("names", "--model", tiny.folder, "--epsilon", 500, "--texts", 70, "--json").stdout)
    assert (held["names"]["share"], held["names"]["elsewhere"], held["numbers"]["share"]) == (1, 0, 1)
    assert (held["texts"], held["epsilon"], held["delta"]) == (70, 500, 1e-5)
    assert held["names"]["details"] > 70


def test_names_need_a_budget() -> None:
    assert run("names").exit_code == 2
    assert "epsilon must be greater than 0" in run("names", "--epsilon", 0).stderr
    assert "at least 1, got 0" in run("names", "--epsilon", 1, "--texts", 0).stderr


def test_fluency_is_printed_with_its_control(texts: Path) -> None:
    done = run("fluency", texts / "texts.txt", "--corpus", texts / "texts.txt", "--original", texts / "texts.txt")
    assert done.exit_code == 0, done.stderr
    rewritten, original, shuffled = done.stdout.splitlines()
    assert rewritten.startswith("Rewritten  100.0% of ")
    assert original.startswith("Original   100.0% of the triples in the original texts do")
    assert float(shuffled.split()[1].rstrip("%")) < 20
    held = json.loads(run("fluency", texts / "texts.txt", "--corpus", texts / "texts.txt", "--json").stdout)
    assert (held["share"], held["original"], held["texts"]) == (1, None, 40)


def test_held_out_texts_are_not_looked_up_in_themselves(texts: Path) -> None:
    """The last 1% of a corpus is held out: there a text may be an original."""
    corpus = texts / "corpus.txt"
    corpus.write_text("\n".join([*made_up_texts()[:198], "five quick foxes", "six lazy dogs"]) + "\n")
    (texts / "held-out.txt").write_text("five quick foxes\nsix lazy dogs\n")
    held = json.loads(run("fluency", texts / "held-out.txt", "--corpus", corpus, "--json").stdout)
    assert (held["share"], held["triples"]) == (0, 2)


def test_fluency_reads_another_column_and_needs_public_text(texts: Path) -> None:
    done = run("fluency", texts / "moved.csv", "--text-column", "said", "--corpus", texts / "texts.txt", "--json")
    assert 0 < json.loads(done.stdout)["share"] < 1
    assert "does not exist" in run("fluency", texts / "texts.txt", "--corpus", texts / "no.txt").stderr
