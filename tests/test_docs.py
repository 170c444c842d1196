from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from types import ModuleType

import pytest
from click.testing import CliRunner

import dpbart
from dpbart import __version__
from dpbart.cli import cli
from dpbart.models.bundle import Bundle

REPOSITORY = Path(__file__).parent.parent
PAGES = ("api", "code", "commands", "curator", "large", "models", "results")
GENERATED = ["README.md", *(f"docs/{page}.md" for page in PAGES)]


@pytest.fixture(scope="module")
def make_docs() -> Iterator[ModuleType]:
    """The script that writes the generated parts of the pages."""
    sys.path.insert(0, str(REPOSITORY / "docs"))
    yield importlib.import_module("make_docs")
    sys.path.remove(str(REPOSITORY / "docs"))


@pytest.mark.parametrize("page", GENERATED)
def test_the_generated_parts_of_a_page_are_current(make_docs: ModuleType, page: str) -> None:
    assert (REPOSITORY / page).read_text() == make_docs.made_again(page), "run 'make docs'"


def test_every_page_with_generated_parts_is_checked(make_docs: ModuleType) -> None:
    pages = {part.page for part in make_docs.PARTS}
    assert pages == set(GENERATED)
    for page in [*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").glob("*.md")]:
        marked = "<!-- made by docs/make_docs.py" in page.read_text()
        assert marked == (str(page.relative_to(REPOSITORY)) in pages), page


def test_a_page_without_its_markers_is_an_error(make_docs: ModuleType) -> None:
    part = make_docs.PARTS[0]
    with pytest.raises(SystemExit, match=r"^README\.md must hold the markers of the part 'samples' once\.$"):
        part.put_into("no markers")
    assert "| original |" in part.put_into("<!-- made by docs/make_docs.py: samples --><!-- end: samples -->")


@pytest.fixture
def in_the_examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    """What the examples of docs/api.md assume."""
    import pandas
    from datasets import Dataset

    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.csv").write_text("who,text\nanna,I saw my doctor.\nben,The soup was cold.\n")
    loaded = dpbart.Rewriter.load(epsilon=50)
    really = dpbart.Rewriter.load
    monkeypatch.setattr(
        dpbart.Rewriter, "load", lambda model="mini-code", **given: loaded if model == "mini-code" else really(model)
    )
    frame = pandas.read_csv("notes.csv")
    names: dict[str, object] = {name: getattr(dpbart, name) for name in dpbart.__all__}
    return {**names, "Path": Path, "Decimal": Decimal, "frame": frame, "dataset": Dataset.from_pandas(frame)}


def test_the_examples_of_the_api_run(
    make_docs: ModuleType, in_the_examples: dict[str, object], capsys: pytest.CaptureFixture[str]
) -> None:
    done = 0
    for name in make_docs.NAMES:
        example = make_docs.example_of(name)
        if not example.startswith(">>>"):  # those are run as doctests
            for file in Path().glob("private.*"):
                file.unlink()
            exec(example, dict(in_the_examples))  # noqa: S102 (our own docstrings)
            done += 1
    assert done == len(make_docs.NAMES) - 1
    assert "PRIVACY CARD" in capsys.readouterr().out


def test_the_examples_of_errors_raise_them(
    make_docs: ModuleType, in_the_examples: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    monkeypatch.setitem(sys.modules, "ray", None)  # its own errors are tested where it is started
    for name in make_docs.ERRORS:
        if name in ("DpbartError", "EngineFailed", "NotResumable"):  # caught; need a cluster and an unfinished run
            compile(make_docs.example_of(name), name, "exec")
        else:
            with pytest.raises(getattr(dpbart, name)):
                exec(make_docs.example_of(name), dict(in_the_examples))  # noqa: S102


def test_every_command_has_an_example_in_its_help() -> None:
    for path in (["rewrite"], ["noise"], ["models", "list"], ["models", "show"], ["models", "import"]):
        assert f"dpbart {' '.join(path)}" in CliRunner().invoke(cli, [*path, "--help"]).output
    for path in (
        ["prepare", "pretrain"],
        ["prepare", "clip"],
        ["prepare", "adept"],
        ["datasets", "list"],
        ["datasets", "show"],
        ["datasets", "prepare"],
        ["evaluate", "bleu"],
        ["evaluate", "similarity"],
        ["evaluate", "names"],
        ["evaluate", "fluency"],
        ["evaluate", "downstream"],
        ["experiment", "run"],
        ["experiment", "table"],
        ["experiment", "plot"],
        ["budget", "show"],
        ["budget", "limit"],
        ["card", "verify"],
    ):
        assert f"dpbart {' '.join(path)}" in CliRunner().invoke(cli, [*path, "--help"]).output


_COMMANDS = re.compile(r"\bdpbart (?:rewrite|noise|evaluate) (?:\\\n|[^\n`])*")  # with their further lines
_BUDGET = re.compile(r"(?:--epsilon|-e) (\d+(?:\.\d+)?)")
_CALLS = re.compile(r"(?:Rewriter\.load|Settings)\(([^()]*)\)")
_OTHER_MODEL = re.compile(r"(?:--model|-m) (?!mini-code)|--columns|--mechanism|--length")
_SHOWN_TO_USERS = [*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").glob("*.md"), *REPOSITORY.glob("src/**/README.md")]


def budgets_in(text: str) -> list[float]:
    """The epsilons of commands and calls with the default model."""
    commands = [command for command in _COMMANDS.findall(text) if not _OTHER_MODEL.search(command)]
    calls = [call for call in _CALLS.findall(text) if not re.match(r"""["'](?!mini-code)|model=""", call)]
    found = [number for command in commands for number in _BUDGET.findall(command)]
    found += [number for call in calls for number in re.findall(r"epsilon=(\d+(?:\.\d+)?)", call)]
    return [float(number) for number in found]


def test_budgets_are_found_where_the_default_model_is_meant() -> None:
    text = """dpbart rewrite a b -e 500 --labels drop
        dpbart rewrite a b \\\n  --epsilon 2.5\ndpbart noise --epsilon 500 --model mini-pr-plus
        Rewriter.load(epsilon=70) and Settings("mini", epsilon=900)"""
    assert budgets_in(text) == [500.0, 2.5, 70.0]


def test_no_help_and_no_page_shows_a_budget_that_the_default_model_cannot_use(make_docs: ModuleType) -> None:
    code = Bundle.find(dpbart.DEFAULT_MODEL).facts.code
    assert code is not None
    most = code["table"][-1][0]
    page = REPOSITORY / "src/dpbart/web/static/index.html"
    files = [
        *_SHOWN_TO_USERS,
        page,
        *(REPOSITORY / "src" / "dpbart").glob("**/*.py"),
        *REPOSITORY.glob("examples/*.py"),
    ]
    texts = {"help": make_docs.commands(), **{str(file.relative_to(REPOSITORY)): file.read_text() for file in files}}
    found = {name: budgets_in(text) for name, text in texts.items()}
    assert {name: budgets for name, budgets in found.items() if max(budgets, default=0) > most} == {}
    assert len(found["help"]) > 8
    assert len(found["README.md"]) > 5
    on_the_page = [float(each) for each in re.findall(r'data-epsilon="([^"]+)"', page.read_text())]
    assert on_the_page
    assert max(on_the_page) <= most


def test_links_between_the_pages_lead_somewhere() -> None:
    for page in [*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").glob("*.md")]:
        for link in re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text()):
            assert (page.parent / link).exists(), f"{page.name} links to {link}"


def test_tests_and_scripts_that_a_page_names_exist() -> None:
    pages = [*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").glob("*.md")]
    named = {
        path
        for page in pages
        for path in re.findall(r"\b(?:tests|docs|benchmarks|examples)/[\w/]+\.\w+", page.read_text())
    }
    assert len(named) > 10
    assert [path for path in sorted(named) if not (REPOSITORY / path).exists()] == []


def test_source_files_that_a_page_names_exist() -> None:
    rooms = "options|privacy|ledger|card|channels|models|tables|rewrite|prepare|evaluate|cli"
    pages = [page.read_text() for page in (*(REPOSITORY / "docs").glob("*.md"), REPOSITORY / "CONTRIBUTING.md")]
    named = {path for page in pages for path in re.findall(rf"`((?:{rooms})/[\w/]+(?:\.py|/))`", page)}
    assert len(named) > 10
    assert [path for path in sorted(named) if not (REPOSITORY / "src" / "dpbart" / path).exists()] == []


def test_no_page_has_a_gap_left_to_fill() -> None:
    for page in [*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").glob("*.md"), *REPOSITORY.glob("src/**/README.md")]:
        assert not re.findall(r"^(?:\*\*\w+\.\*\* )?[A-Z]{4,}$", page.read_text(), re.MULTILINE), page


def test_the_version_is_the_same_everywhere() -> None:
    assert f'version = "{__version__}"' in (REPOSITORY / "pyproject.toml").read_text()
    assert f"version: {__version__}" in (REPOSITORY / "CITATION.cff").read_text()
    assert f"## {__version__}" in (REPOSITORY / "CHANGELOG.md").read_text()


def test_the_readme_shows_what_the_noise_command_prints() -> None:
    block = re.search(r"\$ dpbart (noise [^\n]*)\n(.*?)```", (REPOSITORY / "README.md").read_text(), re.DOTALL)
    assert block is not None
    assert CliRunner().invoke(cli, block[1].split()).stdout == block[2]


def test_the_example_with_frames_runs(tmp_path: Path) -> None:
    block = re.search(r"```python\n(.*?)```", (REPOSITORY / "docs" / "large.md").read_text(), re.DOTALL)
    assert block is not None
    command = [sys.executable, "-c", block[1]]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    frame, mapped = done.stdout.split("Column([")  # what each of the two hooks gave back
    assert frame.split()[:2] == ["who", "text"]
    assert "'recipe': 'mech:response|eps:10|" in frame
    assert {"budgets.db", "card.json"} <= {file.name for file in tmp_path.iterdir()}
    assert len(ast.literal_eval(f"[{mapped.strip()[:-1]}")) == 2


def test_nothing_says_that_nobody_can_tell_which_texts_were_kept() -> None:
    """Whoever knows the subject of a file often can: `dpbart attack` measures it."""
    pages = [*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").glob("*.md"), *(REPOSITORY / "src").rglob("*.py")]
    pages += (REPOSITORY / "src/dpbart/web/static").iterdir()
    assert [page.name for page in pages if "nobody can tell" in page.read_text(errors="ignore").lower()] == []
    for page in ("README.md", "docs/code.md", "src/dpbart/web/static/index.html"):
        assert "can often tell which" in " ".join((REPOSITORY / page).read_text().split()), page
