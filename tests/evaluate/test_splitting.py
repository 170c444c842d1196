"""Which split a text of somebody's own table is in."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from dpbart.errors import BadTable
from dpbart.evaluate.data.loading import OwnFile, load_data
from dpbart.evaluate.data.splits import LabelledTexts
from tests.evaluate.prepared_files import make, rows_of


def test_an_own_file_is_split_balanced_and_freed_of_repeats(tmp_path: Path) -> None:
    file = tmp_path / "own.csv"
    lines = [f"{'good' if i % 4 else 'bad'},text {i}\n" for i in range(400)]
    file.write_text("stars,review\n" + "".join(lines * 2))
    own = OwnFile("review", "stars", longest=2, balanced=True)
    counts = make("own", file, tmp_path / "own.parquet", own=own)
    total = Counter[str]()
    for labels in counts.values():
        total += Counter(labels)
    assert total == {"good": 100, "bad": 100}
    assert load_data("own.parquet", tmp_path).train.texts


def test_splits_that_an_own_file_names_stay(tmp_path: Path) -> None:
    file = tmp_path / "own.csv"
    lines = [f"{'test' if i % 3 else 'train'},{'good' if i % 4 else 'bad'},text {i}\n" for i in range(120)]
    file.write_text("split,label,text\n" + "".join(lines))
    make("own", file, tmp_path / "o.parquet")
    made = rows_of(tmp_path / "o.parquet")
    assert {text for part, _, text in made if part == "test"} == {f"text {i}" for i in range(120) if i % 3}
    assert {part for part, _, _ in made} == {"train", "valid", "test"}  # a fifth of train
    balanced = make("own", file, tmp_path / "o.parquet", own=OwnFile(balanced=True))
    assert balanced["test"] == {"good": 20, "bad": 20}
    file.write_text(file.read_text().replace("test,", "valid,", 30))
    counts = make("own", file, tmp_path / "o.parquet")
    assert [sum(labels.values()) for labels in counts.values()] == [40, 30, 50]


def test_splits_that_a_known_sets_table_names_stay(tmp_path: Path) -> None:
    lines = [f"{('train', 'train', 'valid', 'test')[i % 4]},{'ab'[i % 2]},text {i}\n" for i in range(80)]
    (tmp_path / "x.csv").write_text("split,label,text\n" + "".join(lines))
    counts = make("imdb", tmp_path / "x.csv", tmp_path / "o.parquet")
    assert [sum(labels.values()) for labels in counts.values()] == [40, 20, 20]


def test_a_split_of_another_name_is_refused_and_not_split_again(tmp_path: Path) -> None:
    (tmp_path / "folds.csv").write_text("split,label,text\n" + "".join(f"fold,a,text {i}\n" for i in range(90)))
    with pytest.raises(BadTable, match=r"'split' in .* row 1 must be train, valid or test, got 'fold'"):
        load_data("folds", tmp_path)


def test_a_split_called_all_is_still_to_be_split(tmp_path: Path) -> None:
    (tmp_path / "whole.csv").write_text("split,label,text\n" + "".join(f"all,a,text {i}\n" for i in range(100)))
    data = load_data("whole", tmp_path)
    assert len(data.train) + len(data.valid) + len(data.test) == 100
    assert min(len(data.train), len(data.valid), len(data.test)) > 0


def test_a_table_without_splits_is_split_when_it_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "plain.csv").write_text("label,text\n" + "".join(f"{'ab'[i % 2]},text {i}\n" for i in range(200)))
    data = load_data("plain", tmp_path)
    assert len(data.train) + len(data.valid) + len(data.test) == 200
    assert data.checksum == load_data("plain", tmp_path).checksum


def test_splits_must_be_named_in_all_rows_or_in_none(tmp_path: Path) -> None:
    (tmp_path / "half.csv").write_text("split,label,text\ntrain,a,one\n,b,two\n")
    with pytest.raises(BadTable, match="must name a split .* in every row"):
        load_data("half", tmp_path)


def test_a_row_without_a_label_is_named(tmp_path: Path) -> None:
    (tmp_path / "gap.csv").write_text("label,text\na,one\n,two\n")
    with pytest.raises(BadTable, match="row 2 has no label"):
        load_data("gap", tmp_path)


def test_a_sample_is_chosen_without_replacement_and_in_order() -> None:
    part = LabelledTexts(tuple(str(i) for i in range(100)), ("a",) * 100)
    chosen = [int(text) for text in part.sample(10, seed=1).texts]
    assert chosen == sorted(set(chosen))
    assert len(chosen) == 10
    assert part.sample(None, seed=1) == part == part.sample(200, seed=1)
