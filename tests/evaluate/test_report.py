"""Tables and figure of a stored, made-up result file equal the stored ones."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib import pyplot
from matplotlib.collections import PolyCollection

from dpbart.errors import BadParameter, BadTable
from dpbart.evaluate.experiment.figure import INFINITY_AFTER, draw, panels
from dpbart.evaluate.experiment.results import paper_tables, read_results, read_samples, sample_tables

STORED = Path(__file__).parent / "stored"


def test_the_table_in_markdown() -> None:
    tables = paper_tables(read_results(STORED))
    assert "\n".join(table.as_markdown() for table in tables) == (STORED / "table.md").read_text()


def test_the_table_in_latex() -> None:
    tables = paper_tables(read_results(STORED))
    assert "\n".join(table.as_latex() for table in tables) == (STORED / "table.tex").read_text()


def test_originals_alone_have_their_line() -> None:
    originals = [each for each in read_results(STORED) if each.model is None and each.data == "atis"]
    table = paper_tables(originals)[0]
    assert table.header == ("system", "measure", "original")
    assert [row[:2] for row in table.rows] == [
        ("no rewriting", "F1"),
        ("", "F1, labels shuffled"),
        ("most frequent label", "F1"),
    ]
    assert table.rows[0][2].startswith("0.71")
    assert "rewritten" not in table.notes[0]


def test_models_that_end_alike_have_a_line_each() -> None:
    stored = [each for each in read_results(STORED) if (each.data, each.classifier) == ("snips", "linear")]
    other = {"mini": "a/pr/", "mini-pr-plus": "b/pr", None: None}
    results = [replace(each, model=other[each.model]) for each in stored]
    assert [row[0] for row in paper_tables(results)[0].rows[:-2:3]] == [
        "a/pr/",
        "a/pr/, laplace",
        "b/pr",
        "b/pr, laplace",
    ]
    assert [line.name for line in panels(results)[0].lines] == ["a/pr/", "a/pr/, laplace", "b/pr", "b/pr, laplace"]
    one = [each for each in results if each.model == "a/pr/"]
    assert [row[0] for row in paper_tables(one)[0].rows[:-2:3]] == ["pr", "pr, laplace"]
    samples = [replace(each, model=model) for each in read_samples(STORED)[:1] for model in ("a/pr/", "b/pr")]
    assert "| a/pr/ | ∞ |" in sample_tables(samples)


def test_latex_takes_any_label() -> None:
    results = [replace(each, unseen=r"a_$^~{b}\|<%") for each in read_results(STORED)]
    written = paper_tables(results)[0].as_latex()
    assert (
        r"predicted: a\_\$\textasciicircum{}\textasciitilde{}\{b\}\textbackslash{}\textbar{}\textless{}\%." in written
    )


def test_the_beam_is_said_in_the_table() -> None:
    results = [replace(each, beams=4 if each.model else None) for each in read_results(STORED)]
    assert "Rewritten with a beam of 4." in paper_tables(results)[0].notes
    some = [replace(each, beams=None) if each.model == "mini" else each for each in results]
    assert "Rewritten with a beam of 4 (mini: by its own settings)." in paper_tables(some)[0].notes


def test_the_tables_of_samples() -> None:
    assert sample_tables(read_samples(STORED)) == (STORED / "samples.md").read_text()


def test_a_panel_a_data_set_and_infinity_at_the_right() -> None:
    atis, snips = panels(read_results(STORED))
    assert (atis.data, snips.data) == ("atis", "snips")
    assert atis.ticks == ((10, "10"), (500, "500"), (2500, "2,500"), (INFINITY_AFTER * 2500, "∞"))
    assert [line.name for line in atis.lines] == ["mini", "mini, laplace", "mini-pr-plus", "mini-pr-plus, laplace"]
    mini, laplace, plus, _ = atis.lines
    assert mini.x == (500, 2500, 10_000)  # the cell at 10 failed
    assert laplace.x == (2500, 10_000)  # no noise is the end of every line
    assert plus.mean == pytest.approx((0.0369, 0.2684, 0.4255, 0.70), abs=1e-4)
    assert plus.deviation == pytest.approx((0.024, 0.024, 0.024, 0.012))
    assert (atis.original, atis.majority) == (0.71, 0.041)
    assert atis.alone.mean == (0.9997, 0.9997, 0.9997, 1.0)


def test_what_is_drawn_is_what_was_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = panels(read_results(STORED), "mini encoder")
    monkeypatch.setattr(pyplot, "close", lambda figure: None)
    draw(found, tmp_path / "figure.png")
    figure = pyplot.gcf()
    monkeypatch.undo()
    shown = [axis for axis in figure.axes if axis.get_visible()]
    assert [axis.get_title() for axis in shown] == ["atis", "snips"]
    for axis, panel in zip(shown, found, strict=True):
        assert axis.get_xscale() == "log"
        drawn = {str(line.get_label()): line for line in axis.get_lines()}
        for line in panel.lines:
            assert tuple(drawn[line.name].get_xdata()) == line.x
            assert tuple(drawn[line.name].get_ydata()) == line.mean
        assert tuple(drawn["original texts"].get_ydata()) == (panel.original, panel.original)
        bands = [each for each in axis.collections if isinstance(each, PolyCollection)]
        for band, line in zip(bands, panel.lines, strict=True):
            edges = np.asarray(band.get_paths()[0].vertices)[:, 1]
            assert edges.max() == pytest.approx(max(np.add(line.mean, line.deviation)))
            assert edges.min() == pytest.approx(min(np.subtract(line.mean, line.deviation)))
    pyplot.close(figure)
    assert (tmp_path / "figure.png").stat().st_size > 10_000


def test_a_figure_of_a_classifier_that_does_not_exist_names_those_that_are() -> None:
    with pytest.raises(BadParameter, match="must be one of mini encoder, linear, got 'forest'"):
        panels(read_results(STORED), "forest")


def test_a_figure_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    found = panels(read_results(STORED))
    with pytest.raises(BadParameter, match=r"must be .png, .pdf or .svg, got '.*figure.docx'"):
        draw(found, tmp_path / "figure.docx")
    (tmp_path / "file").write_text("")
    with pytest.raises(BadTable, match="cannot be written"):
        draw(found, tmp_path / "file" / "figure.png")


@pytest.mark.parametrize("content", [b"junk", None])
def test_damaged_results_are_one_line(tmp_path: Path, content: bytes | None) -> None:
    (tmp_path / "results.parquet").write_bytes(content or (STORED / "samples.parquet").read_bytes())
    with pytest.raises(BadTable, match="results.parquet' is damaged, or not from an experiment"):
        read_results(tmp_path)


def test_nothing_rewritten_is_no_figure() -> None:
    originals = [each for each in read_results(STORED) if each.setting == "original"]
    with pytest.raises(BadParameter, match="needs results of"):
        panels(originals)


def test_a_folder_without_results_says_how_to_make_them(tmp_path: Path) -> None:
    with pytest.raises(BadTable, match="Make it with 'dpbart experiment run'"):
        read_results(tmp_path)


def test_an_infinite_budget_comes_back_as_one() -> None:
    assert math.inf in {each.epsilon for each in read_results(STORED)}
