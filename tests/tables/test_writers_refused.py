"""Which outputs are refused before anything is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpbart.errors import BadParameter, BadTable
from dpbart.tables.table import open_table
from tests.tables.plain_tables import copy_refusal, open_writer, read_plainly, write_plainly

pytestmark = pytest.mark.usefixtures("no_wait_for_the_disk")


def test_an_existing_file_is_replaced_only_on_request(tmp_path: Path) -> None:
    source = write_plainly(tmp_path / "in.csv", [["1", "a", ""]])
    (tmp_path / "out.csv").write_text("before")
    assert copy_refusal(source, tmp_path / "out.csv") == (
        "'out.csv' exists already. Pass --overwrite to replace it, or name another file."
    )
    assert (tmp_path / "out.csv").read_text() == "before"
    table = open_table(source)
    with open_writer(tmp_path / "out.csv", like=table, columns=table.columns, overwrite=True) as writer:
        writer.write(next(table.batches(1)))
    assert read_plainly(tmp_path / "out.csv")[1] == ["1", "a", ""]


@pytest.mark.parametrize("overwrite", [True, False])
def test_the_input_is_never_the_output_under_any_of_its_names(tmp_path: Path, overwrite: bool) -> None:
    source = write_plainly(tmp_path / "in.csv", [["1", "a", ""]])
    (tmp_path / "soft.csv").symlink_to(source)
    (tmp_path / "hard.csv").hardlink_to(source)
    table = open_table(source)
    for name in ("in.csv", "soft.csv", "hard.csv"):
        with pytest.raises(BadTable) as caught:
            open_writer(tmp_path / name, like=table, columns=table.columns, overwrite=overwrite)
        assert str(caught.value) == f"'{tmp_path / name}' is both input and output. Name another output."


def test_a_place_that_cannot_be_written_is_refused_before_any_batch(tmp_path: Path) -> None:
    source = write_plainly(tmp_path / "in.csv", [["1", "a", ""]])
    assert copy_refusal(source, tmp_path / "results" / "out.csv") == (
        "'results/out.csv' cannot be written: its folder 'results' does not exist. Make it first."
    )
    (tmp_path / "folder.csv").mkdir()
    assert copy_refusal(source, tmp_path / "folder.csv") == "'folder.csv' is a directory. Name a file in it."
    assert "must be one of .csv, .tsv," in copy_refusal(source, tmp_path / "out.pdf")
    assert copy_refusal(source, tmp_path / ("o" * 250 + ".csv")).endswith(
        "cannot be written: File name too long. Nothing half-written was left behind."
    )


def test_columns_belong_to_the_input_and_include_the_text(tmp_path: Path) -> None:
    table = open_table(write_plainly(tmp_path / "in.csv", [["1", "a", ""]]))
    with pytest.raises(BadParameter, match=r"^columns must be among those of the input, got 'x'\.$"):
        open_writer(tmp_path / "out.csv", like=table, columns=("text", "x"))
    with pytest.raises(BadParameter, match=r"^columns must include the text column 'text'\.$"):
        open_writer(tmp_path / "out.csv", like=table, columns=("id",))
