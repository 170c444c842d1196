from __future__ import annotations

import ast
import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

from click.testing import CliRunner

from dpbart import __version__
from dpbart.cli import cli

REPOSITORY = Path(__file__).parent.parent


def script_of_the_docs(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, REPOSITORY / "docs" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_of_commands_is_current() -> None:
    page = script_of_the_docs("make_commands").page()
    assert (REPOSITORY / "docs" / "commands.md").read_text() == page, "run 'make docs'"


def test_the_tables_of_results_match_the_saved_scores() -> None:
    shown = (REPOSITORY / "docs" / "results.md").read_text().splitlines()
    made = script_of_the_docs("make_results").tables().splitlines()
    assert len([line for line in made if line.startswith("| mini")]) > 10
    assert [line for line in made if line not in shown] == [], "run 'python docs/make_results.py'"


def test_the_tables_of_models_match_the_saved_scores() -> None:
    shown = (REPOSITORY / "docs" / "models.md").read_text().splitlines()
    made = script_of_the_docs("make_models").tables().splitlines()
    assert len([line for line in made if line.startswith("| mini")]) > 5
    assert [line for line in made if line not in shown] == [], "run 'python docs/make_models.py'"


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
    rooms = "privacy|channels|models|tables|rewrite|prepare|evaluate|cli"
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


def test_the_example_with_frames_runs() -> None:
    block = re.search(r"```python\n(.*?)```", (REPOSITORY / "docs" / "large.md").read_text(), re.DOTALL)
    assert block is not None
    done = subprocess.run([sys.executable, "-c", block[1]], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    frame, mapped = done.stdout.split("Column([")  # what each of the two hooks gave back
    assert frame.split()[:2] == ["id", "text"]
    assert len(ast.literal_eval(f"[{mapped.strip()[:-1]}")) == 2


def test_the_tables_of_the_code_channel_are_its_scores() -> None:
    script = script_of_the_docs("make_code")
    assert script.table() in (REPOSITORY / "docs" / "code.md").read_text()
    assert script.samples() in (REPOSITORY / "docs" / "code.md").read_text()
    readme = (REPOSITORY / "README.md").read_text()
    assert script.headline() in readme
    assert script.samples((1, 2, 3)) in readme
