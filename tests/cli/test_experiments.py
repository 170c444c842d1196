"""The commands around experiments: exact text and exit status, as a user meets them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dpbart.evaluate.experiment import experiment as rewriting
from dpbart.models.bundle import Bundle
from tests.command_line import run


@pytest.fixture
def fruit(tmp_path: Path) -> Path:
    """A folder with fruit.csv: split, label, text; and each part in a file of its own."""
    rows = []
    for number in range(60):
        part, label = ("train", "train", "train", "valid", "test")[number % 5], ("apple", "boat")[number % 2]
        rows.append((part, label, f"number {number} has the {label}"))
    (tmp_path / "fruit.csv").write_text("split,label,text\n" + "".join(f"{','.join(row)}\n" for row in rows))
    for part in ("train", "valid", "test"):
        lines = [f"{label},{text}\n" for name, label, text in rows if name == part]
        (tmp_path / f"{part}.csv").write_text("label,text\n" + "".join(lines))
    return tmp_path


def test_data_sets_are_listed(fruit: Path) -> None:
    lines = run("datasets", "list").stdout.splitlines()
    assert lines[1].startswith("snips    7 classes,    13,784 train and valid,     700 test. Goo et al. 2018")
    held = json.loads(run("datasets", "list", "--data", fruit, "--json").stdout)
    assert [each["name"] for each in held][:5] == ["atis", "snips", "imdb", "drugs", "amazon"]
    assert {each["found"] for each in held[:5]} == {None}


def test_own_data_sets_are_listed_too(fruit: Path) -> None:
    (fruit / "prices.csv").write_text("text,price\nan apple,3\n")  # no labels
    (fruit / "hub").mkdir()
    (fruit / "hub" / "train.csv").write_text("label,text\nx,an apple\n")
    held = json.loads(run("datasets", "list", "--data", fruit, "--json").stdout)
    assert {each["name"]: each["found"] for each in held if each["own"]} == {
        "fruit": str(fruit / "fruit.csv"),
        "hub": str(fruit / "hub"),
        **{part: str(fruit / f"{part}.csv") for part in ("train", "valid", "test")},
    }
    assert f"fruit   your own; found: {fruit / 'fruit.csv'}\n" in run("datasets", "list", "--data", fruit).stdout


def test_a_data_set_is_shown(fruit: Path) -> None:
    done = run("datasets", "show", "fruit", "--data", fruit)
    assert done.exit_code == 0, done.stderr
    assert "train      36 texts, 2 labels: apple 18, boat 18\n" in done.stdout
    held = json.loads(run("datasets", "show", "fruit", "--data", fruit, "--json").stdout)
    assert held["texts"] == {"train": 36, "valid": 12, "test": 12}


def test_a_set_that_is_not_the_papers_is_shown_and_refused(fruit: Path) -> None:
    (fruit / "fruit.csv").rename(fruit / "snips.csv")
    done = run("datasets", "show", "snips", "--data", fruit)
    assert done.exit_code == 1
    assert "48 texts to train and validate on where the paper has 13,784" in done.stderr
    assert run("datasets", "show", "snips", "--data", fruit, "--allow-different").exit_code == 0


def test_an_own_file_is_prepared(fruit: Path) -> None:
    out = fruit / "mine.parquet"
    done = run("datasets", "prepare", "own", fruit / "fruit.csv", "--out", out)
    assert done.exit_code == 0, done.stderr
    assert done.stdout.splitlines()[-1] == f"Written to {out}."
    assert run("datasets", "prepare", "own", fruit / "fruit.csv", "--out", fruit / "mine.csv").exit_code == 1


def test_bleu_comes_with_its_signature(fruit: Path) -> None:
    held = json.loads(run("evaluate", "bleu", fruit / "test.csv", fruit / "test.csv", "--json").stdout)
    assert held["bleu"] == pytest.approx(100)
    assert held["signature"].startswith("nrefs:1|")
    shown = run("evaluate", "bleu", fruit / "test.csv", fruit / "test.csv").stdout
    assert "Signature      nrefs:1|" in shown
    assert "Originals      whole texts: whatever the model did not read counts as lost\n" in shown


def test_bleu_of_files_that_do_not_pair_is_refused(fruit: Path) -> None:
    done = run("evaluate", "bleu", fruit / "train.csv", fruit / "test.csv")
    assert done.exit_code == 1
    assert "must have the same number of rows, got 36 in" in done.stderr


def test_downstream_prints_f1_and_its_controls(fruit: Path) -> None:
    parts = [arg for part in ("train", "valid", "test") for arg in (f"--{part}", fruit / f"{part}.csv")]
    done = run("evaluate", "downstream", *parts, "--classifier", "linear", "--epsilon", 1, "--json")
    held = json.loads(done.stdout)
    assert (held["f1_mean"], held["f1_deviation"], held["class_f1"]) == (1, None, {"apple": 1, "boat": 1})
    assert held["label_only_f1"] == pytest.approx(0.731, abs=1e-3)  # e / (e + 1)
    assert held["majority_f1"] == pytest.approx(1 / 3)
    shown = run("evaluate", "downstream", *parts, "--classifier", "linear").stdout
    assert shown.startswith("Macro F1        1.0000 over 1 trainings\n")
    assert "Label alone" not in shown


def test_labels_that_do_not_fit_are_named(fruit: Path) -> None:
    with (fruit / "test.csv").open("a") as file:
        file.write("pear,one more\n")
    parts = [arg for part in ("train", "valid", "test") for arg in (f"--{part}", fruit / f"{part}.csv")]
    done = run("evaluate", "downstream", *parts, "--classifier", "linear")
    assert f"Label 'pear' is in {fruit / 'test.csv'} but not in {fruit / 'train.csv'}" in done.stderr


def test_an_experiment_is_run_tabled_and_plotted(tiny: Bundle, fruit: Path) -> None:
    config = fruit / "small.toml"
    config.write_text(
        f'models = ["{tiny.folder}", "{fruit}/none"]\nlength = 12\nbeams = 1\n'
        '[[mechanisms]]\nname = "gaussian"\nepsilons = [500]\n'
        '[[data]]\nname = "fruit"\ndelta = 1e-3\n[[classifiers]]\nkind = "linear"\nname = "linear"\n'
    )
    out = fruit / "out"
    done = run("experiment", "run", config, "--data", fruit, "--out", out)
    assert done.exit_code == 1  # one model does not exist
    assert done.stdout == f"2 results in {out / 'results.csv'}, 1 failed.\n"
    assert f"Failed: fruit {fruit}/none gaussian 500: NotPrepared: no model named" in done.stderr
    table = run("experiment", "table", out)
    assert table.stdout.startswith("### fruit, linear\n\n| system | measure | original | 500 |\n")
    assert run("experiment", "table", out, "--latex").stdout.startswith("\\begin{table}\n")
    assert run("experiment", "table", out, "--samples").stdout.startswith("### fruit: number 0 has the apple\n")
    assert len(json.loads(run("experiment", "table", out, "--json").stdout)) == 3
    assert run("experiment", "plot", out).stdout == f"Written to {out / 'figure.png'}.\n"
    assert (out / "figure.png").is_file()


def small_experiment(folder: Path, model: Path) -> Path:
    config = folder / "small.toml"
    config.write_text(
        f'models = ["{model}"]\nlength = 12\nbeams = 1\n'
        '[[mechanisms]]\nname = "gaussian"\nepsilons = [500]\n'
        '[[data]]\nname = "fruit"\ndelta = 1e-3\n[[classifiers]]\nkind = "linear"\nname = "linear"\n'
    )
    return config


def test_an_experiment_passes_its_engine_to_the_job(tiny: Bundle, fruit: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, object] = {}

    def watch(request: object, settings: object, **engine: object) -> None:
        seen.update(engine)
        raise RuntimeError("seen")

    monkeypatch.setattr(rewriting, "rewrite_file", watch)
    where = ("--engine", "ray", "--workers", 3, "--address", "10.0.0.5:6379")
    run("experiment", "run", small_experiment(fruit, tiny.folder), "--data", fruit, "--out", fruit / "out", *where)
    assert seen == {"engine": "ray", "workers": 3, "address": "10.0.0.5:6379"}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [(("--address", "10.0.0.5:6379"), "Pass --engine ray with it"), (("--workers", 0), "workers must be at least 1")],
)
def test_an_engine_that_cannot_work_is_refused_before_any_work(
    tiny: Bundle, fruit: Path, wrong: tuple[object, ...], message: str
) -> None:
    config = small_experiment(fruit, tiny.folder)
    done = run("experiment", "run", config, "--data", fruit, "--out", fruit / "out", *wrong)
    assert (done.exit_code, message in done.stderr, (fruit / "out").exists()) == (1, True, False)


def test_json_has_no_infinity() -> None:
    stored = Path(__file__).parents[1] / "evaluate" / "stored"
    for args in ((), ("--samples",)):
        shown = run("experiment", "table", stored, "--json", *args).stdout
        assert "Infinity" not in shown
        assert {None, 500} <= {each["epsilon"] for each in json.loads(shown)}


def test_samples_have_no_latex() -> None:
    done = run("experiment", "table", "out", "--samples", "--latex")
    assert (done.exit_code, "Leave out --latex" in done.stderr) == (2, True)


def test_an_experiment_names_labels_that_do_not_fit(fruit: Path) -> None:
    with (fruit / "fruit.csv").open("a") as file:
        file.write("test,pear,one more\ntrain,plum,one more\n")
    config = fruit / "small.toml"
    config.write_text(
        f'models = ["{fruit}/none"]\n[[data]]\nname = "fruit"\ndelta = 1e-3\n'
        '[[classifiers]]\nkind = "linear"\nname = "linear"\n'
    )
    done = run("experiment", "run", config, "--data", fruit, "--out", fruit / "out")
    assert "fruit: in test but not in train, so never predicted: pear.\n" in done.stderr
    assert "fruit: in train but not in test, so without an F1: plum.\n" in done.stderr


@pytest.mark.parametrize("epsilon", ["-1000", "0", "nan"])
def test_downstream_refuses_a_bad_epsilon(fruit: Path, epsilon: str) -> None:
    parts = [arg for part in ("train", "valid", "test") for arg in (f"--{part}", fruit / f"{part}.csv")]
    done = run("evaluate", "downstream", *parts, "--classifier", "linear", "--epsilon", epsilon)
    assert (done.exit_code, done.stdout) == (1, "")
    assert "Error: epsilon must be greater than 0, got" in done.stderr


def test_an_experiment_without_data_says_where_to_put_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DPBART_DATA", raising=False)
    done = run("experiment", "run", "mini")
    message = "Error: a folder of data sets must be given. Pass --data DIR, or set DPBART_DATA.\n"
    assert (done.exit_code, done.stderr) == (1, message)
