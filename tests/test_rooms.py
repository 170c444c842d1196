"""Data walks through the rooms in one direction, and so do imports."""

from __future__ import annotations

import ast
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import dpbart
from dpbart.evaluate.classifiers import CLASSIFIERS
from dpbart.models.bundle import VARIANTS
from dpbart.privacy.mechanisms import MECHANISMS

PACKAGE = Path(dpbart.__file__).parent
MAY_IMPORT = {
    "options": {"options", "privacy"},
    "privacy": {"privacy"},
    "ledger": {"privacy", "ledger"},
    "card": {"privacy", "card"},
    "channels": {"privacy", "channels"},
    "tables": {"options", "tables"},
    "models": {"options", "privacy", "card", "channels", "models"},
    "prepare": {"options", "privacy", "card", "channels", "models", "prepare"},
    "rewrite": {"options", "privacy", "ledger", "card", "channels", "models", "tables", "rewrite"},
    "evaluate": {
        *("options", "privacy", "ledger", "card", "channels", "models", "tables", "prepare", "rewrite", "evaluate"),
    },
    "collect": {"options", "privacy", "ledger", "card", "channels", "models", "tables", "rewrite", "collect"},
    "evidence": {
        *("options", "privacy", "ledger", "card", "channels", "models", "tables", "rewrite", "evaluate", "collect"),
        "evidence",
    },
    "web": {
        *("options", "privacy", "ledger", "card", "channels", "models", "tables", "rewrite", "collect", "evidence"),
        "web",
    },
    "cli": {
        *("options", "privacy", "ledger", "card", "channels", "models", "tables", "prepare", "rewrite", "evaluate"),
        *("collect", "evidence", "web", "cli"),
    },
}


def imported_modules(file: Path) -> list[str]:
    """`import a.b`, and `from a import b` as both a and a.b."""
    found: list[str] = []
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found += [name.name for name in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file} has a relative import"
            found += [str(node.module), *(f"{node.module}.{name.name}" for name in node.names)]
    return found


def test_imports_point_one_way() -> None:
    wrong = []
    for room, allowed in MAY_IMPORT.items():
        for file in (PACKAGE / room).rglob("*.py"):
            for module in imported_modules(file):
                parts = module.split(".")
                if parts[0] == "dpbart" and len(parts) > 1 and parts[1] in MAY_IMPORT and parts[1] not in allowed:
                    wrong.append(f"{file.relative_to(PACKAGE)} imports {module}")
    assert wrong == []


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Also not for types alone, and not only when a function is called."""
    files = {_module_of(file): file for file in PACKAGE.rglob("*.py")}
    graph = {module: (set(imported_modules(file)) & set(files)) - {module} for module, file in files.items()}
    TopologicalSorter(graph).prepare()  # raises CycleError, which names the circle


def _module_of(file: Path) -> str:
    return ".".join(file.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")


def test_only_the_command_that_serves_knows_the_server() -> None:
    users = {
        str(file.relative_to(PACKAGE))
        for file in PACKAGE.rglob("*.py")
        if not file.is_relative_to(PACKAGE / "web")
        and any(module.startswith("dpbart.web") for module in imported_modules(file))
    }
    assert users == {"cli/serve.py"}


def test_the_privacy_room_knows_no_model() -> None:
    used = {name.split(".")[0] for file in (PACKAGE / "privacy").rglob("*.py") for name in imported_modules(file)}
    assert used.isdisjoint({"torch", "transformers", "tokenizers", "accelerate"})


SEEDABLE = {"random", "manual_seed", "default_rng", "Generator", "RandomState", "seed", "normal_", "uniform_"}
SEEDABLE |= {"rand", "randn", "randint", "rand_like", "randn_like", "normal", "bernoulli", "multinomial"}


def test_nothing_on_the_private_path_uses_a_seedable_generator() -> None:
    for room in ("privacy", "channels", "models", "rewrite", "collect"):
        for file in (PACKAGE / room).rglob("*.py"):
            assert not [name for name in imported_modules(file) if {"random", "torch.random"} & set(name.split("."))], (
                file
            )
            tree = ast.walk(ast.parse(file.read_text()))
            used = {node.attr for node in tree if isinstance(node, ast.Attribute)}
            assert not used & SEEDABLE, f"{used & SEEDABLE} in {file}"


def test_only_channels_process_a_private_value_further_and_only_mechanisms_seal_one() -> None:
    def users(call: str) -> set[str]:
        found = [file.relative_to(PACKAGE) for file in PACKAGE.rglob("*.py") if call in file.read_text()]
        return {str(file.parent) for file in found}

    assert users(".post_processed(") == {"channels"}
    assert users("seal(") == {"privacy", "privacy/mechanisms"}  # where it is defined, and where it is used


def compared_strings(file: Path) -> set[str]:
    """The strings that a file compares something with, or looks something up by."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        parts: list[ast.expr] = []
        if isinstance(node, ast.Compare):
            parts = [node.left, *node.comparators]
        elif isinstance(node, ast.MatchValue):
            parts = [node.value]
        for part in parts:
            for each in [part, *(part.elts if isinstance(part, ast.Tuple | ast.List | ast.Set) else [])]:
                if isinstance(each, ast.Constant) and isinstance(each.value, str):
                    found.add(each.value)
    return found


NAMES = {
    "privacy/mechanisms": set(MECHANISMS),
    "models": {*VARIANTS, *(variant for variants in VARIANTS.values() for variant in variants)},
    "evaluate/classifiers.py": set(CLASSIFIERS),
}


@pytest.mark.parametrize("room", NAMES)
def test_names_are_compared_only_in_their_own_room(room: str) -> None:
    """Everybody else asks the facts, the mechanism or the family."""
    wrong = {}
    for file in PACKAGE.rglob("*.py"):
        if not file.is_relative_to(PACKAGE / room) and compared_strings(file) & NAMES[room]:
            wrong[str(file.relative_to(PACKAGE))] = compared_strings(file) & NAMES[room]
    assert wrong == {}


def test_help_loads_neither_torch_nor_transformers() -> None:
    code = (
        "import sys; from click.testing import CliRunner; from dpbart.cli import cli\n"
        "for args in (['--help'], ['rewrite', '-h'], ['synthesize', '-h'], ['noise', '-h'], "
        "['models', 'import', '-h'], ['prepare', 'pretrain', '-h'], ['datasets', 'list', '-h'], "
        "['evaluate', 'downstream', '-h'], ['evaluate', 'similarity', '-h'], ['evaluate', 'names', '-h'], "
        "['evaluate', 'fluency', '-h'], ['experiment', 'run', '-h'], ['serve', '-h'], ['topics', '-h'], "
        "['audit', '-h'], ['attack', '-h'], ['epsilon', '-h'], ['advise', '-h']):\n"
        "    assert CliRunner().invoke(cli, args).exit_code == 0, args\n"
        "names = 'torch', 'transformers', 'numpy', 'pyarrow', 'matplotlib', 'sklearn', 'starlette'\n"
        "print([m for m in names if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_list_of_commands_does_not_wait_for_their_options() -> None:
    code = (
        "import sys; from click.testing import CliRunner; from dpbart.cli import cli\n"
        "assert CliRunner().invoke(cli, ['--help']).exit_code == 0\n"
        "print([m for m in ('pydantic', 'dpbart.cli.rewrite') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_default_model_rewrites_without_torch_and_tokenizers() -> None:
    code = (
        "import sys; from dpbart import Rewriter\n"
        "for epsilon in (10, 20, 50):\n"
        "    assert Rewriter.load('mini-code', epsilon=epsilon).rewrite(['Hello there.']).texts\n"
        "names = 'torch', 'transformers', 'tokenizers', 'accelerate', 'huggingface_hub', 'sklearn'\n"
        "print([m for m in names if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_code_model_knows_neither_torch_nor_tokenizers() -> None:
    for file in (PACKAGE / "models" / "code").glob("*.py"):
        used = {module.split(".")[0] for module in imported_modules(file)}
        assert not used & {"torch", "transformers", "tokenizers", "huggingface_hub"}, file


@pytest.mark.parametrize("folder", ["benchmarks", "docs", "examples"])
def test_what_is_outside_the_package_imports_only_what_exists(folder: str) -> None:
    """No test runs these, and mypy does not read them."""
    repository = Path(__file__).parent.parent
    for file in (repository / folder).rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if not isinstance(node, ast.ImportFrom) or node.module is None or not node.module.startswith("dpbart"):
                continue
            module = PACKAGE.parent.joinpath(*node.module.split("."))
            source = module / "__init__.py" if module.is_dir() else module.with_suffix(".py")
            assert source.is_file(), f"{file.name}: {node.module}"
            for name in node.names:
                own = name.name in source.read_text() or (module / f"{name.name}.py").is_file()
                assert own, f"{file.name}: {node.module}.{name.name}"
