"""A data set is found, and checked against the paper's counts."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpbart.errors import BadParameter, BadTable
from dpbart.evaluate.data import loading
from dpbart.evaluate.data.loading import KNOWN, OwnFile, data_folder, load_data, make_file


def test_other_counts_than_the_papers_are_named_and_refused(intents: Path, tmp_path: Path) -> None:
    with pytest.raises(BadTable) as refused:
        make_file("snips", [intents], tmp_path / "o.parquet", own=OwnFile(), seed=0, allow_different=False)
    assert str(refused.value) == (
        "this is not the paper's 'snips': 8 texts to train and validate on where the paper has 13,784; "
        "4 texts to test on where the paper has 700; 2 classes where the paper has 7. "
        "Pass --allow-different to use it anyway."
    )
    assert list(tmp_path.glob("*.parquet")) == []
    intents.rename(tmp_path / "snips")
    with pytest.raises(BadTable, match="not the paper's 'snips'"):
        load_data("snips", tmp_path)


def test_the_papers_counts_pass() -> None:
    # Theory, section 6; 97,410 positive reviews of Drugs.com are the paper's own count.
    drugs = {"train": Counter(positive=97_410, negative=63_887), "valid": Counter[str]()}
    right = drugs | {"test": Counter(positive=1, negative=53_765)}
    assert KNOWN["drugs"].differences(right) == []
    wrong = right | {"train": Counter(positive=46_421, negative=114_876)}  # 8 and 9 alone, as the paper's sentence says
    assert KNOWN["drugs"].differences(wrong) == [
        "46,421 positive texts to train and validate on where the paper has 97,410"
    ]


def test_unseen_and_untested_labels_are_named(tmp_path: Path) -> None:
    lines = "train,a,1\ntrain,b,2\nvalid,a,3\ntest,a,4\ntest,c,5\n"
    (tmp_path / "odd.csv").write_text("split,label,text\n" + lines)
    data = load_data("odd", tmp_path)
    assert (data.unseen, data.untested) == (("c",), ("b",))


def test_the_folder_comes_from_the_option_or_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DPBART_DATA", raising=False)
    with pytest.raises(BadParameter, match="Pass --data DIR, or set DPBART_DATA"):
        data_folder(None)
    monkeypatch.setenv("DPBART_DATA", str(tmp_path))
    assert data_folder(None) == tmp_path


def test_a_known_set_that_does_not_exist_comes_from_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hub = tmp_path / "hub" / "plain_text"
    hub.mkdir(parents=True)
    for part in ("train", "test", "unsupervised"):
        table = pa.table({"text": [f"{part} {i}" for i in range(30)], "label": [i % 2 for i in range(30)]})
        pq.write_table(table, hub / f"{part}-00000-of-00001.parquet")
    monkeypatch.setattr(loading, "fetch_data", lambda name: {"stanfordnlp/imdb": hub.parent}[name])
    data = load_data("imdb", tmp_path, allow_different=True)
    assert len(data.train) + len(data.valid) == len(data.test) == 30


def test_a_set_that_is_nowhere_says_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(BadTable, match="Put 'drugs.parquet' .* there, or make it with 'dpbart datasets prepare'"):
        load_data("drugs", tmp_path)
