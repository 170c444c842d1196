"""A light install: the core rewrites with its own dependencies alone, and a missing extra is named in one line."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import metadata
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.prepare.tiny_teacher import make_static

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

REPOSITORY = Path(__file__).parent.parent
EXTRAS = ("bart", "evaluate", "excel", "ray", "sign", "web")

# Runs a command of dpbart in a process in which some packages cannot be imported and nothing can be reached.
BLOCKED = """
import importlib.metadata, importlib.util, socket, sys
blocked = set(sys.argv[1].split(","))
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in blocked:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Block())
find_spec = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name in blocked else find_spec(name, package)
distribution = importlib.metadata.distribution
def installed(name):
    if name in blocked:
        raise importlib.metadata.PackageNotFoundError(name)
    return distribution(name)
importlib.metadata.distribution = installed
def refuse(*address): raise OSError("there is no network")
socket.socket.connect = refuse
from dpbart.cli import cli
cli(sys.argv[2:], prog_name="dpbart")
"""

THINGS = ("bread", "soup", "tea", "rain", "train", "dog", "garden", "window", "bike", "phone", "shirt", "letter")
ABOUT = (
    *("I like the {} today.", "Who sold us a {}?", "We lost our {} again.", "Please fix that {} near the station."),
    *("My sister paid ten euros for a {}.", "The weather ruined every {} in town last Monday."),
)
PUBLIC = "".join(f"{about.format(thing)}\n" for thing in THINGS for about in ABOUT)


def run_without(packages: set[str], *command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    run = [sys.executable, "-c", BLOCKED, ",".join(sorted(packages)), *command]
    return subprocess.run(run, cwd=folder, capture_output=True, text=True, check=False)


def project() -> Any:
    return tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]


def closure(requirements: list[str]) -> set[str]:
    """The distributions that these requirements bring, with those that they need in turn."""
    found: set[tuple[str, str]] = set()
    waiting = [(Requirement(each), "") for each in requirements]
    while waiting:
        requirement, extra = waiting.pop()
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": extra}):
            continue
        name = canonicalize_name(requirement.name)
        for wanted in {"", *requirement.extras}:
            if (name, wanted) not in found:
                found.add((name, wanted))
                waiting += [(Requirement(each), wanted) for each in metadata.requires(name) or ()]
    return {name for name, _ in found}


def modules_outside(kept: set[str]) -> set[str]:
    """The installed modules that come from no distribution in `kept`."""
    return {
        module
        for module, owners in metadata.packages_distributions().items()
        if not kept & {canonicalize_name(owner) for owner in owners}
    } - {"dpbart"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "in.csv").write_text("who,text\nanna,I saw my doctor in Leeds.\nben,The soup was cold.\n")
    return tmp_path


def test_the_core_rewrites_offline_with_its_own_dependencies_alone(folder: Path) -> None:
    others = modules_outside(closure(project()["dependencies"]))
    assert {"transformers", "accelerate", "sacrebleu", "sklearn", "matplotlib", "starlette", "pytest"} <= others
    assert {"tokenizers", "huggingface_hub", "torch"} <= others
    (folder / "corpus.txt").write_text(PUBLIC)
    for command in (
        "rewrite in.csv out.csv --epsilon 10 --person-column who --ledger budgets.db",
        "card verify out.csv.card.json --output out.csv",
        "budget show budgets.db",
        "prepare book --sentences corpus.txt --encoder mini-code --public --out model",
        "rewrite in.csv again.csv --epsilon 10 --model model",
    ):
        done = run_without(others, *command.split(), folder=folder)
        assert done.returncode == 0, done.stderr
    assert len((folder / "out.csv").read_text().splitlines()) == 3
    for model in ("mini-pr-plus", "mini-adept"):
        command = f"rewrite in.csv x.csv --epsilon 500 --delta 1e-6 --model {model}"
        done = run_without(others, *command.split(), folder=folder)
        assert (done.returncode, done.stderr.count("Traceback")) == (1, 0)
        assert f"'{model}' needs an extra package. Install it with: pip install 'dpbart[bart]'" in done.stderr


@pytest.mark.parametrize(
    ("extra", "package", "command"),
    [
        ("bart", "tokenizers", "prepare book --sentences corpus.txt --encoder static --public --out model"),
        ("bart", "transformers", "rewrite in.csv out.csv --epsilon 500 --delta 1e-6 --model mini-pr-plus"),
        ("bart", "accelerate", "prepare pretrain --corpus corpus.txt --out model"),
        ("evaluate", "sacrebleu", "evaluate bleu in.csv in.csv"),
        ("evaluate", "sklearn", "evaluate downstream --train in.csv --valid in.csv --test in.csv --label-column who"),
        ("evaluate", "matplotlib", "experiment plot results"),
        ("evaluate", "zstandard", "prepare book --sentences corpus.txt.zst --encoder mini-code --public --out model"),
        ("excel", "openpyxl", "rewrite in.csv out.xlsx --epsilon 10"),
        ("ray", "ray", "rewrite in.csv out.csv --epsilon 10 --engine ray"),
        ("sign", "cryptography", "rewrite in.csv out.csv --epsilon 10 --sign-key key.pem"),
        ("web", "uvicorn", "serve"),
    ],
)
def test_a_command_without_its_extra_says_in_one_line_what_to_install(
    folder: Path, extra: str, package: str, command: str
) -> None:
    (folder / "corpus.txt").write_text(PUBLIC)
    (folder / "corpus.txt.zst").write_bytes(b"")
    make_static(folder / "static")
    (folder / "key.pem").write_text("")
    (folder / "results").mkdir()
    for name in ("results.csv", "results.parquet"):
        (folder / "results" / name).write_bytes((REPOSITORY / "docs" / "results" / name).read_bytes())
    done = run_without({package}, *command.split(), folder=folder)
    assert done.returncode == 1, done.stderr
    said = done.stderr.splitlines()[-1]
    assert re.fullmatch(rf"Error: .* needs? .*\. Install (it|them) with: pip install 'dpbart\[{extra}\]'", said)
    assert "Traceback" not in done.stderr
    assert not (folder / "out.csv").exists()


def test_every_extra_that_a_message_or_a_page_names_exists() -> None:
    named = {
        extra
        for file in [*REPOSITORY.glob("src/**/*.py"), *REPOSITORY.glob("docs/*.md"), *REPOSITORY.glob("*.md")]
        for extras in re.findall(r"dpbart\[([\w,]+)\]", file.read_text())
        for extra in extras.split(",")
    }
    offered = project()["optional-dependencies"]
    assert set(EXTRAS) <= named <= set(offered)
    assert set(offered) == {*EXTRAS, "all", "dev"}
    assert offered["all"] == [f"dpbart[{','.join(EXTRAS)}]"]


def test_pip_stays_on_the_cpu_build_of_torch() -> None:
    wanted = [*project()["dependencies"], *chain(*project()["optional-dependencies"].values())]
    assert {each for each in wanted if re.match(r"torch\b", each)} == {"torch>=2.6,<2.14"}


def test_the_container_pins_every_package_that_it_installs() -> None:
    extras = re.search(r'"\.\[([\w,]+)\]"', (REPOSITORY / "Dockerfile").read_text())
    assert extras is not None
    offered = project()["optional-dependencies"]
    wanted = [*project()["dependencies"], *chain(*(offered[each] for each in extras[1].split(",")))]
    direct = {canonicalize_name(Requirement(each).name) for each in wanted} - {"tomli"}  # for Python 3.10 only
    lines = (REPOSITORY / "constraints.txt").read_text().splitlines()
    pinned = {canonicalize_name(line.partition("==")[0]) for line in lines if "==" in line}
    assert direct <= pinned
    assert not pinned & {"matplotlib", "ray", "sacrebleu", "scikit-learn", "zstandard"}
