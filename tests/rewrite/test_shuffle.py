"""A shuffled output: what is in it, what the card says, and that no channel brings the order back."""

from __future__ import annotations

import csv
import json
import math
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpbart.card.verify import verify
from dpbart.errors import BadParameter, BadTable
from dpbart.ledger.ledger import Ledger
from dpbart.options.rewriting import Request
from dpbart.options.settings import Settings
from dpbart.privacy.guarantee import Guarantee
from dpbart.privacy.mechanisms import NonPrivate, Response
from dpbart.privacy.sampling import SystemEntropy
from dpbart.privacy.shuffling.amplification import central_guarantee
from dpbart.rewrite import shuffle
from dpbart.rewrite.chosen import ChosenModel
from dpbart.rewrite.durable import commit
from dpbart.rewrite.durable.folder import folder_of
from dpbart.rewrite.job import plan
from dpbart.rewrite.rewriter import Rewriter
from dpbart.testing import described, fake_rewriter
from tests.card.cards import FakeCodes, code_rewriter
from tests.rewrite.jobs import inline, run, shuffle_request

ROWS = 300
LABELS: dict[str, Any] = {"label_column": "ill", "labels": "randomize:1", "label_set": ("yes", "no")}
CANARY = "canary"


class Numbers(FakeCodes):
    """Returns the number in each text, so that a test can see the order."""

    def decode(self, private: object) -> list[str]:
        return [text.split()[-1] for text in self._texts]


def rewriter(epsilon: float = 2.0, batch_size: int = 32) -> Rewriter:
    channel = code_rewriter(Response(epsilon, 1 << 11)).channel
    return Rewriter(Numbers(), channel, batch_size, SystemEntropy())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = [
        {"who": f"{CANARY}{n}", "when": f"{CANARY} {n}", "text": f"text {n}", "ill": "yes" if n % 3 else "no"}
        for n in range(ROWS)
    ]
    with (tmp_path / "in.csv").open("w", newline="") as out:
        table = csv.DictWriter(out, list(rows[0]))
        table.writeheader()
        table.writerows(rows)
    pd.DataFrame(rows, index=pd.RangeIndex(5000, 5000 + ROWS, name=CANARY)).to_parquet(tmp_path / "in.parquet")
    # Keys in another order and further keys: both would mark a row.
    lines = [dict(reversed(row.items())) if n % 2 else {**row, f"{CANARY}{n}": n} for n, row in enumerate(rows)]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return tmp_path


def read(file: Path) -> pd.DataFrame:
    readers: dict[str, Any] = {
        ".csv": pd.read_csv,
        ".parquet": pd.read_parquet,
        ".jsonl": lambda path: pd.read_json(path, lines=True),
    }
    frame: pd.DataFrame = readers[file.suffix](file)
    return frame


@pytest.mark.parametrize("ending", [".csv", ".jsonl", ".parquet"])
@pytest.mark.parametrize("source", [".csv", ".jsonl", ".parquet"])
def test_the_output_has_texts_and_randomised_labels_in_another_order_and_nothing_else(
    folder: Path, source: str, ending: str
) -> None:
    request = Request(folder / f"in{source}", folder / f"out{ending}", shuffle=True, person_column="who", **LABELS)
    run(request, rewriter())
    out = read(folder / f"out{ending}")
    assert list(out.columns) == ["text", "ill"] or list(out.columns) == ["ill", "text"]
    numbers = out["text"].astype(int).tolist()
    assert sorted(numbers) == list(range(ROWS))
    assert numbers != sorted(numbers)
    for file in folder.glob("out*"):
        assert CANARY.encode() not in file.read_bytes(), file.name
    assert not folder_of(folder / f"out{ending}").exists()
    assert [each.name for each in folder.iterdir() if each.name.startswith(".")] == []  # no part is left behind


def test_every_line_has_the_same_keys_in_the_same_order(folder: Path) -> None:
    run(Request(folder / "in.jsonl", folder / "out.jsonl", shuffle=True, **LABELS), rewriter())
    keys = {tuple(json.loads(line)) for line in (folder / "out.jsonl").read_text().splitlines()}
    assert len(keys) == 1


def test_parquet_has_no_metadata_and_row_groups_by_position_alone(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []
    for part_rows in (7, 100):
        monkeypatch.setattr(commit, "PART_ROWS", part_rows)
        monkeypatch.setattr(shuffle, "WRITTEN_AT_ONCE", 64)
        monkeypatch.setattr("dpbart.tables.formats.parquet._GROUP_ROWS", 128)
        request = Request(folder / "in.parquet", folder / "out.parquet", shuffle=True, overwrite=True)
        run(request, rewriter(batch_size=7))
        file = pq.ParquetFile(folder / "out.parquet")
        assert set(file.metadata.metadata or {}) <= {b"ARROW:schema"}
        assert file.schema_arrow.metadata is None
        assert all(field.metadata is None for field in file.schema_arrow)
        made.append([file.metadata.row_group(n).num_rows for n in range(file.num_row_groups)])
    assert made == [[128, 128, 44]] * 2


def test_categories_of_labels_are_not_in_the_order_of_the_input(tmp_path: Path) -> None:
    """A column of categories keeps them in the order of its first rows."""
    labels = ["last", "first"] * 20
    table = pa.table({"text": [f"text {n}" for n in range(40)], "ill": pa.array(labels).dictionary_encode()})
    pq.write_table(table, tmp_path / "in.parquet")
    seen = set()
    for _ in range(20):
        asked: dict[str, Any] = {"label_column": "ill", "labels": "randomize:1", "label_set": ("first", "last")}
        run(
            Request(tmp_path / "in.parquet", tmp_path / "out.parquet", shuffle=True, overwrite=True, **asked),
            rewriter(),
        )
        column = pq.read_table(tmp_path / "out.parquet").column("ill").combine_chunks()
        seen.add(column.dictionary.to_pylist()[0] == column.to_pylist()[0])
    assert seen == {True}  # the first category is that of the first row of the output


def test_a_column_inside_an_object_stays_there_alone(tmp_path: Path) -> None:
    lines = [{"note": {"by": CANARY, "text": f"text {n}"}, "id": n} for n in range(20)]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    run(Request(tmp_path / "in.jsonl", tmp_path / "out.jsonl", text_column="note.text", shuffle=True), rewriter())
    out = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert sorted((line["note"]["text"] for line in out), key=int) == [str(n) for n in range(20)]
    assert {(tuple(line), tuple(line["note"])) for line in out} == {(("note",), ("text",))}


def test_the_card_tells_no_times_and_both_guarantees(folder: Path) -> None:
    card = run(shuffle_request(folder, person_column="who"), rewriter())
    held = json.loads((folder / "out.csv.card.json").read_text())
    assert not {"seconds", "rows_per_second"} & held["run"].keys()
    assert held["other_columns"] == []
    expected = central_guarantee(Guarantee(2.0, 0.0), people=ROWS, delta=1e-5, options=1 << 11)
    assert held["guarantee"] == {"epsilon": 2.0, "delta": 0.0}
    assert held["shuffled"]["guarantee"] == {"epsilon": expected.central.epsilon, "delta": 1e-5}
    assert held["shuffled"]["known"] == ROWS // 10
    page = (folder / "out.csv.card.txt").read_text()
    for words in ("whoever runs the command sees", "honest and unknown", "those who also know 30 of these rows"):
        assert words in page
    assert "their order" not in page  # the order is not among what is not covered
    assert card.shuffled is not None
    assert all(each.held is not False for each in verify(folder / "out.csv.card.json"))


def test_a_row_with_a_randomised_label_is_not_one_response(folder: Path) -> None:
    card = run(shuffle_request(folder, **LABELS), rewriter())
    assert card.shuffled is not None
    assert card.shuffled.guarantee == central_guarantee(Guarantee(3.0, 0.0), people=ROWS, delta=1e-5).central


def test_a_person_with_several_rows_is_a_group_and_a_joined_one_is_not(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("who,text\n" + "".join(f"p{n % 100},text {n}\n" for n in range(ROWS)))
    several = run(shuffle_request(tmp_path, person_column="who"), rewriter(0.5)).shuffled
    joined = run(
        shuffle_request(tmp_path, person_column="who", join_documents=True, overwrite=True), rewriter(0.5)
    ).shuffled
    assert several is not None
    assert joined is not None
    assert (several.most_rows, joined.most_rows) == (3, 1)
    assert several.guarantee.epsilon >= 3 * several.row_guarantee.epsilon
    assert "at most 3 (group privacy)" not in (tmp_path / "out.csv.card.txt").read_text()
    assert joined.guarantee == central_guarantee(Guarantee(0.5, 0.0), people=100, delta=1e-5, options=1 << 11).central


def test_the_ledger_records_the_local_epsilon(folder: Path) -> None:
    run(shuffle_request(folder, person_column="who", ledger=folder / "l.db"), rewriter())
    spent = Ledger(folder / "l.db").spent(f"{CANARY}7")
    assert spent is not None
    assert spent.epsilon == Decimal(2)


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (lambda: fake_rewriter(epsilon=5.0), "pure epsilon, got 'gaussian'"),
        (lambda: code_rewriter(NonPrivate()), "NOT PRIVATE"),
        (lambda: fake_rewriter(epsilon=5.0, mechanism="laplace", replay_seed=1), "NOT PRIVATE"),
    ],
)
def test_a_mechanism_that_is_not_pure_is_refused_and_spends_nothing(folder: Path, made: Any, why: str) -> None:
    request = shuffle_request(folder, person_column="who", ledger=folder / "l.db")
    with pytest.raises(BadParameter, match=why):
        run(request, made())
    assert sorted(file.name for file in folder.iterdir()) == ["in.csv", "in.jsonl", "in.parquet"]


def test_laplace_noise_is_pure_and_has_the_bound_of_any_mechanism(folder: Path) -> None:
    card = run(shuffle_request(folder), fake_rewriter(epsilon=1.0, mechanism="laplace"))
    assert card.shuffled is not None
    assert card.shuffled.rule == "clones"


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"source": Path("-")}, "--shuffle needs files"),
        ({"target": Path("-")}, "--shuffle needs files"),
        ({"id_column": "who"}, "leaves no id in the output"),
        ({"label_column": "ill", "labels": "public"}, "would tell the rows of a shuffled output apart"),
        ({"shuffle": False, "central_epsilon": 1.0}, "Pass --shuffle with --central-epsilon"),
    ],
)
def test_a_request_that_would_give_the_order_away_is_refused(folder: Path, changed: Any, why: str) -> None:
    with pytest.raises(BadParameter, match=why):
        Request(**{"source": folder / "in.csv", "target": folder / "out.csv", "shuffle": True, **changed})


def test_a_folder_of_files_cannot_be_shuffled_into_a_folder(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text("text 1")
    with pytest.raises(BadTable, match="Name an output file"):
        run(Request(tmp_path / "in", tmp_path / "out", shuffle=True), rewriter())


def test_delta_must_be_below_one_over_the_people(folder: Path) -> None:
    made = rewriter()
    wide = described(made)
    with pytest.raises(BadParameter, match=f"below 1 / {ROWS} for {ROWS} people"):
        plan(shuffle_request(folder), type(wide)(**{**wide.__dict__, "delta": 0.01}))


def test_a_shuffled_run_cannot_resume_as_one_that_is_not(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shuffle, "shuffled_batches", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        run(shuffle_request(folder), rewriter())
    with pytest.raises(Exception, match="shuffle"):
        run(shuffle_request(folder, shuffle=False, resume=True), rewriter())


def test_the_wanted_central_epsilon_decides_the_local_one(folder: Path) -> None:
    request = shuffle_request(folder, person_column="who", central_epsilon=0.8)
    settings = shuffle.with_local_epsilon(request, Settings("mini-code"))
    assert settings.epsilon is not None
    assert settings.epsilon > 1
    shuffling = plan(request, ChosenModel(settings).described).shuffling
    assert shuffling is not None
    assert 0.7 < shuffling.guarantee.epsilon <= 0.8
    with pytest.raises(BadParameter, match="Pass --epsilon or --central-epsilon"):
        shuffle.with_local_epsilon(request, Settings("mini-code", epsilon=1.0))


def test_each_place_is_as_likely_for_the_first_row_as_for_the_last(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whole runs, whose parts end in different places: an audit of the order itself."""
    (folder / "in.csv").write_text("text\n" + "".join(f"text {n}\n" for n in range(6)))
    monkeypatch.setattr(commit, "PART_ROWS", 2)
    monkeypatch.setattr(commit, "PART_SECONDS", math.inf)
    monkeypatch.setattr("os.fsync", lambda _: None)
    halves: Counter[bool] = Counter()
    runs = 60
    job_rewriter = rewriter(batch_size=2)
    for _ in range(runs):
        plan(shuffle_request(folder, overwrite=True), described(job_rewriter)).run(inline(job_rewriter))
        halves[read(folder / "out.csv")["text"].tolist().index(0) < 3] += 1
    assert 8 < halves[True] < runs - 8  # 2e-9 for a fair coin
