"""A mistake is answered at once: nothing that is slow to import is loaded to refuse it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SLOW = [
    "mpmath",
    "torch",
    "transformers",
    "scipy",
    "pandas",
    "pyarrow.compute",
    "pyarrow.dataset",
    "sklearn",
    "matplotlib",
]
SLOW += ["accelerate", "ray", "rich", "huggingface_hub", "safetensors"]
MISTAKES = {
    "rewrite missing.csv out.csv -e 10": "'missing.csv' does not exist",
    "rewrite in.csv out.csv": "epsilon must be given",
    "rewrite in.csv out.csv -e -3": "epsilon must be greater than 0",
    "rewrite in.csv out.csv -e 10 -e 20": "was given 2 times",
    "rewrite in.csv out.csv -e 10 --no-such-option": "No such option",
    "rewrite in.csv out.csv -e 10 --text-column txt": "has no column 'txt'",
    "rewrite in.csv out.csv -e 10 --person-column who": "has no column 'who'",
    "rewrite in.csv out.csv -e 10 --mechanism magic": "mechanism must be one of",
    "rewrite in.csv out.csv -e 10 --engine magic": "engine must be one of",
    "rewrite in.csv out.csv -e 10 --workers 0": "workers must be at least 1",
    "rewrite in.csv out.csv -e 10 --length 1000": "length must be from 1",
    "rewrite in.csv out.csv -e 10 --model maxi": "no model named 'maxi'",
    "rewrite in.csv out.csv -e 10 --label-column label": "a label column needs a policy",
    "rewrite in.csv there.csv -e 10": "'there.csv' exists already",
    "rewrite in.csv out.csv -e 10 --person-column id --person-budget 5": "--person-budget is 5",
    "card verify missing.json": "cannot be read",
    "budget show missing.db": "there is no ledger",
    "noise -e -1": "epsilon must be greater than 0",
    "models show maxi": "no model named 'maxi'",
    "models import missing.pt --out m": "'missing.pt' does not exist",
    "datasets prepare own missing.csv --out x.parquet": "'missing.csv' does not exist",
    "evaluate bleu missing.csv in.csv": "'missing.csv' does not exist",
    "evaluate similarity missing.csv in.csv": "'missing.csv' does not exist",
    "evaluate fluency in.csv --corpus nothing": "'nothing' does not exist",
    "evaluate downstream --train missing.csv --valid in.csv --test in.csv": "'missing.csv' does not exist",
    "experiment run missing.toml": "no experiment at 'missing.toml'",
    "experiment table nothing": "has no 'results.parquet'",
    "prepare pretrain --corpus nothing --out m": "'nothing' does not exist",
    "prepare adept --corpus nothing --out m": "'nothing' does not exist",
    "prepare clip --model mini-bart --corpus in.csv": "'mini-bart' does not exist",
    "prepare prune --model maxi --corpus in.csv --out m": "no model named 'maxi'",
    "prepare noisy --model maxi --corpus in.csv --out m": "no model named 'maxi'",
    "prepare code --corpus in.csv --book in.csv --teacher t --tokenizer-of maxi --out m": "no model named 'maxi'",
    "prepare code --corpus in.csv --book nothing --teacher t --out m": "'nothing' does not exist",
    "prepare book --sentences nothing --encoder mini-code --out m": "'nothing' does not exist",
    "prepare book --sentences in.csv --encoder mini-code --out m": "pass --public",
}
PROGRAM = """
import json, sys
from click.testing import CliRunner
from dpbart.cli import cli

found = {}
for line in json.loads(sys.argv[1]):
    done = CliRunner().invoke(cli, line.split())
    found[line] = (done.exit_code, done.stderr, [name for name in json.loads(sys.argv[2]) if name in sys.modules])
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[int, str, list[str]]]:
    """What a fresh process answers to all mistakes, one after the other, and what it has loaded by then."""
    folder = tmp_path_factory.mktemp("mistakes")
    (folder / "in.csv").write_text("id,text,label\n1,a child,x\n2,a boat,y\n")
    (folder / "there.csv").write_text("mine")
    command = [sys.executable, "-c", PROGRAM, json.dumps(list(MISTAKES)), json.dumps(SLOW)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=folder)
    assert {file.name for file in folder.iterdir()} == {"in.csv", "there.csv"}
    return {line: (code, words, loaded) for line, (code, words, loaded) in json.loads(done.stdout).items()}


@pytest.mark.parametrize("line", MISTAKES)
def test_a_mistake_is_refused_before_anything_slow_is_loaded(
    answers: dict[str, tuple[int, str, list[str]]], line: str
) -> None:
    code, words, loaded = answers[line]
    assert code in (1, 2)
    assert MISTAKES[line] in words
    assert loaded == []


def test_the_default_model_rewrites_without_transformers_scipy_or_pandas(tmp_path: Path) -> None:
    code = (
        "import sys; from click.testing import CliRunner; from dpbart.cli import cli\n"
        "done = CliRunner().invoke(cli, ['rewrite', '-', '-', '-e', '3'], input='a child\\n')\n"
        "assert (done.exit_code, done.stdout.count('\\n')) == (0, 1), done.stderr\n"
        "print([m for m in ('transformers', 'scipy', 'pandas', 'pyarrow.compute') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.strip() == "[]"
